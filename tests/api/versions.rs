//! `resourceVersion` and `resourceVersionMatch` of lists and gets.

use kopf_tests::{Api, objects, with_query};
use serde_json::json;

/// A version that no server reaches in these tests.
const FUTURE: &str = "999999999999";

#[tokio::test]
async fn version_zero_means_any_version() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({})))
        .await;
    // Any version includes older ones, so that the object is listed eventually.
    kopf_tests::eventually("the object to be in the list", async || {
        let list = api
            .found(&with_query(&path, &[("resourceVersion", "0")]))
            .await;
        (list.item_names() == ["one"]).then_some(())
    })
    .await;
    kopf_tests::eventually("the object to be read", async || {
        let one = with_query(&api.ns_path("configmaps/one"), &[("resourceVersion", "0")]);
        (api.get(&one).await.code == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn list_at_an_exact_version_returns_old_objects() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({"a": "old"})))
        .await;
    let two = api
        .created(&path, &objects::config_map("two", json!({})))
        .await;
    let version = two.resource_version();
    api.merge(
        &api.ns_path("configmaps/one"),
        &json!({"data": {"a": "new"}}),
    )
    .await
    .ok();
    api.deleted(&api.ns_path("configmaps/two")).await;
    api.created(&path, &objects::config_map("three", json!({})))
        .await;

    let exact = [
        ("resourceVersion", version.as_str()),
        ("resourceVersionMatch", "Exact"),
    ];
    let list = api.found(&with_query(&path, &exact)).await;
    assert_eq!(list.item_names(), ["one", "two"]);
    assert_eq!(list.at("/items/0/data/a"), "old");
    assert_eq!(list.resource_version(), version);

    let newer = [
        ("resourceVersion", version.as_str()),
        ("resourceVersionMatch", "NotOlderThan"),
    ];
    let list = api.found(&with_query(&path, &newer)).await;
    assert!(list.resource_version().parse::<u64>().unwrap() >= version.parse().unwrap());
}

#[tokio::test]
async fn list_not_older_than_a_write_includes_it() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let made = api
        .created(&path, &objects::config_map("one", json!({})))
        .await;
    let version = made.resource_version();
    let implicit = [("resourceVersion", version.as_str())];
    let explicit = [
        ("resourceVersion", version.as_str()),
        ("resourceVersionMatch", "NotOlderThan"),
    ];
    for parameters in [&implicit[..], &explicit[..]] {
        let list = api.found(&with_query(&path, parameters)).await;
        assert_eq!(list.item_names(), ["one"], "{parameters:?}");
    }
    let one = with_query(&api.ns_path("configmaps/one"), &implicit);
    assert_eq!(api.found(&one).await.json, made.json);
}

#[tokio::test]
async fn list_at_a_future_version_times_out() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for path in [
        api.ns_path("configmaps"),
        crd.path(),
        api.ns_path("configmaps/one"),
    ] {
        let response = api
            .get(&with_query(&path, &[("resourceVersion", FUTURE)]))
            .await;
        let response = response.expect_failure(504, "Timeout");
        assert!(
            response.message().contains("Too large resource version"),
            "{}",
            response.message()
        );
        assert_eq!(response.causes(), [("ResourceVersionTooLarge", "")]);
        assert_eq!(response.details()["retryAfterSeconds"], 1);
    }
}

#[tokio::test]
async fn malformed_versions_are_rejected() {
    let api = Api::start().await;
    for version in ["abc", "-1", "1.5", "99999999999999999999999"] {
        for path in [api.ns_path("configmaps"), api.ns_path("configmaps/one")] {
            let response = api
                .get(&with_query(&path, &[("resourceVersion", version)]))
                .await;
            assert!(
                (400..=500).contains(&response.code) && response.code != 404,
                "{version}: {}",
                response.text()
            );
        }
        let list = with_query(&api.ns_path("configmaps"), &[("resourceVersion", version)]);
        api.get(&list).await.expect_failure(400, "BadRequest");
    }
}

#[tokio::test]
async fn invalid_version_matches_are_rejected() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for parameters in [
        &[("resourceVersionMatch", "Exact")][..],
        &[("resourceVersionMatch", "NotOlderThan")],
        &[("resourceVersionMatch", "Exact"), ("resourceVersion", "0")],
        &[("resourceVersionMatch", "Newest"), ("resourceVersion", "1")],
        &[("resourceVersionMatch", "NotOlderThan"), ("watch", "1")],
    ] {
        let response = api.get(&with_query(&path, parameters)).await;
        assert_eq!(response.code, 422, "{parameters:?}: {}", response.text());
        let response = response.expect_failure(422, "Invalid");
        assert_eq!(response.details()["kind"], "ListOptions");
        assert_eq!(
            response.causes()[0].1,
            "resourceVersionMatch",
            "{parameters:?}"
        );
    }
}

#[tokio::test]
async fn list_at_a_compacted_version_is_gone() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    api.compact().await;
    // The real server caches the history of most built-in kinds, but not of events.
    for path in [api.ns_path("events"), crd.path()] {
        let exact = [("resourceVersion", "1"), ("resourceVersionMatch", "Exact")];
        let response = api.get(&with_query(&path, &exact)).await;
        response.expect_failure(410, "Expired");
        // Newer versions are accepted, unless the match is exact.
        let newer = with_query(&path, &[("resourceVersion", "1")]);
        api.found(&newer).await;
    }
}
