//! Kinds that are served in two groups or versions: one object, two shapes.

use kopf_tests::{Api, with_query};
use serde_json::{Value, json};

#[tokio::test]
async fn core_event_is_readable_in_the_events_group() {
    let api = Api::start().await;
    let involved = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": api.namespace(),
    });
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": involved,
        "reason": "Tested",
        "message": "it was tested",
        "type": "Normal",
        "source": {"component": "tests", "host": "here"},
        "firstTimestamp": "2024-01-01T00:00:00Z",
        "lastTimestamp": "2024-01-01T00:00:01Z",
        "count": 2,
    });
    let created = api.created(&api.ns_path("events"), &event).await;
    assert_eq!(created.json["eventTime"], Value::Null);
    let events = api.group_path("events.k8s.io/v1", "events");
    let other = api.found(&format!("{events}/e")).await;
    assert_eq!(other.json["apiVersion"], "events.k8s.io/v1");
    assert_eq!(other.json["kind"], "Event");
    assert_eq!(other.uid(), created.uid());
    assert_eq!(other.resource_version(), created.resource_version());
    assert_eq!(other.json["regarding"], involved);
    assert_eq!(other.json["note"], "it was tested");
    assert_eq!(other.json["reason"], "Tested");
    assert_eq!(other.json["type"], "Normal");
    assert_eq!(
        other.json["deprecatedSource"],
        json!({"component": "tests", "host": "here"})
    );
    assert_eq!(
        other.json["deprecatedFirstTimestamp"],
        "2024-01-01T00:00:00Z"
    );
    assert_eq!(
        other.json["deprecatedLastTimestamp"],
        "2024-01-01T00:00:01Z"
    );
    assert_eq!(other.json["deprecatedCount"], 2);
    for field in ["involvedObject", "message", "source", "count"] {
        assert_eq!(other.json[field], Value::Null, "{field}");
    }
}

#[tokio::test]
async fn event_of_the_events_group_is_readable_in_the_core_group() {
    let api = Api::start().await;
    let regarding = json!({"kind": "ConfigMap", "name": "x", "namespace": api.namespace()});
    let event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": regarding,
        "reason": "Tested",
        "note": "it was tested",
        "type": "Warning",
        "action": "Testing",
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "example.com/tests",
        "reportingInstance": "tests-1",
    });
    let events = api.group_path("events.k8s.io/v1", "events");
    let created = api.created(&events, &event).await;
    let other = api.found(&api.ns_path("events/e")).await;
    assert_eq!(other.json["apiVersion"], "v1");
    assert_eq!(other.uid(), created.uid());
    assert_eq!(other.json["involvedObject"], regarding);
    assert_eq!(other.json["message"], "it was tested");
    assert_eq!(other.json["action"], "Testing");
    assert_eq!(other.json["eventTime"], "2024-01-01T00:00:00.000000Z");
    assert_eq!(other.json["reportingComponent"], "example.com/tests");
    assert_eq!(other.json["reportingInstance"], "tests-1");
    assert_eq!(other.json["note"], Value::Null);

    let selected = with_query(
        &api.ns_path("events"),
        &[("fieldSelector", "involvedObject.name=x")],
    );
    assert_eq!(api.get(&selected).await.ok().item_names(), ["e"]);
    let mut watch = api.watch(&events).await;
    assert_eq!(watch.next_change().await.brief(), ("ADDED", "e"));
    let patch = json!({"message": "it was tested again"});
    api.merged(&api.ns_path("events/e"), &patch).await;
    let changed = watch.next_change().await;
    assert_eq!(changed.brief(), ("MODIFIED", "e"));
    assert_eq!(changed.object["note"], "it was tested again");
    api.delete(&api.ns_path("events/e")).await.ok();
    assert_eq!(watch.next_change().await.brief(), ("DELETED", "e"));
}

#[tokio::test]
async fn autoscaler_is_readable_in_both_versions() {
    let api = Api::start().await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let first = api.group_path("autoscaling/v1", "horizontalpodautoscalers");
    let second = api.group_path("autoscaling/v2", "horizontalpodautoscalers");
    let old = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "old"},
        "spec": {
            "maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50,
        },
    });
    let cpu = |percent: u32| {
        json!({"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent},
        }})
    };
    let created = api.created(&first, &old).await;
    let seen = api.found(&format!("{second}/old")).await;
    assert_eq!(seen.json["apiVersion"], "autoscaling/v2");
    assert_eq!(seen.uid(), created.uid());
    assert_eq!(seen.at("/spec/maxReplicas"), 3);
    assert_eq!(seen.at("/spec/scaleTargetRef"), &target);
    assert_eq!(seen.at("/spec/metrics"), &json!([cpu(50)]));
    assert_eq!(
        seen.at("/spec/targetCPUUtilizationPercentage"),
        &Value::Null
    );

    let new = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "new"},
        "spec": {
            "minReplicas": 2, "maxReplicas": 3, "scaleTargetRef": target, "metrics": [cpu(60)],
        },
    });
    api.created(&second, &new).await;
    let seen = api.found(&format!("{first}/new")).await;
    assert_eq!(seen.json["apiVersion"], "autoscaling/v1");
    assert_eq!(seen.at("/spec/minReplicas"), 2);
    assert_eq!(seen.at("/spec/targetCPUUtilizationPercentage"), 60);
    assert_eq!(seen.at("/spec/metrics"), &Value::Null);
}
