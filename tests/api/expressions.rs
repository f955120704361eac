//! Expressions in CEL: results, errors and static types.

use kopf_tests::Api;
use serde_json::{Value, json};

/// Number of rules of one CRD. The estimated cost of all rules of a CRD is limited.
const BATCH: usize = 25;

/// Returns a schema with fields of all types.
fn spec(rules: &[Value]) -> Value {
    let text = json!({"type": "string", "maxLength": 50});
    let number = json!({"type": "integer"});
    let list = |items: &Value| json!({"type": "array", "maxItems": 6, "items": items});
    let set = || {
        let mut set = list(&text);
        set["x-kubernetes-list-type"] = json!("set");
        set
    };
    let keyed = || {
        let item = json!({
            "type": "object", "required": ["name"], "properties": {"name": text, "v": number},
        });
        let mut keyed = list(&item);
        keyed["x-kubernetes-list-type"] = json!("map");
        keyed["x-kubernetes-list-map-keys"] = json!(["name"]);
        keyed
    };
    let map = |values: &Value| json!({"type": "object", "maxProperties": 6, "additionalProperties": values});
    let object = json!({"type": "object", "properties": {"a": number, "b": number}});
    json!({
        "type": "object", "x-kubernetes-validations": rules,
        "properties": {
            "i": number, "n": {"type": "number"}, "s": text, "missing": text, "type": text,
            "li": list(&number), "ls": list(&text), "empty": list(&number),
            "set": set(), "set2": set(), "ml": keyed(), "ml2": keyed(),
            "m": map(&number), "mm": map(&text), "o": object, "o2": object,
            "pu": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "dt": {"type": "string", "format": "date-time"},
            "d": {"type": "string", "format": "date"},
            "du": {"type": "string", "format": "duration"},
            "by": {"type": "string", "format": "byte", "maxLength": 50},
            "ios": {"x-kubernetes-int-or-string": true, "maxLength": 20},
            "ios2": {"x-kubernetes-int-or-string": true, "maxLength": 20},
            "nul": {"type": "string", "nullable": true, "maxLength": 5},
            "dash-name": number, "in": number, "a__b": number, "a.b": number, "a/b": number,
            "namespace": number, "if": number, "name": text, "q": text,
        },
    })
}

fn values() -> Value {
    json!({
        "i": 5, "n": 1.5, "s": "héllo", "type": "t", "name": "nm", "q": "1Gi",
        "li": [1, 2, 3], "ls": ["a", "b"], "empty": [], "set": ["a", "b"], "set2": ["b", "a"],
        "ml": [{"name": "a", "v": 1}, {"name": "b", "v": 2}],
        "ml2": [{"name": "b", "v": 2}, {"name": "a", "v": 1}],
        "m": {"a": 1, "b": 2}, "mm": {"a": "x"}, "o": {"a": 1}, "o2": {"a": 1, "b": 2},
        "pu": {"anything": 1}, "dt": "2020-02-03T04:05:06.789Z", "d": "2020-02-03", "du": "1h30m",
        "by": "aGVsbG8=", "ios": "50%", "ios2": 5, "nul": null, "dash-name": 2, "in": 1, "a__b": 3,
        "a.b": 4, "a/b": 5, "namespace": 6, "if": 8,
    })
}

/// Returns a table of `expressions.yaml`: expressions, and their errors if they have some.
fn recorded(table: &str) -> Vec<(String, String)> {
    let tables: Value = serde_saphyr::from_str(include_str!("expressions.yaml")).unwrap();
    let rows = tables[table].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rows.iter()
        .map(|row| match row {
            Value::String(expression) => (expression.clone(), String::new()),
            pair => (text(&pair[0]), text(&pair[1])),
        })
        .collect()
}

/// Creates an object of a CRD with these rules, and returns the messages of all errors.
async fn errors(expressions: &[(String, String)]) -> Vec<String> {
    let api = Api::start().await;
    let rules = expressions.iter().enumerate();
    let rules: Vec<Value> = rules
        .map(|(index, (rule, _))| json!({"rule": rule, "message": format!("<{index}>")}))
        .collect();
    let crd = api.crd().spec_schema(spec(&rules)).create().await;
    let created = api.create(&crd.path(), &crd.object("one", values())).await;
    let causes = created.json["details"]["causes"].as_array();
    let messages = causes
        .into_iter()
        .flatten()
        .map(|cause| cause["message"].as_str());
    messages
        .map(|message| message.unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn expressions_have_the_results_of_a_real_server() {
    for batch in recorded("holding").chunks(BATCH) {
        let errors = errors(batch).await;
        assert_eq!(errors, Vec::<String>::new(), "{batch:#?}");
    }
    let violated = recorded("violated");
    let errors = errors(&violated).await;
    let expected = (0..violated.len()).map(|index| format!("Invalid value: <{index}>"));
    assert_eq!(errors, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn failing_expressions_have_the_errors_of_a_real_server() {
    for batch in recorded("failing").chunks(BATCH) {
        let errors = errors(batch).await;
        for (index, (expression, expected)) in batch.iter().enumerate() {
            let expected = format!("Invalid value: \"object\": {expected}<{index}>");
            assert!(
                errors.contains(&expected),
                "{expression}: {expected} in {errors:#?}"
            );
        }
    }
}

#[tokio::test]
async fn ill_typed_expressions_are_rejected() {
    let api = Api::start().await;
    for batch in recorded("ill_typed").chunks(BATCH) {
        let rules: Vec<Value> = batch
            .iter()
            .map(|(rule, _)| json!({"rule": rule}))
            .collect();
        let definition = api.crd().spec_schema(spec(&rules)).definition().clone();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let refused = api.create(path, &definition).await;
        let refused = refused.expect_failure(422, "Invalid");
        let causes = refused.json["details"]["causes"].as_array().unwrap();
        for (index, (expression, expected)) in batch.iter().enumerate() {
            let rule = format!("x-kubernetes-validations[{index}].rule");
            let expected = format!("compilation failed: ERROR: <input>:{expected}\n");
            let found = causes.iter().any(|cause| {
                let (field, message) = (cause["field"].as_str(), cause["message"].as_str());
                field.is_some_and(|field| field.ends_with(&rule))
                    && message.is_some_and(|message| message.contains(&expected))
            });
            assert!(found, "{expression}: {expected} in {causes:#?}");
        }
    }
}
