//! One watch stream: all objects of one resource, in one namespace or in all of them.
//!
//! The stream reads events and routes them. It never waits for a driver: when too much is queued,
//! it stops reading. While the operator is paused, the stream is disconnected; after the pause,
//! everything is listed again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kopf_client::watching::{Signal, observe};
use kopf_core::resource::Resource;
use kopf_core::selector::Selector;
use kopf_core::settings::StreamSelector;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::routing::Routing;
use crate::child_inboxes::Inbox;
use crate::health::StreamHealth;
use crate::indexing::Blocker;
use crate::inspect::{Counted, Guard};
use crate::metrics::{StreamLabel, StreamMetrics};
use crate::object::{AssignmentChange, ResourceContext};
use crate::shared::Shared;

/// Time without queue capacity after which a warning is logged.
const SLOW_WARNING: Duration = Duration::from_secs(10);

/// A watch stream; see the module documentation.
pub(crate) struct Stream {
    context: Arc<ResourceContext>,
    shared: Arc<Shared>,
    /// `None`: cluster-wide.
    namespace: Option<String>,
    place: String,
    stop: CancellationToken,
    routing: Routing,
    _open: Guard,
    unlisted: Option<Guard>,
    /// Held until the first listing of an indexed resource is complete.
    blocker: Option<Blocker>,
    health: StreamHealth,
    interruption: Interruption,
    metrics: Option<StreamMetrics>,
}

/// The last interruption of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    /// No interruption since the last event.
    None,
    /// The watch has failed and is retried.
    Interrupted,
    /// The server rejects the watch. Logged once.
    Refused,
}

impl Stream {
    /// Creates the stream of one resource in one namespace, or cluster-wide.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        resource: Arc<Resource>,
        namespace: Option<String>,
        stop: CancellationToken,
    ) -> Self {
        let shared = Arc::clone(shared);
        let context =
            ResourceContext::new(Arc::clone(&shared), resource, namespace.as_deref(), stop);
        let context = Arc::new(context);
        let place = match &namespace {
            Some(name) => format!("in '{name}'"),
            None => "cluster-wide".to_owned(),
        };
        let inspect = &shared.inspect;
        let name = format!("{} {place}", context.resource());
        let metrics = shared.context.metrics.resource(context.resource());
        let routing = Routing::new(Arc::clone(&context), inspect.clone(), metrics.clone());
        let health = inspect.health_tracker().stream(name);
        health.unlisted();
        Self {
            health,
            metrics: metrics
                .map(|metrics| StreamMetrics::new(metrics, Arc::clone(routing.load()) as _)),
            routing,
            _open: inspect.count(Counted::Stream),
            unlisted: Some(inspect.count(Counted::Unlisted)),
            blocker: context.is_awaited().then(|| shared.barrier.block()),
            interruption: Interruption::None,
            stop: context.stop.clone(),
            context,
            namespace,
            place,
            shared,
        }
    }

    /// Watches until stopped, then waits for running drivers for at most `queueing.exit_timeout`.
    pub(crate) async fn run(mut self) {
        let resource = Arc::clone(self.context.resource());
        let stop = self.stop.clone();
        let pause = self.shared.pause.clone();
        let place = self.place.clone();
        let how = if pause.is_paused() { " (paused)" } else { "" };
        debug!("Starting the watch-stream for {resource} {place}{how}.");
        while !stop.is_cancelled() {
            if pause.is_paused() {
                debug!("Pausing the watch-stream for {resource} {place} (blockers: {pause}).");
                self.rest().await;
            } else {
                self.await_listing();
                self.watch().await;
            }
        }
        debug!("Stopping the watch-stream for {resource} {place}.");
        self.health.unattended();
        let exit_timeout = self.shared.context.settings.queueing.exit_timeout;
        let drained = timeout(exit_timeout, async {
            while let Some(ended) = self.routing.drivers.join_next().await {
                self.routing.join(ended);
            }
        });
        if drained.await.is_err() {
            warn!(
                "Objects of {resource} {place} are still being handled: {} left. \
                 They are abandoned.",
                self.routing.drivers.len()
            );
        }
        self.routing.drivers.shutdown().await;
    }

    /// Reads events until the operator is paused or the stream is stopped.
    async fn watch(&mut self) {
        let shared = Arc::clone(&self.shared);
        let context = Arc::clone(&self.context);
        let operator = &shared.context;
        let queueing = &operator.settings.queueing;
        let load = Arc::clone(self.routing.load());
        let place = self.place.clone();
        context.adopt();
        self.routing.reassign();
        let mut watching = operator.settings.watching.clone();
        if let Some(shard) = context.shard_selector() {
            let mut selector = StreamSelector::new(Selector::everything());
            selector.shard = Some(shard);
            watching.selectors.push(selector);
        }
        let mut observer = observe(
            operator.client.clone(),
            Arc::clone(context.resource()),
            self.namespace.clone(),
            &watching,
        )
        .managed_fields(operator.managed_fields);
        self.health.listening(observer.pulse());
        if let Some(metrics) = &self.metrics {
            metrics.listening(observer.pulse());
        }
        let mut paused = pin!(shared.pause.paused());
        let mut indexed = pin!(context.ready());
        let mut reassigned = pin!(context.reassigned());
        let mut is_indexed = context.is_ready();
        loop {
            let signal = async {
                let room = load.room(queueing.max_events, queueing.max_bytes);
                room_or_warning(room, context.resource(), &place, &self.health).await;
                observer.next().await
            };
            let signal = self.health.attend(signal);
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = &mut paused => break,
                () = &mut reassigned => {
                    if context.adopt() == AssignmentChange::Gained {
                        // Other replicas may have handled the added objects meanwhile.
                        break;
                    }
                    self.routing.reassign();
                    reassigned.set(context.reassigned());
                }
                // Indices that appear later do not delay objects that appear later.
                () = &mut indexed, if !is_indexed => is_indexed = true,
                Some(ended) = self.routing.drivers.join_next() => self.routing.join(ended),
                () = arrival(context.inbox.as_deref()) => self.routing.nudge(),
                signal = signal => self.take(signal),
            }
        }
    }

    /// Waits until the operator resumes or the stream is stopped. Queued events are processed
    /// meanwhile.
    async fn rest(&mut self) {
        let shared = Arc::clone(&self.shared);
        self.health.paused();
        self.label(StreamLabel::Paused);
        // During a pause, the listing depends on other operators.
        self.listed();
        let mut resumed = pin!(shared.pause.resumed());
        let context = Arc::clone(&self.context);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = &mut resumed => {
                    let (resource, place) = (self.context.resource(), &self.place);
                    debug!("Resuming the watch-stream for {resource} {place}.");
                    break;
                }
                Some(ended) = self.routing.drivers.join_next() => self.routing.join(ended),
                () = arrival(context.inbox.as_deref()) => self.routing.nudge(),
            }
        }
    }

    fn take(&mut self, signal: Signal) {
        match signal {
            Signal::Listing => {
                if let Some(metrics) = &self.metrics {
                    metrics.listing();
                }
                self.routing.begin_listing();
            }
            Signal::Item(item) => {
                self.recovered();
                if let Some(metrics) = &self.metrics {
                    metrics.resource().event(item.event);
                }
                self.routing.route(item);
            }
            Signal::Listed { .. } => {
                self.recovered();
                self.routing.end_listing();
                self.listed();
                self.label(StreamLabel::Watching);
                self.blocker = None;
            }
            Signal::Failure {
                error,
                retry_in,
                permanent: true,
            } => self.refused(&error, retry_in),
            Signal::Failure {
                error, retry_in, ..
            } => self.interrupted(&error, retry_in),
        }
    }

    fn refused(&mut self, error: &kopf_client::Error, retry_in: Duration) {
        self.label(StreamLabel::Refused);
        let (resource, place) = (self.context.resource(), &self.place);
        let retry_in = retry_in.as_secs_f64();
        if self.interruption == Interruption::Refused {
            debug!(
                "Watching of {resource} {place} is still not possible: {error}. \
                 Trying again in {retry_in:.1} seconds."
            );
            return;
        }
        self.interruption = Interruption::Refused;
        self.health.refused(error.to_string());
        warn!(
            "Watching of {resource} {place} is not possible: {error}. \
             The others are served; trying again in {retry_in:.1} seconds."
        );
        // Without permissions, the listing may never complete.
        self.unlisted = None;
        self.health.listed();
        if self.blocker.take().is_some() {
            let place = if self.context.indices.is_empty() {
                place.clone()
            } else {
                format!("{place} in the indices")
            };
            warn!("Handlers are called without {resource} {place}: they cannot be listed yet.");
        }
    }

    fn interrupted(&mut self, error: &kopf_client::Error, retry_in: Duration) {
        self.label(StreamLabel::Interrupted);
        self.interruption = Interruption::Interrupted;
        let (resource, place) = (self.context.resource(), &self.place);
        let retry_in = retry_in.as_secs_f64();
        self.health.failing(error.to_string());
        warn!(
            "Watching of {resource} {place} is interrupted: {error}. \
             Trying again in {retry_in:.1} seconds."
        );
        if self.blocker.is_some() {
            let why = if self.context.indices.is_empty() {
                "reconcile handlers need them"
            } else {
                "they are indexed"
            };
            warn!("No handlers are called until {resource} {place} are listed, because {why}.");
        }
    }

    fn recovered(&mut self) {
        if std::mem::replace(&mut self.interruption, Interruption::None) != Interruption::None {
            self.health.healthy();
        }
    }

    /// Marks the stream as unlisted until its listing is complete or cannot be awaited.
    fn await_listing(&mut self) {
        self.unlisted = Some(self.shared.inspect.count(Counted::Unlisted));
        self.health.unlisted();
    }

    fn listed(&mut self) {
        self.unlisted = None;
        self.health.listed();
    }

    fn label(&self, label: StreamLabel) {
        if let Some(metrics) = &self.metrics {
            metrics.set(label);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let identities = self.routing.identities();
        // The last handlers of the operator may still read its indices.
        if !self.shared.ending.is_cancelled() {
            identities.for_each(|identity| self.context.discard(identity));
        }
        self.routing.count_none();
    }
}

/// Waits for changed children; forever if no handlers depend on them. Cancel-safe.
async fn arrival(inbox: Option<&Inbox>) {
    match inbox {
        Some(inbox) => inbox.arrival().await,
        None => std::future::pending().await,
    }
}

/// Waits for queue capacity; logs a warning after [`SLOW_WARNING`].
async fn room_or_warning(
    room: impl Future<Output = ()>,
    resource: &Resource,
    place: &str,
    health: &StreamHealth,
) {
    let mut room = pin!(room);
    if timeout(SLOW_WARNING, &mut room).await.is_err() {
        // The function may be called again before there is capacity.
        if health.slow_down() {
            warn!(
                "Watching of {resource} {place} is slowed down: too many changes wait for \
                 handlers. Nothing is lost; see the settings queueing.max_events and \
                 queueing.max_bytes."
            );
        }
        room.await;
    }
    health.catch_up();
}
