//! From permissions to the rules of roles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Permission, PermissionScope};

/// A rule of a Role or ClusterRole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API group; empty for the core group.
    pub group: String,
    /// Plural names, with subresources.
    pub resources: BTreeSet<String>,
    /// Names of objects; empty for all objects.
    pub names: BTreeSet<String>,
    /// The verbs.
    pub verbs: BTreeSet<String>,
}

/// Joins permissions into rules, by scope. The order of rules follows from the permissions alone.
pub fn rules<'a>(
    permissions: impl IntoIterator<Item = &'a Permission>,
) -> BTreeMap<PermissionScope, Vec<Rule>> {
    let mut verbs: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for permission in permissions {
        let Permission {
            scope,
            group,
            resource,
            name,
            verb,
        } = permission;
        let subject = (scope, group, resource, name);
        verbs.entry(subject).or_default().insert(verb.clone());
    }
    let mut joined: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for ((scope, group, resource, name), verbs) in verbs {
        let rule = (scope, group, name, verbs);
        joined.entry(rule).or_default().insert(resource.clone());
    }
    let mut rules: BTreeMap<PermissionScope, Vec<Rule>> = BTreeMap::new();
    for ((scope, group, name, verbs), resources) in joined {
        rules.entry(scope.clone()).or_default().push(Rule {
            group: group.clone(),
            resources,
            names: name.iter().cloned().collect(),
            verbs,
        });
    }
    rules
}

/// Returns the rules as items of a YAML sequence with this indentation.
pub fn to_yaml(rules: &[Rule], indentation: usize) -> String {
    let mut text = String::new();
    let indent = " ".repeat(indentation);
    for rule in rules {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{indent}- apiGroups: [{}]", quoted([&rule.group]));
        let _ = writeln!(text, "{indent}  resources: [{}]", quoted(&rule.resources));
        if !rule.names.is_empty() {
            let _ = writeln!(text, "{indent}  resourceNames: [{}]", quoted(&rule.names));
        }
        let _ = writeln!(text, "{indent}  verbs: [{}]", quoted(&rule.verbs));
    }
    text
}

/// JSON strings are YAML strings.
fn quoted<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts = texts.into_iter();
    let texts: Vec<_> = texts
        .map(|text| serde_json::Value::from(text.as_str()).to_string())
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(resource: &str, verb: &str, name: Option<&str>) -> Permission {
        Permission {
            scope: PermissionScope::Cluster,
            group: "g".to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }

    #[test]
    fn resources_with_the_same_verbs_share_a_rule() {
        let permissions = [
            permission("b", "list", None),
            permission("a", "watch", None),
            permission("a", "list", None),
            permission("b", "watch", None),
            permission("c", "patch", Some("x")),
        ];
        let rules = rules(&permissions);
        assert_eq!(
            to_yaml(&rules[&PermissionScope::Cluster], 2),
            "  - apiGroups: [\"g\"]\n    resources: [\"a\", \"b\"]\n    verbs: [\"list\", \"watch\"]\n  \
             - apiGroups: [\"g\"]\n    resources: [\"c\"]\n    resourceNames: [\"x\"]\n    verbs: [\"patch\"]\n"
        );
    }

    #[test]
    fn each_place_has_its_own_rules() {
        let mut namespaced = permission("a", "list", None);
        namespaced.scope = PermissionScope::Namespace("ns".to_owned());
        let rules = rules(&[permission("a", "list", None), namespaced]);
        assert_eq!(rules.len(), 2);
    }
}
