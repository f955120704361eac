//! Reconciliation of one object: when its reconcile handlers are called, and why.
//!
//! The triggers of a handler are collected until it is called, so that several of them lead to one call.
//! They are kept in memory: after a restart, all objects are resumed. Only a handler that is to be retried
//! has a progress record on the object. The record has no purpose, because it belongs to no cause. It is
//! read by the next process; this one knows the attempts that it has made, because other clients can
//! remove the record, and the server can reject it.
//!
//! 1. [`Reconciling::observe`] compares a version with the last one, and adds triggers.
//! 2. [`Reconciling::load`] loads the records of the handlers to call.
//! 3. [`Reconciling::begin`] picks one of the due handlers. There is one call in a cycle, so that the next
//!    handler is called with the changes of this one.
//! 4. [`Reconciling::conclude`] keeps or erases the record, and schedules the next call.
//!
//! For a deletion, handlers with a finalizer are called together with the delete handlers, as a part of
//! that cause: see [`ResourceHandlers::selected`](crate::registry::ResourceHandlers::selected).

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::cycle::{Ended, Error, Means};
use super::handling::Storages;
use super::memory::Object;
use super::moment::Moment;
use super::retriggering::Request;
use super::version::Version;
use crate::body::Body;
use crate::cause::Cause;
use crate::handler::{Handler, HandlerId};
use crate::patch::Patch;
use crate::progress::ProgressRecord;
use crate::progress::state::State;
use crate::sizes::ANNOTATIONS_LIMIT;
use crate::storage::StorageError;
use crate::trigger::{Requeue, Trigger, Triggers};

/// The current time on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The time of the process, for what is kept in memory.
    pub moment: Moment,
    /// The time of the world, for what is stored on objects.
    pub time: Timestamp,
}

/// The reconcile handlers that match an object, in the memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reconcilers(Vec<Reconciler>);

/// One reconcile handler of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reconciler {
    id: HandlerId,
    /// A digest of the last observed essence, with the changes of the handler itself.
    essence: u64,
    /// The reasons of the next call.
    triggers: Triggers,
    /// A change has come after the last failure, and ends the delay of the retry.
    is_urgent: bool,
    /// The end of the last call.
    called: Option<Moment>,
    /// The attempts before the next call.
    attempts: Attempts,
    /// The time from the end of a call to the next one.
    every: Option<Duration>,
    /// The time of the call that the last one has requested.
    requeued: Option<Moment>,
    /// The end of the period.
    period: Option<Moment>,
    /// A digest of the last observed request of a user.
    request: Option<u64>,
}

/// The attempts of a handler since its last success.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Attempts {
    /// They are those in the record on the object: this process has not called the handler yet.
    Recorded,
    /// This process has made them; `None` if there are none.
    Known(Option<Box<ProgressRecord>>),
}

impl Reconciler {
    fn new<F>(handler: &Handler<F>, essence: u64, trigger: Trigger) -> Self {
        Self {
            id: HandlerId::clone(&handler.id),
            essence,
            triggers: trigger.into(),
            is_urgent: false,
            called: None,
            attempts: Attempts::Recorded,
            every: every(handler),
            requeued: None,
            period: None,
            request: None,
        }
    }

    fn add(&mut self, trigger: Trigger) {
        self.triggers.insert(trigger);
        self.is_urgent = true;
    }

    /// Adds the trigger of a request, which begins new attempts.
    fn request(&mut self, request: &Request) {
        let digest = Some(request.digest());
        if self.request != digest {
            self.request = digest;
            self.attempts = Attempts::Known(None);
            self.add(Trigger::Requested);
        }
    }

    /// Adds the triggers of time.
    fn tick(&mut self, now: Moment) {
        let is_over = |moment: &mut Moment| *moment <= now;
        if self.requeued.take_if(is_over).is_some() {
            self.triggers.insert(Trigger::Requeued);
        }
        if self.period.take_if(is_over).is_some() {
            self.triggers.insert(Trigger::Period);
        }
    }

    /// Returns the time until the handler is due; `None` if it waits for a change.
    fn delay(&self, record: Option<&ProgressRecord>, now: Now) -> Option<Duration> {
        if self.triggers.is_empty() {
            let next = [self.requeued, self.period].into_iter().flatten().min();
            return next.map(|next| next.since(now.moment));
        }
        let delayed = record.and_then(|record| record.delayed);
        let delayed = delayed.filter(|_| !self.is_urgent);
        Some(delayed.map_or(Duration::ZERO, |delayed| {
            Duration::try_from(delayed.duration_since(now.time)).unwrap_or_default()
        }))
    }

    /// Schedules the next call after a call whose attempts are over.
    fn finish(&mut self, requeue: Requeue, now: Moment) {
        self.triggers = Triggers::NONE;
        self.attempts = Attempts::Known(None);
        self.requeued = requeue.pause().map(|delay| now.after(delay));
        self.period = self.every.map(|every| now.after(every));
    }

    /// Turns the last outcome into a permanent failure. What has happened since is still to be handled.
    fn fail(&mut self, now: Moment) {
        let Self { triggers, .. } = *self;
        self.finish(Requeue::never(), now);
        if self.is_urgent {
            self.triggers = triggers;
        }
    }
}

impl Reconcilers {
    fn find(&mut self, id: &str) -> Option<&mut Reconciler> {
        self.0.iter_mut().find(|one| *one.id == *id)
    }

    /// Adds the triggers of a version and of the time, for the handlers that match it.
    ///
    /// - `essence`: the digest of the version.
    /// - `is_current`: it is not older than the last own write.
    /// - `appeared`: the trigger for handlers that match the object for the first time.
    fn observe<F>(
        &mut self,
        handlers: &[Arc<Handler<F>>],
        (essence, is_current): (u64, bool),
        appeared: Trigger,
        now: Moment,
    ) {
        for handler in handlers {
            let Some(one) = self.find(&handler.id) else {
                let one = Reconciler::new(handler, essence, appeared);
                self.0.push(one);
                continue;
            };
            one.every = every(handler);
            if is_current && one.essence != essence {
                one.essence = essence;
                one.add(Trigger::Updated);
            }
            one.tick(now);
        }
    }

    /// Adds the trigger of a changed child.
    pub(super) fn trigger_by_child(&mut self, id: &str) {
        if let Some(one) = self.find(id) {
            one.add(Trigger::Child);
        }
    }

    /// Returns `true` if no handlers match the object.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a request selects any of the handlers.
    pub(super) fn is_requested(&self, request: &Request) -> bool {
        self.0.iter().any(|one| request.names(&one.id))
    }

    /// Adds the trigger of a request to the handlers that it selects.
    fn request(&mut self, request: &Request) {
        let selected = self.0.iter_mut().filter(|one| request.names(&one.id));
        selected.for_each(|one| one.request(request));
    }

    /// Turns the last outcome of a handler into a permanent failure.
    pub(super) fn fail(&mut self, id: &str, now: Moment) {
        if let Some(one) = self.find(id) {
            one.fail(now);
        }
    }

    /// Returns the time until the next handler is due; `None` if all wait for changes.
    fn delay(&self, records: Option<&State>, now: Now) -> Option<Duration> {
        let record = |id: &str| records.and_then(|records| records.record(id));
        let delays = self.0.iter();
        let delays = delays.filter_map(|one| one.delay(record(&one.id), now));
        delays.min()
    }

    /// Returns the due handler that has waited for the longest time.
    fn due(&self, records: &State, now: Now) -> Option<&Reconciler> {
        let due = self.0.iter().filter(|one| {
            let delay = one.delay(records.record(&one.id), now);
            delay.is_some_and(|delay| delay.is_zero())
        });
        due.min_by_key(|one| one.called)
    }
}

/// The reconciliation of one version of an object.
#[derive(Clone, Debug)]
pub struct Reconciling {
    /// The object, without changes.
    pub cause: Cause,
    /// The progress of the handlers.
    pub progress: State,
    ids: Vec<HandlerId>,
    attempts: Vec<Attempts>,
}

/// A reconcile handler to call.
#[derive(Debug)]
pub struct Call<F> {
    /// The handler.
    pub handler: Arc<Handler<F>>,
    /// The reasons of the call.
    pub triggers: Triggers,
    /// The number of attempts before this one, and the time of the first one.
    pub prior: (u32, Timestamp),
}

impl Reconciling {
    /// Compares a version with the last one, and adds triggers. Returns the handlers to call now or later,
    /// or to retry; `None` if there are none.
    ///
    /// - `essence`: the essence of the version, if it is known.
    /// - `request`: the request of a user on the object.
    pub(super) fn observe<F>(
        means: Means<'_, F>,
        object: &mut Object,
        version: &Version,
        (essence, request): (Option<&Value>, Option<&Request>),
        now: Moment,
    ) -> Result<Option<Self>, Error> {
        let policy = means.policy;
        if policy.handlers.reconciling.is_empty() {
            return Ok(None);
        }
        let cause = Cause::new(Arc::clone(&policy.resource), version.body.clone());
        let handlers = policy.handlers.reconciling_for(&cause, means.filters)?;
        let essence = match essence {
            Some(essence) if policy.handlers.extra_fields.is_empty() => digest(essence),
            _ => digest(&policy.desired_state(&version.body)?),
        };
        let appeared = match (&object.memory.reconcilers, object.memory.noticed_by_listing) {
            (Some(_), _) => Trigger::Updated,
            (None, true) => Trigger::Resumed,
            (None, false) => Trigger::Created,
        };
        let is_current = !object.machine.awaits_echo();
        let reconcilers = object.memory.reconcilers.get_or_insert_default();
        reconcilers.observe(&handlers, (essence, is_current), appeared, now);
        let is_matching = |one: &Reconciler| handlers.iter().any(|other| other.id == one.id);
        reconcilers.0.retain(is_matching);
        if let Some(request) = request {
            reconcilers.request(request);
        }
        let triggered = reconcilers.0.iter().filter(|one| !one.triggers.is_empty());
        let (ids, attempts): (Vec<_>, Vec<_>) = triggered
            .map(|one| (HandlerId::clone(&one.id), one.attempts.clone()))
            .unzip();
        if is_current {
            erase_stray(means, &version.body, &ids, &mut object.patch)?;
        }
        Ok((!ids.is_empty()).then_some(Self {
            cause,
            progress: State::default(),
            ids,
            attempts,
        }))
    }

    /// Returns the handlers whose progress must be loaded.
    pub fn ids(&self) -> &[HandlerId] {
        &self.ids
    }

    /// Loads the progress of the handlers. Records of causes are those of other handlers with the same id.
    ///
    /// # Errors
    /// Of the storage.
    pub fn load(&mut self, storages: Storages<'_>) -> Result<(), StorageError> {
        let body = &self.cause.body;
        self.progress = State::load(storages.progress, body, self.ids.iter())?;
        self.progress.reset(None, |_, record| {
            record.purpose.is_some() || record.success || record.failure
        });
        for (id, attempts) in self.ids.iter().zip(&self.attempts) {
            if let Attempts::Known(record) = attempts {
                self.progress.recall(id, record.as_deref().cloned());
            }
        }
        Ok(())
    }

    /// Picks one of the due handlers, and begins its attempt; `None` if none is due.
    ///
    /// # Errors
    /// Of a filter.
    pub fn begin<F>(
        &mut self,
        means: Means<'_, F>,
        object: &Object,
        now: Now,
    ) -> Result<Option<Call<F>>, Error> {
        let reconcilers = object.memory.reconcilers.as_ref();
        let Some(due) = reconcilers.and_then(|all| all.due(&self.progress, now)) else {
            return Ok(None);
        };
        let policy = means.policy;
        let handlers = policy
            .handlers
            .reconciling_for(&self.cause, means.filters)?;
        let handler = handlers.into_iter().find(|handler| handler.id == due.id);
        let id = [HandlerId::clone(&due.id)];
        self.progress.activate(id.iter(), None, now.time);
        self.progress.wake(&id);
        let prior = self.progress.attempt(&due.id).unwrap_or((0, now.time));
        let mut triggers = due.triggers;
        if prior.0 > 0 {
            triggers.insert(Trigger::Retried);
        }
        Ok(handler.map(|handler| Call {
            handler,
            triggers,
            prior,
        }))
    }

    /// Adds the result of a call to the patch: the record of a handler to be retried, or its erasure.
    /// Schedules the next call.
    ///
    /// - `requeue`: the request of the handler.
    /// - `now`: the time after the call, from which periods and requests are counted.
    pub fn conclude<F>(
        &self,
        means: Means<'_, F>,
        object: &mut Object,
        handler: &Handler<F>,
        requeue: Requeue,
        now: Now,
    ) -> Ended {
        let body = &self.cause.body;
        let changed = essence_after(means, body, &object.patch);
        let failure = self.store(means.storages, body, &mut object.patch).err();
        let is_over = self.progress.is_done();
        let record = self.progress.record(&handler.id);
        let has_failed = record.is_some_and(|record| record.failure);
        let mut reconcilers = object.memory.reconcilers.as_mut();
        let called = reconcilers.as_mut().and_then(|all| all.find(&handler.id));
        if let Some(one) = called {
            (one.called, one.is_urgent) = (Some(now.moment), false);
            // Its own changes are not news.
            one.essence = changed.unwrap_or(one.essence);
            if !is_over {
                one.attempts = Attempts::Known(record.cloned().map(Box::new));
            } else if has_failed {
                one.finish(Requeue::never(), now.moment);
            } else {
                one.finish(requeue, now.moment);
            }
        }
        Ended {
            due: self.delay(object, now),
            failure,
            settled: None,
            is_recorded: !is_over,
        }
    }

    /// Returns the end of a cycle in which no handler was called.
    pub fn postponed(&self, object: &Object, now: Now) -> Ended {
        Ended {
            due: self.delay(object, now),
            ..Ended::default()
        }
    }

    /// Stores the record of the called handler, or erases it if its attempts are over.
    fn store(
        &self,
        storages: Storages<'_>,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        let progress = storages.progress;
        self.progress.store_unfinished(progress, body, patch)?;
        progress.shorten(body, patch, ANNOTATIONS_LIMIT)
    }

    /// Returns the time until the next handler is due.
    fn delay(&self, object: &Object, now: Now) -> Option<Duration> {
        let reconcilers = object.memory.reconcilers.as_ref()?;
        reconcilers.delay(Some(&self.progress), now)
    }
}

/// Returns the time until the next reconcile handler of the object is due; `None` if all wait for changes.
pub(super) fn delay(
    object: &Object,
    reconciling: Option<&Reconciling>,
    now: Now,
) -> Option<Duration> {
    let reconcilers = object.memory.reconcilers.as_ref()?;
    reconcilers.delay(reconciling.map(|one| &one.progress), now)
}

/// Erases the records of handlers that are not to be retried: the object does not match any more, or the
/// response to the write of a record was lost. Asynchronous storages are not asked in every cycle.
fn erase_stray<F>(
    means: Means<'_, F>,
    body: &Body,
    retried: &[HandlerId],
    patch: &mut Patch,
) -> Result<(), StorageError> {
    let storage = means.storages.progress;
    if storage.asynchronous().is_some() {
        return Ok(());
    }
    let handlers = means.policy.handlers.reconciling.iter();
    for handler in handlers.filter(|handler| !retried.contains(&handler.id)) {
        let record = storage.fetch(&handler.id, body)?;
        if record.is_some_and(|record| record.purpose.is_none()) {
            storage.purge(&handler.id, body, patch)?;
        }
    }
    Ok(())
}

/// Returns the digest of the essence with the patch of the handler applied; `None` if nothing changes, or
/// if the patch does not apply.
fn essence_after<F>(means: Means<'_, F>, body: &Body, patch: &Patch) -> Option<u64> {
    if patch.is_empty() {
        return None;
    }
    let after = patch.applied_to(body).ok()?;
    let essence = means.policy.desired_state(&after).ok()?;
    Some(digest(&essence))
}

/// Returns the reasons of a call for a deletion: an earlier one can have failed, or requested this one.
///
/// - `is_woken`: a child has changed.
pub fn triggers_of_deletion(record: Option<&ProgressRecord>, is_woken: bool) -> Triggers {
    let mut triggers = Triggers::from(Trigger::Deleted);
    if is_woken {
        triggers.insert(Trigger::Child);
    }
    match record.filter(|record| record.retries > 0) {
        None => triggers,
        Some(record) if record.message.is_some() => triggers.with(Trigger::Retried),
        Some(_) => triggers.with(Trigger::Requeued),
    }
}

/// Returns the period of a handler.
fn every<F>(handler: &Handler<F>) -> Option<Duration> {
    handler.kind.reconciliation()?.every
}

fn digest(essence: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    essence.hash(&mut hasher);
    hasher.finish()
}
