//! Tells the API server what to ask, and whom: keeps one of the webhook configurations up to date.

use std::sync::Arc;
use std::time::Duration;

use kopf_client::Client;
use kopf_client::patching::{PatchKind, patch_unread};
use kopf_core::admission::{ClientConfig, Configured, WebhookType, webhooks};
use kopf_core::resource::Resource;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::kinds::Kinds;
use super::{Error, GROUP};
use crate::invocation::Registry;
use crate::observation::{Insights, Resources};

/// When to try again if the server could not be reached, in spite of all retries.
const RETRY: Duration = Duration::from_secs(10);

/// Keeps the configuration of one type.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) type_: WebhookType,
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) registry: Arc<Registry>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) insights: Insights,
    pub(super) announced: watch::Receiver<Option<ClientConfig>>,
}

impl Manager {
    /// Keeps it until it is told to halt; then only those webhooks are left that are to stay.
    pub(super) async fn run(mut self, halt: CancellationToken) -> Result<(), Error> {
        let beginning = async {
            let (resources, _) = self.insights.next().await?;
            let resource = configurations(self.type_, &resources);
            Some(self.create(&resource).await.map(|()| resource))
        };
        let begun = halt.run_until_cancelled(beginning).await.flatten();
        let Some(created) = begun else {
            // The observers end only with the operator.
            halt.cancelled().await;
            return Ok(());
        };
        let resource = created?;
        let mut configured = None;
        let kept = halt
            .run_until_cancelled(self.keep(&resource, &mut configured))
            .await;
        if let Some(config) = configured {
            let name = &self.name;
            info!("Cleaning up the admission webhook {name}.");
            if let Err(reason) = self.configure(&resource, &config, true).await {
                error!("The admission webhook {name} cannot be cleaned up: {reason}");
            }
        }
        kept.unwrap_or(Ok(()))
    }

    /// Tells the server of every change. Where the webhook server was last is noted, also for the
    /// case that the telling is interrupted.
    async fn keep(
        &mut self,
        resource: &Resource,
        configured: &mut Option<ClientConfig>,
    ) -> Result<(), Error> {
        loop {
            let config = self.announced.borrow_and_update().clone();
            let mut is_stale = false;
            if let Some(config) = config {
                *configured = Some(config.clone());
                let (type_, name) = (self.type_, &self.name);
                info!("Reconfiguring the {type_} webhook {name}.");
                match self.configure(resource, &config, false).await {
                    Ok(()) => {}
                    Err(error) if error.is_transient() => {
                        is_stale = true;
                        warn!(
                            "The {type_} webhook {name} cannot be reconfigured now, it will be \
                             tried again: {error}"
                        );
                    }
                    Err(error) => return Err(self.explain("patch", resource, error)),
                }
            }
            tokio::select! {
                // Who announces lives as long as the server does, and the operator ends with it.
                changed = self.announced.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                changed = self.insights.next() => if changed.is_none() {
                    return std::future::pending().await;
                },
                () = sleep(RETRY), if is_stale => {}
            }
        }
    }

    /// Replaces all webhooks of the configuration. Should it be gone meanwhile, there is a new one.
    async fn configure(
        &self,
        resource: &Resource,
        config: &ClientConfig,
        persistent_only: bool,
    ) -> Result<(), kopf_client::Error> {
        let configured = Configured {
            managed: &self.name,
            resources: &self.kinds.served(),
            client_config: config,
            persistent_only,
        };
        let webhooks = webhooks(self.registry.handlers(), self.type_, configured);
        let payload = json!({"webhooks": webhooks});
        if !self.patch(resource, &payload).await? && !persistent_only {
            self.post(resource).await?;
            self.patch(resource, &payload).await?;
        }
        Ok(())
    }

    async fn patch(
        &self,
        resource: &Resource,
        payload: &Value,
    ) -> Result<bool, kopf_client::Error> {
        let (client, name) = (&self.client, &self.name);
        let kind = PatchKind::Merge;
        patch_unread(client, resource, None, name, None, kind, payload).await
    }

    async fn create(&self, resource: &Resource) -> Result<(), Error> {
        let created = self.post(resource).await;
        created.map_err(|error| self.explain("create", resource, error))
    }

    /// Makes the configuration, without webhooks; if it is there already, it stays as it is.
    async fn post(&self, resource: &Resource) -> Result<(), kopf_client::Error> {
        let content = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": {"name": self.name},
        });
        let path = resource.url(None, None, None)?;
        match self.client.post_json(&path, &content).await {
            Err(error) if !error.is_conflict() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn explain(&self, verb: &'static str, resource: &Resource, error: kopf_client::Error) -> Error {
        let source = Box::new(error);
        if source.is_forbidden() {
            return Error::Forbidden {
                verb,
                resource: resource.to_string(),
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

/// The kind of the configurations, in the version that the server prefers.
fn configurations(type_: WebhookType, resources: &Resources) -> Arc<Resource> {
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
    // Every server has this one, even if it does not tell.
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
