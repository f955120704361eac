//! `x-kubernetes-validations`: validation rules of CRDs in CEL.

use kopf_tests::{Api, Crd};
use serde_json::{Value, json};

fn rule(expression: &str) -> Value {
    json!([{"rule": expression}])
}

fn spec() -> Value {
    json!({
        "type": "object",
        "properties": {
            "min": {"type": "integer"},
            "max": {"type": "integer"},
            "name": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self.startsWith('a')"},
                {"rule": "self.size() < 5", "message": "too long", "reason": "FieldValueForbidden"},
            ]},
            "items": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"},
                    "value": {"type": "integer", "x-kubernetes-validations": rule("self >= oldSelf")},
                }},
            },
            "map": {"type": "object", "additionalProperties": {
                "type": "integer", "x-kubernetes-validations": rule("self > 0"),
            }},
            "when": {
                "type": "string", "format": "date-time",
                "x-kubernetes-validations": rule("self.getFullYear() >= 2020"),
            },
            "wait": {
                "type": "string", "format": "duration",
                "x-kubernetes-validations": rule("self < duration('1h')"),
            },
            "fixed": {"type": "string", "x-kubernetes-validations": [{
                "rule": "!oldSelf.hasValue() || oldSelf.value() == self",
                "optionalOldSelf": true, "message": "is immutable",
            }]},
            "a-b": {"type": "string"},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max"},
            {
                "rule": "self.?a__dash__b.orValue('') != 'bad'",
                "messageExpression": "'must not be ' + self.a__dash__b", "fieldPath": ".a-b",
            },
        ],
    })
}

async fn widgets(api: &Api) -> Crd<'_> {
    api.crd().spec_schema(spec()).create().await
}

#[tokio::test]
async fn valid_objects_are_stored() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    let spec = json!({
        "min": 1, "max": 2, "name": "abc", "map": {"a": 1}, "when": "2021-01-01T00:00:00Z",
        "wait": "5m", "fixed": "x", "a-b": "good", "items": [{"name": "x", "value": 1}],
    });
    let created = api.create(&crd.path(), &crd.object("one", spec)).await;
    let created = created.expect_code(201);
    assert_eq!(created.warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn each_violated_rule_is_reported_with_its_path() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    for (spec, field, reason, message) in [
        (
            json!({"min": 3, "max": 2}),
            "spec",
            "FieldValueInvalid",
            "Invalid value: failed rule: !has(self.min) || !has(self.max) || self.min <= self.max",
        ),
        (
            json!({"name": "xyz"}),
            "spec.name",
            "FieldValueInvalid",
            "Invalid value: \"xyz\": failed rule: self.startsWith('a')",
        ),
        (
            json!({"name": "abcdef"}),
            "spec.name",
            "FieldValueForbidden",
            "Forbidden: too long",
        ),
        (
            json!({"map": {"k": 0}}),
            "spec.map[k]",
            "FieldValueInvalid",
            "Invalid value: 0: failed rule: self > 0",
        ),
        (
            json!({"a-b": "bad"}),
            "spec.a-b",
            "FieldValueInvalid",
            "Invalid value: must not be bad",
        ),
        (
            json!({"when": "2019-01-01T00:00:00Z"}),
            "spec.when",
            "FieldValueInvalid",
            "Invalid value: \"2019-01-01T00:00:00Z\": failed rule: self.getFullYear() >= 2020",
        ),
        (
            json!({"wait": "2h"}),
            "spec.wait",
            "FieldValueInvalid",
            "Invalid value: \"2h\": failed rule: self < duration('1h')",
        ),
    ] {
        let refused = api.create(&crd.path(), &crd.object("one", spec)).await;
        let refused = refused.expect_failure(422, "Invalid");
        assert_eq!(refused.causes(), [(reason, field)]);
        assert_eq!(refused.details()["causes"][0]["message"], message);
    }
}

#[tokio::test]
async fn transition_rules_compare_with_the_old_value() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    let items =
        json!({"items": [{"name": "x", "value": 5}, {"name": "y", "value": 1}], "fixed": "a"});
    crd.created("one", items).await;
    let path = crd.path_of("one");
    let items = |items: Value| json!({"spec": {"items": items}});
    let less = items(json!([{"name": "y", "value": 2}, {"name": "x", "value": 4}]));
    let refused = api.merge(&path, &less).await.expect_failure(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [("FieldValueInvalid", "spec.items[1].value")]
    );
    let other = items(json!([{"name": "y", "value": 2}, {"name": "z", "value": 0}]));
    api.merge(&path, &other).await.ok();
    let fixed = |value: Value| json!({"spec": {"fixed": value}});
    let refused = api.merge(&path, &fixed(json!("b"))).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(
        refused.details()["causes"][0]["message"],
        "Invalid value: \"b\": is immutable"
    );
    api.merge(&path, &fixed(Value::Null)).await.ok();
    api.merge(&path, &fixed(json!("b"))).await.ok();
}

#[tokio::test]
async fn rules_are_not_checked_on_objects_of_wrong_types() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    let object = crd.object("one", json!({"min": "x", "name": "zzz"}));
    let refused = api
        .create(&crd.path(), &object)
        .await
        .expect_failure(422, "Invalid");
    assert!(
        refused
            .message()
            .contains("some validation rules were not checked"),
        "{}",
        refused.message()
    );
    assert!(
        !refused.message().contains("startsWith"),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn unchanged_values_may_violate_new_rules() {
    let api = Api::start().await;
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "string"},
    }});
    let crd = api.crd().spec_schema(schema).create().await;
    crd.created("one", json!({"a": "bad"})).await;
    let mut changed = api.get(&crd.definition_path()).await.json;
    let a = changed
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a")
        .unwrap();
    a["x-kubernetes-validations"] = rule("self != 'bad'");
    api.put(&crd.definition_path(), &changed).await.ok();
    kopf_tests::eventually("the rule to be in force", async || {
        let other = crd.object("two", json!({"a": "bad"}));
        let response = api
            .create(&format!("{}?dryRun=All", crd.path()), &other)
            .await;
        (response.code == 422).then_some(())
    })
    .await;
    let path = crd.path_of("one");
    let kept = api.merge(&path, &json!({"spec": {"b": "1"}})).await.ok();
    assert_eq!(
        kept.warnings(),
        ["spec.a: Invalid value: \"bad\": failed rule: self != 'bad'"]
    );
    api.merge(&path, &json!({"spec": {"a": "good"}})).await.ok();
    let back = api.merge(&path, &json!({"spec": {"a": "bad"}})).await;
    back.expect_failure(422, "Invalid");
}

#[tokio::test]
async fn crds_with_invalid_rules_are_rejected() {
    let api = Api::start().await;
    for (expression, part) in [
        ("self.x ==", "Syntax error"),
        ("self.y == 1", "undefined field 'y'"),
        ("foo == 1", "undeclared reference to 'foo'"),
        ("self.l.all(i, i.q == '')", "undefined field 'q'"),
        ("nofunc(self.x)", "undeclared reference to 'nofunc'"),
        ("self.x", "cel expression must evaluate to a bool"),
    ] {
        let schema = json!({
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "l": {"type": "array", "maxItems": 5, "items": {
                    "type": "object", "properties": {"n": {"type": "string", "maxLength": 5}},
                }},
            },
            "x-kubernetes-validations": rule(expression),
        });
        let definition = api.crd().spec_schema(schema).definition().clone();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let refused = api.create(path, &definition).await;
        let refused = refused.expect_failure(422, "Invalid");
        let field =
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
        assert_eq!(
            refused.causes()[0],
            ("FieldValueInvalid", field),
            "{expression}"
        );
        assert!(refused.message().contains(part), "{}", refused.message());
    }
}

#[tokio::test]
async fn items_without_keys_have_no_transition_rules() {
    let api = Api::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for list_type in ["map", "atomic", "set"] {
        let item = json!({
            "type": "object", "x-kubernetes-map-type": "atomic", "required": ["k"],
            "properties": {"k": {"type": "string", "maxLength": 5}},
            "x-kubernetes-validations": rule("self == oldSelf"),
        });
        let mut list = json!({
            "type": "array", "maxItems": 5, "items": item, "x-kubernetes-list-type": list_type,
        });
        if list_type == "map" {
            list["x-kubernetes-list-map-keys"] = json!(["k"]);
        }
        let schema = json!({"type": "object", "properties": {"l": list}});
        let definition = api.crd().spec_schema(schema).definition().clone();
        let response = api.create(&format!("{path}?dryRun=All"), &definition).await;
        if list_type == "map" {
            response.expect_code(201);
            continue;
        }
        let refused = response.expect_failure(422, "Invalid");
        let list = "spec.validation.openAPIV3Schema.properties[spec].properties[l]";
        let text = format!(
            "{list}.items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
        );
        assert!(refused.message().contains(&text), "{}", refused.message());
    }
}

#[tokio::test]
async fn rules_share_a_budget() {
    let api = Api::start().await;
    // Few long rules: a real server compiles all of them several times.
    let numbers = |rules: Value| {
        json!({
            "type": "array", "maxItems": 300, "items": {"type": "integer"},
            "x-kubernetes-validations": rules,
        })
    };
    let schema = |rules: Value| {
        json!({
            "type": "object",
            "properties": {"l": numbers(rules), "z": {"type": "integer", "x-kubernetes-validations": rule("self < 5")}},
        })
    };
    let expensive = json!({"rule": "self.all(x, self.all(y, x >= 0 || y >= 0))"});
    let crd = api
        .crd()
        .spec_schema(schema(json!(vec![expensive; 36])))
        .create()
        .await;
    let list: Vec<u32> = (0..300).collect();
    let object = crd.object("one", json!({"l": list, "z": 1}));
    let mut refused = api.create(&crd.path(), &object).await;
    // A busy machine may not finish within the time limit of the server.
    for _ in 0..10 {
        if refused.code == 504 {
            refused = api.create(&crd.path(), &object).await;
        }
    }
    let refused = refused.expect_failure(422, "Invalid");
    let problem = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert!(refused.message().contains(problem), "{}", refused.message());
}
