//! Comparison with responses of a real server to CRDs of all sorts.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    conditions, default, kind, prepare_create, prepare_update, validate, validate_update, warnings,
};

/// Responses of a Kubernetes 1.36 server to creations of CRDs.
const RECORDED: &str = include_str!("recorded.json");

#[test]
fn responses_match_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    let mut failures = Vec::new();
    for case in &cases {
        let name = &case["name"];
        let mut crd = case["crd"].clone();
        default(&mut crd);
        prepare_create(&mut crd);
        let mut found: Vec<String> = validate(&crd)
            .iter()
            .map(|error| error.cause().to_string())
            .collect();
        found.sort();
        let real = case["causes"].as_array().into_iter().flatten();
        let mut expected: Vec<String> = real.map(Value::to_string).collect();
        expected.sort();
        if found != expected {
            failures.push(format!("{name}:\n  ours {found:#?}\n  real {expected:#?}"));
        }
        if !expected.is_empty() {
            continue;
        }
        if case["spec"] != crd["spec"] {
            failures.push(format!(
                "{name}: spec {}, not {}",
                crd["spec"], case["spec"]
            ));
        }
        let told = warnings(&crd, None);
        let real = case.get("warnings").cloned().unwrap_or_else(|| json!([]));
        if json!(told) != real {
            failures.push(format!("{name}: warnings {told:?}, not {real}"));
        }
    }
    let count = cases.len();
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(count > 100, "only {count} responses");
}

fn established() -> Value {
    let mut crd = json!({
        "metadata": {"name": "things.g.io"},
        "spec": {
            "group": "g.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    default(&mut crd);
    prepare_create(&mut crd);
    assert_eq!(validate(&crd), []);
    crd["status"] = conditions(&crd, [].iter(), "2026-01-02T03:04:05Z");
    crd
}

#[test]
fn immutable_fields_of_crds_cannot_change() {
    let old = established();
    let texts = |pointer: &str, value: Value| -> Vec<String> {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value;
        prepare_update(&mut new, &old);
        validate_update(&new, &old)
            .iter()
            .map(crate::field_error::FieldError::text)
            .collect()
    };
    let cases = [
        (
            "/spec/scope",
            "Cluster",
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
        ),
        (
            "/spec/names/kind",
            "Foo",
            "spec.names.kind: Invalid value: \"Foo\": field is immutable",
        ),
        (
            "/spec/names/plural",
            "foos",
            "spec.names.plural: Invalid value: \"foos\": field is immutable",
        ),
        (
            "/spec/group",
            "x.y",
            "spec.group: Invalid value: \"x.y\": field is immutable",
        ),
        (
            "/spec/versions/0/name",
            "v2",
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a \
             storage version, and must remain in spec.versions until a storage migration ensures no data \
             remains persisted in v1 and removes v1 from status.storedVersions",
        ),
    ];
    for (pointer, value, expected) in cases {
        assert_eq!(texts(pointer, value.into()), [expected]);
    }
    assert_eq!(texts("/spec/names/listKind", "FooList".into()), [""; 0]);
}

#[test]
fn names_can_change_before_they_are_accepted() {
    let mut old = established();
    old["status"]["conditions"] = json!([]);
    let mut new = old.clone();
    new["spec"]["names"]["kind"] = "Foo".into();
    new["spec"]["scope"] = "Cluster".into();
    assert_eq!(validate_update(&new, &old), []);
}

proptest! {
    #[test]
    fn random_crds_never_panic(mut crd in anything(), other in anything()) {
        let _ = validate(&crd);
        default(&mut crd);
        prepare_update(&mut crd, &other);
        let _ = validate_update(&crd, &other);
        prepare_create(&mut crd);
        let _ = validate(&crd);
        let _ = warnings(&crd, Some(&other));
        let _ = kind(&crd, 1, None);
        if crd.is_object() {
            crd["status"] = conditions(&crd, [&other].into_iter(), "2026-01-02T03:04:05Z");
            let again = conditions(&crd, [].iter(), "2026-01-02T03:04:06Z");
            prop_assert_eq!(again["storedVersions"].clone(), crd["status"]["storedVersions"].clone());
        }
    }
}

/// CRDs with values of wrong types.
fn anything() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        Just(json!(null)),
        Just(json!("x")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, 1, {"name": 1}])),
        Just(json!({"openAPIV3Schema": {"type": ["x"], "properties": [], "items": 1}})),
        Just(json!([{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "default": 1, "properties": {"a": null}}},
            "subresources": {"scale": 1, "status": []}, "selectableFields": [{"jsonPath": ".a.b"}],
        }])),
        Just(json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": []}}})),
        Just(json!({"plural": "x", "kind": "X", "shortNames": [1, "a"]})),
    ];
    prop::collection::btree_map(
        "group|scope|names|versions|conversion",
        part.clone(),
        0..6,
    )
    .prop_flat_map(move |spec| (Just(spec), part.clone(), part.clone()))
    .prop_map(|(spec, metadata, status)| {
        json!({"metadata": metadata, "spec": spec, "status": {"conditions": status}})
    })
}
