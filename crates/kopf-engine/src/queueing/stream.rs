//! One stream of events: all objects of one kind, in one namespace or in all of them.
//!
//! The stream owns the objects it knows. It reads events, leads them to the queues of their
//! objects, and starts a worker for an object that has none. It never waits for a worker: when too
//! much is queued, it only stops reading. While the operator is paused, there is no connection, and
//! everything is listed anew after that.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use kopf_client::watching::{Item, Signal, observe};
use kopf_core::cause::EventType;
use kopf_core::registry::KindHandlers;
use kopf_core::resource::Resource;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::load::Load;
use super::mailbox::{Mailbox, Queued};
use super::memory::Memory;
use super::worker::{Finished, Worker};
use crate::execution::describe_panic;
use crate::health::Sign;
use crate::identity::Identity;
use crate::indexing::{Blocker, KindIndices, ObjectKey};
use crate::inspect::{Counted, Guard, Inspect};
use crate::invocation::{Function, Hosting};
use crate::shared::Shared;

/// How long a stream may not be read before that is worth a warning.
const SLOW: Duration = Duration::from_secs(10);

/// What to watch, and with what to react.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: Arc<Resource>,
    /// `None`: in all namespaces, or of a kind that has none.
    pub(crate) namespace: Option<String>,
    handlers: KindHandlers<Function>,
    indices: KindIndices,
    is_reviewed: bool,
    /// Nothing but indexing happens before the first listing of an indexed kind.
    blocker: Option<Blocker>,
}

/// What all workers of a stream need.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) handlers: KindHandlers<Function>,
    /// The indices which these objects can be in.
    pub(crate) indices: KindIndices,
    /// Whether there are also handlers for admission, who share the memos of objects.
    pub(crate) is_reviewed: bool,
    /// Whether all indices were filled once, as far as this stream knows.
    indexed: AtomicBool,
    /// How many objects may be worked on at once, if that is limited.
    pub(crate) limit: Option<Semaphore>,
    pub(crate) stop: CancellationToken,
    /// Where the workers are polled.
    hosting: Hosting,
}

/// A known object.
#[derive(Debug)]
struct Slot {
    /// In which listing it was last seen.
    listing: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It has nothing to do.
    Quiet(Memory),
    /// A worker works on it.
    Working(Arc<Mailbox>),
    /// Its worker has ended, and is still to be noticed; these came since.
    Ending { since: Vec<Queued>, _busy: Guard },
}

impl State {
    fn ending(entry: Queued, inspect: &Inspect) -> Self {
        Self::Ending {
            since: vec![entry],
            _busy: inspect.count(Counted::Working),
        }
    }
}

impl Kind {
    /// Whether superseded versions are of interest, too.
    pub(crate) fn takes_every_version(&self) -> bool {
        !self.handlers.watching.is_empty() || !self.indices.is_empty()
    }

    /// Whether anything is done to these objects apart from indexing.
    pub(crate) fn is_handled(&self) -> bool {
        let handlers = &self.handlers;
        !(handlers.watching.is_empty()
            && handlers.spawning.is_empty()
            && handlers.changing.is_empty())
    }

    /// Whether all indices were filled once: what comes later does not hold these objects up.
    pub(crate) fn is_ready(&self) -> bool {
        if !self.indexed.load(Ordering::Acquire) && self.shared.barrier.is_lifted() {
            self.indexed.store(true, Ordering::Release);
        }
        self.indexed.load(Ordering::Acquire)
    }

    /// Waits until [`is_ready`](Self::is_ready). Cancel-safe.
    pub(crate) async fn ready(&self) {
        if !self.is_ready() {
            self.shared.barrier.lifted().await;
            self.indexed.store(true, Ordering::Release);
        }
    }

    /// The object is gone, or is not served any more.
    fn discard(&self, identity: &Identity) {
        if !self.indices.is_empty() {
            let object = ObjectKey::new(identity, &self.resource);
            self.indices.discard(&object);
        }
    }
}

impl Stream {
    pub(crate) fn new(
        shared: Arc<Shared>,
        resource: Arc<Resource>,
        namespace: Option<String>,
    ) -> Self {
        let handlers = shared.registry.for_resource(&resource);
        let indices = shared.context.indices.of_kind(&handlers);
        let is_reviewed = shared.registry.handlers().iter().any(|handler| {
            let selector = handler.selector.as_ref();
            handler.kind.webhook_type().is_some()
                && selector.is_some_and(|selector| selector.check(&resource))
        });
        let blocker = (!indices.is_empty()).then(|| shared.barrier.block());
        Self {
            shared,
            resource,
            namespace,
            handlers,
            indices,
            is_reviewed,
            blocker,
        }
    }

    /// Watches until it is stopped, then lets the workers end what they are doing for as long as
    /// `queueing.exit_timeout` says.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let settings = Arc::clone(&self.shared.context.settings);
        let has_callbacks = self.handlers.has_callbacks();
        let kind = Kind {
            hosting: Hosting::of(&self.shared.context, has_callbacks),
            handlers: self.handlers,
            indices: self.indices,
            is_reviewed: self.is_reviewed,
            indexed: AtomicBool::new(false),
            limit: settings
                .queueing
                .worker_limit
                .map(|limit| Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS))),
            stop: stop.clone(),
            resource: self.resource,
            shared: self.shared,
        };
        let place = match &self.namespace {
            Some(name) => format!("in '{name}'"),
            None => "cluster-wide".to_owned(),
        };
        let name = format!("{} {place}", kind.resource);
        let sign = kind.shared.inspect.vitals().stream(name);
        let routing = Routing {
            namespace: self.namespace,
            place,
            load: Arc::default(),
            listing: 0,
            objects: HashMap::new(),
            workers: JoinSet::new(),
            _open: kind.shared.inspect.count(Counted::Stream),
            unlisted: Some(kind.shared.inspect.count(Counted::Unlisted)),
            blocker: self.blocker,
            sign,
            is_troubled: false,
            is_refused: false,
            kind: Arc::new(kind),
        };
        routing.run().await;
    }
}

struct Routing {
    kind: Arc<Kind>,
    namespace: Option<String>,
    place: String,
    load: Arc<Load>,
    /// The number of the current listing, or of the last one.
    listing: u32,
    objects: HashMap<Identity, Slot>,
    workers: JoinSet<Finished>,
    _open: Guard,
    unlisted: Option<Guard>,
    /// Until the first listing of an indexed kind is over.
    blocker: Option<Blocker>,
    /// What it tells to those who ask how the operator is.
    sign: Sign,
    is_troubled: bool,
    /// Whether the last trouble was a refusal, which is told once.
    is_refused: bool,
}

impl Routing {
    async fn run(mut self) {
        let resource = Arc::clone(&self.kind.resource);
        let stop = self.kind.stop.clone();
        let pause = self.kind.shared.pause.clone();
        let place = self.place.clone();
        let how = if pause.is_paused() { " (paused)" } else { "" };
        debug!("Starting the watch-stream for {resource} {place}{how}.");
        while !stop.is_cancelled() {
            if pause.is_paused() {
                debug!("Pausing the watch-stream for {resource} {place} (blockers: {pause}).");
                self.rest().await;
            } else {
                self.unlisted = Some(self.kind.shared.inspect.count(Counted::Unlisted));
                self.watch().await;
            }
        }
        debug!("Stopping the watch-stream for {resource} {place}.");
        let exit_timeout = self.kind.shared.context.settings.queueing.exit_timeout;
        let drained = timeout(exit_timeout, async {
            while let Some(ended) = self.workers.join_next().await {
                self.notice(ended);
            }
        });
        if drained.await.is_err() {
            warn!(
                "Objects of {resource} {place} are still being handled: {} left. \
                 They are given up.",
                self.workers.len()
            );
        }
        self.workers.shutdown().await;
    }

    /// Reads events until the operator is paused or the stream is stopped.
    async fn watch(&mut self) {
        let kind = Arc::clone(&self.kind);
        let context = &kind.shared.context;
        let queueing = &context.settings.queueing;
        let load = Arc::clone(&self.load);
        let place = self.place.clone();
        let mut observer = observe(
            context.client.clone(),
            Arc::clone(&kind.resource),
            self.namespace.clone(),
            &context.settings.watching,
        );
        self.sign.listening(observer.pulse());
        let mut paused = pin!(kind.shared.pause.paused());
        let mut indexed = pin!(kind.ready());
        let mut is_indexed = kind.is_ready();
        loop {
            let signal = async {
                let room = load.room(queueing.max_events, queueing.max_bytes);
                room_or_warning(room, &kind.resource, &place, &self.sign).await;
                observer.next().await
            };
            tokio::select! {
                () = kind.stop.cancelled() => break,
                () = &mut paused => break,
                // Also if it has no objects now: those to come are not held up by what comes later.
                () = &mut indexed, if !is_indexed => is_indexed = true,
                Some(ended) = self.workers.join_next() => self.notice(ended),
                signal = signal => self.take(signal),
            }
        }
    }

    /// Waits until the operator goes on or the stream is stopped. What is queued already is worked
    /// on meanwhile.
    async fn rest(&mut self) {
        let kind = Arc::clone(&self.kind);
        self.sign.paused();
        // Whoever waits for the listing would wait for other operators.
        self.unlisted = None;
        let mut resumed = pin!(kind.shared.pause.resumed());
        loop {
            tokio::select! {
                () = kind.stop.cancelled() => break,
                () = &mut resumed => {
                    let (resource, place) = (&kind.resource, &self.place);
                    debug!("Resuming the watch-stream for {resource} {place}.");
                    break;
                }
                Some(ended) = self.workers.join_next() => self.notice(ended),
            }
        }
    }

    fn take(&mut self, signal: Signal) {
        match signal {
            Signal::Listing => self.listing = self.listing.wrapping_add(1),
            Signal::Item(item) => {
                self.recovered();
                self.route(item);
            }
            Signal::Listed { .. } => {
                self.recovered();
                self.forget_vanished();
                self.unlisted = None;
                self.blocker = None;
            }
            Signal::Trouble {
                error,
                retry_in,
                permanent,
            } => {
                let (resource, place) = (&self.kind.resource, &self.place);
                let retry_in = retry_in.as_secs_f64();
                let was_refused = std::mem::replace(&mut self.is_refused, permanent);
                self.is_troubled = true;
                if permanent && was_refused {
                    debug!(
                        "Watching of {resource} {place} is still not possible: {error}. \
                         Trying again in {retry_in:.1} seconds."
                    );
                } else if permanent {
                    self.sign.refused(error.to_string());
                    // Whoever waits for the listing would wait for permissions.
                    self.unlisted = None;
                    warn!(
                        "Watching of {resource} {place} is not possible: {error}. \
                         The others are served; trying again in {retry_in:.1} seconds."
                    );
                    if self.blocker.take().is_some() {
                        warn!(
                            "Handlers are called without {resource} {place} in the indices, \
                             because nobody knows when they can be listed."
                        );
                    }
                } else {
                    self.sign.troubled(error.to_string());
                    warn!(
                        "Watching of {resource} {place} is interrupted: {error}. \
                         Trying again in {retry_in:.1} seconds."
                    );
                    if self.blocker.is_some() {
                        warn!(
                            "No handlers are called until {resource} {place} are listed, \
                             because they are indexed."
                        );
                    }
                }
            }
        }
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.is_troubled) {
            self.is_refused = false;
            self.sign.fine();
        }
    }

    fn route(&mut self, item: Item) {
        let identity = Identity::of(&item.key);
        let listed = item.event == EventType::Listed;
        let entry = Queued::Event {
            event: item.event,
            version: item.key.resource_version,
            raw: item.raw,
        };
        let before = self.objects.len();
        match self.objects.entry(identity) {
            Entry::Vacant(vacant) => {
                let state = start(
                    &mut self.workers,
                    &self.kind,
                    &self.load,
                    vacant.key().clone(),
                    Memory::new(listed),
                    vec![entry],
                );
                vacant.insert(Slot {
                    listing: self.listing,
                    state,
                });
            }
            Entry::Occupied(mut known) => {
                let identity = known.key().clone();
                let slot = known.get_mut();
                slot.listing = self.listing;
                match &mut slot.state {
                    State::Quiet(memory) if memory.covers(&entry) => {}
                    State::Quiet(memory) => {
                        let memory = std::mem::take(memory);
                        slot.state = start(
                            &mut self.workers,
                            &self.kind,
                            &self.load,
                            identity,
                            memory,
                            vec![entry],
                        );
                    }
                    State::Working(mailbox) => {
                        if let Err(entry) = mailbox.push(entry) {
                            slot.state = State::ending(entry, &self.kind.shared.inspect);
                        }
                    }
                    State::Ending { since, .. } => since.push(entry),
                }
            }
        }
        self.count(before);
    }

    /// Objects that a complete listing does not have are gone.
    fn forget_vanished(&mut self) {
        let (before, listing) = (self.objects.len(), self.listing);
        self.objects.retain(|identity, slot| {
            if slot.listing == listing {
                return true;
            }
            match &mut slot.state {
                State::Quiet(_) => {
                    self.kind.discard(identity);
                    return false;
                }
                State::Working(mailbox) => {
                    if let Err(entry) = mailbox.push(Queued::Vanished) {
                        slot.state = State::ending(entry, &self.kind.shared.inspect);
                    }
                }
                State::Ending { since, .. } => since.push(Queued::Vanished),
            }
            true
        });
        self.count(before);
    }

    /// A worker has ended.
    fn notice(&mut self, ended: Result<Finished, JoinError>) {
        // Panics are caught in the worker, and cancelled workers are no longer waited for.
        let Ok(finished) = ended else { return };
        let before = self.objects.len();
        if let Entry::Occupied(mut known) = self.objects.entry(finished.identity) {
            let identity = known.key().clone();
            let slot = known.get_mut();
            let mut since: Vec<_> = match &mut slot.state {
                State::Ending { since, .. } => std::mem::take(since),
                // Not empty only after a failure.
                State::Working(mailbox) => mailbox.drain().entries.into(),
                State::Quiet(_) => Vec::new(),
            };
            if let Some(memory) = &finished.memory {
                since.retain(|entry| !memory.covers(entry));
            }
            match finished.memory {
                None if since.is_empty() => {
                    self.kind.discard(&identity);
                    known.remove();
                }
                memory if since.is_empty() => {
                    slot.state = State::Quiet(memory.unwrap_or_default());
                }
                memory => {
                    slot.state = start(
                        &mut self.workers,
                        &self.kind,
                        &self.load,
                        identity,
                        memory.unwrap_or_default(),
                        since,
                    );
                }
            }
        }
        self.count(before);
    }

    fn count(&self, before: usize) {
        let now = self.objects.len();
        if now != before {
            self.kind.shared.inspect.set_objects(before, now);
        }
    }
}

impl Drop for Routing {
    fn drop(&mut self) {
        // The last handlers of the operator may still look into its indices.
        if !self.kind.shared.ending.is_cancelled() {
            for identity in self.objects.keys() {
                self.kind.discard(identity);
            }
        }
        self.kind.shared.inspect.set_objects(self.objects.len(), 0);
    }
}

/// Whoever reads slowly says so.
async fn room_or_warning(
    room: impl Future<Output = ()>,
    resource: &Resource,
    place: &str,
    sign: &Sign,
) {
    let mut room = pin!(room);
    if timeout(SLOW, &mut room).await.is_err() {
        // It may be asked for again before there is any.
        if sign.slow_down() {
            warn!(
                "Watching of {resource} {place} is slowed down: too many changes wait for \
                 handlers. Nothing is lost; see the settings queueing.max_events and \
                 queueing.max_bytes."
            );
        }
        room.await;
    }
    sign.catch_up();
}

fn start(
    workers: &mut JoinSet<Finished>,
    kind: &Arc<Kind>,
    load: &Arc<Load>,
    identity: Identity,
    memory: Memory,
    entries: Vec<Queued>,
) -> State {
    let mailbox = Arc::new(Mailbox::new(Arc::clone(load), kind.takes_every_version()));
    for entry in entries {
        // It is new, and cannot be closed.
        let _ = mailbox.push(entry);
    }
    let object = ObjectKey::new(&identity, &kind.resource);
    let worker = Worker::new(Arc::clone(kind), Arc::clone(&mailbox), object, memory);
    let worker = Box::new(worker);
    let resource = Arc::clone(&kind.resource);
    let worker = async move {
        // Panics of handlers are caught where handlers are called: this one would be ours.
        let memory = match AssertUnwindSafe(worker.run()).catch_unwind().await {
            Ok(memory) => memory,
            Err(panic) => {
                let cause = describe_panic(&*panic);
                error!("A worker of {resource} has failed, which is a bug of Kopf: {cause}");
                Some(Memory::default())
            }
        };
        Finished { identity, memory }
    };
    // Boxed only where it must be: there can be thousands of workers.
    if kind.hosting.is_native() {
        workers.spawn(worker);
    } else {
        workers.spawn(kind.hosting.run(&kind.shared.context, worker));
    }
    State::Working(mailbox)
}
