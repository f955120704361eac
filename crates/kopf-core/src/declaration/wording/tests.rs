//! Comparison with the log lines of the original.

use serde_json::json;

use super::*;
use crate::handler::{Activity, Cancellation, Timing};

fn body() -> Value {
    json!({"apiVersion": "golden.example/v1", "kind": "Thing", "spec": {"field": null}})
}

#[test]
fn causes() {
    let expected = "Creation is in progress: \
                    {'apiVersion': 'golden.example/v1', 'kind': 'Thing', 'spec': {'field': None}}";
    assert_eq!(
        in_progress(Reason::Create, &body(), Style::Original).to_string(),
        expected
    );
    let titles = [Reason::Update, Reason::Delete, Reason::Resume]
        .map(|reason| processed(reason, 3, 0).to_string());
    assert_eq!(
        titles,
        [
            "Updating is processed: 3 succeeded; 0 failed.",
            "Deletion is processed: 3 succeeded; 0 failed.",
            "Resuming is processed: 3 succeeded; 0 failed.",
        ]
    );
    assert_eq!(
        processed(Reason::Create, 1, 2).to_string(),
        "Creation is processed: 1 succeeded; 2 failed."
    );
}

#[test]
fn diffs() {
    let old = json!({"spec": {"field": "value", "items": ["a", "b"]}});
    let new = json!({"spec": {"field": "while-away", "items": ["a", "b"]}});
    assert_eq!(
        diff(
            Reason::Update,
            &crate::diff::diff(&old, &new),
            Style::Original
        )
        .to_string(),
        "Updating diff: (('change', ('spec', 'field'), 'value', 'while-away'),)"
    );
    let old = json!({"spec": {"field": "other", "items": ["a", "b"]}});
    let new = json!({"spec": {"items": ["a", "b", "c"]}});
    assert_eq!(
        diff(
            Reason::Update,
            &crate::diff::diff(&old, &new),
            Style::Original
        )
        .to_string(),
        "Updating diff: (('remove', ('spec', 'field'), 'other', None), \
         ('change', ('spec', 'items'), ['a', 'b'], ['a', 'b', 'c']))"
    );
}

#[test]
fn superseding() {
    assert_eq!(
        superseded("create", Reason::Delete, 1, 0, 2).to_string(),
        "Creation is superseded by deletion: 1 succeeded; 0 failed; 2 left to the moment."
    );
    assert_eq!(
        superseded("odd", Reason::Update, 0, 1, 0).to_string(),
        "'odd' is superseded by updating: 0 succeeded; 1 failed; 0 left to the moment."
    );
}

#[test]
fn handlers() {
    assert_eq!(
        invoked(handler("make/b")).to_string(),
        "Handler 'make/b' is invoked."
    );
    assert_eq!(
        invoked(handler("outer.<locals>.inner")).to_string(),
        "Handler 'outer.<locals>.inner' is invoked."
    );
    assert_eq!(
        cancelled(handler("it's")).to_string(),
        "Handler \"it's\" is cancelled. Will escalate."
    );
    for (kind, expected) in [
        (HandlerKind::Create, "Handler 'x'"),
        (HandlerKind::Event, "Handler 'x'"),
        (HandlerKind::Daemon(Cancellation::NONE), "Daemon 'x'"),
        (HandlerKind::Timer(Timing::ONCE), "Timer 'x'"),
        (HandlerKind::Index, "Indexer 'x'"),
        (HandlerKind::Activity(Activity::Probe), "Activity 'x'"),
    ] {
        assert_eq!(label(kind, "x").to_string(), expected);
    }
    let labels = [
        activity("x").to_string(),
        daemon("x").to_string(),
        timer("x").to_string(),
        indexer("x").to_string(),
        webhook("x").to_string(),
    ];
    assert_eq!(
        labels,
        [
            "Activity 'x'",
            "Daemon 'x'",
            "Timer 'x'",
            "Indexer 'x'",
            "Webhook 'x'"
        ]
    );
}

#[test]
fn constants() {
    let expected = [
        (
            ADDING_FINALIZER,
            "Adding the finalizer, thus preventing the actual deletion.",
        ),
        (
            DROPPING_FINALIZER,
            "Removing the finalizer, as there are no handlers requiring it.",
        ),
        (
            REMOVING_FINALIZER,
            "Removing the finalizer, thus allowing the actual deletion.",
        ),
        (GONE, "Deleted, really deleted, and we are notified."),
        (
            FREE,
            "Deletion, but we are done with it, and we do not care.",
        ),
        (
            NOOP,
            "Something has changed, but we are not interested (the essence is the same).",
        ),
        (
            CYCLE_FINISHED,
            "Handling cycle is finished, waiting for new changes.",
        ),
        (
            PATCH_SKIPPED,
            "Patching was skipped: the object does not exist anymore.",
        ),
        (
            THROTTLING_OVER,
            "Throttling is over. Switching back to normal operations.",
        ),
    ];
    for (actual, expected) in expected {
        assert_eq!(actual, expected);
    }
}

#[test]
fn sleeps() {
    let micros = Duration::from_micros;
    assert_eq!(
        sleeping(micros(991_914)).to_string(),
        "Sleeping for 0.991914 seconds for the delayed handlers."
    );
    assert_eq!(
        sleeping_capped(micros(3_599_500_000), Duration::from_secs(600)).to_string(),
        "Sleeping for 3599.5 (capped 600) seconds for the delayed handlers."
    );
    assert_eq!(
        sleeping_skipped(micros(1_000_000)).to_string(),
        "Sleeping was skipped because of the patch, 1.0 seconds left."
    );
    assert_eq!(
        sleeping_skipped(micros(999_000)).to_string(),
        "Sleeping was skipped because of the patch, 0.999 seconds left."
    );
    assert_eq!(
        sleeping_interrupted(micros(250_000)).to_string(),
        "Sleeping was interrupted by new changes, 0.25 seconds left."
    );
}

#[test]
fn patches() {
    assert_eq!(
        merge_patching_status(&json!({"status": {"up": "resume"}}), Style::Original).to_string(),
        "Merge-patching the status with: {'status': {'up': 'resume'}}"
    );
    let annotations = json!({"kopf.zalando.org/make": null});
    assert_eq!(
        merge_patching_resource(
            &json!({"metadata": {"annotations": annotations}}),
            Style::Original
        )
        .to_string(),
        "Merge-patching the resource with: \
         {'metadata': {'annotations': {'kopf.zalando.org/make': None}}}"
    );
    let ops = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": "492"},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]);
    assert_eq!(
        json_patching_resource(&ops, Style::Original).to_string(),
        "JSON-patching the resource with: \
         [{'op': 'test', 'path': '/metadata/resourceVersion', 'value': '492'}, \
         {'op': 'remove', 'path': '/metadata/finalizers'}]"
    );
    assert_eq!(
        json_patching_status(&json!([]), Style::Original).to_string(),
        "JSON-patching the status with: []"
    );
    assert_eq!(
        patch_conflict("Patch(fns=[…])").to_string(),
        "Could not apply the patch in full due to conflicts with newer changes. \
         Will try on the next cycle soon. Remaining: Patch(fns=[…])"
    );
    let differences = crate::diff::diff(&json!({"a": 1}), &json!({"a": 2}));
    assert_eq!(
        inconsistencies(&differences, Style::Original).to_string(),
        "Merge-patching finished with inconsistencies: (('change', ('a',), 1, 2),)"
    );
}

#[test]
fn errors_of_the_framework() {
    assert_eq!(
        throttling(Duration::from_secs(1), "boom").to_string(),
        "Throttling for 1 seconds due to an unexpected error: boom"
    );
}

#[test]
fn stopping_of_daemons() {
    let label = || daemon("watch");
    for (line, expected) in [
        (
            signalled(label()).to_string(),
            "Daemon 'watch' is signalled to exit gracefully.",
        ),
        (
            forced(label()).to_string(),
            "Daemon 'watch' is signalled to exit by force.",
        ),
        (
            orphaned(label()).to_string(),
            "Daemon 'watch' did not exit in time. Leaving it orphaned.",
        ),
        (
            still_exiting(label(), Duration::from_secs(60)).to_string(),
            "Daemon 'watch' is still exiting. The next check is in 60 seconds.",
        ),
        (
            exited_on_request(label()).to_string(),
            "Daemon 'watch' has exited on request and will not be retried or restarted.",
        ),
        (
            exited_on_its_own(label()).to_string(),
            "Daemon 'watch' has exited on its own and will not be retried or restarted.",
        ),
    ] {
        assert_eq!(line, expected);
    }
}

#[test]
fn native_messages_have_json() {
    let native = Style::Native;
    assert_eq!(
        in_progress(Reason::Create, &json!({"spec": {"a": null}}), native).to_string(),
        r#"Creation is in progress: {"spec":{"a":null}}"#
    );
    let differences = crate::diff::diff(&json!({"a": {"b": 1}}), &json!({"a": {"b": "x"}}));
    assert_eq!(
        diff(Reason::Update, &differences, native).to_string(),
        r#"Updating diff: [["change",["a","b"],1,"x"]]"#
    );
    assert_eq!(
        merge_patching_status(&json!({"status": {"ok": true}}), native).to_string(),
        r#"Merge-patching the status with: {"status":{"ok":true}}"#
    );
    assert_eq!(
        inconsistencies(&differences, native).to_string(),
        r#"Merge-patching finished with inconsistencies: [["change",["a","b"],1,"x"]]"#
    );
}

#[test]
fn pruned_fields_come_with_advice_in_native_style_only() {
    let pruned = crate::diff::diff(&json!({"status": {"fn": 1}}), &json!({"status": {}}));
    let native = inconsistencies(&pruned, Style::Native).to_string();
    assert!(
        native.contains(r#"[["remove",["status","fn"],1,null]]. The API server drops"#)
            && native.contains("x-kubernetes-preserve-unknown-fields: true"),
        "{native}"
    );
    let original = inconsistencies(&pruned, Style::Original).to_string();
    assert!(
        original.ends_with("(('remove', ('status', 'fn'), 1, None),)"),
        "{original}"
    );
}
