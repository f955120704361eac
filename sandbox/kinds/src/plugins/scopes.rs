//! Scopes of resource quotas: the pods that a quota counts.

use serde_json::Value;

use super::{items, text};

/// A condition for pods to be counted by a quota.
#[derive(Debug)]
pub(super) struct Scope {
    name: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In,
    NotIn,
}

impl Scope {
    /// Reads the scopes of a quota.
    pub(super) fn all(quota: &Value) -> Vec<Self> {
        let named = items(quota, "/spec/scopes")
            .filter_map(Value::as_str)
            .map(|name| Self {
                name: name.to_owned(),
                operator: Operator::Exists,
                values: Vec::new(),
            });
        let selected = items(quota, "/spec/scopeSelector/matchExpressions").map(|one| Self {
            name: text(one, "/scopeName").to_owned(),
            operator: match text(one, "/operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => Operator::Exists,
            },
            values: items(one, "/values")
                .filter_map(|value| Some(value.as_str()?.to_owned()))
                .collect(),
        });
        named.chain(selected).collect()
    }

    /// Returns `true` if a pod is in this scope.
    pub(super) fn matches(&self, pod: &Value) -> bool {
        let ends = pod
            .pointer("/spec/activeDeadlineSeconds")
            .is_some_and(Value::is_number);
        match self.name.as_str() {
            "Terminating" => ends,
            "NotTerminating" => !ends,
            "BestEffort" => is_best_effort(pod),
            "NotBestEffort" => !is_best_effort(pod),
            "CrossNamespacePodAffinity" => refers_to_other_namespaces(pod),
            "PriorityClass" => self.has_class(text(pod, "/spec/priorityClassName")),
            _ => false,
        }
    }

    fn has_class(&self, class: &str) -> bool {
        let listed = self.values.iter().any(|value| value == class);
        match self.operator {
            Operator::Exists => !class.is_empty(),
            Operator::DoesNotExist => class.is_empty(),
            Operator::In => listed,
            Operator::NotIn => !listed,
        }
    }
}

/// Returns `true` if a pod neither requests nor limits CPU or memory.
fn is_best_effort(pod: &Value) -> bool {
    let unlimited = |of: &Value| {
        ["requests", "limits"].iter().all(|field| {
            ["cpu", "memory"].iter().all(|name| {
                let amount = of.pointer(&format!("/resources/{field}/{name}"));
                amount.is_none_or(|amount| amount == "0")
            })
        })
    };
    let pod_level = pod.get("spec").is_none_or(&unlimited);
    pod_level
        && ["/spec/containers", "/spec/initContainers"]
            .into_iter()
            .flat_map(|field| items(pod, field))
            .all(unlimited)
}

fn refers_to_other_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        items(term, "/namespaces").next().is_some()
            || term
                .get("namespaceSelector")
                .is_some_and(|selector| !selector.is_null())
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|field| {
        let at = format!("/spec/affinity/{field}");
        let required = format!("{at}/requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = format!("{at}/preferredDuringSchedulingIgnoredDuringExecution");
        items(pod, &required).any(crosses)
            || items(pod, &preferred)
                .filter_map(|weighted| weighted.get("podAffinityTerm"))
                .any(crosses)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(spec: &Value, pod: &Value) -> bool {
        let quota = json!({ "spec": spec });
        Scope::all(&quota)
            .iter()
            .all(|scope| scope.matches(&json!({ "spec": pod })))
    }

    #[test]
    fn scopes_select_pods_by_deadline_resources_and_affinity() {
        let plain = json!({ "containers": [{ "name": "c" }] });
        let sized = json!({ "containers": [{ "resources": { "requests": { "cpu": "1" } } }] });
        let ending = json!({ "activeDeadlineSeconds": 5, "containers": [] });
        let near = json!({ "affinity": { "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{ "namespaces": ["other"] }],
        } } });
        for (scope, expected) in [
            ("BestEffort", [true, false, true, true]),
            ("NotBestEffort", [false, true, false, false]),
            ("Terminating", [false, false, true, false]),
            ("NotTerminating", [true, true, false, true]),
            ("CrossNamespacePodAffinity", [false, false, false, true]),
        ] {
            let quota = json!({ "scopes": [scope] });
            let found = [&plain, &sized, &ending, &near].map(|pod| matches(&quota, pod));
            assert_eq!(found, expected, "{scope}");
        }
    }

    #[test]
    fn scope_selectors_compare_priority_classes() {
        let high = json!({ "priorityClassName": "high" });
        let none = json!({});
        for (operator, values, expected) in [
            ("In", json!(["high"]), [true, false]),
            ("NotIn", json!(["high"]), [false, true]),
            ("Exists", json!([]), [true, false]),
            ("DoesNotExist", json!([]), [false, true]),
        ] {
            let quota = json!({ "scopeSelector": { "matchExpressions": [
                { "scopeName": "PriorityClass", "operator": operator, "values": values },
            ] } });
            let found = [&high, &none].map(|pod| matches(&quota, pod));
            assert_eq!(found, expected, "{operator}");
        }
    }
}
