//! The command line of an operator as a user sees it: what it prints, how it ends, what it leaves
//! behind.
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

/// Makes this program the operator.
const OPERATOR: &str = "KOPF_TEST_OPERATOR";

type Test = (&'static str, fn());

/// A list of tests by their names.
macro_rules! tests {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*]
    };
}

const TESTS: &[Test] = tests![
    usage::help_is_0_and_complete,
    usage::wrong_usage_is_2,
    usage::what_comes_later_is_refused,
    usage::variables_are_read,
    usage::peering_kinds_are_printed,
];

#[cfg(unix)]
const WORKING: &[Test] = tests![
    working::without_a_cluster_it_ends_with_1,
    working::bad_manifests_are_1_and_leave_nothing_behind,
    working::objects_of_a_sandbox_are_handled_until_a_signal,
    working::json_has_the_object_under_the_chosen_key,
    working::panics_are_records_as_all_others,
    working::a_second_signal_ends_it_at_once,
    working::signals_are_obeyed_also_while_a_handler_blocks,
    working::one_signal_ends_an_operator_whose_only_thread_is_blocked,
    working::one_signal_ends_an_operator_with_a_blocked_thread_of_several,
    working::it_is_frozen_and_resumed_by_commands,
    working::a_mandatory_peering_is_waited_for,
    working::a_builder_can_bring_its_settings_and_namespaces,
    hooks::probes_are_answered_between_startup_and_cleanup,
    hooks::a_failed_startup_is_1_without_a_cleanup,
    hooks::a_cleanup_that_hangs_is_cut_off,
    logs::readiness_is_logged_with_the_watched_resources,
    logs::records_of_handlers_carry_the_object,
    logs::levels_of_loggers_are_set_by_a_variable,
    logs::wrong_settings_are_reported_at_once,
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
