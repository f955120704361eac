//! Permissions that a user has, as a `SelfSubjectRulesReview` lists them.

use serde::Deserialize;
use serde_json::Value;

use super::Permission;

/// The rules that apply to a user in one namespace. Those of the whole cluster are among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    rules: Vec<Grant>,
    completeness: Completeness,
}

/// The extent of a review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completeness {
    /// The listed rules are all granted ones.
    Complete,
    /// Other authorizers, such as webhooks, can grant more.
    #[default]
    Partial,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Grant {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

impl Grants {
    /// Reads a `SelfSubjectRulesReview` as returned by the server. Rules that cannot be read are left
    /// out, and make the review partial.
    ///
    /// ```
    /// use kopf_core::rights::{Completeness, Grants};
    /// use serde_json::json;
    ///
    /// let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]);
    /// let review = json!({"status": {"resourceRules": rules, "incomplete": false}});
    /// assert_eq!(Grants::of_review(&review).completeness(), Completeness::Complete);
    /// ```
    pub fn of_review(review: &Value) -> Self {
        let status = &review["status"];
        let listed = status["resourceRules"].as_array();
        let listed: &[Value] = listed.map_or(&[], Vec::as_slice);
        let rules: Vec<Grant> = listed
            .iter()
            .filter_map(|rule| Grant::deserialize(rule).ok())
            .collect();
        let error = status["evaluationError"].as_str().unwrap_or_default();
        let is_complete =
            status["incomplete"] == false && error.is_empty() && rules.len() == listed.len();
        let completeness = if is_complete {
            Completeness::Complete
        } else {
            Completeness::Partial
        };
        Self {
            rules,
            completeness,
        }
    }

    /// Returns the extent of the review.
    pub fn completeness(&self) -> Completeness {
        self.completeness
    }

    /// Returns `true` if a rule grants the permission in the namespace of the review.
    pub fn cover(&self, permission: &Permission) -> bool {
        self.rules.iter().any(|rule| rule.covers(permission))
    }
}

impl Grant {
    fn covers(&self, permission: &Permission) -> bool {
        let has = |values: &[String], wanted: &str| {
            values.iter().any(|value| value == "*" || value == wanted)
        };
        let names = &self.resource_names;
        let is_named = match &permission.name {
            _ if names.is_empty() => true,
            Some(name) => names.contains(name),
            None => false,
        };
        is_named
            && has(&self.verbs, &permission.verb)
            && has(&self.api_groups, &permission.group)
            && self.covers_resource(permission)
    }

    /// `*` covers subresources as well, `*/status` covers those of all resources.
    fn covers_resource(&self, permission: &Permission) -> bool {
        let any = permission
            .resource_parts()
            .1
            .map(|subresource| format!("*/{subresource}"));
        self.resources.iter().any(|resource| {
            resource == "*" || *resource == permission.resource || Some(resource) == any.as_ref()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::PermissionScope;
    use super::*;

    fn permission(verb: &str, resource: &str, name: Option<&str>) -> Permission {
        Permission {
            scope: PermissionScope::Cluster,
            group: "g".to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }

    fn covers(rule: &Value, permission: &Permission) -> bool {
        let review = json!({"status": {"resourceRules": [rule], "incomplete": false}});
        Grants::of_review(&review).cover(permission)
    }

    #[test]
    fn rules_match_as_in_the_authorizer() {
        let rule = |resource: &str| json!({"verbs": ["patch"], "apiGroups": ["g"], "resources": [resource]});
        for (resource, covered, others) in [
            ("things", "things", ["things/status", "*"]),
            (
                "things/status",
                "things/status",
                ["things", "others/status"],
            ),
            ("*/status", "things/status", ["things", "things/scale"]),
        ] {
            let rule = rule(resource);
            assert!(covers(&rule, &permission("patch", covered, None)), "{rule}");
            assert!(!covers(&rule, &permission("list", covered, None)), "{rule}");
            for other in others {
                assert!(!covers(&rule, &permission("patch", other, None)), "{rule}");
            }
        }
        let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        assert!(covers(
            &everything,
            &permission("patch", "things/status", None)
        ));
        let core = json!({"verbs": ["*"], "apiGroups": [""], "resources": ["*"]});
        assert!(!covers(&core, &permission("patch", "things", None)));
    }

    #[test]
    fn named_rules_cover_named_objects_only() {
        let rule = json!({"verbs": ["patch"], "apiGroups": ["g"], "resources": ["things"],
                          "resourceNames": ["x"]});
        assert!(covers(&rule, &permission("patch", "things", Some("x"))));
        assert!(!covers(&rule, &permission("patch", "things", Some("y"))));
        assert!(!covers(&rule, &permission("patch", "things", None)));
    }

    #[test]
    fn errors_make_a_review_partial() {
        for status in [
            json!({"resourceRules": [], "incomplete": true}),
            json!({"resourceRules": [], "incomplete": false, "evaluationError": "no role"}),
            json!({"resourceRules": [{"verbs": 5}], "incomplete": false}),
            json!({}),
        ] {
            let grants = Grants::of_review(&json!({"status": status}));
            assert_eq!(grants.completeness(), Completeness::Partial, "{status}");
        }
        let status = json!({"resourceRules": [], "incomplete": false});
        let grants = Grants::of_review(&json!({"status": status}));
        assert_eq!(grants.completeness(), Completeness::Complete);
    }
}
