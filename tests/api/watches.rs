//! Watches: the events, and their order.

use kopf_tests::{Api, objects, with_query};
use serde_json::json;

#[tokio::test]
async fn watch_from_a_version_sends_later_events() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let one = api.ns_path("configmaps/one");
    api.created(&path, &objects::config_map("before", json!({})))
        .await;
    let list = api.found(&path).await;

    let made = api
        .created(&path, &objects::config_map("one", json!({})))
        .await;
    let changed = api.merged(&one, &json!({"data": {"a": "1"}})).await;
    api.deleted(&one).await;

    let from = with_query(&path, &[("resourceVersion", &list.resource_version())]);
    let mut watch = api.watch(&from).await;
    let event = watch.next_event().await;
    assert_eq!(event.brief(), ("ADDED", "one"));
    assert_eq!(event.object, made.json);
    let event = watch.next_event().await;
    assert_eq!(event.brief(), ("MODIFIED", "one"));
    assert_eq!(event.object, changed.json);
    let event = watch.next_event().await;
    assert_eq!(event.brief(), ("DELETED", "one"));
    assert_eq!(event.object["data"], json!({"a": "1"}));
    let version: u64 = event.resource_version().parse().unwrap();
    assert!(version > changed.resource_version().parse().unwrap());

    // Later events follow the history.
    api.created(&path, &objects::config_map("after", json!({})))
        .await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "after"));
}

#[tokio::test]
async fn watch_of_custom_objects_sends_later_events() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let list = api.found(&crd.path()).await;
    let from = with_query(
        &crd.path(),
        &[("resourceVersion", &list.resource_version())],
    );
    let mut watch = api.watch(&from).await;

    let made = crd.created("one", json!({})).await;
    assert_eq!(watch.next_event().await.object, made.json);
    let status = json!({"status": {"phase": "Ready"}});
    let changed = crd.merged("one/status", &status).await;
    let event = watch.next_event().await;
    assert_eq!(event.kind, "MODIFIED");
    assert_eq!(event.object, changed.json);
    crd.deleted("one").await;
    assert_eq!(watch.next_event().await.brief(), ("DELETED", "one"));
}

#[tokio::test]
async fn watch_without_a_version_starts_with_existing_objects() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for name in ["a", "b"] {
        api.created(&path, &objects::config_map(name, json!({})))
            .await;
    }
    for from in [path.clone(), with_query(&path, &[("resourceVersion", "0")])] {
        let mut watch = api.watch(&from).await;
        let mut seen = [watch.next_event().await, watch.next_event().await];
        seen.sort_by_key(|event| event.name().to_owned());
        assert_eq!(seen[0].brief(), ("ADDED", "a"));
        assert_eq!(seen[1].brief(), ("ADDED", "b"));

        let live = json!({"data": {"from": from}});
        api.merged(&api.ns_path("configmaps/a"), &live).await;
        assert_eq!(watch.next_event().await.brief(), ("MODIFIED", "a"));
    }
}

#[tokio::test]
async fn label_selector_converts_changes_to_added_and_deleted() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let one = api.ns_path("configmaps/one");
    let list = api.found(&path).await;
    let parameters = [
        ("resourceVersion", list.resource_version()),
        ("labelSelector", "colour=red".to_owned()),
    ];
    let parameters = parameters
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let mut watch = api.watch(&with_query(&path, &parameters)).await;
    let label = |colour: &str| json!({"metadata": {"labels": {"colour": colour}}});

    // Not sent: it never matches.
    let blue = objects::labelled("other", &json!({"colour": "blue"}));
    api.created(&path, &blue).await;
    // Not sent, added, modified, removed from the selection, added again, deleted.
    let blue = objects::labelled("one", &json!({"colour": "blue"}));
    api.created(&path, &blue).await;
    api.merged(&one, &label("red")).await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "one"));
    api.merged(&one, &json!({"data": {"a": "1"}})).await;
    assert_eq!(watch.next_event().await.brief(), ("MODIFIED", "one"));
    let out = api.merged(&one, &label("blue")).await;
    let event = watch.next_event().await;
    assert_eq!(event.brief(), ("DELETED", "one"));
    assert_eq!(event.object["metadata"]["labels"]["colour"], "red");
    assert_eq!(event.resource_version(), out.resource_version());
    // Not sent: a change outside of the selection.
    api.merged(&one, &json!({"data": {"a": "2"}})).await;
    api.merged(&one, &label("red")).await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "one"));
    api.deleted(&one).await;
    assert_eq!(watch.next_event().await.brief(), ("DELETED", "one"));
}

#[tokio::test]
async fn field_selector_watches_a_single_object() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({})))
        .await;
    api.created(&path, &objects::config_map("two", json!({})))
        .await;
    let mut watch = api
        .watch(&with_query(
            &path,
            &[("fieldSelector", "metadata.name=two")],
        ))
        .await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "two"));
    let patch = json!({"data": {"a": "1"}});
    api.merged(&api.ns_path("configmaps/one"), &patch).await;
    api.merged(&api.ns_path("configmaps/two"), &patch).await;
    assert_eq!(watch.next_event().await.brief(), ("MODIFIED", "two"));
}

#[tokio::test]
async fn field_selector_converts_changes_to_added_and_deleted() {
    let api = Api::start().await;
    let path = api.ns_path("pods");
    api.created(&path, &objects::pod("one")).await;
    let running = with_query(&path, &[("fieldSelector", "status.phase=Running")]);
    let mut watch = api.watch(&running).await;
    let status = api.ns_path("pods/one/status");
    api.merged(&status, &json!({"status": {"phase": "Running"}}))
        .await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "one"));
    api.merged(&status, &json!({"status": {"phase": "Failed"}}))
        .await;
    assert_eq!(watch.next_event().await.brief(), ("DELETED", "one"));
}

#[tokio::test]
async fn watch_of_all_namespaces_gets_their_events() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let other = api.unique("other");
    api.create_namespace(&other).await;
    let mut watch = api.watch(&crd.path_everywhere()).await;
    let there = format!("/apis/{}/namespaces/{other}/widgets", crd.api_version());
    crd.created("here", json!({})).await;
    api.created(&there, &crd.object("there", json!({}))).await;
    let event = watch.next_event().await;
    assert_eq!(event.brief(), ("ADDED", "here"));
    assert_eq!(event.object["metadata"]["namespace"], api.namespace());
    let event = watch.next_event().await;
    assert_eq!(event.brief(), ("ADDED", "there"));
    assert_eq!(event.object["metadata"]["namespace"], other);
}

#[tokio::test]
async fn watch_of_one_namespace_gets_no_other_events() {
    let api = Api::start().await;
    let other = api.unique("other");
    api.create_namespace(&other).await;
    let mut watch = api.watch(&api.ns_path("configmaps")).await;
    let there = format!("/api/v1/namespaces/{other}/configmaps");
    api.created(&there, &objects::config_map("there", json!({})))
        .await;
    let here = api.ns_path("configmaps");
    api.created(&here, &objects::config_map("here", json!({})))
        .await;
    assert_eq!(watch.next_event().await.brief(), ("ADDED", "here"));
}

#[tokio::test]
async fn watch_ends_after_its_timeout() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({})))
        .await;
    let watch = api
        .watch(&with_query(&path, &[("timeoutSeconds", "1")]))
        .await;
    let events = watch.closed().await;
    assert_eq!(
        events
            .iter()
            .map(kopf_tests::Event::brief)
            .collect::<Vec<_>>(),
        [("ADDED", "one")]
    );
    let response = api
        .get(&with_query(
            &path,
            &[("watch", "1"), ("timeoutSeconds", "soon")],
        ))
        .await;
    response.expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn watch_parameter_is_a_boolean() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({})))
        .await;
    for value in ["1", "true"] {
        let path = with_query(&path, &[("watch", value), ("timeoutSeconds", "1")]);
        let watch = api.request(http::Method::GET, &path).watch().await;
        assert_eq!(watch.closed().await.len(), 1, "watch={value}");
    }
    for value in ["0", "false"] {
        let list = api.found(&with_query(&path, &[("watch", value)])).await;
        assert_eq!(list.json["kind"], "ConfigMapList", "watch={value}");
    }
}

#[tokio::test]
async fn get_of_an_object_ignores_the_watch_parameter() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let made = api
        .created(&path, &objects::config_map("one", json!({})))
        .await;
    let one = with_query(&api.ns_path("configmaps/one"), &[("watch", "1")]);
    assert_eq!(api.found(&one).await.json, made.json);
}

#[tokio::test]
async fn watch_events_are_json_lines() {
    let api = Api::start().await;
    let path = with_query(
        &api.ns_path("configmaps"),
        &[("watch", "1"), ("timeoutSeconds", "1")],
    );
    api.created(
        &api.ns_path("configmaps"),
        &objects::config_map("one", json!({"a": "line\nbreak"})),
    )
    .await;
    let response = api.found(&path).await;
    assert_eq!(response.content_type(), "application/json");
    let text = response.text();
    assert!(text.ends_with("}\n"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[tokio::test]
async fn watch_from_a_compacted_version_ends_with_410() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    api.compact().await;
    // The real server caches the history of most built-in kinds, but not of events.
    for path in [api.ns_path("events"), crd.path()] {
        let mut watch = api
            .watch(&with_query(&path, &[("resourceVersion", "1")]))
            .await;
        let event = watch.next_event().await;
        assert_eq!(event.kind, "ERROR");
        assert_eq!(event.object["kind"], "Status");
        assert_eq!(event.object["status"], "Failure");
        assert_eq!(event.object["code"], 410);
        assert_eq!(event.object["reason"], "Expired");
        assert_eq!(watch.closed().await, []);
    }
}
