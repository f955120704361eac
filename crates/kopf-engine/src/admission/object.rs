//! API calls for webhook configurations and other owned objects.

use std::sync::Arc;

use kopf_client::Client;
use kopf_client::patching::{PatchKind, PatchResponse, Target};
use kopf_core::admission::WebhookType;
use kopf_core::body::Body;
use kopf_core::resource::Resource;
use serde_json::{Value, json};

use super::{Error, GROUP};
use crate::observation::Resources;

/// A webhook configuration object in the cluster.
#[derive(Debug)]
pub(super) struct ConfigurationObject {
    pub(super) client: Client,
    pub(super) resource: Arc<Resource>,
    pub(super) type_: WebhookType,
    pub(super) name: String,
}

impl ConfigurationObject {
    /// Creates the object without webhooks. An existing object is not changed.
    pub(super) async fn create(&self) -> Result<(), kopf_client::Error> {
        let content = json!({
            "apiVersion": self.resource.api_version(),
            "kind": self.resource.kind,
            "metadata": {"name": self.name},
        });
        let path = self.resource.url(None, None, None)?;
        match self.client.post_json(&path, &content).await {
            Err(error) if !error.is_conflict() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    pub(super) fn target(&self) -> Target<'_> {
        Target {
            client: &self.client,
            resource: &self.resource,
            namespace: None,
            name: &self.name,
            uid: None,
        }
    }

    /// Merges the payload into the object. Creates the object if it does not exist.
    pub(super) async fn write(&self, payload: &Value) -> Result<Option<Body>, kopf_client::Error> {
        if let Some(body) = merge(&self.target(), payload).await? {
            return Ok(Some(body));
        }
        self.create().await?;
        merge(&self.target(), payload).await
    }

    /// Converts an API error to one that ends the operator.
    pub(super) fn explain(&self, verb: &'static str, error: kopf_client::Error) -> Error {
        let source = Box::new(error);
        if source.is_forbidden() {
            return Error::Forbidden {
                verb,
                resource: self.resource.to_string(),
                source,
            };
        }
        Error::Unconfigured {
            type_: self.type_,
            name: self.name.clone(),
            source,
        }
    }
}

/// Merges the payload into an object. `None` if the object does not exist.
pub(super) async fn merge(
    target: &Target<'_>,
    payload: &Value,
) -> Result<Option<Body>, kopf_client::Error> {
    let response = target.patch(None, PatchKind::Merge, payload).await?;
    response.as_ref().map(PatchResponse::body).transpose()
}

/// Reads an object by an empty patch, which does not need the permission `get`. `None` if the object
/// does not exist.
pub(super) async fn read(target: &Target<'_>) -> Result<Option<Body>, kopf_client::Error> {
    merge(target, &json!({})).await
}

/// Returns the resource of the configurations in the version that the server prefers.
pub(super) fn configurations(type_: WebhookType, resources: &Resources) -> Arc<Resource> {
    let (plural, kind) = match type_ {
        WebhookType::Validating => (
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
        ),
        WebhookType::Mutating => (
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
        ),
    };
    let found = resources.iter().find(|resource| {
        resource.group == GROUP && resource.plural == plural && resource.preferred
    });
    // Every server has this version, even if discovery of the group fails.
    found.cloned().unwrap_or_else(|| {
        Arc::new(Resource {
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            preferred: true,
            ..Resource::default()
        })
    })
}
