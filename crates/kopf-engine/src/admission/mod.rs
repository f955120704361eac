//! Admission webhooks: reviews by handlers, and managed webhook configurations.
//!
//! ```text
//! webhook server ──(reviews)──► Reviewer ──► handlers
//!        └──(address)──► configuration managers ◄──(watch, write)──► API server
//! ```
//!
//! The rules are in `kopf_core::admission`. The settings define the server.

mod certificates;
mod configuration;
mod conversion;
mod definitions;
mod object;
mod release;
mod reviewer;
mod served_resources;
#[cfg(test)]
mod tests;
mod watcher;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kopf_client::discovery::Groups;
use kopf_core::admission::{
    Activity, ClientConfig, Content, Owner, Relation, Situation, WebhookServer, WebhookType,
};
use kopf_core::handler::{HandlerId, HandlerKind};
use kopf_core::settings::{Admission as Settings, Replication, Settings as AllSettings};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use self::conversion::Converter;
use self::reviewer::{ReviewService, Reviewer};
use self::served_resources::ServedResources;
use crate::invocation::Registry;
pub use crate::invocation::{Admission, Warnings};
use crate::leading;
use crate::observation::DiscoveryReceiver;
use crate::shared::Shared;

/// API group of webhook configurations.
const GROUP: &str = "admissionregistration.k8s.io";

/// Returns the state of an object in the cluster that this operator manages.
fn situation<'a>(
    shared: &Shared,
    me: &Owner,
    owner: Option<&'a Owner>,
    content: Content,
) -> Situation<'a> {
    // The replicas of another group are one peer. Those of the own group are not peers.
    let peer = owner.and_then(|owner| match owner.group() {
        Some(group) => (me.group() != Some(group)).then_some(group),
        None => Some(owner.identity()),
    });
    let is_peer = peer.is_some_and(|identity| shared.known_peers.has(identity));
    let is_gone = owner.is_some_and(|owner| {
        let is_replica = owner.group().is_some() && owner.group() == me.group();
        is_replica && shared.members.is_gone(owner.identity())
    });
    Situation {
        content,
        owner,
        relation: if is_gone {
            Relation::Gone
        } else if is_peer {
            Relation::Peer
        } else {
            Relation::Stranger
        },
        activity: if shared.pause.is_paused() {
            Activity::Paused
        } else {
            Activity::Working
        },
    }
}

/// Errors of admission webhooks that end the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no webhook server.
    #[error(
        "admission handlers ({handlers}) require a webhook server: set settings.admission.server in a \
         startup handler, for example to Some(Arc::new(kopf::webhooks::Server::auto())), in Python to \
         kopf.WebhookAutoServer()"
    )]
    NoServer {
        /// Ids of the handlers.
        handlers: String,
    },
    /// The id cannot be a part of a URL.
    #[error(
        "invalid id of the admission handler '{id}': segments between slashes must not be empty, `.` \
         or `..`"
    )]
    Unreachable {
        /// Id of the handler.
        id: HandlerId,
    },
    /// The webhook server has failed.
    #[error("the webhook server has failed")]
    Server(#[source] kopf_core::admission::ServerError),
    /// A permission is missing.
    #[error(
        "the operator is not permitted to {verb} {resource}: grant it the verbs create and patch \
         for them, or configure webhooks yourself and unset settings.admission.managed"
    )]
    Forbidden {
        /// The missing verb.
        verb: &'static str,
        /// The resource.
        resource: String,
        /// The response of the server.
        #[source]
        source: Box<kopf_client::Error>,
    },
    /// The API server rejects the configuration.
    #[error("cannot configure the {type_} webhooks in {name:?}")]
    Unconfigured {
        /// Type of the webhooks.
        type_: WebhookType,
        /// Name of the configuration.
        name: String,
        /// The response of the server.
        #[source]
        source: Box<kopf_client::Error>,
    },
}

/// Checks that the admission handlers have a server and valid URLs.
pub(crate) fn check(registry: &Registry, settings: &Settings) -> Result<(), Error> {
    let mut known: HashMap<&HandlerId, WebhookType> = HashMap::new();
    let mut ids: Vec<&HandlerId> = Vec::new();
    for handler in registry.handlers() {
        let id = &handler.id;
        let Some(type_) = handler.kind.webhook_type() else {
            if handler.kind == HandlerKind::Convert {
                ids.push(id);
            }
            continue;
        };
        // URL normalisation drops these segments, so the webhook would be unreachable.
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

/// Returns `true` if the operator writes webhook configurations or conversions.
pub(crate) fn is_managed(registry: &Registry, settings: &Settings) -> bool {
    let mut kinds = registry.handlers().iter().map(|handler| handler.kind);
    settings.server.is_some()
        && settings.managed.is_some()
        && kinds.any(|kind| kind.webhook_type().is_some() || kind == HandlerKind::Convert)
}

/// Adds the API group of webhook configurations to the discovered groups.
pub(crate) fn with_configurations(groups: Groups, settings: &AllSettings) -> Groups {
    match groups {
        Groups::Only(mut groups) if settings.admission.managed.is_some() => {
            groups.insert(GROUP.to_owned());
            Groups::Only(groups)
        }
        groups => groups,
    }
}

/// Time limit for the removal of webhooks at exit: enough for a restart of the API server.
/// Remaining webhooks would block requests.
pub(crate) const CLEANING: Duration = Duration::from_secs(25);

/// The webhooks of one operator.
pub(crate) struct Webhooks {
    server: Arc<dyn WebhookServer>,
    managed: Option<String>,
    /// The identity of this operator as an owner of configurations, without its group.
    owner: Owner,
    shared: Arc<Shared>,
    served_resources: Arc<ServedResources>,
    discovery: DiscoveryReceiver,
    announced: watch::Sender<Option<ClientConfig>>,
    reviews: TaskTracker,
}

impl Webhooks {
    /// Returns `None` if there is no server. The identity is that of the operator in peerings.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        discovery: &DiscoveryReceiver,
        identity: &str,
    ) -> Option<Self> {
        let settings = &shared.context.settings.admission;
        Some(Self {
            server: Arc::clone(settings.server.as_ref()?),
            managed: settings.managed.clone(),
            owner: Owner::new(identity, shared.context.clock.now()),
            shared: Arc::clone(shared),
            served_resources: Arc::new(ServedResources::new(
                Arc::clone(&shared.registry),
                discovery.resources(),
            )),
            discovery: discovery.clone(),
            announced: watch::Sender::new(None),
            reviews: TaskTracker::new(),
        })
    }

    /// Returns the tracker of reviews in progress.
    pub(crate) fn reviews(&self) -> TaskTracker {
        self.reviews.clone()
    }

    /// Returns the manager of one of the configurations, if they are managed. It runs until
    /// stopped.
    pub(crate) fn manager(
        &self,
        type_: WebhookType,
        halt: CancellationToken,
    ) -> Option<impl Future<Output = Result<(), Error>> + Send + use<>> {
        let owner = self.owner(halt.clone());
        let (name, shared) = (self.managed.clone()?, Arc::clone(&self.shared));
        let served_resources = Arc::clone(&self.served_resources);
        let (discovery, announced) = (self.discovery.clone(), self.announced.subscribe());
        Some(async move {
            let Some(me) = owner.await else {
                return Ok(());
            };
            let manager = configuration::Manager {
                type_,
                name,
                me,
                shared,
                served_resources,
                discovery,
                announced,
            };
            manager.run(halt).await
        })
    }

    /// Returns the manager of the conversions of CRDs, if they are managed and there are conversion
    /// handlers. It runs until stopped.
    pub(crate) fn conversions(
        &self,
        halt: CancellationToken,
    ) -> Option<impl Future<Output = Result<(), Error>> + Send + use<>> {
        self.managed.as_ref()?;
        let handlers = conversion::handlers(&self.shared.registry);
        let handlers = (!handlers.is_empty()).then_some(handlers)?;
        let (owner, shared) = (self.owner(halt.clone()), Arc::clone(&self.shared));
        let (discovery, announced) = (self.discovery.clone(), self.announced.subscribe());
        Some(async move {
            let Some(me) = owner.await else {
                return Ok(());
            };
            let manager = definitions::Manager {
                handlers,
                resource: Arc::new(definitions::resource()),
                me,
                shared,
                discovery,
                announced,
            };
            manager.run(halt).await
        })
    }

    /// Returns this operator as an owner of configurations; `None` if it is stopped before its group
    /// is known.
    fn owner(&self, halt: CancellationToken) -> impl Future<Output = Option<Owner>> + Send + use<> {
        let (owner, shared) = (self.owner.clone(), Arc::clone(&self.shared));
        async move {
            let leading = &shared.context.settings.leading;
            if leading.replication() == Replication::Single {
                return Some(owner);
            }
            let group = leading::peer_identity(&shared.context, owner.identity());
            if let Some(Ok(group)) = halt.run_until_cancelled(group).await {
                return Some(owner.in_group(group));
            }
            // The operator exits, or ends with the error of the task of this replica.
            halt.cancelled().await;
            None
        }
    }

    /// Runs the server until stopped.
    pub(crate) async fn serve(mut self, stop: CancellationToken) -> Result<(), Error> {
        // Before the discovery, the resources of all requests would be unknown.
        let known = stop.run_until_cancelled(self.discovery.next()).await;
        if known.flatten().is_none() {
            return Ok(());
        }
        let mut handlers = self.shared.registry.handlers().iter();
        if self.managed.is_none() && handlers.any(|handler| handler.kind.webhook_type().is_some()) {
            // Without a hint, unreviewed requests would look admitted.
            info!(
                "Webhook configurations are not managed, since settings.admission.managed is not set: \
                 the API server calls the webhooks only if they are configured by other means."
            );
        }
        let resources = self.discovery.resources();
        let converter = Converter::new(Arc::clone(&self.shared), resources);
        let reviewer = Reviewer::new(
            self.shared,
            self.served_resources,
            converter,
            self.announced,
            self.reviews,
        );
        self.server
            .serve(
                Arc::new(ReviewService(Arc::new(reviewer))),
                Box::pin(stop.cancelled_owned()),
            )
            .await
            .map_err(Error::Server)
    }
}
