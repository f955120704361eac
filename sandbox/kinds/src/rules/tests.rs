use serde_json::{Value, json};

use super::*;
use crate::builtin::builtin;
use crate::strategy::Strategy;

fn found(group: &str, plural: &str, object: &Value) -> Vec<String> {
    let kinds = builtin();
    let kind = kinds.by_plural(group, plural).unwrap();
    let mut errors = Vec::new();
    (Strategy::of(kind).check_spec)(object, &mut errors);
    errors.iter().map(FieldError::text).collect()
}

fn container() -> Value {
    json!({ "name": "c", "image": "i" })
}

#[test]
fn malformed_containers_are_rejected() {
    assert_eq!(
        found(
            "",
            "pods",
            &json!({ "spec": { "containers": [container()] } })
        ),
        [""; 0]
    );
    assert_eq!(
        found("", "pods", &json!({ "spec": {} })),
        ["spec.containers: Required value"]
    );
    let bad = json!({ "spec": {
        "containers": [
            { "name": "c", "image": "i", "volumeMounts": [{ "name": "v", "mountPath": "/x" }] },
            { "name": "c", "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1" } } },
        ],
        "volumes": [{ "name": "w" }],
    } });
    assert_eq!(
        found("", "pods", &bad),
        [
            "spec.volumes[0]: Required value: must specify a volume type",
            r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#,
            "spec.containers[1].image: Required value",
            r#"spec.containers[1].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#,
            r#"spec.containers[1].name: Duplicate value: "c""#,
        ]
    );
}

#[test]
fn hostname_overrides_and_sysctls_are_checked() {
    let pod = |more: Value| {
        let mut spec = json!({ "containers": [container()] });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        found("", "pods", &json!({ "spec": spec }))
    };
    assert_eq!(pod(json!({ "hostnameOverride": "a.b" })), [""; 0]);
    assert_eq!(
        pod(json!({ "hostnameOverride": "a", "hostNetwork": true })).len(),
        1
    );
    assert_eq!(pod(json!({ "hostnameOverride": "Not-RFC1123" })).len(), 1);
    let names = [
        "kernel.shm_rmid_forced",
        "foo-",
        "bar..",
        "kernel.shm_rmid_forced",
    ];
    let sysctls: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name, "value": "1" }))
        .collect();
    assert_eq!(
        pod(json!({ "securityContext": { "sysctls": sysctls } })).len(),
        3
    );
}

#[test]
fn selectors_select_the_pods_of_the_template() {
    let deployment = |selector: Value| {
        let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [container()] } });
        found(
            "apps",
            "deployments",
            &json!({ "spec": { "selector": selector, "template": template } }),
        )
    };
    assert_eq!(deployment(json!({ "matchLabels": { "a": "b" } })), [""; 0]);
    assert_eq!(
        deployment(json!({ "matchLabels": { "a": "c" } })),
        [
            r#"spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#
        ]
    );
    assert_eq!(
        deployment(json!({})),
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]
    );
    assert_eq!(
        deployment(Value::Null),
        [
            "spec.selector: Required value",
            r#"spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#,
        ]
    );
}

#[test]
fn pods_of_stateful_sets_can_mount_their_claim_templates() {
    let set = |volume: &str| {
        let mounts = json!([{ "name": volume, "mountPath": "/x" }]);
        let containers = json!([{ "name": "c", "image": "i", "volumeMounts": mounts }]);
        let volumes =
            json!([{ "name": "data", "emptyDir": {} }, { "name": "own", "emptyDir": {} }]);
        let object = json!({ "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "hostname": "A_b", "containers": containers, "volumes": volumes },
            },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" } }, { "metadata": { "name": "wal" } }],
        } });
        found("apps", "statefulsets", &object)
    };
    for volume in ["data", "wal", "own"] {
        assert_eq!(set(volume), [""; 0]);
    }
    assert_eq!(
        set("other"),
        [r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "other""#]
    );
}

#[test]
fn services_need_ports_unless_they_are_headless() {
    assert_eq!(
        found("", "services", &json!({ "spec": {} })),
        ["spec.ports: Required value"]
    );
    assert_eq!(
        found("", "services", &json!({ "spec": { "clusterIP": "None" } })),
        [""; 0]
    );
    let two = json!({ "spec": { "ports": [{ "port": 0, "name": "a" }, { "port": 80 }] } });
    assert_eq!(
        found("", "services", &two),
        [
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[1].name: Required value",
        ]
    );
}

#[test]
fn unknown_and_conflicting_quota_scopes_are_rejected() {
    let quota = |scopes: Value| {
        found(
            "",
            "resourcequotas",
            &json!({ "spec": { "scopes": scopes } }),
        )
        .len()
    };
    assert_eq!(quota(json!(["BestEffort", "NotTerminating"])), 0);
    assert_eq!(quota(json!(["Foo"])), 1);
    assert_eq!(quota(json!(["Terminating", "NotTerminating"])), 1);
}

#[test]
fn port_ranges_without_a_start_are_rejected() {
    let policy = |port: Value| {
        let egress = json!([{ "ports": [port] }]);
        found(
            "networking.k8s.io",
            "networkpolicies",
            &json!({ "spec": { "egress": egress } }),
        )
        .len()
    };
    assert_eq!(policy(json!({ "port": 80, "endPort": 90 })), 0);
    assert_eq!(policy(json!({ "endPort": 90 })), 1);
    assert_eq!(policy(json!({ "port": "web", "endPort": 90 })), 1);
    assert_eq!(policy(json!({ "port": 80, "endPort": 79 })), 1);
}

const RBAC: &str = "rbac.authorization.k8s.io";

#[test]
fn malformed_roles_are_rejected() {
    let rules = json!({ "rules": [
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": [] },
        { "verbs": ["get"] },
        { "nonResourceURLs": ["/x"], "resourceNames": ["x"], "verbs": ["get"] },
    ] });
    let common = [
        "rules[1].verbs: Required value: verbs must contain at least one value",
        "rules[2].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[2].resources: Required value: resource rules must supply at least one resource",
    ];
    let both = r#"rules[3].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#;
    let namespaced = r#"rules[3].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#;
    let expected = [&common[..], &[namespaced, both]].concat();
    assert_eq!(found(RBAC, "roles", &rules), expected);
    let expected = [&common[..], &[both]].concat();
    assert_eq!(found(RBAC, "clusterroles", &rules), expected);
    let empty = json!({ "aggregationRule": {} });
    assert_eq!(
        found(RBAC, "clusterroles", &empty),
        [
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
        ]
    );
}

#[test]
fn malformed_role_references_are_rejected() {
    for plural in ["rolebindings", "clusterrolebindings"] {
        let valid = json!({
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "view" },
            "subjects": [{ "kind": "User", "name": "ann", "apiGroup": RBAC }],
        });
        assert_eq!(found(RBAC, plural, &valid), [""; 0]);
        let expected = match plural {
            "rolebindings" => r#""Role", "ClusterRole""#,
            _ => r#""ClusterRole""#,
        };
        assert_eq!(
            found(RBAC, plural, &json!({})),
            [
                format!(r#"roleRef.kind: Unsupported value: "": supported values: {expected}"#),
                "roleRef.name: Required value".to_owned(),
            ]
        );
        let bad = json!({ "roleRef": { "apiGroup": "x", "kind": "ClusterRole", "name": "a/b" } });
        assert_eq!(
            found(RBAC, plural, &bad),
            [
                r#"roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                r#"roleRef.name: Invalid value: "a/b": may not contain '/'"#,
            ]
        );
    }
}

#[test]
fn malformed_subjects_are_rejected() {
    let binding = json!({
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "view" },
        "subjects": [
            { "kind": "X", "name": "a" },
            { "kind": "User" },
            { "kind": "Group", "name": "a", "apiGroup": "x" },
            { "kind": "ServiceAccount", "name": "A", "namespace": "n" },
            { "kind": "ServiceAccount", "name": "a", "namespace": "n", "apiGroup": "x" },
            { "kind": "ServiceAccount", "name": "a" },
        ],
    });
    let found = |plural: &str| -> Vec<String> {
        let errors = found(RBAC, plural, &binding).into_iter();
        errors.map(|text| text.chars().take(66).collect()).collect()
    };
    let mut expected = vec![
        r#"subjects[0].kind: Unsupported value: "X": supported values: "Servi"#,
        "subjects[1].name: Required value",
        r#"subjects[2].apiGroup: Unsupported value: "x": supported values: "r"#,
        r#"subjects[3].name: Invalid value: "A": a lowercase RFC 1123 subdoma"#,
        r#"subjects[4].apiGroup: Unsupported value: "x": supported values: """#,
    ];
    assert_eq!(found("rolebindings"), expected);
    expected.push("subjects[5].namespace: Required value");
    assert_eq!(found("clusterrolebindings"), expected);
}

#[test]
fn api_services_are_named_after_version_and_group() {
    let service = |name: &str, version: &str, group: &str| {
        let object = json!({
            "metadata": { "name": name }, "spec": { "version": version, "group": group },
        });
        found("apiregistration.k8s.io", "apiservices", &object)
    };
    assert_eq!(service("v1.", "v1", ""), [""; 0]);
    assert_eq!(service("v9.foo.io", "v9", "foo.io"), [""; 0]);
    assert_eq!(
        service("x", "v9", "foo.io"),
        [
            r#"metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v9.foo.io""#
        ]
    );
    assert_eq!(
        service("v9.", "v9", ""),
        [
            "spec.group: Required value: only v1 may have an empty group and it better be legacy kube"
        ]
    );
}
