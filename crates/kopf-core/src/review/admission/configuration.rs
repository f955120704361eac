//! Content of webhook configurations.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::naming::{Names, in_service, quoted};
use super::{ClientConfig, WebhookType};
use crate::filter::MetaCriterion;
use crate::handler::Handler;
use crate::resource::Resource;

/// Timeout of webhook calls: the maximum of the API.
const TIMEOUT_SECONDS: u32 = 30;

/// Returns the resources that the admission handlers select.
pub fn served<F>(
    handlers: &[Arc<Handler<F>>],
    resources: &BTreeSet<Arc<Resource>>,
) -> BTreeSet<Arc<Resource>> {
    handlers
        .iter()
        .filter(|handler| handler.kind.webhook_type().is_some())
        .filter_map(|handler| handler.selector.as_ref())
        .flat_map(|selector| selector.select(resources.iter().map(AsRef::as_ref)))
        .filter_map(|resource| resources.get(resource).cloned())
        .collect()
}

/// Parameters of a webhook configuration.
#[derive(Debug, Clone, Copy)]
pub struct Configured<'a> {
    /// Name of the configuration, the suffix of all webhook names.
    pub managed: &'a str,
    /// Resources with admission handlers: see [`served`].
    pub resources: &'a BTreeSet<Arc<Resource>>,
    /// Address of the webhook server.
    pub client_config: &'a ClientConfig,
    /// Leaves out handlers that are not persistent.
    pub persistent_only: bool,
}

/// Returns the webhooks of a configuration: one for each handler of the type.
pub fn webhooks<F>(
    handlers: &[Arc<Handler<F>>],
    type_: WebhookType,
    configured: Configured<'_>,
) -> Vec<Value> {
    let mut names = Names::new(configured.managed);
    handlers
        .iter()
        .filter(|handler| handler.kind.webhook_type() == Some(type_))
        // Names are assigned before filtering, so that persistent webhooks keep theirs.
        .map(|handler| (handler, names.name(&handler.id)))
        .filter(|(handler, _)| handler.webhook.persistent || !configured.persistent_only)
        .map(|(handler, name)| webhook(handler, &name, configured))
        .collect()
}

fn webhook<F>(handler: &Handler<F>, name: &str, configured: Configured<'_>) -> Value {
    let options = &handler.webhook;
    let operations: Vec<&str> = match &options.operations {
        Some(operations) => operations.iter().map(|one| one.as_str()).collect(),
        None => vec!["*"],
    };
    let selected = configured.resources.iter().filter(|resource| {
        let selector = handler.selector.as_ref();
        selector.is_some_and(|selector| selector.check(resource))
    });
    let rules: Vec<Value> = selected
        .map(|resource| {
            json!({
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": options.rule_resources(&resource.plural),
                "operations": operations,
                "scope": "*",
            })
        })
        .collect();
    json!({
        "name": name,
        "sideEffects": if options.side_effects { "NoneOnDryRun" } else { "None" },
        "failurePolicy": if options.ignore_failures { "Ignore" } else { "Fail" },
        "matchPolicy": "Equivalent",
        "rules": rules,
        "objectSelector": object_selector(handler),
        "clientConfig": client_config(configured.client_config, &handler.id),
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1", "v1beta1"],
    })
}

/// Returns the selector for literal label filters. All other filters are evaluated by the operator.
fn object_selector<F>(handler: &Handler<F>) -> Value {
    let labels = handler.filters.labels.iter();
    let expressions: Vec<Value> = labels
        .filter_map(|(key, criterion)| match criterion {
            MetaCriterion::Literal(value) => {
                Some(json!({"key": key, "operator": "In", "values": [value]}))
            }
            MetaCriterion::Present => Some(json!({"key": key, "operator": "Exists"})),
            MetaCriterion::Absent => Some(json!({"key": key, "operator": "DoesNotExist"})),
            MetaCriterion::Callback(_) => None,
        })
        .collect();
    if expressions.is_empty() {
        Value::Null
    } else {
        json!({"matchExpressions": expressions})
    }
}

/// Returns the address of a handler: that of the server with the id at the end of the path.
pub(crate) fn client_config(config: &ClientConfig, id: &str) -> ClientConfig {
    let mut config = config.clone();
    let tail = quoted(id);
    if let Some(url) = &mut config.url {
        *url = format!("{}/{tail}", url.trim_end_matches('/'));
    }
    if let Some(service) = &mut config.service {
        let path = service.path.as_deref().unwrap_or_default();
        let tail = in_service(id);
        service.path = Some(format!("{}/{tail}", path.trim_end_matches('/')));
    }
    config
}

#[cfg(test)]
mod tests {
    use super::super::ServiceReference;
    use super::*;

    #[test]
    fn urls_and_service_paths_end_with_the_id() {
        let config = ClientConfig {
            url: Some("https://a.b/root/".to_owned()),
            service: Some(ServiceReference {
                path: Some("/root/".to_owned()),
                ..ServiceReference::default()
            }),
            ca_bundle: None,
        };
        let told = client_config(&config, "check_it/spec.field");
        assert_eq!(
            told.url.as_deref(),
            Some("https://a.b/root/check_it/spec.field")
        );
        let path = told.service.unwrap().path.unwrap();
        assert!(path.starts_with("/root/check-it/spec.field-"), "{path}");
        let told = client_config(&config, "check/spec.field");
        assert_eq!(
            told.service.unwrap().path.as_deref(),
            Some("/root/check/spec.field")
        );
    }
}
