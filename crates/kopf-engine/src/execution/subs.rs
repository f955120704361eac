//! Sub-handlers: handlers inside handlers.
//!
//! A handler registers its sub-handlers in each call. They have their own progress records on the
//! object, under the parent's id. The parent finishes when all of them have finished.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopf_core::body::Body;
use kopf_core::cause::Reason;
use kopf_core::handler::{HandlerId, HandlerKind};
use kopf_core::lifecycle::Lifecycle;
use kopf_core::outcome::HandlerError;
use kopf_core::patch::Patch;
use kopf_core::progress::state::State;
use kopf_core::progress::{ProgressSession, ProgressStorage};
use kopf_core::registry::select_from;
use kopf_core::sizes::{ANNOTATIONS_LIMIT, annotations_size, patched_annotations};
use kopf_core::sync::Mutex;

use super::pool::ThreadPermit;
use super::{Execution, warn_unreadable};
use crate::errors::describe;
use crate::invocation::{Handler, Hosting, RegistrationError, RunSubHandlers, SubHandlers};

/// Size of the record of a parent without the ids of its sub-handlers and without a message, in bytes.
const PARENT_SIZE: usize = 512;

/// The sub-handlers of one call of a handler. Cheap to clone: clones belong to the same call.
#[derive(Debug, Clone)]
pub(super) struct Subs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    execution: Execution,
    parent: HandlerId,
    parent_kind: HandlerKind,
    outer: Option<Subs>,
    registered: Mutex<Vec<Arc<Handler>>>,
    refused: Mutex<Option<HandlerError>>,
    /// The delay until the first unfinished sub-handler is due.
    unfinished: Mutex<Option<Duration>>,
    references: Mutex<BTreeSet<HandlerId>>,
    /// The permit of a blocking handler.
    permit: OnceLock<ThreadPermit>,
}

impl Subs {
    pub(super) fn new(execution: &Execution, parent: &Handler, outer: Option<Self>) -> Self {
        let mut execution = execution.clone();
        // Sub-handlers are limited to the field of their parent.
        if let Some(field) = &parent.filters.field {
            execution.cause = Arc::new(execution.cause.reduced(field));
        }
        Self(Arc::new(Inner {
            execution,
            parent: Arc::clone(&parent.id),
            parent_kind: parent.kind,
            outer,
            registered: Mutex::default(),
            refused: Mutex::default(),
            unfinished: Mutex::default(),
            references: Mutex::default(),
            permit: OnceLock::new(),
        }))
    }

    /// Sets the permit of a blocking handler, which is released while it waits for its
    /// sub-handlers.
    pub(super) fn set_permit(&self, permit: ThreadPermit) {
        // Called once.
        let _ = self.0.permit.set(permit);
    }

    /// Returns the handle for the frontend.
    pub(super) fn handle(&self) -> SubHandlers {
        SubHandlers::new(Arc::clone(&self.0) as _)
    }

    async fn run(
        &self,
        handlers: &[Arc<Handler>],
        lifecycle: Option<Arc<dyn Lifecycle>>,
    ) -> Result<(), HandlerError> {
        if handlers.is_empty() {
            return Ok(());
        }
        let mut execution = self.0.execution.clone();
        if let Some(lifecycle) = lifecycle {
            execution.lifecycle = lifecycle;
        }
        let clock = execution.executor.context.clock;
        let selected = select(handlers, &execution).await?;
        let state = self.run_selected(&execution, handlers, &selected).await?;
        if state.is_done() {
            return Ok(());
        }
        let delay = state.delays(clock.now()).into_iter().min();
        let delay = delay.unwrap_or_default();
        let mut unfinished = self.0.unfinished.lock();
        *unfinished = Some(unfinished.map_or(delay, |other| delay.min(other)));
        Err(HandlerError::Unfinished { delay: Some(delay) })
    }

    /// Runs the due sub-handlers of the selection. Loads and stores the progress of all.
    async fn run_selected(
        &self,
        execution: &Execution,
        handlers: &[Arc<Handler>],
        selected: &[Arc<Handler>],
    ) -> Result<State, HandlerError> {
        let (context, body) = (&execution.executor.context, &execution.cause.body);
        let storage = &context.settings.persistence.progress_storage;
        let ids: Vec<HandlerId> = handlers
            .iter()
            .map(|handler| Arc::clone(&handler.id))
            .collect();
        let session = ProgressSession::open(storage, &ids, body)
            .await
            .map_err(framework)?;
        let mut state = State::load(session.storage(), body, ids.iter()).map_err(framework)?;
        for error in state.unreadable() {
            warn_unreadable(error, &execution.logger);
        }
        let change = execution.cause.change.as_ref();
        state.activate(
            selected.iter().map(|handler| &handler.id),
            change.map_or(Reason::Noop, |change| change.reason),
            context.clock.now(),
        );
        state.wake(&execution.woken);
        self.refer(state.ids());
        if !state.is_stored() {
            // Nothing is begun that could not be recorded.
            self.records(&state, session.storage(), body)?;
            drop(session.take_changes());
        }
        let round = execution.round_of(Some(self), selected, &mut state);
        let ended = match self.0.permit.get() {
            Some(permit) => execution.executor.pool.wait(permit, round).await,
            None => round.await,
        };
        ended.map_err(framework)?;
        let changes = self.records(&state, session.storage(), body)?;
        execution.unsaved.add(session.take_changes());
        execution.contributions.add_records(changes.clone());
        execution.patch.with(|patch| patch.merge_from(changes));
        Ok(state)
    }

    /// Returns the changed records of sub-handlers. Fails permanently if there is no room for them
    /// on the object.
    fn records(
        &self,
        state: &State,
        storage: &dyn ProgressStorage,
        body: &Body,
    ) -> Result<Patch, HandlerError> {
        let mut patch = self.0.execution.patch.snapshot();
        let before = patch.clone();
        state.store(storage, body, &mut patch).map_err(framework)?;
        let references = self.references();
        let referred: usize = references.iter().map(|id| id.len() + "\"\",".len()).sum();
        let parent = referred + PARENT_SIZE;
        let limit = ANNOTATIONS_LIMIT.saturating_sub(parent);
        storage
            .shorten(body, &mut patch, limit)
            .map_err(framework)?;
        let records = patch.since(&before);
        let size = annotations_size(body, &[&patch]) + parent;
        if patched_annotations(&records).is_none() || size <= ANNOTATIONS_LIMIT {
            return Ok(records);
        }
        // The record of the parent must fit, too.
        self.refer_only(|id| matches!(storage.fetch(id, body), Ok(Some(_))));
        let count = references.len();
        Err(HandlerError::permanent(format!(
            "the progress of its {count} sub-handlers does not fit: the annotations of the object \
             would have {size} bytes, and may have {ANNOTATIONS_LIMIT}"
        )))
    }

    /// Executes the sub-handlers that the handler did not execute itself. If the handler has
    /// ignored that some are unfinished, it is unfinished, too.
    pub(super) async fn finish(&self) -> Result<(), HandlerError> {
        Arc::clone(&self.0).execute().await?;
        match *self.0.unfinished.lock() {
            None => Ok(()),
            delay => Err(HandlerError::Unfinished { delay }),
        }
    }

    /// Drops the handlers, because closures may contain reference cycles.
    pub(super) fn forget(&self) {
        self.0.registered.lock().clear();
    }

    /// Adds the ids to all ancestors, whose progress is removed together with that of their
    /// descendants.
    fn refer<'a>(&self, ids: impl Iterator<Item = &'a HandlerId>) {
        let ids: Vec<HandlerId> = ids.cloned().collect();
        let mut ancestor = Some(self);
        while let Some(this) = ancestor {
            this.0.references.lock().extend(ids.iter().cloned());
            ancestor = this.0.outer.as_ref();
        }
    }

    /// Removes the ids for which `is_kept` does not hold, also from all ancestors.
    fn refer_only(&self, is_kept: impl Fn(&str) -> bool) {
        let dropped: BTreeSet<HandlerId> = self
            .references()
            .into_iter()
            .filter(|id| !is_kept(id))
            .collect();
        let mut ancestor = Some(self);
        while let Some(this) = ancestor {
            this.0.references.lock().retain(|id| !dropped.contains(id));
            ancestor = this.0.outer.as_ref();
        }
    }

    pub(super) fn references(&self) -> BTreeSet<HandlerId> {
        self.0.references.lock().clone()
    }
}

impl Inner {
    fn adopt(&self, mut handler: Handler) -> Result<Handler, RegistrationError> {
        handler.spec.id = format!("{}/{}", self.parent, handler.id).into();
        let persistence = &self.execution.executor.context.settings.persistence;
        persistence
            .progress_storage
            .check_id(&handler.id)
            .map_err(RegistrationError::Id)?;
        handler.spec.selector = None;
        let needs_change = self.parent_kind.needs_field_change();
        if !needs_change && (handler.filters.old.is_some() || handler.filters.new.is_some()) {
            return Err(RegistrationError::NoChanges {
                id: handler.spec.id,
            });
        }
        handler.spec.kind = HandlerKind::Sub { needs_change };
        Ok(handler)
    }
}

impl RunSubHandlers for Inner {
    fn register(&self, handler: Handler) -> Result<(), RegistrationError> {
        let handler = self.adopt(handler)?;
        self.registered.lock().push(Arc::new(handler));
        Ok(())
    }

    fn refuse(&self, error: HandlerError) {
        self.refused.lock().get_or_insert(error);
    }

    fn execute(self: Arc<Self>) -> BoxFuture<'static, Result<(), HandlerError>> {
        async move {
            if let Some(error) = self.refused.lock().clone() {
                return Err(error);
            }
            let registered = std::mem::take(&mut *self.registered.lock());
            Subs(self).run(&registered, None).await
        }
        .boxed()
    }

    fn execute_these(
        self: Arc<Self>,
        handlers: Vec<Handler>,
        lifecycle: Option<Arc<dyn Lifecycle>>,
    ) -> BoxFuture<'static, Result<(), HandlerError>> {
        async move {
            let adopted: Result<Vec<_>, _> = handlers
                .into_iter()
                .map(|handler| self.adopt(handler).map(Arc::new))
                .collect();
            let adopted = adopted.map_err(|error| HandlerError::Permanent {
                message: error.to_string(),
            })?;
            Subs(self).run(&adopted, lifecycle).await
        }
        .boxed()
    }
}

/// Selects the sub-handlers for the cause. Filters are called by the host, because the parent's
/// resource may have no other callbacks.
async fn select(
    handlers: &[Arc<Handler>],
    execution: &Execution,
) -> Result<Vec<Arc<Handler>>, HandlerError> {
    let context = &execution.executor.context;
    let has_callbacks = handlers.iter().any(|handler| handler.has_callbacks());
    let hosting = Hosting::of(context, has_callbacks);
    let filtering = execution.filtering();
    if hosting.is_native() {
        return select_from(handlers, &execution.cause, &filtering).map_err(framework);
    }
    let (handlers, cause) = (handlers.to_vec(), Arc::clone(&execution.cause));
    let selecting = async move { select_from(&handlers, &cause, &filtering).map_err(framework) };
    hosting.run(context, selecting).await
}

/// Converts a failure of a storage, a filter or a lifecycle, after which the parent is retried.
fn framework(error: impl std::error::Error) -> HandlerError {
    HandlerError::arbitrary(describe(&error))
}
