//! Concurrent writes.

use futures::future::join_all;
use kopf_tests::{Api, objects};
use serde_json::json;

#[tokio::test]
async fn concurrent_patches_of_different_keys_are_all_kept() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    api.created(&api.ns_path("configmaps"), &object).await;
    // The server retries a conflicting patch a limited number of times; this stays below the limit.
    let keys = ["a", "b", "c", "d"];
    let patches = keys.map(|key| json!({"data": {key: key}}));
    let responses = join_all(patches.iter().map(|patch| api.merge(&path, patch))).await;
    for response in responses {
        response.expect_code(200);
    }
    let data = api.get(&path).await;
    assert_eq!(
        data.json["data"],
        json!({"a": "a", "b": "b", "c": "c", "d": "d"})
    );
}

#[tokio::test]
async fn exactly_one_of_concurrent_updates_succeeds() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    let updates: Vec<_> = (0..8)
        .map(|number| {
            let mut update = made.json.clone();
            update["data"] = json!({"key": number.to_string()});
            update
        })
        .collect();
    let responses = join_all(updates.iter().map(|update| api.put(&path, update))).await;
    let mut codes: Vec<_> = responses.iter().map(|response| response.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [200, 409, 409, 409, 409, 409, 409, 409]);
}
