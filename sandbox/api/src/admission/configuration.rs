//! Webhook configurations, compiled for matching and calling.
//!
//! Configurations are validated before they get here. Absent fields have their defaults.

use std::sync::Arc;
use std::time::Duration;

use kopf_sandbox_schema::selectors::LabelSelector;
use serde_json::Value;

use super::calling::Remote;
use super::conditions::Conditions;
use super::matching::Operation;
use super::policies::Policies;

/// All webhooks of one sandbox. The set is rebuilt when a configuration changes.
#[derive(Debug, Clone, Default)]
pub struct Webhooks {
    /// In calling order: by the name of the configuration, then by position in it.
    pub(super) mutating: Vec<Arc<Webhook>>,
    pub(super) validating: Vec<Arc<Webhook>>,
    pub policies: Policies,
}

/// One webhook of one configuration.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent settings, each with two values"
)]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) remote: Remote,
    pub(super) rules: Vec<Rule>,
    /// `failurePolicy: Ignore`: requests pass if the webhook cannot be called.
    pub(super) ignores_failures: bool,
    /// `matchPolicy: Equivalent`: other versions of the same resource match.
    pub(super) matches_equivalent: bool,
    pub(super) namespaces: LabelSelector,
    pub(super) objects: LabelSelector,
    /// The webhook has no side effects and is called for dry runs.
    pub(super) allows_dry_run: bool,
    pub(super) review_version: Option<ReviewVersion>,
    /// `reinvocationPolicy: IfNeeded`: called again if later webhooks changed the object.
    pub(super) reinvoked: bool,
    pub(super) conditions: Conditions,
}

/// The server of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Url(String),
    Service {
        namespace: String,
        name: String,
        path: String,
        port: u16,
    },
}

/// The supported versions of `AdmissionReview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

/// One entry of `rules`: the requests for which a webhook is called.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// `None` matches all operations.
    pub(super) operations: Option<Vec<Operation>>,
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    /// `resource` or `resource/subresource`; each part can be `*`.
    pub(super) resources: Vec<(String, String)>,
    pub(super) scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    Cluster,
    Namespaced,
}

impl Webhooks {
    /// Reads all configurations. Their order does not matter.
    pub fn read(mutating: &[Value], validating: &[Value], policies: Policies) -> Self {
        Self {
            mutating: webhooks(mutating),
            validating: webhooks(validating),
            policies,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.policies.is_empty()
    }
}

fn webhooks(configurations: &[Value]) -> Vec<Arc<Webhook>> {
    let name = |object: &Value| text(object.pointer("/metadata/name"));
    let mut sorted: Vec<&Value> = configurations.iter().collect();
    sorted.sort_by_key(|configuration| name(configuration));
    sorted
        .into_iter()
        .flat_map(|configuration| list(configuration.get("webhooks")))
        .map(|webhook| Arc::new(Webhook::read(webhook)))
        .collect()
}

impl Webhook {
    pub(super) fn read(webhook: &Value) -> Self {
        let client = webhook.get("clientConfig").unwrap_or(&Value::Null);
        let is =
            |field: &str, wanted: &str| webhook.get(field).and_then(Value::as_str) == Some(wanted);
        let selector = |field: &str| {
            let selector = webhook.get(field).unwrap_or(&Value::Null);
            LabelSelector::from_object(selector, field).unwrap_or_default()
        };
        let timeout = webhook.get("timeoutSeconds").and_then(Value::as_u64);
        Self {
            name: text(webhook.get("name")),
            remote: Remote::read(client, Duration::from_secs(timeout.unwrap_or(10))),
            rules: list(webhook.get("rules")).iter().map(Rule::read).collect(),
            ignores_failures: is("failurePolicy", "Ignore"),
            matches_equivalent: !is("matchPolicy", "Exact"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            allows_dry_run: is("sideEffects", "None") || is("sideEffects", "NoneOnDryRun"),
            review_version: list(webhook.get("admissionReviewVersions"))
                .iter()
                .find_map(|version| match version.as_str()? {
                    "v1" => Some(ReviewVersion::V1),
                    "v1beta1" => Some(ReviewVersion::V1Beta1),
                    _ => None,
                }),
            reinvoked: is("reinvocationPolicy", "IfNeeded"),
            conditions: Conditions::read(webhook.get("matchConditions")),
        }
    }
}

impl Target {
    pub(super) fn read(client: &Value) -> Self {
        match client.get("service").filter(|service| service.is_object()) {
            None => Self::Url(text(client.get("url"))),
            Some(service) => Self::Service {
                namespace: text(service.get("namespace")),
                name: text(service.get("name")),
                path: text(service.get("path")),
                port: service
                    .get("port")
                    .and_then(Value::as_u64)
                    .and_then(|port| u16::try_from(port).ok())
                    .unwrap_or(443),
            },
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            list(rule.get(field))
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        let operations = texts("operations");
        let all = operations.iter().any(|operation| operation == "*");
        Self {
            operations: (!all).then(|| {
                operations
                    .iter()
                    .filter_map(|name| Operation::named(name))
                    .collect()
            }),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources")
                .into_iter()
                .map(|resource| match resource.split_once('/') {
                    Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
                    None => (resource, String::new()),
                })
                .collect(),
            scope: match rule.get("scope").and_then(Value::as_str) {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::All,
            },
        }
    }
}

pub(super) fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations_are_ordered_by_name_and_webhooks_as_listed() {
        let configuration = |name: &str, hooks: [&str; 2]| {
            json!({
                "metadata": { "name": name },
                "webhooks": [{ "name": hooks[0] }, { "name": hooks[1] }],
            })
        };
        let all = Webhooks::read(
            &[
                configuration("b", ["z", "y"]),
                configuration("a", ["x", "w"]),
            ],
            &[],
            Policies::default(),
        );
        let names: Vec<&str> = all
            .mutating
            .iter()
            .map(|webhook| webhook.name.as_str())
            .collect();
        assert_eq!(names, ["x", "w", "z", "y"]);
        assert!(!all.is_empty());
        assert!(Webhooks::default().is_empty());
    }

    #[test]
    fn malformed_configurations_have_defaults() {
        for odd in [
            json!(null),
            json!([]),
            json!({ "webhooks": [null, 1, { "rules": [0] }] }),
        ] {
            let all = Webhooks::read(
                std::slice::from_ref(&odd),
                std::slice::from_ref(&odd),
                Policies::default(),
            );
            for webhook in all.mutating {
                assert_eq!(webhook.remote.timeout, Duration::from_secs(10));
                assert!(!webhook.ignores_failures && webhook.matches_equivalent);
            }
        }
    }
}
