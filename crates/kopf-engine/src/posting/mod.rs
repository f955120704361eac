//! Kubernetes events of objects: queued by handlers and loggers, sent in the background.
//!
//! [`Poster`] queues events, [`run`] sends them one at a time in order. Posting never delays
//! handling: the queue is bounded, repeats of a queued event are folded into it with a count, and
//! events beyond the limit are dropped, counted and logged. Repeats of a posted event are queued
//! for a time that doubles with each of them. Events that the server rejects are dropped with a
//! warning. Events that are still queued when the operator exits are lost.
//!
//! The only permission required is `create` on `v1/events`.

mod event;
mod queue;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_client::Client;
use kopf_core::reference::ObjectReference;
use kopf_core::settings::{self, Backoffs, Settings};
use kopf_core::sync::Mutex;
use kopf_core::wording::Level;
use tokio::sync::Notify;

use self::event::{Event, MESSAGE_LIMIT, shortened};
use self::queue::{Accepted, Next, Queue};
use crate::clock::Clock;
use crate::metrics::PostingMetrics;

/// Reason of the events of log records.
const LOGGING: &str = "Logging";

/// The queue of events to post. Cheap to clone; clones share the queue.
#[derive(Clone)]
pub struct Poster {
    inner: Option<Arc<Inner>>,
}

/// State shared by the clones of a poster and the sending task.
struct Inner {
    settings: Arc<Settings>,
    clock: Clock,
    queue: Mutex<Queue>,
    arrived: Notify,
    metrics: Option<Arc<PostingMetrics>>,
}

impl Poster {
    /// Returns a poster with an empty queue. Nothing is sent until [`run`] is polled.
    pub fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        Self::measured(settings, clock, None)
    }

    /// Returns a poster whose events are counted.
    pub(crate) fn measured(
        settings: Arc<Settings>,
        clock: Clock,
        metrics: Option<Arc<PostingMetrics>>,
    ) -> Self {
        Self {
            inner: Some(Arc::new(Inner {
                settings,
                clock,
                queue: Mutex::default(),
                arrived: Notify::new(),
                metrics,
            })),
        }
    }

    /// Returns a poster that drops everything.
    pub fn disabled() -> Self {
        Self { inner: None }
    }

    /// Posts an event regardless of the settings. `None` means the default delays between attempts.
    pub fn post(
        &self,
        object: &ObjectReference,
        type_: &str,
        reason: &str,
        message: String,
        backoffs: Option<Backoffs>,
    ) {
        let Some(inner) = &self.inner else { return };
        // An operator that watches events would react to its own ones forever.
        if is_event(object) {
            return;
        }
        let now = inner.clock.now();
        let event = Event {
            object: object.clone(),
            type_: type_.to_owned(),
            reason: reason.to_owned(),
            message: shortened(message, MESSAGE_LIMIT),
        };
        let posting = &inner.settings.posting;
        let backoffs = backoffs.unwrap_or_else(|| posting.default_backoffs.clone());
        let mut queue = inner.queue.lock();
        let accepted = queue.push(event, backoffs, now, posting.queue_limit);
        inner.count(&accepted, &queue);
        drop(queue);
        match accepted {
            Accepted::Queued => inner.arrived.notify_one(),
            Accepted::Folded | Accepted::Dropped => {}
            Accepted::FirstDropped => {
                tracing::warn!(
                    "Too many k8s-events are waiting to be posted: new ones are dropped. \
                     See the setting posting.queue_limit."
                );
            }
        }
    }

    /// Posts an event of any type, if posting is enabled.
    pub fn event(&self, object: &ObjectReference, type_: &str, reason: &str, message: String) {
        if self.is_enabled() {
            self.post(object, type_, reason, message, None);
        }
    }

    /// Posts an event of type `Normal`, if posting is enabled for that level.
    pub fn info(&self, object: &ObjectReference, reason: &str, message: String) {
        self.post_at(Level::Info, object, reason, message);
    }

    /// Posts an event of type `Warning`, if posting is enabled for that level.
    pub fn warn(&self, object: &ObjectReference, reason: &str, message: String) {
        self.post_at(Level::Warning, object, reason, message);
    }

    /// Posts an event of type `Error`, if posting is enabled for that level.
    pub fn exception(&self, object: &ObjectReference, reason: &str, message: String) {
        self.post_at(Level::Error, object, reason, message);
    }

    /// Posts a log record of an object. The caller checks [`takes_records`](Self::takes_records)
    /// first.
    pub fn record(&self, object: &ObjectReference, level: Level, message: String) {
        let backoffs = self
            .posting()
            .map(|posting| posting.logging_backoffs.clone());
        self.post(object, type_of(level), LOGGING, message, backoffs);
    }

    /// Returns `true` if log records of this level are posted.
    pub fn takes_records(&self, level: Level) -> bool {
        self.posting()
            .is_some_and(|posting| posting.loggers && takes(posting, level))
    }

    /// Returns the number of events dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.inner
            .as_ref()
            .map_or(0, |inner| inner.queue.lock().dropped)
    }

    /// Returns `true` if no event is queued or being sent.
    pub fn is_idle(&self) -> bool {
        self.inner
            .as_ref()
            .is_none_or(|inner| inner.queue.lock().is_idle())
    }

    /// Returns `true` if posting is enabled.
    pub fn is_enabled(&self) -> bool {
        self.posting().is_some_and(|posting| posting.enabled)
    }

    fn post_at(&self, level: Level, object: &ObjectReference, reason: &str, message: String) {
        if self.posting().is_some_and(|posting| takes(posting, level)) {
            self.post(object, type_of(level), reason, message, None);
        }
    }

    fn posting(&self) -> Option<&settings::Posting> {
        self.inner.as_ref().map(|inner| &inner.settings.posting)
    }
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster")
            .field("enabled", &self.is_enabled())
            .field("idle", &self.is_idle())
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Sleeps until this time; forever for `None`.
    async fn sleep_until(&self, due: Option<Timestamp>) {
        let Some(due) = due else {
            return std::future::pending().await;
        };
        let left = due.duration_since(self.clock.now());
        tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
    }

    fn count(&self, accepted: &Accepted, queue: &Queue) {
        let Some(metrics) = &self.metrics else { return };
        match accepted {
            Accepted::Queued => {}
            Accepted::Folded => {
                metrics.folded.inc();
            }
            Accepted::Dropped | Accepted::FirstDropped => {
                metrics.dropped.inc();
            }
        }
        metrics.set_queued(queue.len());
    }
}

/// Sends queued events one by one. Never returns.
///
/// # Cancellation
///
/// Can be dropped at any time: queued events are lost, the one in flight may or may not arrive.
pub async fn run(poster: Poster, client: Client) {
    let Some(inner) = poster.inner else {
        return std::future::pending().await;
    };
    loop {
        let (next, due, dropped) = {
            let mut queue = inner.queue.lock();
            let next = queue.pop(inner.clock.now());
            if let Some(metrics) = &inner.metrics {
                metrics.set_queued(queue.len());
            }
            let limit = inner.settings.posting.queue_limit;
            (next, queue.due(), queue.end_of_burst(limit))
        };
        if let Some(dropped) = dropped {
            tracing::warn!(
                "{dropped} k8s-events were dropped: they were created faster than they could be posted."
            );
        }
        let Some(next) = next else {
            tokio::select! {
                () = inner.arrived.notified() => {}
                () = inner.sleep_until(due) => {}
            }
            continue;
        };
        let sent = send(&client, &inner.settings.posting, &next).await;
        if let Some(metrics) = &inner.metrics {
            match sent {
                Sent::Posted => metrics.posted.inc(),
                Sent::Failed => metrics.failed.inc(),
            };
        }
    }
}

/// The result of sending one event.
enum Sent {
    Posted,
    /// The server rejected the event; a warning is logged.
    Failed,
}

async fn send(client: &Client, posting: &settings::Posting, next: &Next) -> Sent {
    let event = &next.event;
    // Events are namespaced: those of cluster-scoped objects go to the namespace of the
    // credentials.
    let suggested = client.default_namespace();
    let namespace = [event.object.namespace.as_deref(), suggested.as_deref()]
        .into_iter()
        .flatten()
        .find(|namespace| !namespace.is_empty())
        .unwrap_or("default");
    let body = event.body(namespace, posting, next.occurrences);
    if let Err(error) = kopf_client::events::post(client, namespace, &body, &next.backoffs).await {
        if is_end_of_namespace(&error) {
            // Every object of a terminating namespace would cause a warning.
            tracing::debug!(
                "An event is not posted: the namespace '{namespace}' is terminating or gone: {error}"
            );
            return Sent::Failed;
        }
        tracing::warn!(
            "Failed to post an event. Ignoring and continuing. {error}. \
             Event: type={:?}, reason={:?}, message={:?}.",
            event.type_,
            event.reason,
            event.message,
        );
        return Sent::Failed;
    }
    Sent::Posted
}

/// Returns `true` if the namespace is terminating or gone.
fn is_end_of_namespace(error: &kopf_client::Error) -> bool {
    let is_terminating = || {
        let details = error.status().and_then(|status| status.details.as_ref());
        let causes = details.and_then(|details| details.get("causes")?.as_array());
        let mut causes = causes.into_iter().flatten();
        causes.any(|cause| {
            cause
                .get("reason")
                .is_some_and(|it| it == "NamespaceTerminating")
        })
    };
    error.is_not_found() || error.is_forbidden() && is_terminating()
}

/// Returns `true` for k8s-events of either API group.
fn is_event(object: &ObjectReference) -> bool {
    let is_known = |version: &str| version == "v1" || version.starts_with("events.k8s.io/");
    object.kind.as_deref() == Some("Event") && object.api_version.as_deref().is_some_and(is_known)
}

/// Returns the type of events of a level.
fn type_of(level: Level) -> &'static str {
    match level.number() {
        50.. => "Fatal",
        40..50 => "Error",
        30..40 => "Warning",
        20..30 => "Normal",
        _ => "Debug",
    }
}

fn takes(posting: &settings::Posting, level: Level) -> bool {
    posting.enabled && level >= posting.level
}

#[cfg(test)]
mod tests;
