//! The command line of an operator: output, exit codes, and files that remain.
//!
//! There is no test harness: with the variable [`OPERATOR`], this program is the operator that the
//! tests run as another process.

#![cfg_attr(not(unix), allow(dead_code))] // signals are sent with kill(1)
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // all of it is tests

#[cfg(unix)]
mod hooks;
#[cfg(unix)]
mod logs;
mod operator;
mod process;
mod usage;
#[cfg(unix)]
mod working;

use std::panic::catch_unwind;
use std::process::ExitCode;

/// The variable that makes this program the operator.
const OPERATOR: &str = "KOPF_TEST_OPERATOR";

type Test = (&'static str, fn());

/// Lists tests with their names.
macro_rules! tests {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*]
    };
}

const TESTS: &[Test] = tests![
    usage::help_is_complete_and_exits_with_0,
    usage::invalid_usage_exits_with_2,
    usage::modules_and_paths_are_rejected,
    usage::variables_are_read,
    usage::peering_crds_are_printed,
];

#[cfg(unix)]
const WORKING: &[Test] = tests![
    working::missing_cluster_exits_with_1,
    working::invalid_manifests_exit_with_1_and_leave_no_files,
    working::objects_in_the_sandbox_are_handled_until_a_signal,
    working::json_records_contain_the_object_under_the_configured_key,
    working::panics_are_logged_as_records,
    working::second_signal_exits_immediately,
    working::signals_work_while_a_handler_blocks,
    working::one_signal_stops_an_operator_with_its_only_thread_blocked,
    working::one_signal_stops_an_operator_with_one_of_two_threads_blocked,
    working::one_signal_stops_an_operator_with_a_blocked_startup,
    working::commands_freeze_and_resume_the_operator,
    working::operator_waits_for_a_mandatory_peering,
    working::command_line_overrides_namespaces_of_the_builder,
    hooks::probes_are_served_between_startup_and_cleanup,
    hooks::failed_startup_exits_with_1_without_cleanup,
    hooks::hanging_cleanup_is_aborted,
    logs::readiness_is_logged_with_the_watched_resources,
    logs::records_of_handlers_contain_the_object,
    logs::rust_log_sets_levels_of_loggers,
    logs::invalid_settings_are_reported_at_the_start,
];

#[cfg(not(unix))]
const WORKING: &[Test] = &[];

fn main() -> ExitCode {
    if let Some(flavour) = std::env::var_os(OPERATOR) {
        return operator::main(&flavour);
    }
    let filters: Vec<_> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let mut failed = 0;
    for (name, test) in TESTS.iter().chain(WORKING) {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter)) {
            continue;
        }
        let is_good = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if is_good { "ok" } else { "FAILED" });
        failed += usize::from(!is_good);
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
