//! Comparison with responses recorded from a real server.

use super::{creation, recorded};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

#[derive(Deserialize)]
struct Sample {
    sent: Value,
    stored: Value,
}

#[derive(Deserialize)]
struct Recorded {
    object: Value,
    message: Option<String>,
}

fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let all = crate::recorded::DEFAULTS;
        let mut samples: Vec<Sample> = serde_json::from_str(all).unwrap();
        let more = include_str!("recorded_defaults.json");
        samples.extend(serde_json::from_str::<Vec<Sample>>(more).unwrap());
        samples
    })
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap()
}

/// Compares `ours` with `theirs` in both directions.
fn compare(
    path: &str,
    ours: &Value,
    theirs: &Value,
    alien: &mut Vec<String>,
    missing: &mut BTreeSet<String>,
) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                let path = format!("{path}.{key}");
                match theirs.get(key) {
                    Some(other) => compare(&path, value, other, alien, missing),
                    None => alien.push(format!("{path}={value}")),
                }
            }
            let absent = theirs.keys().filter(|key| !ours.contains_key(*key));
            missing.extend(absent.map(|key| format!("{path}.{key}")));
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (ours, theirs) in ours.iter().zip(theirs) {
                compare(&format!("{path}[]"), ours, theirs, alien, missing);
            }
        }
        _ if ours == theirs => {}
        _ => alien.push(format!("{path}={ours} instead of {theirs}")),
    }
}

#[test]
fn defaults_match_a_real_server() {
    let mut aliens = Vec::new();
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Sample { sent, stored } in samples() {
        let root = recorded().root(text(sent, "apiVersion"), text(sent, "kind"));
        let mut object = recorded()
            .check(root.unwrap(), sent.clone())
            .unwrap()
            .object;
        recorded().apply_defaults(root.unwrap(), &mut object);
        let again = object.clone();
        recorded().apply_defaults(root.unwrap(), &mut object);
        assert_eq!(object, again, "{sent}");
        object["metadata"]["uid"] = stored["metadata"]["uid"].clone();
        let (group, _) = text(sent, "apiVersion").split_once('/').unwrap_or_default();
        creation::assign(group, text(sent, "kind"), &mut object);
        let mut stored = stored.clone();
        if let Some(metadata) = stored["metadata"].as_object_mut() {
            for assigned in [
                "creationTimestamp",
                "generation",
                "managedFields",
                "namespace",
                "resourceVersion",
            ] {
                metadata.remove(assigned);
            }
        }
        let mut missing = BTreeSet::new();
        let kind = text(sent, "kind");
        compare(kind, &object, &stored, &mut aliens, &mut missing);
        all.entry(kind.to_owned()).or_default().extend(missing);
    }
    assert_eq!(aliens, Vec::<String>::new());
    let missing: BTreeSet<String> = all.into_values().flatten().collect();
    let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
    assert_eq!(missing, NOT_DEFAULTED);
}

/// Fields that a real server sets from other objects or by its controllers.
const NOT_DEFAULTED: &[&str] = &[
    "Namespace.spec.finalizers",
    "PersistentVolume.metadata.finalizers",
    "PersistentVolume.status.lastPhaseTransitionTime",
    "PersistentVolumeClaim.metadata.finalizers",
    "Pod.status.conditions",
    "Service.spec.clusterIP",
    "Service.spec.clusterIPs",
    "Service.spec.ipFamilies",
    "Service.spec.ipFamilyPolicy",
    "Service.spec.ports[].nodePort",
    "VolumeAttributesClass.metadata.finalizers",
];

#[test]
fn errors_match_a_real_server() {
    let responses: Vec<Recorded> =
        serde_json::from_str(include_str!("recorded_refusals.json")).unwrap();
    assert!(responses.len() > 80);
    for Recorded { object, message } in responses {
        let (api_version, kind) = (text(&object, "apiVersion"), text(&object, "kind"));
        let version = api_version.rsplit('/').next().unwrap();
        let root = recorded().root(api_version, kind).unwrap();
        let rejection = match recorded().check(root, object.clone()) {
            Err(mismatch) => Some(mismatch.text),
            Ok(checked) if checked.unknown.is_empty() => None,
            Ok(checked) => {
                let unknown = checked
                    .unknown
                    .iter()
                    .map(|path| format!("unknown field {path:?}"));
                let unknown: Vec<_> = unknown.collect();
                Some(format!("strict decoding error: {}", unknown.join(", ")))
            }
        };
        let rejection = rejection.map(|text| {
            format!("{kind} in version {version:?} cannot be handled as a {kind}: {text}")
        });
        // The server lists unknown fields in request order, which is lost here.
        assert_eq!(
            rejection.as_deref().map(sorted),
            message.as_deref().map(sorted),
            "{object}"
        );
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut parts: Vec<_> = text
        .replace("error: ", "error: , ")
        .split(", ")
        .map(str::to_owned)
        .collect();
    parts.sort();
    parts
}

#[test]
fn zeros_are_omitted_unless_behind_a_pointer() {
    let root = recorded().root("apps/v1", "Deployment").unwrap();
    let sent =
        json!({"spec": {"replicas": 0, "paused": false, "minReadySeconds": 0, "selector": null}});
    let checked = recorded().check(root, sent).unwrap();
    assert_eq!(checked.object, json!({"spec": {"replicas": 0}}));
}

#[test]
fn nulls_in_lists_and_maps_become_zeros() {
    let root = recorded().root("v1", "ConfigMap").unwrap();
    let sent = json!({"data": {"a": null}, "metadata": {"finalizers": [null], "labels": null}});
    let checked = recorded().check(root, sent).unwrap();
    assert_eq!(
        checked.object,
        json!({"data": {"a": ""}, "metadata": {"finalizers": [""]}})
    );
}

/// Returns a scalar or a small container of any kind.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1..3_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.:=-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let keys = "name|spec|type|port|x";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// Replaces one value somewhere in an object.
fn replace_at(object: &mut Value, steps: &[prop::sample::Index], value: Value) {
    let Some((step, rest)) = steps.split_first() else {
        *object = value;
        return;
    };
    let mut inner: Vec<&mut Value> = match object {
        Value::Object(map) => map.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    if inner.is_empty() {
        *object = value;
    } else {
        replace_at(inner.swap_remove(step.index(inner.len())), rest, value);
    }
}

proptest! {
    #[test]
    fn random_objects_never_panic_and_decoding_is_idempotent(
        sample: prop::sample::Index,
        steps in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        value in any_value(),
    ) {
        let samples = samples();
        let mut object = samples[sample.index(samples.len())].stored.clone();
        let root = recorded().root(text(&object, "apiVersion"), text(&object, "kind")).unwrap();
        replace_at(&mut object, &steps, value);
        if let Ok(mut once) = recorded().check(root, object) {
            recorded().apply_defaults(root, &mut once.object);
            let mut twice = recorded().check(root, once.object.clone()).unwrap();
            prop_assert!(twice.unknown.is_empty());
            recorded().apply_defaults(root, &mut twice.object);
            prop_assert_eq!(twice.object, once.object);
        }
    }
}
