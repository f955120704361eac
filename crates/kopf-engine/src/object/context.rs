//! The resource context, shared by the drivers of one stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::keys::KeyNaming;
use kopf_core::object::attempted::Place;
use kopf_core::object::handling::{Storages, Tracking};
use kopf_core::object::retriggering::Request;
use kopf_core::object::{AttemptedEssences, Moment, StandardRules};
use kopf_core::registry::ResourceHandlers;
use kopf_core::resource::Resource;
use kopf_core::secrets::{digest_values, is_secret};
use kopf_core::settings::{Replication, Settings};
use kopf_core::storage::StorageError;
use kopf_core::sync::RwLock;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Driver, ObjectState, QuietState};
use crate::child_inboxes::Inbox;
use crate::error::Error;
use crate::identity::Identity;
use crate::indexing::{ObjectKey, ResourceIndices};
use crate::invocation::{Function, Hosting, OperatorContext, OwnedObject};
use crate::leading::{Assignment, Pass};
use crate::metrics::ResourceMetrics;
use crate::patching::{Applied, label_of};
use crate::queueing::{AssignmentChange, Mailbox, Options, Processing, Queued, Stream};
use crate::shared::Shared;

/// The handlers, indices, rules and limits of the objects of one stream.
#[derive(Debug)]
pub(crate) struct ResourceContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) handlers: ResourceHandlers<Function>,
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
    attempted: Place,
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
        Self {
            limit: limit.map(|limit| Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS))),
            attempted: attempted_place(settings),
            rules: StandardRules {
                echo_timeout: settings.persistence.consistency_timeout,
                error_delays: settings.queueing.error_delays.clone(),
                touching: settings.persistence.touching,
            },
            indexed: AtomicBool::new(false),
            metrics: shared.context.metrics.resource(&resource),
            epoch: Instant::now(),
            hosting: Hosting::of(&shared.context, handlers.has_callbacks()),
            assignment: RwLock::new(shared.assignments.current()),
            is_divided: settings.leading.replication() != Replication::Single,
            is_indexed_globally,
            handlers,
            indices,
            inbox,
            is_reviewed,
            stop,
            resource,
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

    /// Returns the storages for the state of handling.
    pub(crate) fn storages(&self) -> Storages<'_> {
        let persistence = &self.shared.context.settings.persistence;
        Storages {
            progress: persistence.progress_storage.as_ref(),
            diffbase: persistence.diffbase_storage.as_ref(),
            attempted: if persistence.lost_updates {
                Tracking::Off(&self.attempted)
            } else {
                Tracking::On(&self.attempted)
            },
        }
    }

    /// Returns the naming of annotations that do not belong to handlers.
    pub(super) fn naming(&self) -> &KeyNaming {
        self.attempted.naming()
    }

    /// Builds the essence of an object, without the state that operators store in it.
    pub(super) fn essence(&self, body: &Body) -> Result<Value, StorageError> {
        let storages = self.storages();
        let mut essence = storages.diffbase.build(body, &self.handlers.extra_fields)?;
        storages.progress.clear(&mut essence)?;
        AttemptedEssences::strip(&self.attempted, body, &mut essence);
        Request::strip(self.naming(), body, &mut essence);
        if is_secret(&self.resource) {
            let values = &self.shared.context.settings.persistence.secret_values;
            digest_values(&mut essence, body, values);
        }
        Ok(essence)
    }

    /// Returns `true` if these objects have handlers other than index handlers.
    pub(crate) fn is_handled(&self) -> bool {
        let handlers = &self.handlers;
        !(handlers.watching.is_empty()
            && handlers.spawning.is_empty()
            && handlers.changing.is_empty()
            && handlers.child_watching.is_empty()
            && !handlers.is_owned)
    }

    /// Returns `true` if handlers depend on children of these objects.
    pub(crate) fn is_owner(&self) -> bool {
        self.inbox.is_some()
    }

    /// Returns `true` if these objects are watched only to notify their owners.
    pub(crate) fn only_notifies_owners(&self) -> bool {
        let handlers = &self.handlers;
        handlers.is_owned
            && handlers.watching.is_empty()
            && handlers.spawning.is_empty()
            && handlers.changing.is_empty()
            && handlers.child_watching.is_empty()
            && self.indices.is_empty()
    }

    /// Returns `true` if the newest version of an idle object is kept, because handlers of its
    /// children are called with it, or its owners are notified with it when the object is deleted.
    pub(crate) fn keeps(&self, body: &Body) -> bool {
        self.inbox.is_some() || self.handlers.is_owned && self.shared.child_inboxes.has_owners(body)
    }

    /// Notifies the owners of an object, if any handlers depend on it.
    pub(crate) fn notify_owners(&self, event: EventType, body: &Body) {
        if self.handlers.is_owned {
            let child = OwnedObject::new(Arc::clone(&self.resource), event, body.clone());
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

impl Processing for ResourceContext {
    type State = QuietState;

    fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    fn first_state(&self, listed: bool) -> QuietState {
        ObjectState::new(listed).into()
    }

    fn covers(&self, state: &QuietState, entry: &Queued) -> bool {
        state.covers(entry, self.now())
    }

    fn keeps_every_version(&self) -> bool {
        !self.handlers.watching.is_empty() || !self.indices.is_empty()
    }

    fn drive(
        self: Arc<Self>,
        identity: &Identity,
        state: QuietState,
        mailbox: Arc<Mailbox>,
    ) -> BoxFuture<'static, Option<QuietState>> {
        let driver = Driver::new(self, mailbox, identity.clone(), state.into());
        Box::new(driver)
            .run()
            .map(|state| state.map(QuietState::from))
            .boxed()
    }

    fn adopt(&self) -> AssignmentChange {
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

    fn reassigned(&self) -> BoxFuture<'_, ()> {
        let known = self.assignment();
        async move { self.shared.assignments.changed_since(&known).await }.boxed()
    }

    fn shard_selector(&self) -> Option<String> {
        // Global indices contain all objects.
        let assignment = (!self.is_indexed_globally).then(|| self.assignment());
        assignment.and_then(|assignment| assignment.selector())
    }

    fn is_wanted(&self, identity: &Identity) -> bool {
        !self.is_divided
            || self.is_indexed_globally
            || self.assignment().tenure_number(identity) != 0
    }

    fn retain(&self, identity: &Identity, state: &mut QuietState) -> bool {
        if !self.is_divided {
            return true;
        }
        let tenure = self.assignment().tenure_number(identity);
        if state.tenure() != 0 && state.tenure() != tenure {
            state.hand_over();
        }
        if tenure == 0 && !self.indices.is_empty() {
            self.discard_sharded(&ObjectKey::new(identity, &self.resource));
        }
        tenure != 0 || self.is_indexed_globally
    }

    fn host(&self) -> Option<(&Hosting, &Arc<OperatorContext>)> {
        (!self.hosting.is_native()).then_some((&self.hosting, &self.shared.context))
    }

    fn inbox(&self) -> Option<&Inbox> {
        self.inbox.as_deref()
    }

    fn vanished(&self, state: &QuietState) {
        if let QuietState::Full(state) = state
            && let Some(last) = &state.last
        {
            self.notify_owners(EventType::Deleted, &last.body);
        }
    }

    fn discard(&self, identity: &Identity) {
        if let Some(inbox) = &self.inbox {
            inbox.forget(identity);
        }
        if !self.indices.is_empty() {
            self.indices
                .discard(&ObjectKey::new(identity, &self.resource));
        }
    }

    /// Indices that appear later do not delay these objects.
    fn is_ready(&self) -> bool {
        if !self.indexed.load(Ordering::Acquire) && self.shared.barrier.is_lifted() {
            self.indexed.store(true, Ordering::Release);
        }
        self.indexed.load(Ordering::Acquire)
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        async {
            if !self.is_ready() {
                self.shared.barrier.lifted().await;
                self.indexed.store(true, Ordering::Release);
            }
        }
        .boxed()
    }
}

/// Creates the stream of one resource in one namespace, or cluster-wide.
pub(crate) fn stream(
    shared: &Arc<Shared>,
    resource: Arc<Resource>,
    namespace: Option<String>,
    stop: CancellationToken,
) -> Stream<ResourceContext> {
    let context = ResourceContext::new(
        Arc::clone(shared),
        resource,
        namespace.as_deref(),
        stop.clone(),
    );
    let blocker = (!context.indices.is_empty()).then(|| shared.barrier.block());
    let options = Options { blocker, stop };
    Stream::new(Arc::new(context), Arc::clone(shared), namespace, options)
}

/// Attempted essences are stored beside progress records in the status; otherwise in an annotation
/// next to the diff-base, or under the default prefix if the diff-base is not stored in an
/// annotation.
fn attempted_place(settings: &Settings) -> Place {
    let (progress, diffbase) = (
        &settings.persistence.progress_storage,
        &settings.persistence.diffbase_storage,
    );
    let naming = diffbase.naming().cloned().unwrap_or_default();
    Place::new(naming.with_v1(false), progress.as_ref())
}
