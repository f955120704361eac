//! The budget of validation rules.

use kopf_tests::Api;
use serde_json::{Value, json};

fn rule(expression: &str) -> Value {
    json!([{"rule": expression}])
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
