//! Tests of several webhooks of one request.

use serde_json::json;

use super::super::*;
use super::server::{Server, apply, caller, chain, mutated, validated, webhooks, with};
use super::{attributes, kind};
use crate::status::Reason;

#[tokio::test]
async fn each_webhook_receives_the_changes_of_the_previous_ones() {
    let server = Server::good().await;
    let object = mutated(&[
        server.webhook("a.b.c", "append"),
        server.webhook("d.e.f", "empty-patch"),
        server.webhook("g.h.i", "append"),
    ])
    .await
    .unwrap();
    assert_eq!(object["log"], json!(["x", "x"]));
    let seen = server.seen.lock().unwrap();
    let lengths: Vec<usize> = seen
        .iter()
        .map(|(_, review)| review["request"]["object"]["log"].as_array().unwrap().len())
        .collect();
    assert_eq!(lengths, [0, 1, 1]);
    assert_eq!(seen[0].1["request"]["uid"], "4711");
}

#[tokio::test]
async fn webhooks_are_reinvoked_once_after_later_changes() {
    let server = Server::good().await;
    let again = json!({ "reinvocationPolicy": "IfNeeded" });
    let first = with(server.webhook("a.b.c", "append"), &again);
    let object = mutated(&[first.clone(), server.webhook("d.e.f", "append")])
        .await
        .unwrap();
    assert_eq!(object["log"].as_array().unwrap().len(), 3);
    server.seen.lock().unwrap().clear();
    let object = mutated(&[first, server.webhook("d.e.f", "allow")])
        .await
        .unwrap();
    assert_eq!(object["log"].as_array().unwrap().len(), 1);
    assert_eq!(server.paths(), ["append", "allow"]);
}

#[tokio::test]
async fn objects_are_converted_to_the_version_of_the_rule_and_back() {
    let server = Server::good().await;
    let mut hook = server.webhook("a.b.c", "append");
    hook["rules"][0]["apiVersions"] = json!(["v1"]);
    let kind = kind("kopf.dev", "things", &["v2", "v1"], &[]);
    let request = attributes(&kind, Operation::Update);
    let (object, old) = (
        json!({ "apiVersion": "v2", "log": [] }),
        json!({ "apiVersion": "v2" }),
    );
    let hooks = webhooks(&[hook]);
    let result = chain(&hooks, &caller(), &request)
        .mutate(Some(object), Some(&old), &apply, &mut Vec::new())
        .await;
    assert_eq!(
        result.unwrap().unwrap(),
        json!({ "apiVersion": "v2", "log": ["x"] })
    );
    let sent = server.seen.lock().unwrap()[0].1["request"].clone();
    assert_eq!(sent["object"]["apiVersion"], "v1");
    assert_eq!(sent["oldObject"]["apiVersion"], "v1");
    assert_eq!(
        (&sent["kind"]["version"], &sent["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
}

#[tokio::test]
async fn denials_and_warnings_reach_the_client() {
    let server = Server::good().await;
    let kind = kind("kopf.dev", "things", &["v1"], &[]);
    let request = attributes(&kind, Operation::Delete);
    let hooks = webhooks(&[
        server.webhook("a.b.c", "warn"),
        server.webhook("d.e.f", "deny"),
    ]);
    let old = json!({});
    let mut warnings = Vec::new();
    let error = chain(&hooks, &caller(), &request)
        .validate(None, Some(&old), &mut warnings)
        .await
        .unwrap_err();
    assert_eq!(error.code(), 403);
    assert_eq!(
        error.body()["message"],
        r#"admission webhook "d.e.f" denied the request: no way"#
    );
    assert_eq!(warnings, ["careful", "denied with care"]);
}

#[tokio::test]
async fn first_rejection_in_order_wins() {
    let server = Server::good().await;
    let hooks = [
        with(
            server.webhook("a.b.c", "slow"),
            &json!({ "timeoutSeconds": 1 }),
        ),
        server.webhook("d.e.f", "deny"),
    ];
    let error = validated(&hooks).await.unwrap_err();
    assert_eq!(
        error,
        format!(
            "500: Internal error occurred: failed calling webhook \"a.b.c\": failed to call \
             webhook: Post \"https://127.0.0.1:{}/slow?timeout=1s\": context deadline exceeded",
            server.port
        )
    );
}

#[tokio::test]
async fn failure_policy_is_applied() {
    let server = Server::good().await;
    let ignore = json!({ "failurePolicy": "Ignore" });
    let unreachable = with(
        server.webhook("a.b.c", ""),
        &json!({ "clientConfig": { "url": "https://127.0.0.1:1/a//b/" } }),
    );
    assert_eq!(
        validated(std::slice::from_ref(&unreachable))
            .await
            .unwrap_err(),
        "500: Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: \
         Post \"https://127.0.0.1:1/a/b?timeout=5s\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
    validated(&[with(unreachable, &ignore)]).await.unwrap();
    for path in ["garbage", "huge", "no-patch"] {
        let hook = server.webhook("a.b.c", path);
        let text = mutated(std::slice::from_ref(&hook)).await.unwrap_err();
        assert!(
            text.starts_with("500: Internal error occurred: failed calling webhook"),
            "{text}"
        );
        assert_eq!(
            mutated(&[with(hook, &ignore)]).await.unwrap()["log"],
            json!([])
        );
    }
    // A patch that cannot be applied is not subject to the failure policy.
    let hook = with(server.webhook("a.b.c", "broken-patch"), &ignore);
    assert!(
        mutated(&[hook])
            .await
            .unwrap_err()
            .starts_with("500: Internal error occurred: ")
    );
}

#[tokio::test]
async fn deletions_cannot_be_patched() {
    let server = Server::good().await;
    let kind = kind("kopf.dev", "things", &["v1"], &[]);
    let request = attributes(&kind, Operation::Delete);
    let hooks = webhooks(&[server.webhook("a.b.c", "append")]);
    let error = chain(&hooks, &caller(), &request)
        .mutate(None, None, &apply, &mut Vec::new())
        .await;
    assert_eq!(
        error.unwrap_err().message(),
        "Internal error occurred: admission webhook \"a.b.c\" attempted to modify the object, \
         which is not supported for this operation"
    );
}

#[tokio::test]
async fn webhooks_with_side_effects_reject_dry_runs() {
    let server = Server::good().await;
    let kind = kind("kopf.dev", "things", &["v1"], &[]);
    let request = Attributes {
        dry_run: true,
        ..attributes(&kind, Operation::Create)
    };
    let effects = json!({ "sideEffects": "Some", "failurePolicy": "Ignore" });
    let hooks = webhooks(&[with(server.webhook("a.b.c", "allow"), &effects)]);
    let error = chain(&hooks, &caller(), &request)
        .validate(None, None, &mut Vec::new())
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), 400);
    assert!(error.is(Reason::BadRequest));
    assert_eq!(
        error.message(),
        r#"admission webhook "a.b.c" does not support dry run"#
    );
    assert!(server.paths().is_empty());
}
