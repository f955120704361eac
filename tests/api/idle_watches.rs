//! Watches without events: during a compaction, or at a future version.

use kopf_tests::{Api, objects, with_query};
use serde_json::json;

#[tokio::test]
async fn idle_watch_survives_a_compaction() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let maps = api.ns_path("configmaps");
    let map = objects::config_map("one", json!({}));
    for (path, object) in [(&maps, map), (&crd.path(), crd.object("one", json!({})))] {
        let list = api.found(path).await;
        let version = list.resource_version();
        let query = [("resourceVersion", version.as_str())];
        let mut watch = api.watch(&with_query(path, &query)).await;
        // Other objects advance the version, so that the first version of the watch is compacted.
        for name in ["a", "b", "c"] {
            let other = objects::secret(name, json!({}));
            let secrets = api.ns_path("secrets");
            api.created(&secrets, &other).await;
            api.delete(&format!("{secrets}/{name}")).await.ok();
        }
        api.compact().await;
        api.created(path, &object).await;
        assert_eq!(watch.next_change().await.brief(), ("ADDED", "one"));
        api.compact().await;
        api.deleted(&format!("{path}/one")).await;
        assert_eq!(watch.next_change().await.brief(), ("DELETED", "one"));
    }
}

#[tokio::test]
async fn streaming_list_at_a_future_version_fails_in_the_stream() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let list = api.found(&crd.path()).await;
    let future = list.resource_version().parse::<u64>().unwrap() + 1_000_000;
    let query = [
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", &future.to_string()),
    ];
    for path in [api.ns_path("configmaps"), crd.path()] {
        let mut watch = api.watch(&with_query(&path, &query)).await;
        let event = watch.next_event().await;
        assert_eq!(event.kind, "ERROR");
        assert_eq!(event.object["kind"], "Status");
        assert_eq!(event.object["status"], "Failure");
        assert_eq!(event.object["code"], 504);
        assert_eq!(event.object["reason"], "Timeout");
        let message = event.object["message"].as_str().unwrap();
        let expected = format!("Timeout: Too large resource version: {future}, current: ");
        assert!(message.starts_with(&expected), "{message}");
        assert_eq!(event.object["details"]["retryAfterSeconds"], 1);
        assert_eq!(
            event.object["details"]["causes"],
            json!([{
                "reason": "ResourceVersionTooLarge", "message": "Too large resource version",
            }])
        );
        assert_eq!(watch.closed().await, []);
    }
}
