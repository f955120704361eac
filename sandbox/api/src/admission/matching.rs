//! Matching of requests to webhooks.

use std::sync::Arc;

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::rights::Authorizer;
use kopf_sandbox_schema::rights::UserInfo;
use serde_json::{Value, json};

use super::conditions::{self, Match};
use super::configuration::{Rule, Scope, Webhook, Webhooks};
use crate::status::{ApiError, Reason, Result};

/// The operation of a request, in the terms of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|operation| operation.name() == name)
    }
}

/// The attributes of a request, without the object.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    pub operation: Operation,
    pub kind: &'a Arc<Kind>,
    /// The API version of the request.
    pub version: &'a str,
    pub subresource: Option<&'a str>,
    /// Empty for the objects of a deleted collection.
    pub name: &'a str,
    pub namespace: Option<&'a str>,
    /// `metadata.labels` of the namespace (an object, or null if it has none); `None` if the
    /// namespace does not exist.
    pub(crate) namespace_labels: Option<&'a Value>,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: Value,
    pub(crate) dry_run: bool,
    pub user: &'a UserInfo,
    /// The rights of users, for expressions.
    pub(crate) authorizer: Authorizer,
}

impl Attributes<'_> {
    fn is_namespace(&self) -> bool {
        self.kind.group.is_empty() && &*self.kind.plural == "namespaces"
    }

    /// Returns the namespace for admission. A Namespace object counts as being in itself.
    pub(super) fn effective_namespace(&self) -> Option<&str> {
        if self.is_namespace() {
            Some(self.name).filter(|name| !name.is_empty())
        } else {
            self.namespace
        }
    }

    /// Returns `true` for webhook configurations: webhooks must not be able to prevent their own
    /// removal.
    fn is_exempt(&self) -> bool {
        &*self.kind.group == "admissionregistration.k8s.io"
            && [
                "validatingwebhookconfigurations",
                "mutatingwebhookconfigurations",
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
            ]
            .contains(&&*self.kind.plural)
    }
}

impl Webhooks {
    /// Returns `true` if any mutating webhook may match such requests, for some object.
    pub(crate) fn may_mutate(&self, attributes: &Attributes<'_>) -> bool {
        concerned(&self.mutating, attributes)
    }

    /// Returns `true` if any validating webhook may match such requests, for some object.
    pub(crate) fn may_validate(&self, attributes: &Attributes<'_>) -> bool {
        concerned(&self.validating, attributes)
    }
}

fn concerned(webhooks: &[Arc<Webhook>], attributes: &Attributes<'_>) -> bool {
    webhooks
        .iter()
        .any(|webhook| invoked_version(webhook, attributes).is_some())
}

/// Returns the version in which the webhook receives the object, or `None` if it does not match.
/// Its conditions are not evaluated.
pub(super) fn matched<'a>(
    webhook: &Webhook,
    attributes: &'a Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Option<&'a str>> {
    let Some(version) = invoked_version(webhook, attributes) else {
        return Ok(None);
    };
    if !matches_object(webhook, object, old) {
        return Ok(None);
    }
    if !matches_namespace(webhook, attributes, object, old)? {
        return Ok(None);
    }
    Ok(Some(version))
}

/// Returns `true` if the conditions of a webhook match. The objects are in the given version.
pub(super) fn meets_conditions(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    version: &str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<bool> {
    if webhook.conditions.is_empty() {
        return Ok(true);
    }
    let variables = conditions::variables(attributes, version, object, old);
    match webhook.conditions.evaluate(&variables) {
        Match::Yes => Ok(true),
        Match::Failed(_) if webhook.ignores_failures => Ok(false),
        Match::No => Ok(false),
        Match::Failed(why) => Err(ApiError::forbidden(attributes.kind, attributes.name, &why)),
    }
}

fn invoked_version<'a>(webhook: &Webhook, attributes: &'a Attributes<'_>) -> Option<&'a str> {
    if attributes.is_exempt() {
        return None;
    }
    if webhook
        .rules
        .iter()
        .any(|rule| rule.matches(attributes, attributes.version))
    {
        return Some(attributes.version);
    }
    if !webhook.matches_equivalent {
        return None;
    }
    // The first matching rule determines the version, as on a real server.
    webhook.rules.iter().find_map(|rule| {
        let served = attributes.kind.versions.iter().filter(|version| {
            &*version.name != attributes.version
                && attributes
                    .subresource
                    .is_none_or(|name| version.subresource(name).is_some())
        });
        served
            .map(|version| &*version.name)
            .find(|version| rule.matches(attributes, version))
    })
}

impl Rule {
    fn matches(&self, attributes: &Attributes<'_>, version: &str) -> bool {
        let listed =
            |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let subresource = attributes.subresource.unwrap_or_default();
        self.matches_scope(attributes)
            && self
                .operations
                .as_ref()
                .is_none_or(|all| all.contains(&attributes.operation))
            && listed(&self.groups, &attributes.kind.group)
            && listed(&self.versions, version)
            && self.resources.iter().any(|(resource, sub)| {
                (resource == "*" || **resource == *attributes.kind.plural)
                    && (sub == "*" || sub == subresource)
            })
    }

    fn matches_scope(&self, attributes: &Attributes<'_>) -> bool {
        let in_namespace = !attributes.is_namespace() && attributes.namespace.is_some();
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => in_namespace,
            Scope::Cluster => !in_namespace,
        }
    }
}

fn labels(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/labels")
}

fn matches_object(webhook: &Webhook, object: Option<&Value>, old: Option<&Value>) -> bool {
    webhook.objects.is_empty()
        || [object, old]
            .into_iter()
            .flatten()
            .any(|object| webhook.objects.matches(labels(object)))
}

fn matches_namespace(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<bool> {
    if webhook.namespaces.is_empty() {
        return Ok(true);
    }
    if attributes.is_namespace() {
        // A Namespace is matched by its own labels: the new ones when it is written, else the
        // stored ones.
        let written = matches!(attributes.operation, Operation::Create | Operation::Update)
            && attributes.subresource.is_none();
        let of = if written { object } else { old.or(object) };
        return Ok(webhook.namespaces.matches(of.and_then(labels)));
    }
    // Cluster-scoped objects are never exempt.
    let Some(namespace) = attributes.namespace else {
        return Ok(true);
    };
    if let Some(labels) = attributes.namespace_labels {
        return Ok(webhook.namespaces.matches(Some(labels)));
    }
    let message = format!("namespaces {namespace:?} not found");
    let details = json!({ "name": namespace, "kind": "namespaces" });
    Err(ApiError::new(404, Reason::NotFound, message).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::super::policies::Policies;
    use super::super::tests::{attributes, kind};
    use super::*;

    fn webhook(fields: &Value) -> Webhook {
        let configuration = json!({ "metadata": { "name": "c" }, "webhooks": [fields] });
        Webhook::clone(&Webhooks::read(&[configuration], &[], Policies::default()).mutating[0])
    }

    fn rule(operations: &Value, group: &str, version: &str, resource: &str, scope: &str) -> Value {
        json!({
            "operations": operations, "apiGroups": [group], "apiVersions": [version],
            "resources": [resource], "scope": scope,
        })
    }

    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    #[test]
    fn rules_match_by_every_part() {
        let kind = kind("apps", "deployments", &["v1"], &["status", "scale"]);
        for (expected, subresource, rule) in [
            (
                true,
                None,
                rule(&json!(["UPDATE"]), "apps", "v1", "deployments", "*"),
            ),
            (true, None, rule(&json!(["*"]), "*", "*", "*", "Namespaced")),
            (
                true,
                None,
                rule(&json!(["CREATE", "UPDATE"]), "apps", "v1", "*/*", "*"),
            ),
            (
                true,
                None,
                rule(&json!(["*"]), "*", "*", "deployments/*", "*"),
            ),
            (
                false,
                None,
                rule(&json!(["CREATE"]), "apps", "v1", "deployments", "*"),
            ),
            (
                false,
                None,
                rule(&json!(["*"]), "", "v1", "deployments", "*"),
            ),
            (
                false,
                None,
                rule(&json!(["*"]), "apps", "v2", "deployments", "*"),
            ),
            (false, None, rule(&json!(["*"]), "apps", "v1", "pods", "*")),
            (
                false,
                None,
                rule(&json!(["*"]), "apps", "v1", "deployments/status", "*"),
            ),
            (
                false,
                None,
                rule(&json!(["*"]), "apps", "v1", "deployments", "Cluster"),
            ),
            (
                true,
                Some("status"),
                rule(&json!(["*"]), "*", "*", "*/status", "*"),
            ),
            (
                true,
                Some("status"),
                rule(&json!(["*"]), "*", "*", "deployments/*", "*"),
            ),
            (
                true,
                Some("status"),
                rule(&json!(["*"]), "*", "*", "*/*", "*"),
            ),
            (
                false,
                Some("status"),
                rule(&json!(["*"]), "*", "*", "*", "*"),
            ),
            (
                false,
                Some("status"),
                rule(&json!(["*"]), "*", "*", "deployments", "*"),
            ),
            (
                false,
                Some("status"),
                rule(&json!(["*"]), "*", "*", "deployments/scale", "*"),
            ),
        ] {
            let webhook = webhook(&json!({ "rules": [rule] }));
            let request = Attributes {
                subresource,
                ..attributes(&kind, Operation::Update)
            };
            let found = matched(&webhook, &request, Some(&json!({})), None).unwrap();
            assert_eq!(
                found.is_some(),
                expected,
                "{subresource:?} {:?}",
                webhook.rules
            );
        }
    }

    #[test]
    fn namespaces_match_the_cluster_scope() {
        let node = kind("", "nodes", &["v1"], &[]);
        let namespace = kind("", "namespaces", &["v1"], &[]);
        for (kind, namespace, scope, expected) in [
            (&node, None, "Cluster", true),
            (&node, None, "Namespaced", false),
            (&namespace, None, "Cluster", true),
            (&namespace, None, "Namespaced", false),
            (&namespace, Some("x"), "Cluster", true),
        ] {
            let webhook = webhook(&json!({ "rules": [rule(&json!(["*"]), "*", "*", "*", scope)] }));
            let request = Attributes {
                namespace,
                ..attributes(kind, Operation::Create)
            };
            let found = matched(&webhook, &request, Some(&json!({})), None).unwrap();
            assert_eq!(found.is_some(), expected, "{} {scope}", kind.plural);
        }
    }

    #[test]
    fn equivalent_versions_match() {
        let kind = kind("kopf.dev", "things", &["v2", "v1"], &[]);
        let rules = json!([rule(&json!(["*"]), "kopf.dev", "v1", "things", "*")]);
        let request = Attributes {
            version: "v2",
            ..attributes(&kind, Operation::Create)
        };
        for (policy, version) in [("Equivalent", Some("v1")), ("Exact", None)] {
            let webhook = webhook(&json!({ "rules": rules, "matchPolicy": policy }));
            assert_eq!(
                matched(&webhook, &request, Some(&json!({})), None).unwrap(),
                version
            );
        }
        let both = webhook(&json!({ "rules": [
            rule(&json!(["*"]), "kopf.dev", "v1", "things", "*"),
            rule(&json!(["*"]), "kopf.dev", "v2", "things", "*"),
        ] }));
        assert_eq!(
            matched(&both, &request, Some(&json!({})), None).unwrap(),
            Some("v2")
        );
    }

    #[test]
    fn selectors_match_new_or_old_objects() {
        let kind = kind("", "configmaps", &["v1"], &[]);
        let webhook = webhook(&json!({
            "rules": [rule(&json!(["*"]), "*", "*", "*", "*")],
            "objectSelector": { "matchLabels": { "a": "b" } },
        }));
        let request = attributes(&kind, Operation::Update);
        let (yes, no) = (json!({ "metadata": { "labels": { "a": "b" } } }), json!({}));
        for (object, old, expected) in [
            (Some(&yes), Some(&no), true),
            (Some(&no), Some(&yes), true),
            (Some(&no), Some(&no), false),
            (None, Some(&yes), true),
            (None, None, false),
        ] {
            let found = matched(&webhook, &request, object, old).unwrap();
            assert_eq!(found.is_some(), expected);
        }
    }

    #[test]
    fn namespaces_are_selected_by_their_labels() {
        let (pod, node) = (
            kind("", "pods", &["v1"], &[]),
            kind("", "nodes", &["v1"], &[]),
        );
        let namespace = kind("", "namespaces", &["v1"], &[]);
        let webhook = webhook(&json!({
            "rules": [rule(&json!(["*"]), "*", "*", "*", "*")],
            "namespaceSelector": { "matchLabels": { "a": "b" } },
        }));
        let (yes, no) = (json!({ "a": "b" }), json!(null));
        let found = |request: &Attributes<'_>, object: Option<&Value>, old: Option<&Value>| {
            matched(&webhook, request, object, old).map(|version| version.is_some())
        };
        let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
        let plain = json!({});
        for (labels, expected) in [(&yes, true), (&no, false)] {
            let request = Attributes {
                namespace_labels: Some(labels),
                ..attributes(&pod, Operation::Create)
            };
            assert_eq!(found(&request, Some(&plain), None).unwrap(), expected);
        }
        let missing = Attributes {
            namespace_labels: None,
            ..attributes(&pod, Operation::Create)
        };
        let error = found(&missing, Some(&plain), None).unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (404, r#"namespaces "ns" not found"#)
        );
        let cluster = Attributes {
            namespace: None,
            ..attributes(&node, Operation::Create)
        };
        assert!(found(&cluster, Some(&plain), None).unwrap());

        let update = Attributes {
            namespace: None,
            ..attributes(&namespace, Operation::Update)
        };
        assert!(found(&update, Some(&labelled), Some(&plain)).unwrap());
        assert!(!found(&update, Some(&plain), Some(&labelled)).unwrap());
        let delete = Attributes {
            namespace: None,
            ..attributes(&namespace, Operation::Delete)
        };
        assert!(found(&delete, None, Some(&labelled)).unwrap());
        assert_eq!(delete.effective_namespace(), Some("x"));
    }

    #[test]
    fn webhook_configurations_are_exempt() {
        let everything = json!({ "rules": [rule(&json!(["*"]), "*", "*", "*", "*")] });
        let configuration = kind(
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            &["v1"],
            &[],
        );
        let request = attributes(&configuration, Operation::Create);
        assert!(
            matched(&webhook(&everything), &request, None, None)
                .unwrap()
                .is_none()
        );
        let mut conditional = everything;
        let pod = kind("", "pods", &["v1"], &[]);
        let request = attributes(&pod, Operation::Create);
        let object = json!({"metadata": {"name": "a"}});
        for (expression, policy, expected) in [
            ("object.metadata.name == 'a'", "Fail", Some(true)),
            ("request.operation != 'CREATE'", "Fail", Some(false)),
            ("object.nope == 1", "Fail", None),
            ("object.nope == 1", "Ignore", Some(false)),
        ] {
            conditional["failurePolicy"] = json!(policy);
            conditional["matchConditions"] = json!([{ "name": "a", "expression": expression }]);
            let webhook = webhook(&conditional);
            let met = meets_conditions(&webhook, &request, "v1", Some(&object), None);
            assert_eq!(met.ok(), expected, "{expression}");
        }
    }
}
