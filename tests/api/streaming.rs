//! Streaming lists (`sendInitialEvents`) and bookmarks.

use kopf_tests::{Api, objects, with_query};
use serde_json::json;

const STREAM: [(&str, &str); 3] = [
    ("sendInitialEvents", "true"),
    ("resourceVersionMatch", "NotOlderThan"),
    ("allowWatchBookmarks", "true"),
];
const END: &str = "/metadata/annotations/k8s.io~1initial-events-end";

#[tokio::test]
async fn streaming_list_ends_with_a_bookmark_and_continues_as_a_watch() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let maps = api.ns_path("configmaps");
    let mut last = 0;
    for name in ["a", "b", "c"] {
        api.created(&maps, &objects::config_map(name, json!({})))
            .await;
        let made = crd.created(name, json!({})).await;
        last = made.resource_version().parse().unwrap();
    }
    for (path, kind) in [(&maps, "ConfigMap"), (&crd.path(), "Widget")] {
        let mut watch = api.watch(&with_query(path, &STREAM)).await;
        let mut names = Vec::new();
        let bookmark = loop {
            let event = watch.next_event().await;
            if event.kind == "BOOKMARK" {
                break event;
            }
            assert_eq!(event.kind, "ADDED");
            names.push(event.name().to_owned());
        };
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(bookmark.object["kind"], kind);
        assert_eq!(bookmark.object.pointer(END), Some(&json!("true")));
        assert!(bookmark.name().is_empty());
        // The two kinds were written in turns, so that the last version belongs to one of them.
        let version: u64 = bookmark.resource_version().parse().unwrap();
        assert!(version + 1 >= last, "{version} after {last}");

        api.merge(
            &format!("{path}/b"),
            &json!({"metadata": {"labels": {"x": "y"}}}),
        )
        .await
        .ok();
        assert_eq!(watch.next_change().await.brief(), ("MODIFIED", "b"));
    }
}

#[tokio::test]
async fn empty_streaming_list_is_only_a_bookmark() {
    let api = Api::start().await;
    let mut watch = api
        .watch(&with_query(&api.ns_path("configmaps"), &STREAM))
        .await;
    let event = watch.next_event().await;
    assert_eq!(event.kind, "BOOKMARK");
    assert_eq!(event.object.pointer(END), Some(&json!("true")));
    assert!(event.resource_version().parse::<u64>().unwrap() > 0);
}

#[tokio::test]
async fn streaming_list_includes_earlier_writes() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let made = api
        .created(&path, &objects::config_map("one", json!({})))
        .await;
    let version = made.resource_version();
    let mut parameters = STREAM.to_vec();
    parameters.push(("resourceVersion", &version));
    let mut watch = api.watch(&with_query(&path, &parameters)).await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "one"));
    let bookmark = watch.next_event().await;
    assert_eq!(bookmark.object.pointer(END), Some(&json!("true")));
    let marked: u64 = bookmark.resource_version().parse().unwrap();
    assert!(marked >= version.parse().unwrap());
}

#[tokio::test]
async fn streaming_list_applies_its_selector() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for (name, colour) in [("a", "red"), ("b", "blue")] {
        let object = objects::labelled(name, &json!({"colour": colour}));
        api.created(&path, &object).await;
    }
    let mut parameters = STREAM.to_vec();
    parameters.push(("labelSelector", "colour=blue"));
    let mut watch = api.watch(&with_query(&path, &parameters)).await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "b"));
    assert_eq!(watch.next_event().await.kind, "BOOKMARK");
}

#[tokio::test]
async fn initial_events_can_be_disabled() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("before", json!({})))
        .await;
    let parameters = [
        ("sendInitialEvents", "false"),
        ("resourceVersionMatch", "NotOlderThan"),
    ];
    let mut watch = api.watch(&with_query(&path, &parameters)).await;
    api.created(&path, &objects::config_map("after", json!({})))
        .await;
    assert_eq!(watch.next_change().await.brief(), ("ADDED", "after"));
}

#[tokio::test]
async fn invalid_options_of_initial_events_are_rejected() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for (parameters, field) in [
        (
            &[("sendInitialEvents", "true"), ("watch", "1")][..],
            "resourceVersionMatch",
        ),
        (&[("sendInitialEvents", "true")][..], "sendInitialEvents"),
    ] {
        let response = api
            .get(&with_query(&path, parameters))
            .await
            .expect_failure(422, "Invalid");
        assert_eq!(response.details()["kind"], "ListOptions");
        assert_eq!(response.causes()[0], ("FieldValueForbidden", field));
    }
}

#[tokio::test]
async fn watch_ends_with_a_bookmark() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let list = api.found(&path).await;
    let version = list.resource_version();
    let parameters = [
        ("resourceVersion", version.as_str()),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", "5"),
    ];
    let watch = api.watch(&with_query(&path, &parameters)).await;
    let made = api
        .created(&path, &objects::config_map("one", json!({})))
        .await;
    let events = watch.closed().await;
    assert_eq!(events.first().unwrap().brief(), ("ADDED", "one"));
    let bookmark = events.last().unwrap();
    assert_eq!(bookmark.kind, "BOOKMARK");
    assert_eq!(bookmark.object["kind"], "ConfigMap");
    assert_eq!(bookmark.object["apiVersion"], "v1");
    assert!(bookmark.object.pointer(END).is_none());
    let marked: u64 = bookmark.resource_version().parse().unwrap();
    assert!(marked >= made.resource_version().parse().unwrap());
}

#[tokio::test]
async fn bookmarks_are_sent_on_request_only() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let watch = api
        .watch(&with_query(&path, &[("timeoutSeconds", "4")]))
        .await;
    assert_eq!(watch.closed().await, []);
}
