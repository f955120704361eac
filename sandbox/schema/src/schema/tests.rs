//! Comparison with responses of a real server, and property tests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Structural;

/// Responses of a Kubernetes 1.36 server to creations of objects with one field of the given
/// schema.
const RECORDED: &str = include_str!("recorded.json");

/// The same for updates of objects, some of which were invalid before.
const RECORDED_UPDATES: &str = include_str!("recorded_updates.json");

fn around(name: &str, schema: &Value) -> Structural {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {name: schema}},
    }});
    Structural::compile(&schema).unwrap()
}

fn causes(errors: &[crate::field_error::FieldError]) -> Vec<String> {
    let mut causes: Vec<String> = errors
        .iter()
        .map(|error| error.cause().to_string())
        .collect();
    causes.sort();
    causes
}

#[test]
fn responses_match_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    let mut failures = Vec::new();
    let mut count = 0;
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let structural = around(name, &case["schema"]);
        for answer in case["answers"].as_array().unwrap() {
            count += 1;
            let mut object = json!({
                "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x"},
                "spec": {name: answer["value"]},
            });
            structural.default(&mut object);
            let warnings: Vec<String> = structural
                .prune(&mut object)
                .iter()
                .map(|path| format!("unknown field {path:?}"))
                .collect();
            let found = causes(&structural.validate(&object, None).errors);
            let mut expected: Vec<String> = answer["causes"]
                .as_array()
                .into_iter()
                .flatten()
                .map(Value::to_string)
                .collect();
            expected.sort();
            let what = format!("{name} with {}", answer["value"]);
            if found != expected {
                failures.push(format!("{what}:\n  ours {found:#?}\n  real {expected:#?}"));
            }
            // Normalising `1.0` to `1` is done by the decoder of requests.
            let stored = object["spec"].get(name).map(|value| match value.as_f64() {
                Some(float) if float.fract() == 0.0 && value.is_f64() && float.abs() < 1e15 => {
                    format!("{float}").parse().unwrap()
                }
                _ => value.clone(),
            });
            let stored = stored.as_ref();
            if expected.is_empty() && stored != answer.get("stored") {
                failures.push(format!(
                    "{what}: stored as {stored:?}, not {:?}",
                    answer.get("stored")
                ));
            }
            let real = answer.get("warnings").cloned().unwrap_or_else(|| json!([]));
            if json!(warnings) != real {
                failures.push(format!("{what}: warnings {warnings:?}, not {real}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(count > 250, "only {count} responses");
}

#[test]
fn update_errors_match_a_real_server() {
    let recorded: Value = serde_json::from_str(RECORDED_UPDATES).unwrap();
    let structural = Structural::compile(&recorded["schema"]).unwrap();
    for answer in recorded["answers"].as_array().unwrap() {
        let (old, mut new) = (&answer["old"], answer["new"].clone());
        structural.prune(&mut new);
        let errors = if answer["status"] == true {
            structural.validate_status(&new, old).errors
        } else {
            structural.validate(&new, Some(old)).errors
        };
        let real = answer["causes"].as_array().into_iter().flatten();
        let mut expected: Vec<String> = real.map(Value::to_string).collect();
        expected.sort();
        assert_eq!(causes(&errors), expected, "{}", answer["name"]);
    }
}

/// Random combinations of parts of schemas, structural or not.
fn schemas() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "minLength": 2, "pattern": "^a|b$"})),
        Just(json!({"type": "string", "format": "date-time", "nullable": true})),
        Just(json!({"type": "string", "default": "a", "enum": ["a", "b", null]})),
        Just(json!({"type": "integer", "minimum": 0.5, "multipleOf": 2, "default": 4})),
        Just(json!({"type": "integer", "format": "int32", "exclusiveMaximum": true, "maximum": 3})),
        Just(json!({"type": "number", "multipleOf": 0.1})),
        Just(json!({"type": "boolean", "default": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({})),
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        let properties = prop::collection::btree_map("[a-d]", inner.clone(), 0..4);
        let extra = prop_oneof![
            Just(json!({})),
            Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
            Just(json!({"x-kubernetes-embedded-resource": true})),
            Just(json!({"required": ["a"], "minProperties": 1, "maxProperties": 2})),
            Just(json!({"default": {}, "nullable": true})),
        ];
        let list = prop_oneof![
            Just(json!({})),
            Just(json!({"x-kubernetes-list-type": "set", "maxItems": 2})),
            Just(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})),
            Just(json!({"uniqueItems": true, "minItems": 1})),
        ];
        let with = |mut schema: Value, more: Value| {
            if let (Value::Object(schema), Value::Object(more)) = (&mut schema, more) {
                schema.extend(more);
            }
            schema
        };
        prop_oneof![
            (properties, extra.clone()).prop_map(move |(properties, extra)| with(
                json!({"type": "object", "properties": properties}),
                extra
            )),
            (inner.clone(), extra).prop_map(move |(values, extra)| with(
                json!({"type": "object", "additionalProperties": values}),
                extra
            )),
            any::<bool>().prop_map(|flag| json!({"type": "object", "additionalProperties": flag})),
            (inner.clone(), list).prop_map(move |(items, list)| with(
                json!({"type": "array", "items": items}),
                list
            )),
            (
                inner.clone(),
                inner.clone(),
                prop_oneof!["allOf", "anyOf", "oneOf"].boxed()
            )
                .prop_map(|(a, b, key)| json!({key: [a, b]})),
            inner.prop_map(|schema| json!({"not": schema})),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..10).prop_map(Value::from),
        prop_oneof![Just(0.3), Just(1.5), Just(2.0), Just(1e300), Just(-1e-9)]
            .prop_map(Value::from),
        prop_oneof![Just(u64::MAX), Just(1 << 63)].prop_map(Value::from),
        "[ab]{0,3}|2024-01-01T00:00:00Z|\\PC{0,4}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]|kind|metadata", inner, 0..4)
                .prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn traversals_are_idempotent_and_never_panic(schema in schemas(), value in values(), old in values()) {
        let structural = Structural::compile(&schema).unwrap();
        let mut object = value;
        structural.default(&mut object);
        structural.prune(&mut object);
        let once = object.clone();
        prop_assert_eq!(structural.prune(&mut object), Vec::<String>::new());
        prop_assert_eq!(&object, &once);
        structural.default(&mut object);
        prop_assert_eq!(&object, &once);

        let errors = structural.validate(&object, None).errors;
        prop_assert_eq!(&errors, &structural.validate(&object, None).errors);
        structural.validate(&object, Some(&old));
        structural.validate_status(&object, &old);
    }

    #[test]
    fn unchanged_invalid_objects_are_tolerated(schema in schemas(), value in values()) {
        let node = super::node::compile(&schema).unwrap();
        let errors = super::validate::validate(&node, &value, Some(&value), "");
        prop_assert!(errors.is_empty(), "{:?}", errors);
    }

    #[test]
    fn compiling_random_schemas_never_panics(schema in values()) {
        let _ = Structural::compile(&json!({"type": schema, "properties": schema, "items": schema}));
        let _ = super::structural(super::Source::new(&schema), "s");
        let _ = super::defaults(super::Source::new(&schema), "s");
    }
}
