//! One stream of events: all objects of one kind, in one namespace or in all of them.
//!
//! The stream owns the objects it knows. It reads events, leads them to the queues of their
//! objects, and starts a worker for an object that has none. It never waits for a worker: when too
//! much is queued, it only stops reading.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kopf_client::watching::{Item, Observer, Signal, observe};
use kopf_core::cause::EventType;
use kopf_core::registry::KindHandlers;
use kopf_core::resource::Resource;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::identity::Identity;
use super::load::Load;
use super::mailbox::{Mailbox, Queued};
use super::memory::Memory;
use super::worker::{Finished, Worker};
use crate::execution::describe_panic;
use crate::inspect::{Counted, Guard, Inspect};
use crate::invocation::Function;
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
}

/// What all workers of a stream need.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) handlers: KindHandlers<Function>,
    /// How many objects may be worked on at once, if that is limited.
    pub(crate) limit: Option<Semaphore>,
    pub(crate) stop: CancellationToken,
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

impl Stream {
    /// Watches until it is stopped, then lets the workers end what they are doing for as long as
    /// `queueing.exit_timeout` says.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let settings = Arc::clone(&self.shared.context.settings);
        let observer = observe(
            self.shared.context.client.clone(),
            Arc::clone(&self.resource),
            self.namespace.clone(),
            &settings.watching,
        );
        let handlers = self.shared.registry.for_resource(&self.resource);
        let kind = Kind {
            handlers,
            limit: settings
                .queueing
                .worker_limit
                .map(|limit| Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS))),
            stop: stop.clone(),
            resource: self.resource,
            shared: self.shared,
        };
        let place = self
            .namespace
            .map_or_else(|| "cluster-wide".to_owned(), |name| format!("in '{name}'"));
        let routing = Routing {
            place,
            load: Arc::default(),
            listing: 0,
            objects: HashMap::new(),
            workers: JoinSet::new(),
            _open: kind.shared.inspect.count(Counted::Stream),
            unlisted: Some(kind.shared.inspect.count(Counted::Unlisted)),
            kind: Arc::new(kind),
        };
        routing.run(observer).await;
    }
}

struct Routing {
    kind: Arc<Kind>,
    place: String,
    load: Arc<Load>,
    /// The number of the current listing, or of the last one.
    listing: u32,
    objects: HashMap<Identity, Slot>,
    workers: JoinSet<Finished>,
    _open: Guard,
    unlisted: Option<Guard>,
}

impl Routing {
    async fn run(mut self, mut observer: Observer) {
        let resource = Arc::clone(&self.kind.resource);
        let stop = self.kind.stop.clone();
        let queueing = self.kind.shared.context.settings.queueing.clone();
        let load = Arc::clone(&self.load);
        debug!("Starting the watch-stream for {resource} {}.", self.place);
        let place = self.place.clone();
        loop {
            let signal = async {
                let room = load.room(queueing.max_events, queueing.max_bytes);
                room_or_warning(room, &resource, &place).await;
                observer.next().await
            };
            tokio::select! {
                () = stop.cancelled() => break,
                Some(ended) = self.workers.join_next() => self.notice(ended),
                signal = signal => self.take(signal),
            }
        }
        debug!("Stopping the watch-stream for {resource} {}.", self.place);
        drop(observer);
        let drained = timeout(queueing.exit_timeout, async {
            while let Some(ended) = self.workers.join_next().await {
                self.notice(ended);
            }
        });
        if drained.await.is_err() {
            warn!(
                "Objects of {resource} {} are still being handled: {} left. They are given up.",
                self.place,
                self.workers.len()
            );
        }
        self.workers.shutdown().await;
    }

    fn take(&mut self, signal: Signal) {
        match signal {
            Signal::Listing => self.listing = self.listing.wrapping_add(1),
            Signal::Item(item) => self.route(item),
            Signal::Listed { .. } => {
                self.forget_vanished();
                self.unlisted = None;
            }
            Signal::Trouble {
                error,
                retry_in,
                permanent,
            } => {
                let (resource, place) = (&self.kind.resource, &self.place);
                let retry_in = retry_in.as_secs_f64();
                if permanent {
                    // Whoever waits for the listing would wait for permissions.
                    self.unlisted = None;
                    warn!(
                        "Watching of {resource} {place} is not possible: {error}. \
                         The others are served; trying again in {retry_in:.1} seconds."
                    );
                } else {
                    warn!(
                        "Watching of {resource} {place} is interrupted: {error}. \
                         Trying again in {retry_in:.1} seconds."
                    );
                }
            }
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
        self.objects.retain(|_, slot| {
            if slot.listing == listing {
                return true;
            }
            match &mut slot.state {
                State::Quiet(_) => return false,
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
            let since: Vec<_> = match &mut slot.state {
                State::Ending { since, .. } => std::mem::take(since),
                // Not empty only after a failure.
                State::Working(mailbox) => mailbox.drain().entries.into(),
                State::Quiet(_) => Vec::new(),
            };
            match finished.memory {
                None if since.is_empty() => {
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
        self.kind.shared.inspect.set_objects(self.objects.len(), 0);
    }
}

/// Whoever reads slowly says so.
async fn room_or_warning(room: impl Future<Output = ()>, resource: &Resource, place: &str) {
    let mut room = pin!(room);
    if timeout(SLOW, &mut room).await.is_err() {
        warn!(
            "Watching of {resource} {place} is slowed down: too many changes wait for handlers. \
             Nothing is lost; see the settings queueing.max_events and queueing.max_bytes."
        );
        room.await;
    }
}

fn start(
    workers: &mut JoinSet<Finished>,
    kind: &Arc<Kind>,
    load: &Arc<Load>,
    identity: Identity,
    memory: Memory,
    entries: Vec<Queued>,
) -> State {
    let keep_all = !kind.handlers.watching.is_empty();
    let mailbox = Arc::new(Mailbox::new(Arc::clone(load), keep_all));
    for entry in entries {
        // It is new, and cannot be closed.
        let _ = mailbox.push(entry);
    }
    let worker = Worker::new(Arc::clone(kind), Arc::clone(&mailbox), memory);
    let resource = Arc::clone(&kind.resource);
    workers.spawn(async move {
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
    });
    State::Working(mailbox)
}
