//! Checks that the differences from the original have tests: every row of the tables in
//! `docs/migrate/differences.md` is listed here with the test that shows what it says.

use std::path::Path;

use anyhow::Result;

const PAGE: &str = "docs/migrate/differences.md";

/// Rows without a test.
const UNTESTED: &[&str] = &["a namespace or resource that is deleted and created again"];

/// The tests of rows: the first cell, the file, and the function.
const TESTED: &[(&str, &str, &str)] = &[
    (
        "end of a delay",
        "tests/handling/delays.rs",
        "objects_can_be_touched_instead",
    ),
    (
        "`timeout` of a handler",
        "python/tests/test_behaviour_outcomes.py",
        "test_timeouts_cancel_coroutines",
    ),
    (
        "several queued versions of an object",
        "tests/handling/queueing.rs",
        "only_the_newest_version_is_handled",
    ),
    (
        "log records as Kubernetes events",
        "tests/handling/posting.rs",
        "routine_records_are_not_posted_and_records_of_handlers_are",
    ),
    (
        "changes that arrive while handlers of an earlier change run or wait",
        "tests/handling/lost_updates.rs",
        "change_during_a_creation_is_followed_by_an_update",
    ),
    (
        "values of Secrets in the last-handled configuration",
        "tests/handling/secrets.rs",
        "digests_replace_values_in_the_diff_base_and_show_changes",
    ),
    (
        "failed patch",
        "tests/handling/faults.rs",
        "failed_writes_are_repeated_without_calling_handlers_again",
    ),
    (
        "object that is deleted and created again while a handler runs",
        "tests/handling/recreation.rs",
        "outcome_of_a_deleted_object_is_not_written_to_its_successor",
    ),
    (
        "event that cannot be processed",
        "tests/handling/throttling.rs",
        "delays_increase",
    ),
    (
        "failed watch",
        "crates/kopf-client/src/watching/tests/failures.rs",
        "rejections_are_permanent_failures_and_retried",
    ),
    (
        "403 responses",
        "crates/kopf-client/src/request/tests.rs",
        "rejections_are_not_retried",
    ),
    (
        "objects that are deleted while disconnected",
        "tests/handling/owning.rs",
        "children_removed_while_disconnected_are_deleted",
    ),
    (
        "last-handled configuration too large for annotations",
        "tests/handling/throttling.rs",
        "state_that_is_too_large_is_reported",
    ),
    (
        "finalizer removed by a webhook",
        "tests/handling/no_progress.rs",
        "webhook_that_removes_finalizers_does_not_stop_the_handling",
    ),
    (
        "progress removed by a webhook",
        "tests/handling/no_progress.rs",
        "webhook_that_removes_annotations_does_not_cause_a_loop",
    ),
    (
        "JSON patch denied by a webhook or rejected by a schema",
        "tests/handling/patching.rs",
        "transformation_denied_by_a_webhook_is_an_error",
    ),
    (
        "failing filter of an event handler",
        "crates/kopf-core/src/declaration/registry/tests.rs",
        "failing_filter_of_an_event_handler_does_not_affect_others",
    ),
    (
        "malformed state on an object",
        "tests/handling/throttling.rs",
        "object_with_an_invalid_diff_base_is_retried_until_it_is_fixed",
    ),
    (
        "invalid settings after startup handlers",
        "tests/handling/activities.rs",
        "cleanup_handlers_run_if_the_settings_are_invalid",
    ),
    (
        "removal of the finalizer",
        "tests/handling/contention/deletions.rs",
        "removal_tests_the_finalizer_and_not_the_version",
    ),
    (
        "`metadata.managedFields`",
        "tests/handling/managed_fields.rs",
        "managed_fields_are_dropped_by_default",
    ),
    (
        "an object is edited before its creation is fully handled",
        "tests/handling/lost_updates.rs",
        "handlers_that_finished_on_the_current_state_are_not_called_again",
    ),
    (
        "`true` and `1`",
        "crates/kopf-core/src/values/equality.rs",
        "types_and_nulls_are_distinguished",
    ),
    (
        "handler ids that are invalid as annotation names",
        "crates/kopf-core/src/cluster/keys/tests.rs",
        "invalid_annotation_names_are_rejected",
    ),
    (
        "deeply nested values",
        "crates/kopf-core/src/values/lenient.rs",
        "deep_values_are_parsed_and_very_deep_ones_are_nulled",
    ),
    (
        "integers beyond 64 bits",
        "tests/handling/storages.rs",
        "integers_beyond_64_bits_keep_their_digits",
    ),
    (
        "delays beyond the year 9999",
        "tests/handling/delays.rs",
        "maximum_delay_does_not_overflow",
    ),
    (
        "daemon or timer that is needed again while it is stopping",
        "tests/handling/background/filters.rs",
        "daemon_that_matches_again_while_it_exits_is_restarted",
    ),
    (
        "`kopf.warn`",
        "tests/handling/posting.rs",
        "posting_can_be_disabled",
    ),
    (
        "values of Secrets in debug messages",
        "crates/kopf-core/src/cluster/secrets/redaction.rs",
        "bodies_and_merge_patches_are_redacted",
    ),
    (
        "permanent error in a timer",
        "tests/handling/background/timers.rs",
        "permanent_failures_stop_the_timer",
    ),
    (
        "`timeout`",
        "tests/handling/background/daemons.rs",
        "timeout_aborts_the_daemon",
    ),
    (
        "patch that cannot be sent",
        "tests/handling/background/patching.rs",
        "timers_survive_server_errors",
    ),
    (
        "rejected transformations of the last call",
        "tests/handling/background/patching.rs",
        "rejected_transformations_of_exited_daemons_are_retried",
    ),
    (
        "reset of `idle`",
        "tests/handling/background/timers.rs",
        "only_essence_changes_reset_the_idle_time",
    ),
    (
        "`timeout` of a timer with `idle`",
        "tests/handling/background/timers.rs",
        "idle_precedes_every_attempt_and_does_not_count_as_runtime",
    ),
    (
        "daemon that ends after its flag was set",
        "tests/handling/background/deletion.rs",
        "daemons_that_check_the_flag_exit_immediately",
    ),
    (
        "delete handlers that have finished before a daemon has ended",
        "tests/handling/background/deletion.rs",
        "deletion_handlers_run_while_daemons_exit",
    ),
    (
        "objects that are removed without a deletion timestamp",
        "tests/handling/background/vanishing.rs",
        "daemons_of_removed_objects_are_stopped",
    ),
    (
        "daemon that is stopping while its resource or namespace is deleted and created again",
        "tests/handling/background/vanishing.rs",
        "daemons_of_a_restarted_resource_do_not_run_twice",
    ),
];

/// Checks the page and the tests.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let page = crate::read(&root.join(PAGE))?;
    let mut problems = unlisted(&page);
    for (row, file, test) in TESTED {
        let is_test = |text: &str| {
            text.contains(&format!("fn {test}(")) || text.contains(&format!("def {test}("))
        };
        if !crate::read(&root.join(file)).is_ok_and(|text| is_test(&text)) {
            problems.push(format!(
                "{PAGE}: the test of {row:?} is gone: {file} has no {test}"
            ));
        }
    }
    Ok(problems)
}

/// Returns a problem for each row that is not listed, and for each listed one that is no row.
fn unlisted(page: &str) -> Vec<String> {
    let rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .map(|(topic, _)| topic)
        .filter(|topic| *topic != "topic")
        .collect();
    let listed: Vec<&str> = TESTED
        .iter()
        .map(|(row, _, _)| *row)
        .chain(UNTESTED.iter().copied())
        .collect();
    let missing = rows.iter().filter(|row| !listed.contains(row));
    let gone = listed.iter().filter(|row| !rows.contains(row));
    missing
        .map(|row| format!("{PAGE}: {row:?} has no test in xtask/src/differences.rs"))
        .chain(gone.map(|row| format!("{PAGE}: {row:?} is no row")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_tests_are_reported() {
        let page = "| topic | here | original |\n|---|---|---|\n| failed patch | kept | lost |\n| new | a | b |\n";
        let problems = unlisted(page);
        assert_eq!(problems.len(), 1 + TESTED.len() - 1 + UNTESTED.len());
        assert!(problems[0].contains("\"new\" has no test"), "{problems:?}");
    }
}
