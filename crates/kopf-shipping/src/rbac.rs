//! Service accounts, roles and bindings.

use std::collections::BTreeSet;

use kopf_core::rights::{PermissionScope, Requirements, Rule, rules, to_yaml};

use crate::Identity;
use crate::yaml::quoted;

/// Returns the service account, the roles and the bindings of an operator as YAML documents.
/// Remarks are comments at the beginning.
pub fn rbac(identity: &Identity, requirements: &Requirements) -> String {
    remarks(requirements) + &documents(identity, requirements).join("---\n")
}

/// Returns the remarks as YAML comments.
pub(crate) fn remarks(requirements: &Requirements) -> String {
    let remarks = requirements.remarks.iter();
    let lines: Vec<_> = remarks
        .map(|remark| format!("# Note: {remark}.\n"))
        .collect();
    lines.concat()
}

/// Returns the YAML documents.
pub(crate) fn documents(identity: &Identity, requirements: &Requirements) -> Vec<String> {
    let mut documents = vec![service_account(identity)];
    for (scope, rules) in rules(&requirements.permissions) {
        documents.push(role(identity, &scope, &rules));
        documents.push(binding(identity, &scope));
    }
    documents
}

/// Returns the YAML documents of a template with the roles of one of two operators, by a condition.
pub(crate) fn alternatives(
    identity: &Identity,
    condition: &str,
    then: &Requirements,
    otherwise: &Requirements,
) -> Vec<String> {
    let (then, otherwise) = (rules(&then.permissions), rules(&otherwise.permissions));
    let mut documents = vec![service_account(identity)];
    let scopes: BTreeSet<_> = then.keys().chain(otherwise.keys()).collect();
    for scope in scopes {
        let binding = binding(identity, scope);
        let role = |rules: &Vec<Rule>| role(identity, scope, rules);
        match (then.get(scope).map(role), otherwise.get(scope).map(role)) {
            (Some(first), Some(second)) if first == second => documents.extend([first, binding]),
            (Some(first), Some(second)) => documents.extend([
                format!(
                    "{{{{- if {condition} }}}}\n{first}{{{{- else }}}}\n{second}{{{{- end }}}}\n"
                ),
                binding,
            ]),
            (Some(first), None) => documents.push(format!(
                "{{{{- if {condition} }}}}\n{first}---\n{binding}{{{{- end }}}}\n"
            )),
            (None, Some(second)) => documents.push(format!(
                "{{{{- if not {condition} }}}}\n{second}---\n{binding}{{{{- end }}}}\n"
            )),
            (None, None) => {}
        }
    }
    documents
}

fn service_account(identity: &Identity) -> String {
    format!(
        "apiVersion: v1\n\
         kind: ServiceAccount\n\
         metadata:\n  \
           name: {}\n  \
           namespace: {}\n",
        quoted(&identity.name),
        quoted(&identity.namespace),
    )
}

fn role(identity: &Identity, scope: &PermissionScope, rules: &[Rule]) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: {}Role\n\
         {}\
         rules:\n{}",
        prefix(scope),
        metadata(identity, scope),
        to_yaml(rules, 2),
    )
}

fn binding(identity: &Identity, scope: &PermissionScope) -> String {
    let prefix = prefix(scope);
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: {prefix}RoleBinding\n\
         {}\
         roleRef:\n  \
           apiGroup: rbac.authorization.k8s.io\n  \
           kind: {prefix}Role\n  \
           name: {role}\n\
         subjects:\n  \
           - kind: ServiceAccount\n    \
             name: {name}\n    \
             namespace: {}\n",
        metadata(identity, scope),
        quoted(&identity.namespace),
        role = quoted(&role_name(identity, scope)),
        name = quoted(&identity.name),
    )
}

fn prefix(scope: &PermissionScope) -> &'static str {
    match scope {
        PermissionScope::Cluster => "Cluster",
        PermissionScope::Namespace(_) => "",
    }
}

/// Returns the name of a role and its binding. Operators with the same name in different namespaces
/// have different cluster roles.
fn role_name(identity: &Identity, scope: &PermissionScope) -> String {
    match scope {
        PermissionScope::Cluster => format!("{}:{}", identity.namespace, identity.name),
        PermissionScope::Namespace(_) => identity.name.clone(),
    }
}

fn metadata(identity: &Identity, scope: &PermissionScope) -> String {
    let name = quoted(&role_name(identity, scope));
    let name = format!("metadata:\n  name: {name}\n");
    match scope {
        PermissionScope::Cluster => name,
        PermissionScope::Namespace(namespace) => {
            format!("{name}  namespace: {}\n", quoted(namespace))
        }
    }
}

#[cfg(test)]
mod tests {
    use kopf_core::rights::{Permission, Remark};
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_place_has_a_role_and_a_binding() {
        let permission = |scope| Permission {
            scope,
            group: "g".to_owned(),
            resource: "things".to_owned(),
            name: None,
            verb: "list".to_owned(),
        };
        let scopes = [
            PermissionScope::Cluster,
            PermissionScope::Namespace("a".to_owned()),
        ];
        let requirements = Requirements {
            permissions: scopes.map(permission).into(),
            remarks: [Remark::UnmanagedWebhooks].into(),
            owners: [].into(),
            scopes: Vec::new(),
        };
        let identity = Identity::new("op", "ops").unwrap();
        let text = rbac(&identity, &requirements);
        assert!(
            text.starts_with("# Note: there are admission handlers"),
            "{text}"
        );
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let kinds: Vec<_> = objects
            .iter()
            .map(|object| object["kind"].as_str())
            .collect();
        let expected = [
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
        ];
        assert_eq!(kinds, expected.map(Some));
        assert_eq!(objects[1]["metadata"]["name"], "ops:op");
        assert_eq!(objects[2]["roleRef"]["name"], "ops:op");
        assert_eq!(objects[3]["metadata"]["name"], "op");
        assert_eq!(objects[3]["metadata"]["namespace"], "a");
        assert_eq!(objects[4]["subjects"][0]["namespace"], "ops");
        assert_eq!(objects[1]["rules"][0]["resources"][0], "things");
    }
}
