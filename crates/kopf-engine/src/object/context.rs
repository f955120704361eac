//! The resource context, shared by the drivers of one stream.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::object::{Moment, Policy, StandardRules};
use kopf_core::resource::Resource;
use kopf_core::settings::Replication;
use kopf_core::sync::RwLock;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::state::QuietState;
use crate::child_inboxes::Inbox;
use crate::error::Error;
use crate::identity::Identity;
use crate::indexing::{ObjectKey, ResourceIndices};
use crate::invocation::{FilterContext, Function, Hosting, OperatorContext, OwnedObject};
use crate::leading::{Assignment, Pass};
use crate::logger::ObjectLogger;
use crate::mailbox::Mailbox;
use crate::memos::MemoCell;
use crate::metrics::ResourceMetrics;
use crate::patching::{Applied, label_of};
use crate::permits::{Permit, Permits, Priority};
use crate::shared::Shared;

/// The effect of a new assignment of objects to replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssignmentChange {
    /// Objects were added: they must be listed.
    Gained,
    /// No objects were added.
    Reduced,
}

/// The replica that handles an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandlingReplica {
    This,
    Other,
}

/// The handlers, indices, rules and limits of the objects of one stream.
#[derive(Debug)]
pub(crate) struct ResourceContext {
    pub(crate) shared: Arc<Shared>,
    /// The handlers and settings that decide about these objects.
    pub(crate) policy: Policy<Function>,
    /// The indices that can contain these objects.
    pub(crate) indices: ResourceIndices,
    /// The changed children of these objects; `None` if no handlers depend on them.
    pub(crate) inbox: Option<Arc<Inbox>>,
    /// `true` if admission handlers of these objects share their memos.
    pub(crate) is_reviewed: bool,
    /// Cancelled when the stream is stopped.
    pub(crate) stop: CancellationToken,
    /// The rules of the object state machines.
    pub(crate) rules: StandardRules,
    /// `true` after all indices have been filled once.
    indexed: AtomicBool,
    limit: Option<Semaphore>,
    epoch: Instant,
    /// The host that polls the drivers.
    hosting: Hosting,
    pub(super) metrics: Option<Arc<ResourceMetrics>>,
    /// The objects of this stream that this replica handles. Gained objects are added only before a
    /// listing, because objects that other replicas have handled must be listed first.
    assignment: RwLock<Assignment>,
    /// `true` if other replicas may handle some of the objects.
    is_divided: bool,
    /// `true` if some indices contain all objects, including those of other replicas.
    is_indexed_globally: bool,
}

impl ResourceContext {
    pub(crate) fn new(
        shared: Arc<Shared>,
        resource: Arc<Resource>,
        namespace: Option<&str>,
        stop: CancellationToken,
    ) -> Self {
        let handlers = shared.registry.for_resource(&resource);
        let inbox = handlers.is_owner().then(|| {
            let namespace = namespace.map(ToOwned::to_owned);
            shared.child_inboxes.open(Arc::clone(&resource), namespace)
        });
        let indices = shared.context.indices.of_resource(&handlers);
        let is_reviewed = shared.registry.handlers().iter().any(|handler| {
            let selector = handler.selector.as_ref();
            handler.kind.webhook_type().is_some()
                && selector.is_some_and(|selector| selector.check(&resource))
        });
        let settings = &shared.context.settings;
        let sharded = &settings.leading.sharded_indices;
        let is_indexed_globally = indices.iter().any(|(id, _)| !sharded.contains(&**id));
        let limit = settings.queueing.worker_limit;
        let hosting = Hosting::of(&shared.context, handlers.has_callbacks());
        let policy = Policy::new(resource, handlers, Arc::clone(settings));
        Self {
            limit: limit.map(|limit| Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS))),
            indexed: AtomicBool::new(false),
            metrics: shared.context.metrics.resource(&policy.resource),
            rules: policy.rules(),
            epoch: Instant::now(),
            hosting,
            assignment: RwLock::new(shared.assignments.current()),
            is_divided: settings.leading.replication() != Replication::Single,
            is_indexed_globally,
            policy,
            indices,
            inbox,
            is_reviewed,
            stop,
            shared,
        }
    }

    fn assignment(&self) -> Assignment {
        self.assignment.read().clone()
    }

    /// Returns the permission to handle an object; `None` if another replica handles it.
    pub(crate) fn enter(&self, identity: &Identity) -> Option<Pass> {
        self.assignment.read().enter(identity)
    }

    /// Returns `true` if some indices contain all objects, including those of other replicas.
    pub(super) fn is_indexed_globally(&self) -> bool {
        self.is_indexed_globally
    }

    /// Returns `true` if objects of other replicas are watched: global indices contain all objects, and
    /// owners can belong to other replicas than the objects that they own.
    fn is_watched_globally(&self) -> bool {
        self.is_indexed_globally || self.policy.handlers.is_owned
    }

    /// Returns `true` if an index contains only the objects of this replica.
    pub(super) fn is_sharded(&self, id: &str) -> bool {
        let leading = &self.shared.context.settings.leading;
        self.is_divided && leading.sharded_indices.contains(id)
    }

    /// Removes an object of another replica from the indices that contain only objects of this
    /// replica.
    pub(super) fn discard_sharded(&self, key: &ObjectKey) {
        for (id, index) in self.indices.iter() {
            if self.is_sharded(id) {
                index.discard(key);
            }
        }
    }

    /// Returns the current time in the state machines of these objects.
    pub(crate) fn now(&self) -> Moment {
        Moment::new(self.epoch.elapsed())
    }

    /// Converts a time of the state machines to the clock of the runtime.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.epoch + moment.since(Moment::default())
    }

    /// Returns the resource of the objects.
    pub(crate) fn resource(&self) -> &Arc<Resource> {
        &self.policy.resource
    }

    /// Returns the name of the finalizer.
    pub(super) fn finalizer(&self) -> &str {
        &self.policy.persistence().finalizer
    }

    /// Returns the context of filters.
    pub(super) fn filtering(&self, memo: &MemoCell, logger: &ObjectLogger) -> FilterContext {
        FilterContext::new(Arc::clone(&self.shared.context), memo.clone(), logger)
    }

    /// Returns `true` if no handlers are called before these objects are listed: they are indexed, or
    /// reconcile handlers must know all children of their objects.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.indices.is_empty() || self.policy.handlers.is_reconciled
    }

    /// Returns `true` if these objects have handlers other than index handlers.
    pub(crate) fn is_handled(&self) -> bool {
        let handlers = &self.policy.handlers;
        !(handlers.watching.is_empty()
            && handlers.spawning.is_empty()
            && handlers.changing.is_empty()
            && handlers.reconciling.is_empty()
            && handlers.child_watching.is_empty()
            && !handlers.is_owned)
    }

    /// Returns `true` if handlers depend on children of these objects.
    pub(crate) fn is_owner(&self) -> bool {
        self.inbox.is_some()
    }

    /// Returns `true` if these objects are watched only to notify their owners.
    pub(crate) fn only_notifies_owners(&self) -> bool {
        let handlers = &self.policy.handlers;
        handlers.is_owned
            && handlers.watching.is_empty()
            && handlers.spawning.is_empty()
            && handlers.changing.is_empty()
            && handlers.reconciling.is_empty()
            && handlers.child_watching.is_empty()
            && self.indices.is_empty()
    }

    /// Returns `true` if the newest version of an idle object is kept, because handlers of its
    /// children are called with it, or its owners are notified with it when the object is deleted.
    pub(crate) fn keeps(&self, body: &Body) -> bool {
        self.inbox.is_some()
            || self.policy.handlers.is_owned && self.shared.child_inboxes.has_owners(body)
    }

    /// Notifies the owners of an object, if any handlers depend on it.
    pub(crate) fn notify_owners(&self, event: EventType, body: &Body) {
        if self.policy.handlers.is_owned {
            let child = OwnedObject::new(Arc::clone(self.resource()), event, body.clone());
            self.shared.child_inboxes.report(&Arc::new(child));
        }
    }

    /// Counts a patch.
    pub(super) fn count_patch(&self, applied: &Result<Applied, Error>) {
        if let Some(metrics) = &self.metrics {
            metrics.patch(label_of(applied));
        }
    }

    /// Acquires a permit of `queueing.worker_limit`; `None` without a limit.
    pub(crate) async fn worker_permit(&self) -> Option<SemaphorePermit<'_>> {
        match &self.limit {
            Some(limit) => limit.acquire().await.ok(),
            None => None,
        }
    }
}

/// The use of the context by the stream.
impl ResourceContext {
    /// Returns `true` if every version must be processed, including replaced ones.
    pub(crate) fn keeps_every_version(&self) -> bool {
        !self.policy.handlers.watching.is_empty() || !self.indices.is_empty()
    }

    /// Applies the current assignment of objects to replicas.
    pub(crate) fn adopt(&self) -> AssignmentChange {
        let current = self.shared.assignments.current();
        let mut assignment = self.assignment.write();
        let is_gained = current.gains_since(&assignment);
        *assignment = current;
        if is_gained {
            AssignmentChange::Gained
        } else {
            AssignmentChange::Reduced
        }
    }

    /// Waits until the assignment has changed since the last [`adopt`](Self::adopt). Cancel-safe.
    pub(crate) async fn reassigned(&self) {
        let known = self.assignment();
        self.shared.assignments.changed_since(&known).await;
    }

    /// Returns the shard selector of the objects of this replica; `None` for all objects.
    pub(crate) fn shard_selector(&self) -> Option<String> {
        let assignment = (!self.is_watched_globally()).then(|| self.assignment());
        assignment.and_then(|assignment| assignment.selector())
    }

    /// Returns `false` if another replica handles the object.
    pub(crate) fn is_wanted(&self, identity: &Identity) -> bool {
        !self.is_divided
            || self.is_watched_globally()
            || self.assignment().tenure_number(identity) != 0
    }

    /// Resets the state of an idle object that this replica no longer handles. Returns `false` if
    /// no state has to be kept.
    pub(crate) fn retain(&self, identity: &Identity, state: &mut QuietState) -> bool {
        if !self.is_divided {
            return true;
        }
        let tenure = self.assignment().tenure_number(identity);
        if state.tenure() != 0 && state.tenure() != tenure {
            state.hand_over();
        }
        if tenure == 0 && !self.indices.is_empty() {
            self.discard_sharded(&ObjectKey::new(identity, self.resource()));
        }
        tenure != 0 || self.is_watched_globally()
    }

    /// Returns the host that polls drivers; `None` for the runtime itself.
    pub(crate) fn host(&self) -> Option<(&Hosting, &Arc<OperatorContext>)> {
        (!self.hosting.is_native()).then_some((&self.hosting, &self.shared.context))
    }

    /// Handles the absence of an idle object from a complete listing.
    pub(crate) fn vanished(&self, identity: &Identity, state: &QuietState) {
        if let Some(last) = state.last() {
            self.notify_owners(EventType::Deleted, &last.body);
        }
        self.discard(identity);
    }

    /// Handles an object that is deleted or no longer served.
    pub(crate) fn discard(&self, identity: &Identity) {
        if let Some(inbox) = &self.inbox {
            inbox.forget(identity);
        }
        if !self.indices.is_empty() {
            self.indices
                .discard(&ObjectKey::new(identity, self.resource()));
        }
    }

    /// Returns `true` if all indices of the operator have been filled once. Indices that appear
    /// later do not delay these objects.
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
}

/// Time after which a slow request or storage releases the permit for other objects.
const SLOW: Duration = Duration::from_secs(1);

/// A permit for planning and writing, which can be released and acquired again.
#[derive(Debug)]
pub(crate) struct ObjectPermit {
    permits: Permits,
    permit: Option<Permit>,
}

impl ObjectPermit {
    /// Acquires a permit for an object with events. An object that changes while waiting precedes
    /// objects that are only listed. `listed`: some listed entries are already taken from the
    /// mailbox.
    pub(super) async fn acquire(permits: &Permits, mailbox: &Mailbox, listed: bool) -> Self {
        loop {
            let priority = mailbox.priority(listed);
            tokio::select! {
                biased;
                permit = permits.acquire(priority) => {
                    let (permits, permit) = (permits.clone(), Some(permit));
                    return Self { permits, permit };
                }
                () = mailbox.arrival(), if priority == Priority::Listed => {}
            }
        }
    }

    /// Awaits the future, and releases the permit if it is slow.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            result = &mut work => result,
            () = sleep(SLOW) => {
                self.release();
                work.await
            }
        }
    }

    /// Releases the permit.
    pub(crate) fn release(&mut self) {
        self.permit = None;
    }

    /// Acquires the permit again, unless it is held. Takes precedence over other objects, because
    /// results of handlers are lost until they are written.
    pub(crate) async fn reacquire(&mut self) {
        if self.permit.is_none() {
            self.permit = Some(self.permits.acquire(Priority::Begun).await);
        }
    }
}
