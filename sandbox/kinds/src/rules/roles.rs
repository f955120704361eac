//! Roles and bindings.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::names;
use serde_json::{Value, json};

use super::{field, items, text};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks the rules of a role. Roles in a namespace have no rules about URLs.
pub(crate) fn check_role(plural: &str, role: &Value, errors: &mut Vec<FieldError>) {
    if plural == "clusterroles"
        && field(role, "aggregationRule").is_object()
        && items(field(role, "aggregationRule"), "clusterRoleSelectors").is_empty()
    {
        errors.push(FieldError::required(
            "aggregationRule.clusterRoleSelectors",
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        ));
    }
    for (index, rule) in items(role, "rules").iter().enumerate() {
        check_rule(plural, rule, &format!("rules[{index}]"), errors);
    }
}

fn check_rule(plural: &str, rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let is_empty = |name: &str| items(rule, name).is_empty();
    let mut require = |name: &str, why: &str| {
        if is_empty(name) {
            errors.push(FieldError::required(format!("{path}.{name}"), why));
        }
    };
    require("verbs", "verbs must contain at least one value");
    if is_empty("nonResourceURLs") {
        let why = "resource rules must supply at least one api group";
        require("apiGroups", why);
        require(
            "resources",
            "resource rules must supply at least one resource",
        );
        return;
    }
    let mut reject = |why: &str| {
        let urls = field(rule, "nonResourceURLs");
        let at = format!("{path}.nonResourceURLs");
        errors.push(FieldError::invalid(at, urls, why));
    };
    if plural == "roles" {
        reject("namespaced rules cannot apply to non-resource URLs");
    }
    if !["apiGroups", "resources", "resourceNames"]
        .into_iter()
        .all(is_empty)
    {
        reject("rules cannot apply to both regular resources and non-resource URLs");
    }
}

/// Checks the role and the subjects of a binding.
pub(crate) fn check_binding(plural: &str, binding: &Value, errors: &mut Vec<FieldError>) {
    let role = field(binding, "roleRef");
    if !["", GROUP].contains(&text(role, "apiGroup")) {
        let group = field(role, "apiGroup");
        errors.push(FieldError::not_supported(
            "roleRef.apiGroup",
            group,
            &[GROUP],
        ));
    }
    let kinds: &[&str] = match plural {
        "clusterrolebindings" => &["ClusterRole"],
        _ => &["Role", "ClusterRole"],
    };
    let kind = text(role, "kind");
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(
            "roleRef.kind",
            &json!(kind),
            kinds,
        ));
    }
    let name = text(role, "name");
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    for problem in names::path_segment(name) {
        errors.push(FieldError::invalid("roleRef.name", &json!(name), &problem));
    }
    for (index, subject) in items(binding, "subjects").iter().enumerate() {
        check_subject(plural, subject, &format!("subjects[{index}]"), errors);
    }
}

fn check_subject(plural: &str, subject: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (kind, name) = (text(subject, "kind"), text(subject, "name"));
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    // The group of users has a default.
    let groups: &[&str] = match kind {
        "ServiceAccount" => &[""],
        "User" | "Group" => &["", GROUP],
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            let at = format!("{path}.kind");
            errors.push(FieldError::not_supported(at, &json!(kind), &kinds));
            return;
        }
    };
    if kind == "ServiceAccount" && !name.is_empty() {
        for problem in names::subdomain(name) {
            let at = format!("{path}.name");
            errors.push(FieldError::invalid(at, &json!(name), &problem));
        }
    }
    let group = text(subject, "apiGroup");
    if !groups.contains(&group) {
        let supported = groups.last().map_or(&[] as &[&str], std::slice::from_ref);
        let at = format!("{path}.apiGroup");
        errors.push(FieldError::not_supported(at, &json!(group), supported));
    }
    let is_placed = plural == "rolebindings" || !text(subject, "namespace").is_empty();
    if kind == "ServiceAccount" && !is_placed {
        errors.push(FieldError::required(format!("{path}.namespace"), ""));
    }
}
