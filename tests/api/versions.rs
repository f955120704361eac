//! Reading at a version: `resourceVersion` and `resourceVersionMatch` of lists and gets.

use kopf_tests::{Api, objects, with_query};
use serde_json::json;

/// Far above what any server of these tests comes to.
const FUTURE: &str = "999999999999";

#[tokio::test]
async fn version_zero_means_any_version() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.create(&path, &objects::config_map("one", json!({})))
        .await
        .expect_code(201);
    // Any version may as well be an older one, so that the object only comes eventually.
    kopf_tests::eventually("the object to be in the list", async || {
        let list = api
            .get(&with_query(&path, &[("resourceVersion", "0")]))
            .await
            .expect_code(200);
        (list.item_names() == ["one"]).then_some(())
    })
    .await;
    kopf_tests::eventually("the object to be read", async || {
        let one = with_query(&api.ns_path("configmaps/one"), &[("resourceVersion", "0")]);
        (api.get(&one).await.code == 200).then_some(())
    })
    .await;
    api.finish().await;
}

#[tokio::test]
async fn an_exact_version_shows_the_past() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.create(&path, &objects::config_map("one", json!({"a": "old"})))
        .await
        .expect_code(201);
    let two = api
        .create(&path, &objects::config_map("two", json!({})))
        .await
        .expect_code(201);
    let version = two.resource_version();
    api.merge(
        &api.ns_path("configmaps/one"),
        &json!({"data": {"a": "new"}}),
    )
    .await
    .ok();
    api.delete(&api.ns_path("configmaps/two"))
        .await
        .expect_code(200);
    api.create(&path, &objects::config_map("three", json!({})))
        .await
        .expect_code(201);

    let exact = [
        ("resourceVersion", version.as_str()),
        ("resourceVersionMatch", "Exact"),
    ];
    let list = api.get(&with_query(&path, &exact)).await.expect_code(200);
    assert_eq!(list.item_names(), ["one", "two"]);
    assert_eq!(list.at("/items/0/data/a"), "old");
    assert_eq!(list.resource_version(), version);

    let newer = [
        ("resourceVersion", version.as_str()),
        ("resourceVersionMatch", "NotOlderThan"),
    ];
    let list = api.get(&with_query(&path, &newer)).await.expect_code(200);
    assert!(list.resource_version().parse::<u64>().unwrap() >= version.parse().unwrap());
    api.finish().await;
}

#[tokio::test]
async fn a_list_not_older_than_a_write_shows_it() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let made = api
        .create(&path, &objects::config_map("one", json!({})))
        .await
        .expect_code(201);
    let version = made.resource_version();
    let implicit = [("resourceVersion", version.as_str())];
    let explicit = [
        ("resourceVersion", version.as_str()),
        ("resourceVersionMatch", "NotOlderThan"),
    ];
    for parameters in [&implicit[..], &explicit[..]] {
        let list = api
            .get(&with_query(&path, parameters))
            .await
            .expect_code(200);
        assert_eq!(list.item_names(), ["one"], "{parameters:?}");
    }
    let one = with_query(&api.ns_path("configmaps/one"), &implicit);
    assert_eq!(api.get(&one).await.expect_code(200).json, made.json);
    api.finish().await;
}

#[tokio::test]
async fn a_version_of_the_future_times_out() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for path in [
        api.ns_path("configmaps"),
        crd.path(),
        api.ns_path("configmaps/one"),
    ] {
        let answer = api
            .get(&with_query(&path, &[("resourceVersion", FUTURE)]))
            .await;
        let answer = answer.expect_failure(504, "Timeout");
        assert!(
            answer.message().contains("Too large resource version"),
            "{}",
            answer.message()
        );
        assert_eq!(answer.causes(), [("ResourceVersionTooLarge", "")]);
        assert_eq!(answer.details()["retryAfterSeconds"], 1);
    }
    api.finish().await;
}

#[tokio::test]
async fn a_version_is_a_number() {
    let api = Api::start().await;
    for version in ["abc", "-1", "1.5", "99999999999999999999999"] {
        for path in [api.ns_path("configmaps"), api.ns_path("configmaps/one")] {
            let answer = api
                .get(&with_query(&path, &[("resourceVersion", version)]))
                .await;
            assert!(
                (400..=500).contains(&answer.code) && answer.code != 404,
                "{version}: {}",
                answer.text()
            );
        }
        let list = with_query(&api.ns_path("configmaps"), &[("resourceVersion", version)]);
        api.get(&list).await.expect_failure(400, "BadRequest");
    }
    api.finish().await;
}

#[tokio::test]
async fn a_version_match_must_make_sense() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for parameters in [
        &[("resourceVersionMatch", "Exact")][..],
        &[("resourceVersionMatch", "NotOlderThan")],
        &[("resourceVersionMatch", "Exact"), ("resourceVersion", "0")],
        &[("resourceVersionMatch", "Newest"), ("resourceVersion", "1")],
        &[("resourceVersionMatch", "NotOlderThan"), ("watch", "1")],
    ] {
        let answer = api.get(&with_query(&path, parameters)).await;
        assert_eq!(answer.code, 422, "{parameters:?}: {}", answer.text());
        let answer = answer.expect_failure(422, "Invalid");
        assert_eq!(answer.details()["kind"], "ListOptions");
        assert_eq!(
            answer.causes()[0].1,
            "resourceVersionMatch",
            "{parameters:?}"
        );
    }
    api.finish().await;
}

#[tokio::test]
async fn a_list_of_a_forgotten_version_is_gone() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    api.compact().await;
    // The real server remembers most of the built-in kinds on its own for a while; not the events.
    for path in [api.ns_path("events"), crd.path()] {
        let exact = [("resourceVersion", "1"), ("resourceVersionMatch", "Exact")];
        let answer = api.get(&with_query(&path, &exact)).await;
        answer.expect_failure(410, "Expired");
        // What is newer is as good, unless asked exactly.
        let newer = with_query(&path, &[("resourceVersion", "1")]);
        api.get(&newer).await.expect_code(200);
    }
    api.finish().await;
}
