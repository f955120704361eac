//! Admission webhooks: the API server asks before it stores objects, and handlers answer.
//!
//! ```text
//! webhook server ──(requests)──► Reviewer ──► handlers
//!        └──(where it is)──► Announced ──► configuration managers ──► API server
//! ```
//!
//! What is decided is decided in `kopf-core`. The server is the user's choice: here it is only run.

mod configuration;
mod kinds;
mod memories;
mod reviewer;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kopf_client::discovery::Groups;
use kopf_core::admission::{ClientConfig, WebhookServer, WebhookType};
use kopf_core::handler::{Handler, HandlerId};
use kopf_core::settings::{Admission as Settings, Settings as AllSettings};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use self::kinds::Kinds;
pub(crate) use self::memories::Memos;
use self::reviewer::{Reviewer, Served};
pub use crate::invocation::{Admission, Warnings};
use crate::invocation::{Function, Registry};
use crate::observation::Insights;
use crate::peering::detect_own_identity;
use crate::shared::Shared;

/// The group of the configurations.
const GROUP: &str = "admissionregistration.k8s.io";

/// Why there can be no webhooks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The handlers would never be called.
    #[error(
        "there are handlers for admission ({handlers}), but no webhook server to take requests for \
         them: set one in a handler of on::startup, such as \
         `settings.admission.server = Some(Arc::new(kopf::webhooks::Server::auto()));`"
    )]
    NoServer {
        /// Their ids.
        handlers: String,
    },
    /// The id is the end of the address.
    #[error(
        "the handler for admission '{id}' cannot be reached: its id has parts between slashes that \
         are empty, or only dots"
    )]
    Unreachable {
        /// The id.
        id: HandlerId,
    },
    /// The server cannot serve.
    #[error("the webhook server has failed")]
    Server(#[source] kopf_core::admission::ServerError),
    /// The permissions of the operator do not allow it.
    #[error(
        "the operator is not permitted to {verb} {resource}: grant it the verbs create and patch \
         for them, or configure webhooks yourself and unset settings.admission.managed"
    )]
    Forbidden {
        /// What is not permitted.
        verb: &'static str,
        /// To which objects.
        resource: String,
        /// What the server says.
        #[source]
        source: Box<kopf_client::Error>,
    },
    /// The API server does not accept what it is told to ask.
    #[error("the {type_} webhooks cannot be configured in {name:?}")]
    Unconfigured {
        /// What they are.
        type_: WebhookType,
        /// The name of the configuration.
        name: String,
        /// What the server says.
        #[source]
        source: Box<kopf_client::Error>,
    },
}

/// Handlers for admission need somebody who takes requests, and addresses of their own.
pub(crate) fn check(registry: &Registry, settings: &Settings) -> Result<(), Error> {
    let mut known: HashMap<&HandlerId, (&Arc<Handler<Function>>, WebhookType)> = HashMap::new();
    let mut ids: Vec<&HandlerId> = Vec::new();
    for handler in registry.handlers() {
        let (id, Some(type_)) = (&handler.id, handler.kind.webhook_type()) else {
            continue;
        };
        // Whoever takes paths apart takes such parts for nothing, and nobody would be asked.
        if id.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Error::Unreachable { id: Arc::clone(id) });
        }
        match known.insert(id, (handler, type_)) {
            Some((_, other)) if other != type_ => warn!(
                "The handlers for admission '{id}' are both validating and mutating. With one id, \
                 they have one address, and are called together; what they change is then refused \
                 by the API server. Give them different ids."
            ),
            Some((other, _)) if are_confused(handler, other) => warn!(
                "The handlers for admission '{id}' are for different operations. With one id, they \
                 have one address, and are called together for all of them. Give them different ids."
            ),
            _ => {}
        }
        ids.push(id);
    }
    if settings.server.is_some() || ids.is_empty() {
        return Ok(());
    }
    let quoted: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
    let handlers = quoted.join(", ");
    Err(Error::NoServer { handlers })
}

/// Whether these are called for each other's operations: those are not looked at in requests.
fn are_confused(one: &Handler<Function>, other: &Handler<Function>) -> bool {
    one.selector == other.selector
        && one.webhook.subresource == other.webhook.subresource
        && one.webhook.operations != other.webhook.operations
}

/// The groups to look into, with that of the configurations.
pub(crate) fn with_configurations(groups: Groups, settings: &AllSettings) -> Groups {
    match groups {
        Groups::Only(mut groups) if settings.admission.managed.is_some() => {
            groups.insert(GROUP.to_owned());
            Groups::Only(groups)
        }
        groups => groups,
    }
}

/// How long it can take to take the webhooks back when the operator ends: as long as a server that is
/// restarted is away. Otherwise, they stay, with nobody to answer.
pub(crate) const CLEANING: Duration = Duration::from_secs(25);

/// The webhooks of one operator.
pub(crate) struct Webhooks {
    server: Arc<dyn WebhookServer>,
    managed: Option<String>,
    /// How this operator is called, apart from all others.
    owner: String,
    shared: Arc<Shared>,
    kinds: Arc<Kinds>,
    insights: Insights,
    announced: watch::Sender<Option<ClientConfig>>,
    reviews: TaskTracker,
}

impl Webhooks {
    /// None, if there is no server.
    pub(crate) fn new(shared: &Arc<Shared>, insights: &Insights) -> Option<Self> {
        let settings = &shared.context.settings.admission;
        Some(Self {
            server: Arc::clone(settings.server.as_ref()?),
            managed: settings.managed.clone(),
            owner: detect_own_identity(shared.context.clock),
            shared: Arc::clone(shared),
            kinds: Arc::new(Kinds::new(
                Arc::clone(&shared.registry),
                insights.resources(),
            )),
            insights: insights.clone(),
            announced: watch::Sender::new(None),
            reviews: TaskTracker::new(),
        })
    }

    /// The requests that are answered now.
    pub(crate) fn reviews(&self) -> TaskTracker {
        self.reviews.clone()
    }

    /// Keeps one of the configurations, if they are kept; ends only when it is told to.
    pub(crate) fn manager(
        &self,
        type_: WebhookType,
        halt: CancellationToken,
    ) -> Option<impl Future<Output = Result<(), Error>> + Send + use<>> {
        let manager = configuration::Manager {
            type_,
            name: self.managed.clone()?,
            owner: self.owner.clone(),
            client: self.shared.context.client.clone(),
            registry: Arc::clone(&self.shared.registry),
            kinds: Arc::clone(&self.kinds),
            insights: self.insights.clone(),
            announced: self.announced.subscribe(),
        };
        Some(manager.run(halt))
    }

    /// Runs the server; it is not to end before it is dropped.
    pub(crate) async fn serve(mut self) -> Result<(), Error> {
        // PriorAttempts that, all requests would be about unknown kinds.
        if self.insights.next().await.is_none() {
            return Ok(());
        }
        let mut handlers = self.shared.registry.handlers().iter();
        if self.managed.is_none() && handlers.any(|handler| handler.kind.webhook_type().is_some()) {
            // Otherwise, it looks as if everything was admitted.
            info!(
                "Nobody is told of the webhooks, as settings.admission.managed is not set: the API \
                 server asks only if somebody else configures it."
            );
        }
        let reviewer = Reviewer::new(self.shared, self.kinds, self.announced, self.reviews);
        self.server
            .serve(Arc::new(Served(Arc::new(reviewer))))
            .await
            .map_err(Error::Server)
    }
}
