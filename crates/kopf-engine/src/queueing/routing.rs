//! The objects of one stream: their states, drivers and mailboxes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kopf_client::watching::Item;
use kopf_core::cause::EventType;
use tokio::task::{JoinError, JoinSet};
use tracing::error;

use crate::execution::describe_panic;
use crate::identity::Identity;
use crate::inspect::{Counted, Guard, Inspect};
use crate::mailbox::{Load, Mailbox, Queued};
use crate::metrics::ResourceMetrics;
use crate::object::{Driver, ObjectState, QuietState, ResourceContext};

/// A driver that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    identity: Identity,
    /// `None` if the object is deleted.
    state: Option<QuietState>,
}

/// An object of the stream.
#[derive(Debug)]
struct Slot {
    /// The number of the last listing that contained the object.
    listing: u32,
    activity: Activity,
}

#[derive(Debug)]
enum Activity {
    /// The object has no pending work.
    Quiet(QuietState),
    /// The object has a driver.
    Driven(Arc<Mailbox>),
    /// The driver has ended but is not joined yet. Contains the entries that have arrived since.
    Ending { since: Vec<Queued>, _busy: Guard },
}

/// The objects of one stream and their drivers.
#[derive(Debug)]
pub(super) struct Routing {
    context: Arc<ResourceContext>,
    inspect: Inspect,
    metrics: Option<Arc<ResourceMetrics>>,
    load: Arc<Load>,
    /// The number of the current or last listing.
    listing: u32,
    objects: HashMap<Identity, Slot>,
    pub(super) drivers: JoinSet<Finished>,
}

impl Routing {
    pub(super) fn new(
        context: Arc<ResourceContext>,
        inspect: Inspect,
        metrics: Option<Arc<ResourceMetrics>>,
    ) -> Self {
        Self {
            load: Arc::new(Load::measured(metrics.clone())),
            context,
            inspect,
            metrics,
            listing: 0,
            objects: HashMap::new(),
            drivers: JoinSet::new(),
        }
    }

    /// Returns the load of all mailboxes.
    pub(super) fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// Returns the identities of all objects.
    pub(super) fn identities(&self) -> impl Iterator<Item = &Identity> {
        self.objects.keys()
    }

    /// Begins a listing. Objects that are not in it will be treated as deleted.
    pub(super) fn begin_listing(&mut self) {
        self.listing = self.listing.wrapping_add(1);
    }

    /// Routes an item to its object, and starts a driver if it has none.
    pub(super) fn route(&mut self, item: Item) {
        let identity = Identity::of(&item.key);
        if !self.context.is_wanted(&identity) {
            return;
        }
        let listed = item.event == EventType::Listed;
        let entry = Queued::Event {
            event: item.event,
            version: item.key.resource_version,
            raw: item.raw,
        };
        let Some(slot) = self.objects.get_mut(&identity) else {
            let state = QuietState::from(ObjectState::new(listed));
            self.start(identity, state, vec![entry]);
            self.count_from(self.objects.len() - 1);
            return;
        };
        slot.listing = self.listing;
        match &mut slot.activity {
            Activity::Quiet(state) if state.covers(&entry, self.context.now()) => {}
            Activity::Quiet(state) => {
                let state = std::mem::take(state);
                self.start(identity, state, vec![entry]);
            }
            Activity::Driven(mailbox) => {
                if let Err(entry) = mailbox.push(entry) {
                    slot.activity = Activity::ending(entry, &self.inspect);
                }
            }
            Activity::Ending { since, .. } => since.push(entry),
        }
    }

    /// Ends a complete listing. Objects that are not in it are treated as deleted.
    pub(super) fn end_listing(&mut self) {
        let (before, listing) = (self.objects.len(), self.listing);
        self.objects.retain(|identity, slot| {
            // Listings may exclude objects of other replicas.
            if slot.listing == listing || !self.context.is_wanted(identity) {
                return true;
            }
            match &mut slot.activity {
                Activity::Quiet(state) => {
                    self.context.vanished(identity, state);
                    return false;
                }
                Activity::Driven(mailbox) => {
                    if let Err(entry) = mailbox.push(Queued::Vanished) {
                        slot.activity = Activity::ending(entry, &self.inspect);
                    }
                }
                Activity::Ending { since, .. } => since.push(Queued::Vanished),
            }
            true
        });
        self.count_from(before);
    }

    /// Notifies the owners of changed children, and starts drivers for those that have none.
    pub(super) fn nudge(&mut self) {
        let context = Arc::clone(&self.context);
        let Some(inbox) = &context.inbox else {
            return;
        };
        for identity in inbox.take_fresh() {
            let Some(slot) = self.objects.get_mut(&identity) else {
                // The driver takes the children when the owner appears.
                inbox.drop_deleted(&identity);
                continue;
            };
            match &mut slot.activity {
                Activity::Quiet(state) => {
                    let state = std::mem::take(state);
                    self.start(identity, state, vec![Queued::Nudge]);
                }
                Activity::Driven(mailbox) => {
                    if let Err(entry) = mailbox.push(Queued::Nudge) {
                        slot.activity = Activity::ending(entry, &self.inspect);
                    }
                }
                Activity::Ending { since, .. } => since.push(Queued::Nudge),
            }
        }
    }

    /// Resets the objects that this replica no longer handles.
    pub(super) fn reassign(&mut self) {
        let before = self.objects.len();
        self.objects
            .retain(|identity, slot| match &mut slot.activity {
                Activity::Quiet(state) => self.context.retain(identity, state),
                // Drivers detect the change themselves.
                Activity::Driven(_) | Activity::Ending { .. } => true,
            });
        self.count_from(before);
    }

    /// Takes the state of an object back from its driver.
    pub(super) fn join(&mut self, ended: Result<Finished, JoinError>) {
        // Panics are caught in the driver's task, and cancelled drivers are not joined.
        let Ok(Finished { identity, state }) = ended else {
            return;
        };
        let before = self.objects.len();
        if let Entry::Occupied(mut known) = self.objects.entry(identity) {
            let slot = known.get_mut();
            let mut since: Vec<_> = match &mut slot.activity {
                Activity::Ending { since, .. } => std::mem::take(since),
                // Non-empty only after a panic.
                Activity::Driven(mailbox) => mailbox.drain().entries.into(),
                Activity::Quiet(_) => Vec::new(),
            };
            match &state {
                Some(state) => since.retain(|entry| !state.covers(entry, self.context.now())),
                // Children have no owner any more.
                None => since.retain(|entry| !matches!(entry, Queued::Nudge)),
            }
            match state {
                None if since.is_empty() => {
                    self.context.discard(known.key());
                    known.remove();
                }
                Some(mut state) if since.is_empty() => {
                    if self.context.retain(known.key(), &mut state) {
                        known.get_mut().activity = Activity::Quiet(state);
                    } else {
                        known.remove();
                    }
                }
                state => {
                    let identity = known.key().clone();
                    self.start(identity, state.unwrap_or_default(), since);
                }
            }
        }
        self.count_from(before);
    }

    /// Sets the number of objects to zero.
    pub(super) fn count_none(&self) {
        self.count(self.objects.len(), 0);
    }

    fn count_from(&self, before: usize) {
        self.count(before, self.objects.len());
    }

    fn count(&self, before: usize, now: usize) {
        if now != before {
            self.inspect.set_objects(before, now);
            if let Some(metrics) = &self.metrics {
                metrics.set_objects(before, now);
            }
        }
    }

    fn start(&mut self, identity: Identity, state: QuietState, entries: Vec<Queued>) {
        let keep_all = self.context.keeps_every_version();
        let mailbox = Arc::new(Mailbox::new(Arc::clone(&self.load), keep_all));
        for entry in entries {
            // A new mailbox is open.
            let _ = mailbox.push(entry);
        }
        let context = Arc::clone(&self.context);
        let state = ObjectState::from(state);
        let driver = Driver::new(&context, &mailbox, identity.clone(), state);
        let driving = driver
            .run()
            .map(|state| state.map(QuietState::from))
            .boxed();
        let driven = identity.clone();
        let driving = async move {
            // Panics of handlers are caught by the executor, so a panic here is a bug of the
            // engine.
            let state = match AssertUnwindSafe(driving).catch_unwind().await {
                Ok(state) => state,
                Err(panic) => {
                    let (resource, cause) = (context.resource(), describe_panic(&*panic));
                    error!(
                        "The driver of an object of {resource} panicked, which is a bug: {cause}"
                    );
                    Some(QuietState::default())
                }
            };
            let identity = driven;
            Finished { identity, state }
        };
        // Boxed only if hosted: there can be thousands of drivers.
        match self.context.host() {
            Some((hosting, operator)) => self.drivers.spawn(hosting.run(operator, driving)),
            None => self.drivers.spawn(driving),
        };
        let activity = Activity::Driven(mailbox);
        let listing = self.listing;
        self.objects.insert(identity, Slot { listing, activity });
    }
}

impl Activity {
    fn ending(entry: Queued, inspect: &Inspect) -> Self {
        Self::Ending {
            since: vec![entry],
            _busy: inspect.count(Counted::Working),
        }
    }
}
