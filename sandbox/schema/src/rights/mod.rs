//! Role-based access control: roles, bindings, and the resulting rights.
//!
//! The module is pure: rights are recomputed from the stored roles and bindings whenever one of
//! them changes. The owner of the sandbox decides if requests are checked.

mod defaults;
mod rule;
#[cfg(test)]
mod tests;
mod user;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::defaults::defaults;
pub use self::rule::{Access, Action, Rule};
pub use self::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo};
use crate::object::meta;
use crate::selectors::LabelSelector;

/// The rights of all users.
#[derive(Debug, Default)]
pub struct Rights {
    grants: Vec<Grant>,
}

/// The rights at one moment, or none if requests are not checked.
#[derive(Debug, Clone, Default)]
pub struct Authorizer(pub Option<Arc<Rights>>);

impl Authorizer {
    /// Returns the reason why an action is allowed, or `None` if it is not.
    pub fn allows(&self, user: &UserInfo, action: Action<'_>) -> Option<String> {
        match &self.0 {
            Some(rights) => rights.allows(user, action),
            None => Some("RBAC is disabled in this sandbox".to_owned()),
        }
    }
}

impl PartialEq for Authorizer {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref().map(Arc::as_ptr) == other.0.as_ref().map(Arc::as_ptr)
    }
}

impl Eq for Authorizer {}

/// A binding with the rules of its role.
#[derive(Debug)]
struct Grant {
    /// `None`: in all namespaces.
    namespace: Option<String>,
    subjects: Vec<Subject>,
    rules: Vec<Rule>,
    /// The binding and its role, for the reasons in reviews.
    shown: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

/// The stored roles and bindings.
#[derive(Debug, Default)]
pub struct Sources {
    pub cluster_roles: Vec<Value>,
    pub roles: Vec<Value>,
    pub(crate) cluster_bindings: Vec<Value>,
    pub bindings: Vec<Value>,
}

impl Sources {
    /// Returns the rules of the role that a binding refers to, or `None` if it does not exist.
    pub fn rules_of(&self, binding: &Value) -> Option<Vec<Rule>> {
        let name = binding.pointer("/roleRef/name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        match binding.pointer("/roleRef/kind").and_then(Value::as_str) {
            Some("ClusterRole") => self
                .cluster_roles
                .iter()
                .find(|role| meta::name(role) == name)
                .map(|role| self.aggregated(role)),
            _ => self
                .roles
                .iter()
                .find(|role| {
                    meta::name(role) == name && meta::namespace(role) == meta::namespace(binding)
                })
                .map(rules),
        }
    }

    /// Returns the rules of a cluster role and of those that it aggregates, directly or indirectly.
    /// Roles can aggregate each other, so each one is visited once.
    pub fn aggregated(&self, role: &Value) -> Vec<Rule> {
        let mut all = Vec::new();
        let mut visited = HashSet::new();
        let mut pending = vec![role];
        while let Some(role) = pending.pop() {
            if !visited.insert(meta::name(role)) {
                continue;
            }
            all.extend(rules(role));
            let selectors = selectors(role);
            let aggregates = |other: &&Value| {
                let labels = meta::labels(other);
                !visited.contains(meta::name(other))
                    && selectors.iter().any(|selector| selector.matches(labels))
            };
            pending.extend(self.cluster_roles.iter().rev().filter(aggregates));
        }
        all
    }
}

/// Returns the selectors of the roles that a cluster role aggregates. Invalid ones are skipped.
fn selectors(role: &Value) -> Vec<LabelSelector> {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    let selectors = selectors.and_then(Value::as_array).into_iter().flatten();
    selectors
        .filter_map(|selector| LabelSelector::from_object(selector, "aggregationRule").ok())
        .collect()
}

/// Returns the role's own rules.
pub fn rules(role: &Value) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().map(Rule::read).collect()
}

impl Rights {
    pub fn read(sources: &Sources) -> Self {
        let bindings = [
            ("RoleBinding", &sources.bindings),
            ("ClusterRoleBinding", &sources.cluster_bindings),
        ];
        let mut grants = Vec::new();
        for (kind, bindings) in bindings {
            for binding in bindings {
                let text = |pointer: &str| {
                    binding
                        .pointer(pointer)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                };
                let name = match meta::namespace(binding) {
                    Some(namespace) => format!("{}/{namespace}", meta::name(binding)),
                    None => meta::name(binding).to_owned(),
                };
                let (role_kind, role) = (text("/roleRef/kind"), text("/roleRef/name"));
                grants.push(Grant {
                    namespace: meta::namespace(binding).map(str::to_owned),
                    subjects: subjects(binding),
                    rules: sources.rules_of(binding).unwrap_or_default(),
                    shown: format!("{kind} {name:?} of {role_kind} {role:?}"),
                });
            }
        }
        Self { grants }
    }

    /// Returns the reason why an action is allowed, or `None` if it is not.
    pub fn allows(&self, user: &UserInfo, action: Action<'_>) -> Option<String> {
        if user.is_master() {
            return Some(String::new());
        }
        let namespace = match action {
            Action::Resource(access) => access.namespace,
            Action::Url { .. } => None,
        };
        self.grants
            .iter()
            .filter(|grant| grant.applies(namespace))
            .find_map(|grant| {
                let subject = grant.subject(user)?;
                grant
                    .rules
                    .iter()
                    .any(|rule| rule.allows(action))
                    .then(|| format!("RBAC: allowed by {} to {subject}", grant.shown))
            })
    }

    /// Returns all rules that a user has in a namespace.
    pub fn of(&self, user: &UserInfo, namespace: Option<&str>) -> Vec<&Rule> {
        self.grants
            .iter()
            .filter(|grant| grant.applies(namespace) && grant.subject(user).is_some())
            .flat_map(|grant| &grant.rules)
            .collect()
    }

    /// Returns the rights that a user would grant without having them.
    pub fn missing(&self, user: &UserInfo, namespace: Option<&str>, granted: &[Rule]) -> Vec<Rule> {
        let own = self.of(user, namespace);
        let mut missing = Vec::new();
        for rule in granted {
            let lacking = |right: &Rule| !own.iter().any(|rule| rule.covers(right));
            if rule.single().iter().any(lacking) && !missing.contains(rule) {
                missing.push(rule.clone());
            }
        }
        missing
    }

    /// Returns the status of a `SelfSubjectRulesReview`.
    pub fn review(&self, user: &UserInfo, namespace: &str) -> Value {
        let (mut resources, mut urls) = (Vec::new(), Vec::new());
        for rule in self.of(user, Some(namespace)) {
            if rule.urls.is_empty() {
                let mut shown = json!({
                    "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources,
                });
                if !rule.names.is_empty() {
                    shown["resourceNames"] = json!(rule.names);
                }
                resources.push(shown);
            } else {
                urls.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.urls }));
            }
        }
        json!({ "resourceRules": resources, "nonResourceRules": urls, "incomplete": false })
    }
}

/// Returns the message of a denied access.
pub fn rejection(user: &str, action: Action<'_>) -> String {
    match action {
        Action::Url { verb, path } => format!("User {user:?} cannot {verb} path {path:?}"),
        Action::Resource(access) => {
            let resource = match access.subresource {
                "" => access.resource.to_owned(),
                subresource => format!("{}/{subresource}", access.resource),
            };
            let place = match access.namespace {
                Some(namespace) => format!("in the namespace {namespace:?}"),
                None => "at the cluster scope".to_owned(),
            };
            format!(
                "User {user:?} cannot {} resource {resource:?} in API group {:?} {place}",
                access.verb, access.group
            )
        }
    }
}

/// Returns the message about rights that a user would grant without having them.
pub fn escalation(user: &UserInfo, missing: &[Rule]) -> String {
    let groups: Vec<String> = user
        .groups
        .iter()
        .map(|group| format!("{group:?}"))
        .collect();
    let rules: Vec<String> = missing.iter().map(Rule::shown).collect();
    format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.username,
        groups.join(" "),
        rules.join("\n")
    )
}

impl Grant {
    fn applies(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }

    /// Returns the subject of the binding that matches the user.
    fn subject(&self, user: &UserInfo) -> Option<String> {
        self.subjects.iter().find_map(|subject| match subject {
            Subject::User(name) if *name == user.username => Some(format!("User {name:?}")),
            Subject::Group(name) if user.groups.contains(name) => Some(format!("Group {name:?}")),
            Subject::ServiceAccount { namespace, name }
                if user.username == format!("system:serviceaccount:{namespace}:{name}") =>
            {
                Some(format!("ServiceAccount \"{name}/{namespace}\""))
            }
            _ => None,
        })
    }
}

fn subjects(binding: &Value) -> Vec<Subject> {
    let subjects = binding.get("subjects").and_then(Value::as_array);
    let read = |subject: &Value| {
        let text = |field: &str| {
            let text = subject.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        match text("kind").as_str() {
            "User" => Some(Subject::User(text("name"))),
            "Group" => Some(Subject::Group(text("name"))),
            "ServiceAccount" => {
                let given = text("namespace");
                let own = meta::namespace(binding).unwrap_or_default().to_owned();
                Some(Subject::ServiceAccount {
                    namespace: if given.is_empty() { own } else { given },
                    name: text("name"),
                })
            }
            _ => None,
        }
    };
    subjects.into_iter().flatten().filter_map(read).collect()
}

/// Returns all roles and bindings by their plurals. `list` returns the stored ones of a plural.
pub fn sources(list: impl Fn(&str) -> Vec<Value>) -> Sources {
    Sources {
        cluster_roles: list("clusterroles"),
        roles: list("roles"),
        cluster_bindings: list("clusterrolebindings"),
        bindings: list("rolebindings"),
    }
}

/// Returns the plurals of the kinds that define rights.
pub fn plurals() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("ClusterRole", "clusterroles"),
        ("ClusterRoleBinding", "clusterrolebindings"),
        ("Role", "roles"),
        ("RoleBinding", "rolebindings"),
    ])
}
