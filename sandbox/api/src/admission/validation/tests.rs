use super::*;

const PLURAL: &str = "mutatingwebhookconfigurations";

fn problems(change: impl Fn(&mut Value)) -> Vec<String> {
    let mut webhook = json!({
        "name": "x.y.z",
        "clientConfig": { "url": "https://h.example/x" },
        "rules": [{
            "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
        }],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    change(&mut webhook);
    let configuration = json!({ "webhooks": [webhook] });
    configuration_problems(PLURAL, &configuration)
        .iter()
        .map(FieldError::text)
        .collect()
}

/// Returns the errors after setting the field at the pointer to this value.
fn with(pointer: &str, value: &Value) -> Vec<String> {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    problems(|webhook| webhook.pointer_mut(parent).unwrap()[field] = value.clone())
}

#[test]
fn valid_configuration_has_no_errors() {
    assert_eq!(problems(|_| {}), Vec::<String>::new());
}

#[allow(clippy::too_many_lines, reason = "a table of cases")]
#[test]
fn messages_match_a_real_server() {
    for (pointer, value, expected) in [
        (
            "/name",
            json!("a.b"),
            r#"webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots"#,
        ),
        ("/name", json!(""), "webhooks[0].name: Required value"),
        (
            "/clientConfig",
            json!({}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            "/clientConfig/service",
            json!({}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            "/clientConfig/url",
            json!("http://a/b"),
            r#"webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
        ),
        (
            "/clientConfig/url",
            json!("https:///b"),
            r#"webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]"#,
        ),
        (
            "/clientConfig/url",
            json!("https://u:p@a/b"),
            r#"webhooks[0].clientConfig.url: Invalid value: "u:p": user information is not permitted in the URL"#,
        ),
        (
            "/clientConfig/url",
            json!("https://a/b#c"),
            r#"webhooks[0].clientConfig.url: Invalid value: "c": fragments are not permitted in the URL"#,
        ),
        (
            "/clientConfig/url",
            json!("https://a/b?c=d"),
            r#"webhooks[0].clientConfig.url: Invalid value: "c=d": query parameters are not permitted in the URL"#,
        ),
        (
            "/clientConfig/url",
            json!("https://a b/%zz"),
            r#"webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse "https://a b/%zz": invalid character " " in host name; desired format: https://host[/path]"#,
        ),
        (
            "/clientConfig",
            json!({ "service": { "namespace": "b" } }),
            "webhooks[0].clientConfig.service.namespace: Required value",
        ),
        (
            "/clientConfig",
            json!({ "service": { "name": "b", "namespace": "c", "port": 70000 } }),
            "webhooks[0].clientConfig.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
        ),
        (
            "/clientConfig",
            json!({ "service": { "name": "b", "namespace": "c", "path": "//" } }),
            r#"webhooks[0].clientConfig.service.path: Invalid value: "//": segment[0] may not be empty"#,
        ),
        (
            "/sideEffects",
            json!(null),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (
            "/sideEffects",
            json!("Some"),
            r#"webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun""#,
        ),
        (
            "/admissionReviewVersions",
            json!([]),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            "/admissionReviewVersions",
            json!(["v2"]),
            r#"webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1"#,
        ),
        (
            "/admissionReviewVersions",
            json!(["v1", "v1"]),
            r#"webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version"#,
        ),
        (
            "/timeoutSeconds",
            json!(31),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            "/failurePolicy",
            json!("Maybe"),
            r#"webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore""#,
        ),
        (
            "/matchPolicy",
            json!("Maybe"),
            r#"webhooks[0].matchPolicy: Unsupported value: "Maybe": supported values: "Equivalent", "Exact""#,
        ),
        (
            "/reinvocationPolicy",
            json!("Maybe"),
            r#"webhooks[0].reinvocationPolicy: Unsupported value: "Maybe": supported values: "IfNeeded", "Never""#,
        ),
        (
            "/rules/0/operations",
            json!([]),
            "webhooks[0].rules[0].operations: Required value",
        ),
        (
            "/rules/0/operations",
            json!(["*", "CREATE"]),
            r#"webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations"#,
        ),
        (
            "/rules/0/operations",
            json!(["FLY"]),
            r#"webhooks[0].rules[0].operations[0]: Unsupported value: "FLY": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE""#,
        ),
        (
            "/rules/0/apiGroups",
            json!(["*", "a"]),
            r#"webhooks[0].rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups"#,
        ),
        (
            "/rules/0/resources",
            json!(["*", "pods"]),
            r#"webhooks[0].rules[0].resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources"#,
        ),
        (
            "/rules/0/resources",
            json!(["*/*", "pods"]),
            r#"webhooks[0].rules[0].resources: Invalid value: ["*/*","pods"]: if '*/*' is present, must not specify other resources"#,
        ),
        (
            "/rules/0/resources",
            json!(["pods/*", "pods/status"]),
            r#"webhooks[0].rules[0].resources[1]: Invalid value: "pods/status": if 'pods/*' is present, must not specify pods/status"#,
        ),
        (
            "/rules/0/scope",
            json!("Moon"),
            r#"webhooks[0].rules[0].scope: Unsupported value: "Moon": supported values: "*", "Cluster", "Namespaced""#,
        ),
        (
            "/matchConditions",
            json!([{"expression": "true"}]),
            "webhooks[0].matchConditions[0].name: Required value",
        ),
    ] {
        assert_eq!(with(pointer, &value), [expected], "{pointer} {value}");
    }
}

#[test]
fn all_errors_are_reported() {
    assert_eq!(
        with("/rules/0/apiVersions", &json!(["", "*"])),
        [
            r#"webhooks[0].rules[0].apiVersions: Invalid value: ["","*"]: if '*' is present, must not specify other API versions"#,
            "webhooks[0].rules[0].apiVersions[0]: Required value",
        ]
    );
    let path = json!({ "service": { "name": "b", "namespace": "c", "path": "x//y" } });
    assert_eq!(with("/clientConfig", &path).len(), 3);
    let selector = json!({ "matchExpressions": [{ "key": "a", "operator": "Foo" }] });
    assert_eq!(
        with("/namespaceSelector", &selector),
        [
            r#"webhooks[0].namespaceSelector.matchExpressions[0].operator: Invalid value: "Foo": not a valid selector operator"#
        ]
    );
}

#[test]
fn duplicate_names_are_rejected_and_malformed_input_never_panics() {
    let twice = json!({ "webhooks": [{ "name": "a.b.c" }, { "name": "a.b.c" }] });
    let errors = configuration_problems(PLURAL, &twice);
    let text = r#"webhooks[1].name: Duplicate value: "a.b.c""#;
    assert!(
        errors.iter().any(|error| error.text() == text),
        "{errors:?}"
    );
    for odd in [
        json!(null),
        json!({ "webhooks": [1, null, { "rules": [null, [], "x"] }] }),
    ] {
        configuration_problems(PLURAL, &odd);
    }
}
