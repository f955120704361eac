//! The resource rules and selectors of policies and of their bindings.

use serde_json::{Value, json};

use super::configuration::{Webhook, list, text};
use super::policies::Facts;
use crate::status::Result;

/// The requests to which a policy or binding applies.
#[derive(Debug)]
pub(super) struct Constraints {
    /// One matcher per rule, with the resource names it is restricted to.
    rules: Vec<(Webhook, Vec<String>)>,
    excluded: Vec<(Webhook, Vec<String>)>,
    /// There are no rules: only the selectors apply.
    any_resource: bool,
    selectors: Webhook,
}

impl Constraints {
    pub(super) fn read(resources: &Value) -> Self {
        let with_rules = |rules: Value| {
            Webhook::read(&json!({
                "rules": rules,
                "namespaceSelector": resources.get("namespaceSelector"),
                "objectSelector": resources.get("objectSelector"),
                "matchPolicy": resources.get("matchPolicy"),
            }))
        };
        let read = |field: &str| -> Vec<(Webhook, Vec<String>)> {
            list(resources.get(field))
                .iter()
                .map(|rule| {
                    let names = list(rule.get("resourceNames"));
                    let names = names.iter().map(|name| text(Some(name))).collect();
                    (with_rules(json!([rule])), names)
                })
                .collect()
        };
        let everything = json!([{
            "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
            "scope": "*",
        }]);
        Self {
            any_resource: list(resources.get("resourceRules")).is_empty(),
            rules: read("resourceRules"),
            excluded: read("excludeResourceRules"),
            selectors: with_rules(everything),
        }
    }

    pub(super) fn concerns(&self, facts: &Facts<'_>) -> Result<bool> {
        let any = |rules: &[(Webhook, Vec<String>)]| -> Result<bool> {
            for (matcher, names) in rules {
                let named = names.is_empty() || names.iter().any(|it| it == facts.attributes.name);
                if named && facts.matches(matcher)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if any(&self.excluded)? {
            return Ok(false);
        }
        if self.any_resource {
            return facts.matches(&self.selectors);
        }
        any(&self.rules)
    }
}
