//! Reconciliation of one managed webhook configuration.
//!
//! ```text
//! address of the server, resources ─► desired webhooks ─┐
//! watch of the object, pause, peers ────────────────────┴─► decide ─► write, now or later
//! ```
//!
//! The rules are in [`kopf_core::admission`]: ownership, times of writes, and backoff after changes
//! by other clients.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::admission::{
    ClientConfig, Configured, Content, Decision, OWNER_ANNOTATION, Owner, Reason, Restorations,
    WebhookType, decide, webhooks,
};
use kopf_core::body::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::object::{ConfigurationObject, configurations};
use super::release::{Precondition, Release, Removal};
use super::served_resources::ServedResources;
use super::watcher::{Present, Seen, Watcher};
use super::{Error, situation};
use crate::observation::DiscoveryReceiver;
use crate::shared::Shared;

/// Delay before a failed write is repeated, in addition to the retries of the client.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Time limit for a request in flight when the operator stops.
const REQUEST_GRACE: Duration = Duration::from_secs(5);

/// Manager of the webhook configuration of one type.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) type_: WebhookType,
    pub(super) name: String,
    pub(super) me: Owner,
    pub(super) shared: Arc<Shared>,
    pub(super) served_resources: Arc<ServedResources>,
    pub(super) discovery: DiscoveryReceiver,
    pub(super) announced: watch::Receiver<Option<ClientConfig>>,
}

/// A configuration object under management.
struct Managed {
    object: Arc<ConfigurationObject>,
    seen: Option<Seen>,
    written: Option<Written>,
    restorations: Restorations,
    /// The next write.
    planned: Option<Planned>,
    /// The owner to which this operator has yielded; logged once.
    yielded_to: Option<Owner>,
}

/// The last successful write.
struct Written {
    /// Webhooks as sent.
    sent: Value,
    /// Webhooks as stored, with the defaults of the server.
    stored: Value,
    version: Option<String>,
}

/// A scheduled write.
#[derive(Clone, Copy, PartialEq)]
struct Planned {
    reason: Reason,
    at: Instant,
}

impl Manager {
    /// Manages the configuration until stopped. Then only persistent webhooks are kept.
    pub(super) async fn run(mut self, halt: CancellationToken) -> Result<(), Error> {
        let beginning = async {
            let (resources, _) = self.discovery.next().await?;
            let object = Arc::new(ConfigurationObject {
                client: self.shared.context.client.clone(),
                resource: configurations(self.type_, &resources),
                type_: self.type_,
                name: self.name.clone(),
            });
            Some(create(&object).await.map(|()| object))
        };
        let begun = halt.run_until_cancelled(beginning).await.flatten();
        let Some(created) = begun else {
            // The observers end only with the operator.
            halt.cancelled().await;
            return Ok(());
        };
        let mut managed = Managed::new(created?);
        let kept = self.keep(&mut managed, &halt).await;
        let config = self.announced.borrow().clone();
        if let Some(config) = config {
            self.clean_up(&managed, &config).await;
        }
        kept
    }

    /// Reconciles the object after every change of the server's address, of the cluster's
    /// resources, of the object itself, of the pause, of the known peers and of the live replicas.
    async fn keep(&mut self, managed: &mut Managed, halt: &CancellationToken) -> Result<(), Error> {
        let settings = &self.shared.context.settings.watching;
        let health = self
            .shared
            .inspect
            .health_tracker()
            .stream(managed.to_string());
        let mut watcher = Watcher::new(Arc::clone(&managed.object), settings, health);
        let mut peers = self.shared.known_peers.subscribe();
        let mut members = self.shared.members.subscribe();
        loop {
            let config = self.announced.borrow_and_update().clone();
            let desired = config.map(|config| self.webhooks(&config, Kept::All));
            peers.borrow_and_update();
            members.borrow_and_update();
            self.plan(managed, desired.as_ref());
            let due = managed.planned;
            let is_over = tokio::select! {
                () = halt.cancelled() => return Ok(()),
                changed = self.announced.changed() => changed.is_err(),
                changed = self.discovery.next() => changed.is_none(),
                changed = peers.changed() => changed.is_err(),
                changed = members.changed() => changed.is_err(),
                () = pause_changed(&self.shared) => false,
                seen = watcher.next() => {
                    managed.see(seen);
                    false
                }
                reason = at(due) => {
                    tokio::select! {
                        written = self.write(managed, desired.as_ref(), reason) => written?,
                        // A request that is dropped immediately could still arrive after the
                        // release.
                        () = request_grace(halt) => return Ok(()),
                    }
                    false
                }
            };
            if is_over {
                // The senders end only with the operator.
                halt.cancelled().await;
                return Ok(());
            }
        }
    }

    /// Plans the next write, keeping the time of a write that is already planned.
    fn plan(&self, managed: &mut Managed, desired: Option<&Value>) {
        let decision = self.decide(managed, desired);
        managed.log_yield(decision);
        let Decision::Write(reason) = decision else {
            managed.planned = None;
            return;
        };
        if let Some(planned) = &mut managed.planned {
            // New content is not delayed by a restoration.
            if reason == planned.reason || reason.is_restoration() {
                planned.reason = reason;
                return;
            }
        }
        let delay = if reason.is_restoration() {
            let now = self.shared.context.clock.now();
            managed.restorations.delay(now)
        } else {
            Duration::ZERO
        };
        if !delay.is_zero() {
            let (type_, name, seconds) = (self.type_, &self.name, delay.as_secs());
            warn!(
                "The {type_} webhook configuration {name} is changed repeatedly by another client: \
                 {reason}. It is restored in {seconds} seconds. If several operators manage it, use \
                 different names in settings.admission.managed."
            );
        }
        let at = Instant::now() + delay;
        managed.planned = Some(Planned { reason, at });
    }

    fn decide(&self, managed: &Managed, desired: Option<&Value>) -> Decision {
        let (Some(desired), Some(seen)) = (desired, &managed.seen) else {
            return Decision::Keep;
        };
        let (owner, content) = match seen {
            Seen::Absent { .. } => (None, Content::Absent),
            Seen::Present(present) => (present.owner.as_ref(), managed.content(present, desired)),
        };
        let decision = decide(&self.me, situation(&self.shared, &self.me, owner, content));
        match (decision, &managed.written) {
            // Before its first write, this operator has nothing to restore.
            (Decision::Write(_), None) => Decision::Write(Reason::Outdated),
            (decision, _) => decision,
        }
    }

    /// Writes the desired webhooks.
    ///
    /// # Errors
    ///
    /// If the first write fails permanently. Failures of later writes are logged and retried.
    async fn write(
        &self,
        managed: &mut Managed,
        desired: Option<&Value>,
        reason: Reason,
    ) -> Result<(), Error> {
        let Some(desired) = desired else {
            return Ok(());
        };
        let (type_, name) = (self.type_, &self.name);
        if reason.is_restoration() {
            info!("Restoring the {type_} webhook configuration {name}: {reason}.");
            let now = self.shared.context.clock.now();
            managed.restorations.record(now);
        } else {
            info!("Reconfiguring the {type_} webhook {name}.");
        }
        let annotation = self.me.annotation();
        let payload = json!({
            "metadata": {"annotations": {OWNER_ANNOTATION: annotation}},
            "webhooks": desired,
        });
        let problem = match managed.object.write(&payload).await {
            Ok(Some(body)) => {
                managed.planned = None;
                managed.wrote(desired, &body);
                return Ok(());
            }
            Ok(None) => {
                "the creation reports that it exists, the patch that it does not".to_owned()
            }
            Err(error) if is_passing(&error) || managed.written.is_some() => error.to_string(),
            Err(error) => return Err(managed.object.explain("patch", error)),
        };
        warn!(
            "The {type_} webhook {name} cannot be reconfigured now and will be retried: {problem}"
        );
        let at = Instant::now() + RETRY_DELAY;
        managed.planned = Some(Planned { reason, at });
        Ok(())
    }

    /// Removes the webhooks that are not persistent, within [`CLEANING`](super::CLEANING).
    async fn clean_up(&self, managed: &Managed, config: &ClientConfig) {
        let (type_, name) = (self.type_, &self.name);
        info!("Cleaning up the admission webhook {name}.");
        let cleaning = timeout(super::CLEANING, self.release(managed, config));
        let reason = match cleaning.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not respond".to_owned(),
        };
        error!(
            "The {type_} webhook configuration {name} cannot be cleaned up: {reason}. Its webhooks \
             remain, and the API server rejects requests that they do not respond to. To remove \
             them: kubectl delete {} {name}",
            managed.object.resource.plural
        );
    }

    /// Removes the webhooks that are not persistent, and the ownership.
    async fn release(
        &self,
        managed: &Managed,
        config: &ClientConfig,
    ) -> Result<(), kopf_client::Error> {
        let kept = self.webhooks(config, Kept::Persistent);
        let removal = if kept == self.webhooks(config, Kept::All) {
            Removal::Ownership
        } else {
            Removal::Webhooks
        };
        let release = Release {
            target: managed.object.target(),
            me: &self.me,
            title: format!("The admission webhook {}", self.name),
            removal: removal.of(&self.shared.members),
            remaining: json!({"webhooks": kept}),
        };
        release.run(managed.precondition(&self.me)).await
    }

    fn webhooks(&self, config: &ClientConfig, kept: Kept) -> Value {
        let configured = Configured {
            managed: &self.name,
            resources: &self.served_resources.current(),
            client_config: config,
            persistent_only: kept == Kept::Persistent,
        };
        let handlers = self.shared.registry.handlers();
        Value::Array(webhooks(handlers, self.type_, configured))
    }
}

/// The webhooks to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    Persistent,
}

impl Managed {
    fn new(object: Arc<ConfigurationObject>) -> Self {
        Self {
            object,
            seen: None,
            written: None,
            restorations: Restorations::default(),
            planned: None,
            yielded_to: None,
        }
    }

    /// Stores an observed version, unless it is older than the last write.
    fn see(&mut self, seen: Seen) {
        let written = self.written.as_ref();
        let version = written.and_then(|written| written.version.as_deref());
        if version.is_none_or(|version| !seen.is_older_than(version)) {
            self.seen = Some(seen);
        }
    }

    fn wrote(&mut self, sent: &Value, body: &Body) {
        let present = Present::from(body);
        self.written = Some(Written {
            sent: sent.clone(),
            stored: present.webhooks.clone(),
            version: present.version.clone(),
        });
        self.seen = Some(Seen::Present(present));
    }

    fn content(&self, present: &Present, desired: &Value) -> Content {
        match &self.written {
            Some(written) if written.sent != *desired => Content::Outdated,
            Some(written) if written.stored == present.webhooks => Content::Intact,
            Some(_) => Content::Edited,
            None => Content::Outdated,
        }
    }

    /// Returns the condition of the release. The last seen version is used only if this operator
    /// owned it.
    fn precondition(&self, me: &Owner) -> Precondition {
        match &self.seen {
            Some(Seen::Present(present)) if present.owner.as_ref() == Some(me) => {
                Precondition::Version(present.version.clone())
            }
            _ => Precondition::Unknown,
        }
    }

    fn log_yield(&mut self, decision: Decision) {
        let owner = match &self.seen {
            Some(Seen::Present(present)) if decision == Decision::Yield => present.owner.clone(),
            _ => None,
        };
        if let Some(owner) = &owner
            && self.yielded_to.as_ref() != Some(owner)
        {
            info!("{self} belongs to another operator: {owner}.");
        }
        self.yielded_to = owner;
    }
}

impl std::fmt::Display for Managed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ConfigurationObject { type_, name, .. } = &*self.object;
        write!(f, "The {type_} webhook configuration {name}")
    }
}

async fn create(object: &ConfigurationObject) -> Result<(), Error> {
    loop {
        match object.create().await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_transient() => {
                let ConfigurationObject { type_, name, .. } = object;
                warn!(
                    "The {type_} webhook {name} cannot be created now and will be retried: \
                     {error}"
                );
                sleep(RETRY_DELAY).await;
            }
            Err(error) => return Err(object.explain("create", error)),
        }
    }
}

/// Returns `true` if the request may succeed later.
fn is_passing(error: &kopf_client::Error) -> bool {
    error.is_transient() || error.is_conflict()
}

/// Waits for the time of a scheduled write; forever if there is none.
async fn at(planned: Option<Planned>) -> Reason {
    match planned {
        Some(Planned { reason, at }) => {
            sleep_until(at).await;
            reason
        }
        None => std::future::pending().await,
    }
}

/// Waits until the operator is paused or resumed.
async fn pause_changed(shared: &Shared) {
    if shared.pause.is_paused() {
        shared.pause.resumed().await;
    } else {
        shared.pause.paused().await;
    }
}

/// Waits until a request in flight is abandoned.
async fn request_grace(halt: &CancellationToken) {
    halt.cancelled().await;
    sleep(REQUEST_GRACE).await;
}
