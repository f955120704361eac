//! Conversion of objects between the served versions of their kind.
//!
//! Custom resources change only their `apiVersion`. Of the built-in kinds, only two are served in
//! more than one shape: events (core and `events.k8s.io`) and autoscalers (`v1` and `v2`).

use kopf_sandbox_schema::kind::Kind;
use serde_json::{Map, Value, json};

/// Converts an object of `from`/`from_version` to `to`/`to_version`, in place.
pub fn convert(object: &mut Value, from: &Kind, from_version: &str, to: &Kind, to_version: &str) {
    if from.group == to.group && from_version == to_version {
        return;
    }
    match (&*from.group, &*to.group, &*from.plural) {
        ("", "events.k8s.io", "events") => event_to_new(object),
        ("events.k8s.io", "", "events") => event_to_core(object),
        ("autoscaling", "autoscaling", "horizontalpodautoscalers") => match to_version {
            "v1" => autoscaler_to_v1(object),
            _ => autoscaler_to_v2(object),
        },
        _ => {}
    }
    if let Some(map) = object.as_object_mut() {
        map.insert(
            "apiVersion".to_owned(),
            Value::String(to.api_version(to_version)),
        );
    }
}

/// Fields of an event that have another name in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn event_to_new(object: &mut Value) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    for (core, new) in EVENT_FIELDS {
        rename(map, core, new);
    }
    map.entry("eventTime").or_insert(Value::Null);
    for empty in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
        map.entry(empty).or_insert(Value::Null);
    }
    map.entry("deprecatedSource").or_insert_with(|| json!({}));
    if map.get("reportingController") == Some(&json!("")) {
        map.remove("reportingController");
    }
    if map.get("reportingInstance") == Some(&json!("")) {
        map.remove("reportingInstance");
    }
}

fn event_to_core(object: &mut Value) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    for (core, new) in EVENT_FIELDS {
        rename(map, new, core);
    }
    for always in ["eventTime", "firstTimestamp", "lastTimestamp"] {
        map.entry(always).or_insert(Value::Null);
    }
    for always in ["reportingComponent", "reportingInstance"] {
        map.entry(always).or_insert_with(|| json!(""));
    }
    map.entry("source").or_insert_with(|| json!({}));
    map.entry("involvedObject").or_insert_with(|| json!({}));
}

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}

/// The annotation of `v1` for metrics that have no field there.
const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/behavior";
const STATUS_ANNOTATIONS: [(&str, &str); 2] = [
    ("conditions", "autoscaling.alpha.kubernetes.io/conditions"),
    (
        "currentMetrics",
        "autoscaling.alpha.kubernetes.io/current-metrics",
    ),
];

/// The only metric with a field in `v1`.
pub(crate) const TARGET_CPU: &str = "targetCPUUtilizationPercentage";

/// Returns `true` if a `v1` autoscaler has only metrics without a field.
pub(crate) fn has_other_metrics(kind: &Kind, version: &str, object: &Value) -> bool {
    &*kind.group == "autoscaling"
        && version == "v1"
        && object
            .get("spec")
            .is_some_and(|spec| spec.get(TARGET_CPU).is_none())
        && object
            .pointer("/metadata/annotations")
            .is_some_and(|annotations| annotations.get(METRICS_ANNOTATION).is_some())
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric.pointer("/resource/name") == Some(&json!("cpu"))
        && metric.pointer("/resource/target/type") == Some(&json!("Utilization"))
}

fn autoscaler_to_v1(object: &mut Value) {
    let mut left_over = Map::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(Value::Array(mut metrics)) = spec.remove("metrics") {
            if let Some(at) = metrics.iter().position(is_cpu_utilization) {
                let cpu = metrics.remove(at);
                if let Some(percent) = cpu.pointer("/resource/target/averageUtilization") {
                    spec.insert(TARGET_CPU.to_owned(), percent.clone());
                }
            }
            if !metrics.is_empty() {
                left_over.insert(
                    METRICS_ANNOTATION.to_owned(),
                    json!(json!(metrics).to_string()),
                );
            }
        }
        if let Some(behavior) = spec.remove("behavior") {
            left_over.insert(BEHAVIOR_ANNOTATION.to_owned(), json!(behavior.to_string()));
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        for (field, annotation) in STATUS_ANNOTATIONS {
            if let Some(value) = status.remove(field).filter(|value| !value.is_null()) {
                left_over.insert(annotation.to_owned(), json!(value.to_string()));
            }
        }
    }
    if !left_over.is_empty() {
        let metadata = kopf_sandbox_schema::object::meta::metadata(object);
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.extend(left_over);
        }
    }
}

fn autoscaler_to_v2(object: &mut Value) {
    let mut carried = |annotation: &str| -> Option<Value> {
        let metadata = object.get_mut("metadata")?.as_object_mut()?;
        let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
        let text = annotations.remove(annotation)?;
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
        serde_json::from_str(text.as_str()?).ok()
    };
    let (others, behavior) = (carried(METRICS_ANNOTATION), carried(BEHAVIOR_ANNOTATION));
    let carried_status = STATUS_ANNOTATIONS.map(|(field, annotation)| (field, carried(annotation)));
    for (field, value) in carried_status {
        if let Some(value) = value {
            kopf_sandbox_schema::object::meta::entry(object, "status")
                .insert(field.to_owned(), value);
        }
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let mut metrics = match others {
        Some(Value::Array(others)) => others,
        _ => Vec::new(),
    };
    if let Some(percent) = spec.remove(TARGET_CPU) {
        metrics.push(json!({
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": percent },
            },
        }));
    }
    if !metrics.is_empty() {
        spec.insert("metrics".to_owned(), Value::Array(metrics));
    }
    if let Some(behavior) = behavior {
        spec.insert("behavior".to_owned(), behavior);
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentCPUUtilizationPercentage");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_their_content_in_both_shapes() {
        let core = json!({
            "involvedObject": {"name": "p"}, "message": "m", "source": {"component": "c"},
            "firstTimestamp": "t1", "lastTimestamp": "t2", "count": 3, "eventTime": null,
            "reportingComponent": "", "reportingInstance": "",
        });
        let mut event = core.clone();
        event_to_new(&mut event);
        assert_eq!(event["note"], "m");
        assert_eq!(event["regarding"]["name"], "p");
        assert_eq!(event["deprecatedCount"], 3);
        event_to_core(&mut event);
        assert_eq!(event, core);
    }

    #[test]
    fn autoscalers_keep_their_content_in_both_shapes() {
        let v2 = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 5, "metrics": [
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}},
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
        ]}, "status": {"desiredReplicas": 1, "conditions": [{"type": "AbleToScale"}]}});
        let mut object = v2.clone();
        autoscaler_to_v1(&mut object);
        assert_eq!(
            object["spec"],
            json!({"maxReplicas": 5, "targetCPUUtilizationPercentage": 80})
        );
        autoscaler_to_v2(&mut object);
        assert_eq!(object, v2);
    }
}
