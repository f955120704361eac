use serde_json::json;

use super::*;

fn rights() -> Rights {
    let of = |kind: &str| -> Vec<Value> {
        let all = defaults().iter().filter(|object| object["kind"] == kind);
        all.cloned().collect()
    };
    let mut bindings = of("RoleBinding");
    bindings.push(json!({
        "metadata": {"name": "b", "namespace": "ns"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [
            {"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "bot"},
        ],
    }));
    Rights::read(&Sources {
        cluster_roles: of("ClusterRole"),
        roles: of("Role"),
        cluster_bindings: of("ClusterRoleBinding"),
        bindings,
    })
}

fn access<'a>(verb: &'a str, resource: &'a str, namespace: Option<&'a str>) -> Action<'a> {
    Action::Resource(Access {
        verb,
        resource,
        namespace,
        ..Access::default()
    })
}

#[test]
fn bindings_grant_the_rules_of_aggregated_roles() {
    let rights = rights();
    let ann = UserInfo::new("ann", ["system:authenticated"]);
    let bot = UserInfo::of_service_account("ns", "bot", "");
    for user in [&ann, &bot] {
        assert!(
            rights
                .allows(user, access("create", "pods", Some("ns")))
                .is_some()
        );
        assert!(
            rights
                .allows(user, access("list", "configmaps", Some("ns")))
                .is_some()
        );
        assert!(
            rights
                .allows(user, access("create", "pods", Some("other")))
                .is_none()
        );
        assert!(rights.allows(user, access("list", "pods", None)).is_none());
        assert!(
            rights
                .allows(user, access("create", "roles", Some("ns")))
                .is_none()
        );
    }
    let url = Action::Url {
        verb: "get",
        path: "/api/v1",
    };
    assert!(rights.allows(&ann, url).is_some());
    let url = Action::Url {
        verb: "get",
        path: "/metrics",
    };
    assert!(rights.allows(&ann, url).is_none());
    assert!(rights.allows(&UserInfo::administrator(), url).is_some());
}

#[test]
fn roles_that_aggregate_each_other_are_resolved_once() {
    let role = |number: usize| {
        json!({
            "metadata": {"name": format!("role-{number}"), "labels": {"a": "b"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
            "rules": [{"apiGroups": [""], "resources": [number.to_string()], "verbs": ["get"]}],
        })
    };
    let sources = Sources {
        cluster_roles: (0..100).map(role).collect(),
        ..Sources::default()
    };
    assert_eq!(sources.aggregated(&role(5)).len(), 100);
}

#[test]
fn names_and_subresources_limit_a_rule() {
    let rule = Rule::read(&json!({
        "verbs": ["get"], "apiGroups": [""], "resources": ["pods/log", "secrets"],
        "resourceNames": ["a"],
    }));
    let action = |resource, subresource, name| {
        Action::Resource(Access {
            verb: "get",
            resource,
            subresource,
            name,
            ..Access::default()
        })
    };
    assert!(rule.allows(action("secrets", "", "a")));
    assert!(!rule.allows(action("secrets", "", "b")));
    assert!(!rule.allows(action("secrets", "", "")));
    assert!(rule.allows(action("pods", "log", "a")));
    assert!(!rule.allows(action("pods", "", "a")));
    assert!(!rule.allows(action("secrets", "status", "a")));
}

#[test]
fn escalation_is_detected() {
    let rights = rights();
    let ann = UserInfo::new("ann", Vec::<String>::new());
    let rule = |resource: &str, verb: &str| {
        Rule::read(&json!({"verbs": [verb], "apiGroups": [""], "resources": [resource]}))
    };
    assert!(
        rights
            .missing(&ann, Some("ns"), &[rule("pods", "get")])
            .is_empty()
    );
    assert_eq!(
        rights
            .missing(&ann, Some("ns"), &[rule("nodes", "get")])
            .len(),
        1
    );
    assert_eq!(
        rights
            .missing(&ann, Some("other"), &[rule("pods", "get")])
            .len(),
        1
    );
    assert_eq!(
        rule("nodes", "get").shown(),
        r#"{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}"#
    );
}
