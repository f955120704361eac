//! Tests of both forms of discovery, and of partial failures.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Groups, Scan, scan};
use crate::script::{Reply, Script, ok, refusal, text};

fn only(groups: &[&str]) -> Groups {
    Groups::Only(groups.iter().map(|group| (*group).to_owned()).collect())
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn found(scan: &Scan) -> Vec<String> {
    scan.resources.iter().map(ToString::to_string).collect()
}

fn plain_group() -> Value {
    json!({"kind": "APIGroupList", "groups": [
        {"name": "kopf.dev", "versions": [{"version": "v1"}, {"version": "v2"}],
         "preferredVersion": {"groupVersion": "kopf.dev/v2", "version": "v2"}},
        {"name": "broken.dev", "versions": [{"version": "v1"}],
         "preferredVersion": {"version": "v1"}},
    ]})
}

fn plain_examples() -> Value {
    json!({"kind": "APIResourceList", "groupVersion": "kopf.dev/v1", "resources": [
        {"name": "kopfexamples/status", "kind": "KopfExample", "namespaced": true,
         "singularName": "", "verbs": ["get", "patch"]},
        {"name": "kopfexamples", "kind": "KopfExample", "namespaced": true,
         "singularName": "kopfexample", "verbs": ["list", "watch"],
         "shortNames": ["kex"], "categories": ["all"]},
        {"name": "kopfexamples/scale", "group": "autoscaling", "version": "v1", "kind": "Scale",
         "singularName": "", "namespaced": true, "verbs": []},
        {"name": "peers", "kind": "ClusterPeer", "namespaced": false, "singularName": ""},
    ]})
}

fn aggregated(kind: &str, items: &Value) -> Reply {
    ok(&json!({"apiVersion": "apidiscovery.k8s.io/v2", "kind": kind, "items": items}))
}

#[tokio::test]
async fn legacy_documents_are_requested_one_by_one() {
    let replies = [
        ok(&json!({"kind": "APIVersions", "versions": ["v1"]})),
        ok(&plain_group()),
        ok(&json!({"resources": [{"name": "pods", "kind": "Pod", "singularName": ""}]})),
        ok(&plain_examples()),
        refusal(404),
        ok(&json!({"resources": []})),
    ];
    let (client, script) = Script::new(replies);
    let scan = scan(&client, &Groups::All).await.unwrap();
    assert_eq!(
        found(&scan),
        ["pods.v1", "kopfexamples.v1.kopf.dev", "peers.v1.kopf.dev"]
    );
    assert!(scan.failed.is_empty());
    assert_eq!(
        script.paths(),
        [
            "/api",
            "/apis",
            "/api/v1",
            "/apis/kopf.dev/v1",
            "/apis/kopf.dev/v2",
            "/apis/broken.dev/v1"
        ]
    );
    let accept = script.requests()[1].headers["accept"].clone();
    assert!(
        accept
            .to_str()
            .unwrap()
            .contains("as=APIGroupDiscoveryList")
    );

    let [pods, examples, peers] = &scan.resources[..] else {
        panic!("{scan:?}")
    };
    assert!(pods.preferred);
    assert_eq!(pods.singular, "pod");
    assert!(!examples.preferred && examples.namespaced);
    assert_eq!(examples.subresources, set(&["status", "scale"]));
    assert_eq!(examples.shortcuts, set(&["kex"]));
    assert_eq!(examples.categories, set(&["all"]));
    assert_eq!(examples.verbs, set(&["list", "watch"]));
    assert_eq!(examples.singular, "kopfexample");
    assert_eq!(
        (peers.singular.as_str(), peers.namespaced),
        ("clusterpeer", false)
    );
    assert!(peers.verbs.is_empty() && peers.subresources.is_empty());
}

#[tokio::test]
async fn aggregated_documents_are_sufficient() {
    let core = json!([{"metadata": {"creationTimestamp": null}, "versions": [
        {"version": "v1", "freshness": "Current", "resources": [
            {"resource": "pods", "responseKind": {"group": "", "version": "", "kind": "Pod"},
             "scope": "Namespaced", "singularResource": "pod", "verbs": ["list"],
             "shortNames": ["po"], "categories": ["all"],
             "subresources": [{"subresource": "status", "verbs": ["patch"]}]},
            {"resource": "bindings", "responseKind": null, "scope": "Namespaced",
             "singularResource": "", "verbs": []}]}]}]);
    let others = json!([{"metadata": {"name": "kopf.dev"}, "versions": [
        {"version": "v2", "resources": [
            {"resource": "kopfexamples", "responseKind": {"kind": "KopfExample"},
             "scope": "Cluster", "singularResource": "", "verbs": ["watch"]}]},
        {"version": "v1", "resources": [
            {"resource": "kopfexamples", "responseKind": {"kind": "KopfExample"},
             "scope": "Cluster", "singularResource": "", "verbs": ["watch"]}]}]}]);
    let list = "APIGroupDiscoveryList";
    let (client, script) = Script::new([aggregated(list, &core), aggregated(list, &others)]);
    let scan = scan(&client, &Groups::All).await.unwrap();
    assert_eq!(
        found(&scan),
        [
            "pods.v1",
            "kopfexamples.v2.kopf.dev",
            "kopfexamples.v1.kopf.dev"
        ]
    );
    let [pods, newer, older] = &scan.resources[..] else {
        panic!("{scan:?}")
    };
    assert!(pods.preferred && pods.namespaced);
    assert_eq!(pods.shortcuts, set(&["po"]));
    assert_eq!(pods.categories, set(&["all"]));
    assert_eq!(pods.subresources, set(&["status"]));
    assert!(newer.preferred && !older.preferred && !newer.namespaced);
    assert_eq!(newer.singular, "kopfexample");
    assert_eq!(script.paths(), ["/api", "/apis"]);
}

#[tokio::test(start_paused = true)]
async fn failing_groups_do_not_affect_others() {
    let replies = [
        ok(&plain_group()),
        ok(&plain_examples()),
        refusal(403),
        text(503, "service unavailable"),
        text(503, "service unavailable"),
        text(503, "service unavailable"),
    ];
    let (client, _) = Script::new(replies);
    let scan = scan(&client, &only(&["kopf.dev", "broken.dev"]))
        .await
        .unwrap();
    assert_eq!(
        found(&scan),
        ["kopfexamples.v1.kopf.dev", "peers.v1.kopf.dev"]
    );
    let failed: Vec<_> = scan
        .failed
        .iter()
        .map(|(name, error)| (name.as_str(), error.code()))
        .collect();
    assert_eq!(
        failed,
        [("kopf.dev/v2", Some(403)), ("broken.dev/v1", Some(503))]
    );
}

#[tokio::test(start_paused = true)]
async fn stale_versions_are_requested_separately() {
    let others = json!([{"metadata": {"name": "metrics.dev"}, "versions": [
        {"version": "v1", "freshness": "Stale", "resources": [
            {"resource": "old", "responseKind": {"kind": "Old"}, "scope": "Cluster"}]}]},
        {"metadata": {"name": "kopf.dev"}, "versions": [
        {"version": "v1", "freshness": "Stale", "resources": []}]}]);
    let mut replies = vec![aggregated("APIGroupDiscoveryList", &others)];
    replies.extend([refusal(404), ok(&plain_examples())]);
    let (client, script) = Script::new(replies);
    let scan = scan(&client, &only(&["metrics.dev", "kopf.dev"]))
        .await
        .unwrap();
    assert_eq!(
        found(&scan),
        ["kopfexamples.v1.kopf.dev", "peers.v1.kopf.dev"]
    );
    assert!(scan.resources[0].preferred);
    assert_eq!(
        script.paths()[1..],
        ["/apis/metrics.dev/v1", "/apis/kopf.dev/v1"]
    );
}

#[tokio::test]
async fn only_selected_groups_are_requested() {
    let (client, script) = Script::new([ok(&plain_group()), ok(&plain_examples()), refusal(404)]);
    let scan_of_one = scan(&client, &only(&["kopf.dev"])).await.unwrap();
    assert_eq!(scan_of_one.resources.len(), 2);
    assert_eq!(
        script.paths(),
        ["/apis", "/apis/kopf.dev/v1", "/apis/kopf.dev/v2"]
    );

    let versions = ok(&json!({"kind": "APIVersions", "versions": []}));
    let (client, script) = Script::new([versions]);
    assert!(
        scan(&client, &only(&[""]))
            .await
            .unwrap()
            .resources
            .is_empty()
    );
    assert_eq!(script.paths(), ["/api"]);

    let (client, script) = Script::new([]);
    assert!(
        scan(&client, &only(&[]))
            .await
            .unwrap()
            .resources
            .is_empty()
    );
    assert!(script.requests().is_empty());
}

#[tokio::test]
async fn missing_root_documents_are_an_error() {
    for reply in [
        refusal(403),
        text(200, "<html>"),
        text(200, r#"{"kind": "Status"}"#),
    ] {
        let (client, _) = Script::new([reply]);
        assert!(scan(&client, &only(&["kopf.dev"])).await.is_err());
    }
    // A server with extensions only.
    let (client, _) = Script::new([refusal(404), ok(&json!({"kind": "APIGroupList"}))]);
    assert!(
        scan(&client, &Groups::All)
            .await
            .unwrap()
            .resources
            .is_empty()
    );
}
