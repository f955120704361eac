//! Writes, selectors and lists of kinds with several shapes: events and autoscalers.

use kopf_tests::{Api, objects, with_query};
use serde_json::{Value, json};

#[tokio::test]
async fn autoscaler_written_as_v1_keeps_fields_of_v2() {
    let api = Api::start().await;
    let all = api.group_path("autoscaling/v2", "horizontalpodautoscalers");
    let (v1, v2) = (
        api.group_path("autoscaling/v1", "horizontalpodautoscalers/one"),
        format!("{all}/one"),
    );
    let made = api.created(&all, &objects::autoscaler("one")).await;
    let condition = json!({"type": "AbleToScale", "status": "True", "reason": "Tested"});
    let status = json!({"status": {"desiredReplicas": 2, "conditions": [condition]}});
    api.merged(&format!("{v2}/status"), &status).await;

    let mut first = api.found(&v1).await.json;
    first["spec"]["maxReplicas"] = json!(7);
    let put = api.replaced(&v1, &first).await;
    assert_eq!(put.at("/spec/maxReplicas"), 7);
    assert!(put.at("/spec/metrics").is_null());
    let second = api.found(&v2).await;
    assert_eq!(second.at("/spec/maxReplicas"), 7);
    assert_eq!(second.at("/spec/metrics"), made.at("/spec/metrics"));
    assert_eq!(second.at("/spec/behavior"), made.at("/spec/behavior"));
    let window = "/spec/behavior/scaleDown/stabilizationWindowSeconds";
    assert_eq!(second.at(window), 7);
    assert_eq!(second.at("/status/desiredReplicas"), 2);
    assert_eq!(second.at("/status/conditions/0/type"), "AbleToScale");
    assert_eq!(second.at("/status/conditions/0/reason"), "Tested");
    assert!(second.at("/metadata/annotations").is_null());
}

/// Creates the events `one` and `two`, each for the object and by the controller of the same name.
async fn two_events(api: &Api) {
    for name in ["one", "two"] {
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name},
            "regarding": {"kind": "ConfigMap", "name": name, "namespace": api.namespace()},
            "reason": "Tested",
            "note": "it was tested",
            "type": "Normal",
            "action": "Testing",
            "eventTime": "2024-01-01T00:00:00.000000Z",
            "reportingController": format!("example.com/{name}"),
            "reportingInstance": "tests-1",
        });
        let path = api.group_path("events.k8s.io/v1", "events");
        api.created(&path, &event).await;
    }
}

#[tokio::test]
async fn events_are_selected_by_the_fields_of_their_group() {
    let api = Api::start().await;
    two_events(&api).await;
    let core = api.ns_path("events");
    let other = api.group_path("events.k8s.io/v1", "events");
    for (path, wrong, field, value) in [
        (&other, &core, "regarding.name", "one"),
        (&other, &core, "reportingController", "example.com/one"),
        (&core, &other, "involvedObject.name", "one"),
        (&core, &other, "reportingComponent", "example.com/one"),
    ] {
        let selector = format!("{field}={value}");
        let query = [("fieldSelector", selector.as_str())];
        let list = api.found(&with_query(path, &query)).await;
        assert_eq!(list.item_names(), ["one"], "{selector}");
        let refused = api.get(&with_query(wrong, &query)).await;
        let refused = refused.expect_failure(400, "BadRequest");
        assert_eq!(
            refused.message(),
            format!("field label not supported: {field}")
        );
    }
}

#[tokio::test]
async fn items_of_converted_lists_have_no_kind() {
    let api = Api::start().await;
    two_events(&api).await;
    let scalers = "horizontalpodautoscalers";
    api.created(
        &api.group_path("autoscaling/v2", scalers),
        &objects::autoscaler("one"),
    )
    .await;
    for (path, kind) in [
        (api.ns_path("events"), "EventList"),
        (api.group_path("events.k8s.io/v1", "events"), "EventList"),
        (
            api.group_path("autoscaling/v1", scalers),
            "HorizontalPodAutoscalerList",
        ),
        (
            api.group_path("autoscaling/v2", scalers),
            "HorizontalPodAutoscalerList",
        ),
    ] {
        let list = api.found(&path).await;
        assert_eq!(list.json["kind"], kind);
        assert!(!list.items().is_empty(), "{path}");
        for item in list.items() {
            assert_eq!(item["kind"], Value::Null, "{path}");
            assert_eq!(item["apiVersion"], Value::Null, "{path}");
        }
    }
}
