//! `matchConditions`: expressions that decide if a webhook is called.

use http::Method;
use kopf_tests::{
    Api, ApiResponse,
    objects::config_map,
    webhook::{Verdict, Webhook, rule},
};
use serde_json::{Value, json};

fn conditions(expressions: &[&str]) -> Value {
    let numbered = expressions.iter().enumerate();
    numbered
        .map(|(index, expression)| json!({"name": format!("c{index}"), "expression": expression}))
        .collect()
}

/// Installs one hook for ConfigMaps per case: its name, its failure policy and its conditions.
async fn listen(api: &Api, cases: &[(&str, &str, &[&str])]) -> Webhook {
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let rules = [rule("", "v1", &["configmaps"], &["*"])];
    let hooks: Vec<Value> = cases
        .iter()
        .map(|(name, policy, expressions)| {
            let full_name = format!("{name}.conditions.example.com");
            let mut hook = webhook.hook(api, &full_name, &format!("/{name}"), &rules);
            hook["failurePolicy"] = json!(policy);
            hook["matchConditions"] = conditions(expressions);
            hook
        })
        .collect();
    webhook.validate_with(api, "conditions", &hooks).await;
    webhook
}

#[tokio::test]
async fn conditions_see_the_request() {
    let api = Api::start_with_rbac().await;
    let name = "object != null && object.metadata.name == 'a'";
    let cases: [(&str, &str, &[&str]); 8] = [
        (
            "authorizer",
            "Fail",
            &["authorizer.requestResource.check('get').allowed()"],
        ),
        ("both", "Fail", &[name, "request.operation == 'UPDATE'"]),
        ("created", "Fail", &["oldObject == null"]),
        ("key", "Fail", &["object.?data.?k.orValue('none') == 'v'"]),
        ("name", "Fail", &[name]),
        ("namespace", "Fail", &["namespaceObject == null"]),
        ("none", "Fail", &["oldObject.?data[?'k'].hasValue()"]),
        ("unnamed", "Fail", &["!has(request.name)"]),
    ];
    let webhook = listen(&api, &cases).await;
    let maps = api.ns_path("configmaps");
    api.create(&maps, &config_map("a", json!({"k": "v"})))
        .await
        .ok();
    assert_eq!(
        webhook.called(),
        ["/authorizer", "/created", "/key", "/name", "/namespace"]
    );
    let path = format!("{maps}/a");
    api.cached(&path).await;
    api.merge(&path, &json!({"data": {"k": "w"}})).await.ok();
    assert_eq!(
        webhook.called(),
        ["/authorizer", "/both", "/name", "/namespace", "/none"]
    );
    api.cached(&path).await;
    api.delete(&maps).await.ok();
    assert_eq!(
        webhook.called(),
        ["/authorizer", "/namespace", "/none", "/unnamed"]
    );
}

#[tokio::test]
async fn failing_conditions_follow_the_failure_policy() {
    let api = Api::start().await;
    let fails = "object.data.nope == 'x'";
    let cases: [(&str, &str, &[&str]); 4] = [
        ("always", "Fail", &["true"]),
        (
            "false",
            "Fail",
            &[
                "object.metadata.name != 'ignored' || object.data.nope == 'x'",
                "object.metadata.name != 'ignored'",
            ],
        ),
        ("ignored", "Ignore", &[fails]),
        (
            "twice",
            "Fail",
            &["object.metadata.name == 'ignored' ? false : object.data.nope == 'x'"],
        ),
    ];
    let webhook = listen(&api, &cases).await;
    let maps = api.ns_path("configmaps");
    api.create(&maps, &config_map("ignored", json!({"a": "b"})))
        .await
        .ok();
    assert_eq!(webhook.called(), ["/always"]);
    let refused = api
        .create(&maps, &config_map("one", json!({"a": "b"})))
        .await;
    let refused = refused.expect_failure(403, "Forbidden");
    assert_eq!(
        refused.message(),
        "configmaps \"one\" is forbidden: expression 'object.metadata.name == 'ignored' ? false : object.data.nope == 'x'' resulted in error: no such key: nope"
    );
}

#[tokio::test]
async fn equal_errors_are_reported_once() {
    let api = Api::start().await;
    let fails = "object.data.nope == 'x'";
    let webhook = listen(&api, &[("a", "Fail", &[fails, fails])]).await;
    let (maps, map) = (
        api.ns_path("configmaps"),
        config_map("one", json!({"a": "b"})),
    );
    let refused = api.create(&maps, &map).await;
    let refused = refused.expect_failure(403, "Forbidden");
    let text = format!(
        "configmaps \"one\" is forbidden: expression '{fails}' resulted in error: no such key: nope"
    );
    assert_eq!(refused.message(), text);
    assert!(webhook.called().is_empty());
}

#[tokio::test]
async fn conditions_share_a_budget() {
    let api = Api::start().await;
    let items: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let list = format!("[{}]", items.join(", "));
    let nested = ["a", "b", "c", "d", "e"]
        .iter()
        .rev()
        .fold("true".to_owned(), |inner, name| {
            format!("{list}.all({name}, {inner})")
        });
    let expensive: Vec<&str> = vec![&nested; 12];
    let webhook = listen(
        &api,
        &[("a", "Fail", &expensive), ("b", "Ignore", &expensive)],
    )
    .await;
    let (maps, map) = (
        api.ns_path("configmaps"),
        config_map("one", json!({"a": "b"})),
    );
    let refused = api.create(&maps, &map).await;
    let refused = refused.expect_failure(403, "Forbidden");
    assert_eq!(
        refused.message(),
        "configmaps \"one\" is forbidden: validation failed due to running out of cost budget, no further validation rules will be run"
    );
    assert!(webhook.called().is_empty());
}

#[tokio::test]
async fn conditions_see_the_version_of_the_rule() {
    let api = Api::start().await;
    let crd = api.crd().with_second_version().create().await;
    let rules = [rule(crd.group(), "v1", &["widgets"], &["*"])];
    let old = format!("object.apiVersion == '{}'", crd.api_version());
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let hook = |name: &str, expression: &str| {
        let full_name = format!("{name}.versions.example.com");
        let mut hook = webhook.hook(&api, &full_name, &format!("/{name}"), &rules);
        hook["matchConditions"] = conditions(&[expression]);
        hook
    };
    let hooks = [
        hook("object", &old),
        hook("kind", "request.kind.version == 'v1'"),
        hook("request", "request.requestKind.version == 'v2'"),
        hook("not", "request.kind.version == 'v2'"),
    ];
    webhook.validate_with(&api, "versions", &hooks).await;
    let path = api.group_path(&format!("{}/v2", crd.group()), "widgets");
    let mut object = crd.object("two", json!({"x": 1}));
    object["apiVersion"] = json!(format!("{}/v2", crd.group()));
    api.create(&path, &object).await.ok();
    assert_eq!(webhook.called(), ["/kind", "/object", "/request"]);
}

/// Creates a webhook configuration with one condition, and returns the response.
async fn configured(api: &Api, expression: &str) -> ApiResponse {
    let name = api.unique("conditions");
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1/x"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "matchConditions": conditions(&[expression]),
        }],
    });
    let request = api.request(Method::POST, &format!("{path}?dryRun=All"));
    request.json(&configuration).send().await
}

#[tokio::test]
async fn conditions_are_checked() {
    let api = Api::start().await;
    for (expression, shown, problem) in [
        (
            "object.data.k",
            "object.data.k",
            "must evaluate to bool but got dyn",
        ),
        ("  1  ", "1", "must evaluate to bool but got int"),
        ("null", "null", "must evaluate to bool but got null_type"),
        (
            "dyn(true)",
            "dyn(true)",
            "must evaluate to bool but got dyn",
        ),
    ] {
        let refused = configured(&api, expression).await;
        let refused = refused.expect_failure(422, "Invalid");
        let text = format!(
            "webhooks[0].matchConditions[0].expression: Invalid value: \"{shown}\": {problem}"
        );
        assert!(refused.message().ends_with(&text), "{}", refused.message());
    }
    let sum = format!("1{} > 0", " + 1".repeat(150));
    let list = format!("size([0{}]) > 0", ", 1".repeat(1_600));
    let long = format!("object.metadata.name != '{}'", "x".repeat(20_000));
    let literal = "namespaceObject == null || namespaceObject.metadata.name == 'x'";
    for expression in [&sum, &list, &long, literal] {
        configured(&api, expression).await.expect_code(201);
    }
}
