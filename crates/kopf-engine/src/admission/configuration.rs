//! Tells the API server what to ask, and whom: keeps one of the webhook configurations up to date.

use std::sync::Arc;
use std::time::Duration;

use kopf_client::Client;
use kopf_client::patching::{Answer, PatchKind, Target};
use kopf_core::admission::{ClientConfig, Configured, WebhookType, webhooks};
use kopf_core::resource::Resource;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::kinds::Kinds;
use super::{Error, GROUP};
use crate::invocation::Registry;
use crate::observation::{Insights, Resources};

/// When to try again if the server could not be reached, in spite of all retries.
const RETRY: Duration = Duration::from_secs(10);

/// How long a request that is on its way is waited for in the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The annotation of the configurations that says whose they are: the operator that has told of its
/// webhooks last.
const OWNER: &str = "kopf.dev/admission-owner";

/// Keeps the configuration of one type.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) type_: WebhookType,
    pub(super) name: String,
    /// How this operator is called, apart from all others.
    pub(super) owner: String,
    pub(super) client: Client,
    pub(super) registry: Arc<Registry>,
    pub(super) kinds: Arc<Kinds>,
    pub(super) insights: Insights,
    pub(super) announced: watch::Receiver<Option<ClientConfig>>,
}

/// What the API server was told last.
struct Told {
    /// Where the webhook server was.
    config: ClientConfig,
    /// The version of the configuration then; none if it is not known whether it was heard.
    version: Option<String>,
}

impl Told {
    fn new(config: ClientConfig) -> Self {
        let version = None;
        Self { config, version }
    }
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
        let kept = self.keep(&resource, &mut configured, &halt).await;
        if let Some(configured) = configured {
            self.clean_up(&resource, configured).await;
        }
        kept
    }

    /// Tells the server of every change. Where the webhook server was last is noted, also for the
    /// case that the telling is interrupted.
    async fn keep(
        &mut self,
        resource: &Resource,
        configured: &mut Option<Told>,
        halt: &CancellationToken,
    ) -> Result<(), Error> {
        loop {
            let config = self.announced.borrow_and_update().clone();
            let mut is_stale = false;
            if let Some(config) = config {
                let told = configured.insert(Told::new(config));
                let (type_, name) = (self.type_, &self.name);
                info!("Reconfiguring the {type_} webhook {name}.");
                let outcome = tokio::select! {
                    outcome = self.configure(resource, &told.config) => outcome,
                    // If it was dropped at once, it could come after the last one.
                    () = patience(halt) => return Ok(()),
                };
                match outcome {
                    Ok(version) => told.version = version,
                    Err(error) if is_passing(&error) => {
                        is_stale = true;
                        warn!(
                            "The {type_} webhook {name} cannot be reconfigured now, it will be \
                             tried again: {error}"
                        );
                    }
                    Err(error) => return Err(self.explain("patch", resource, error)),
                }
            }
            let is_over = tokio::select! {
                () = halt.cancelled() => return Ok(()),
                changed = self.announced.changed() => changed.is_err(),
                changed = self.insights.next() => changed.is_none(),
                () = sleep(RETRY), if is_stale => false,
            };
            if is_over {
                // Who announces, and who observes, ends only with the operator.
                halt.cancelled().await;
                return Ok(());
            }
        }
    }

    /// Leaves only those webhooks that are to stay.
    async fn clean_up(&self, resource: &Resource, told: Told) {
        let name = &self.name;
        info!("Cleaning up the admission webhook {name}.");
        let cleaning = timeout(super::CLEANING, self.reduce(resource, told));
        let reason = match cleaning.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the server does not answer".to_owned(),
        };
        error!(
            "The admission webhook {name} cannot be cleaned up: {reason}. Its webhooks stay, and the API \
             server may deny what nobody answers for. To remove them: \
             kubectl delete {} {name}",
            resource.plural
        );
    }

    /// Leaves only those webhooks that are to stay, unless another operator has told of its own since:
    /// when an operator is replaced by a newer one, they run side by side for a while.
    async fn reduce(&self, resource: &Resource, told: Told) -> Result<(), kopf_client::Error> {
        let mut version = told.version;
        loop {
            let mut payload = self.payload(&told.config, true);
            if let (Some(version), Some(fields)) = (&version, payload.as_object_mut()) {
                let metadata = json!({"resourceVersion": version, "annotations": {OWNER: null}});
                fields.insert("metadata".to_owned(), metadata);
            }
            match self.patch(resource, &payload).await {
                Err(error) if error.is_conflict() && version.is_some() => {}
                outcome => return outcome.map(drop),
            }
            // Somebody has changed it since. It can be read in this way without further permissions.
            let Some(answer) = self.patch(resource, &json!({})).await? else {
                return Ok(());
            };
            let body = answer.body()?;
            if body
                .annotation(OWNER)
                .is_some_and(|owner| owner != self.owner)
            {
                let name = &self.name;
                info!(
                    "The admission webhook {name} is that of another operator now, and is left as \
                     it is."
                );
                return Ok(());
            }
            version = body.resource_version().map(str::to_owned);
        }
    }

    /// Replaces all webhooks of the configuration. Should it be gone meanwhile, there is a new one.
    /// Returns the version that it has then.
    async fn configure(
        &self,
        resource: &Resource,
        config: &ClientConfig,
    ) -> Result<Option<String>, kopf_client::Error> {
        let mut payload = self.payload(config, false);
        if let Some(fields) = payload.as_object_mut() {
            let metadata = json!({"annotations": {OWNER: self.owner}});
            fields.insert("metadata".to_owned(), metadata);
        }
        let mut answer = self.patch(resource, &payload).await?;
        if answer.is_none() {
            self.post(resource).await?;
            answer = self.patch(resource, &payload).await?;
        }
        let body = answer.as_ref().map(Answer::part);
        Ok(body.and_then(|body| body.resource_version().map(str::to_owned)))
    }

    /// What the configuration is to have.
    fn payload(&self, config: &ClientConfig, persistent_only: bool) -> Value {
        let configured = Configured {
            managed: &self.name,
            resources: &self.kinds.served(),
            client_config: config,
            persistent_only,
        };
        json!({"webhooks": webhooks(self.registry.handlers(), self.type_, configured)})
    }

    async fn patch(
        &self,
        resource: &Resource,
        payload: &Value,
    ) -> Result<Option<Answer>, kopf_client::Error> {
        let target = Target {
            client: &self.client,
            resource,
            namespace: None,
            name: &self.name,
        };
        target.patch(None, PatchKind::Merge, payload).await
    }

    async fn create(&self, resource: &Resource) -> Result<(), Error> {
        loop {
            match self.post(resource).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_transient() => {
                    let (type_, name) = (self.type_, &self.name);
                    warn!(
                        "The {type_} webhook {name} cannot be created now, it will be tried again: \
                         {error}"
                    );
                    sleep(RETRY).await;
                }
                Err(error) => return Err(self.explain("create", resource, error)),
            }
        }
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

/// Whether it may work later.
fn is_passing(error: &kopf_client::Error) -> bool {
    error.is_transient() || error.is_conflict()
}

/// Waits until it is time to give up what has not been told yet.
async fn patience(halt: &CancellationToken) {
    halt.cancelled().await;
    sleep(PATIENCE).await;
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
