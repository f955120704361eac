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
mod object;
mod reviewer;
#[cfg(test)]
mod tests;
mod watcher;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kopf_client::discovery::Groups;
use kopf_core::admission::{ClientConfig, Owner, WebhookServer, WebhookType};
use kopf_core::handler::HandlerId;
use kopf_core::settings::{Admission as Settings, Settings as AllSettings};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use self::kinds::Kinds;
pub(crate) use self::memories::Memos;
use self::reviewer::{Reviewer, Served};
use crate::invocation::Registry;
pub use crate::invocation::{Admission, Warnings};
use crate::observation::Insights;
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
    let mut known: HashMap<&HandlerId, WebhookType> = HashMap::new();
    let mut ids: Vec<&HandlerId> = Vec::new();
    for handler in registry.handlers() {
        let (id, Some(type_)) = (&handler.id, handler.kind.webhook_type()) else {
            continue;
        };
        // Whoever takes paths apart takes such parts for nothing, and nobody would be asked.
        if id.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Error::Unreachable { id: Arc::clone(id) });
        }
        if known.insert(id, type_).is_some_and(|other| other != type_) {
            warn!(
                "Duplicate admission handler id '{id}' of a validating and a mutating handler: they \
                 share a URL and run together, and the API server rejects patches in responses of \
                 validating webhooks. Use different ids."
            );
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
    /// This operator as the owner of configurations.
    owner: Owner,
    shared: Arc<Shared>,
    kinds: Arc<Kinds>,
    insights: Insights,
    announced: watch::Sender<Option<ClientConfig>>,
    reviews: TaskTracker,
}

impl Webhooks {
    /// Returns `None` if there is no server. The identity is that of the operator among its peers.
    pub(crate) fn new(shared: &Arc<Shared>, insights: &Insights, identity: &str) -> Option<Self> {
        let settings = &shared.context.settings.admission;
        Some(Self {
            server: Arc::clone(settings.server.as_ref()?),
            managed: settings.managed.clone(),
            owner: Owner::new(identity, shared.context.clock.now()),
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
            me: self.owner.clone(),
            shared: Arc::clone(&self.shared),
            kinds: Arc::clone(&self.kinds),
            insights: self.insights.clone(),
            announced: self.announced.subscribe(),
        };
        Some(manager.run(halt))
    }

    /// Runs the server until it is stopped.
    pub(crate) async fn serve(mut self, stop: CancellationToken) -> Result<(), Error> {
        // Before that, all requests would be about unknown resources.
        let known = stop.run_until_cancelled(self.insights.next()).await;
        if known.flatten().is_none() {
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
            .serve(
                Arc::new(Served(Arc::new(reviewer))),
                Box::pin(stop.cancelled_owned()),
            )
            .await
            .map_err(Error::Server)
    }
}
