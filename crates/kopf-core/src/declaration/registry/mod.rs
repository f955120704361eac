//! The registry of all handlers of an operator, and their selection for causes.
//!
//! It is filled by a frontend before the operator runs, and immutable then. Handlers are selected on
//! every event, so that resource-specific lists are prepared once per resource.

use std::any::Any;
use std::sync::Arc;

use crate::cause::{Cause, Reason};
use crate::field::FieldPath;
use crate::filter::Filters;
use crate::handler::{Activity, Handler, HandlerId, HandlerKind};
use crate::matching::{self, FilterError};
use crate::resource::Resource;
use crate::selector::Selector;

/// The handlers of an operator, in registration order.
pub struct Registry<F> {
    handlers: Vec<Arc<Handler<F>>>,
}

impl<F> Registry<F> {
    /// Adds a handler after the others.
    pub fn add(&mut self, handler: Handler<F>) {
        self.handlers.push(Arc::new(handler));
    }

    /// Returns all handlers, in order.
    pub fn handlers(&self) -> &[Arc<Handler<F>>] {
        &self.handlers
    }

    /// Returns `true` if there are no handlers.
    pub fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// Returns the selectors of all handlers, in order, with repetitions, including those of owned
    /// objects.
    pub fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.handlers
            .iter()
            .flat_map(|handler| handler.selector.iter().chain(&handler.owns))
    }

    /// Returns `true` if objects of this resource can be parents: handlers other than those of
    /// children are for it.
    fn is_own(&self, resource: &Resource) -> bool {
        let mut handlers = self.handlers.iter();
        handlers.any(|handler| {
            let selector = handler.selector.as_ref();
            handler.kind.is_watching()
                && handler.kind != HandlerKind::Child
                && selector.is_some_and(|selector| selector.check(resource))
        })
    }

    /// Returns `true` if reconcile handlers own objects of this resource.
    fn is_reconciled(&self, resource: &Resource) -> bool {
        let mut handlers = self.handlers.iter();
        handlers.any(|handler| handler.kind.reconciliation().is_some() && handler.owns(resource))
    }

    /// Returns the handlers of one activity of the operator, in order, each function once per id.
    pub fn activities(&self, activity: Activity) -> Vec<Arc<Handler<F>>> {
        let mut selected: Vec<Arc<Handler<F>>> = Vec::new();
        for handler in &self.handlers {
            if handler.kind == HandlerKind::Activity(activity) && !is_repeated(&selected, handler) {
                selected.push(Arc::clone(handler));
            }
        }
        selected
    }

    /// Returns the handlers for one resource.
    pub fn for_resource(&self, resource: &Resource) -> ResourceHandlers<F> {
        let is_own = self.is_own(resource);
        let selected = self.handlers.iter().filter(|handler| {
            let selector = handler.selector.as_ref();
            handler.kind.is_watching()
                && match selector {
                    Some(selector) => selector.check(resource),
                    None => is_own || handler.kind != HandlerKind::Child,
                }
        });
        let (mut indexing, mut watching) = (Vec::new(), Vec::new());
        let (mut spawning, mut changing) = (Vec::new(), Vec::new());
        let (mut child_watching, mut reconciling) = (Vec::new(), Vec::new());
        for handler in selected.cloned() {
            match handler.kind {
                HandlerKind::Index => indexing.push(handler),
                HandlerKind::Event => watching.push(handler),
                HandlerKind::Child => child_watching.push(handler),
                HandlerKind::Daemon(_) | HandlerKind::Timer(_) => spawning.push(handler),
                HandlerKind::Reconcile(_) => reconciling.push(handler),
                _ => changing.push(handler),
            }
        }

        let mut extra_fields: Vec<FieldPath> = Vec::new();
        let tracking = watching.iter().chain(&spawning).chain(&changing);
        for handler in tracking.chain(&child_watching) {
            match &handler.filters.field {
                Some(field) if !field.is_root() && !extra_fields.contains(field) => {
                    extra_fields.push(field.clone());
                }
                _ => {}
            }
        }
        ResourceHandlers {
            owned: distinct_ids(changing.iter()),
            owned_at_deletion: distinct_ids(changing.iter().chain(&reconciling)),
            indexing,
            watching,
            spawning,
            changing,
            reconciling,
            child_watching,
            extra_fields,
            is_owned: self.handlers.iter().any(|handler| handler.owns(resource)),
            is_reconciled: self.is_reconciled(resource),
        }
    }
}

impl<F> Default for Registry<F> {
    fn default() -> Self {
        Self {
            handlers: Vec::new(),
        }
    }
}

impl<F> Clone for Registry<F> {
    fn clone(&self) -> Self {
        Self {
            handlers: self.handlers.clone(),
        }
    }
}

impl<F> std::fmt::Debug for Registry<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.handlers).finish()
    }
}

impl<F> FromIterator<Handler<F>> for Registry<F> {
    fn from_iter<I: IntoIterator<Item = Handler<F>>>(handlers: I) -> Self {
        Self {
            handlers: handlers.into_iter().map(Arc::new).collect(),
        }
    }
}

/// The handlers for one resource.
#[non_exhaustive]
pub struct ResourceHandlers<F> {
    /// Index handlers.
    pub indexing: Vec<Arc<Handler<F>>>,
    /// Event handlers.
    pub watching: Vec<Arc<Handler<F>>>,
    /// Daemons and timers.
    pub spawning: Vec<Arc<Handler<F>>>,
    /// Change handlers, except reconcile handlers.
    pub changing: Vec<Arc<Handler<F>>>,
    /// Reconcile handlers.
    pub reconciling: Vec<Arc<Handler<F>>>,
    /// Handlers of owned objects.
    pub child_watching: Vec<Arc<Handler<F>>>,
    /// Objects of this resource are owned by objects of other handlers, which are to be notified.
    pub is_owned: bool,
    /// Some of these owners are reconciled: all of their children must be known before the first call.
    pub is_reconciled: bool,
    /// The fields of all handlers: they are tracked even where others are not, as in the status.
    pub extra_fields: Vec<FieldPath>,
    owned: Vec<HandlerId>,
    owned_at_deletion: Vec<HandlerId>,
}

impl<F> ResourceHandlers<F> {
    /// Returns `true` if any of the handlers has callbacks of the user: see
    /// [`Handler::has_callbacks`].
    pub fn has_callbacks(&self) -> bool {
        [
            &self.indexing,
            &self.watching,
            &self.spawning,
            &self.changing,
            &self.reconciling,
            &self.child_watching,
        ]
        .into_iter()
        .flatten()
        .any(|handler| handler.has_callbacks())
    }

    /// Returns the event handlers that match this event. Failing filters are logged, and do not
    /// match.
    pub fn watching_for(
        &self,
        cause: &Cause,
        context: &dyn Any,
        mut failed: impl FnMut(FilterError),
    ) -> Vec<Arc<Handler<F>>> {
        collect_lenient(&self.watching, cause, context, |_, error| failed(error))
    }

    /// Returns `true` if owned objects matter to the objects of this resource.
    pub fn is_owner(&self) -> bool {
        let mut handlers = self.changing.iter().chain(&self.reconciling);
        !self.child_watching.is_empty() || handlers.any(|handler| !handler.owns.is_empty())
    }

    /// Returns the handlers of changed children of this resource. Failing filters are logged, and
    /// do not match.
    pub fn child_watching_for(
        &self,
        child: &Resource,
        cause: &Cause,
        context: &dyn Any,
        mut failed: impl FnMut(FilterError),
    ) -> Vec<Arc<Handler<F>>> {
        let handlers: Vec<_> = self
            .child_watching
            .iter()
            .filter(|handler| handler.owns(child))
            .cloned()
            .collect();
        collect_lenient(&handlers, cause, context, |_, error| failed(error))
    }

    /// Returns the ids of the change handlers that are woken by changed children of this resource.
    pub fn woken_by(&self, child: &Resource) -> impl Iterator<Item = &HandlerId> {
        owning(&self.changing, child)
    }

    /// Returns the ids of the reconcile handlers that are triggered by changed children of this resource.
    pub fn triggered_by(&self, child: &Resource) -> impl Iterator<Item = &HandlerId> {
        owning(&self.reconciling, child)
    }

    /// Returns the reconcile handlers that match this object.
    ///
    /// # Errors
    /// Of a filter.
    pub fn reconciling_for(
        &self,
        cause: &Cause,
        context: &dyn Any,
    ) -> Result<Vec<Arc<Handler<F>>>, FilterError> {
        collect(self.reconciling.iter(), |handler| {
            matching::matches_object(handler, cause, context)
        })
    }

    /// Returns the index handlers that match this object. Failing filters are logged, and do not
    /// match.
    pub fn indexing_for(
        &self,
        cause: &Cause,
        context: &dyn Any,
        mut failed: impl FnMut(FilterError),
    ) -> Vec<Arc<Handler<F>>> {
        collect_lenient(&self.indexing, cause, context, |_, error| failed(error))
    }

    /// Returns the daemons and timers that should run for this object. Failing filters are logged,
    /// and do not match.
    pub fn spawning_for(
        &self,
        cause: &Cause,
        context: &dyn Any,
        failed: impl FnMut(&Handler<F>, FilterError),
    ) -> Vec<Arc<Handler<F>>> {
        collect_lenient(&self.spawning, cause, context, failed)
    }

    /// Returns the handlers to be called for this cause.
    pub fn selected(
        &self,
        cause: &Cause,
        context: &dyn Any,
    ) -> Result<Vec<Arc<Handler<F>>>, FilterError> {
        collect(self.changing.iter().chain(&self.reconciling), |handler| {
            Ok(reacts(handler.kind, cause) && matching::matches_object(handler, cause, context)?)
        })
    }

    /// Returns `true` if any change handler, except reconcile handlers, matches this object. Otherwise the
    /// operator stores no diff-base on it.
    pub fn prematches_any(&self, cause: &Cause, context: &dyn Any) -> Result<bool, FilterError> {
        any(self.changing.iter(), |handler| {
            matching::prematches_object(handler, cause, context)
        })
    }

    /// Returns `true` if any reconcile handler must be called before this object is deleted.
    ///
    /// # Errors
    /// Of a filter.
    pub fn reconciles_deletion(
        &self,
        cause: &Cause,
        context: &dyn Any,
    ) -> Result<bool, FilterError> {
        any(self.reconciling.iter(), |handler| {
            Ok(handler.kind.requires_finalizer()
                && matching::prematches_object(handler, cause, context)?)
        })
    }

    /// Returns `true` if any change handler, except reconcile handlers, must be called before the object is
    /// deleted.
    pub fn requires_finalizer(
        &self,
        cause: &Cause,
        context: &dyn Any,
    ) -> Result<bool, FilterError> {
        any(self.changing.iter(), |handler| {
            Ok(handler.kind.requires_finalizer()
                && matching::prematches_object(handler, cause, context)?)
        })
    }

    /// Returns `true` if the handling of an object depends only on its essence, labels and
    /// finalizers: there are only change handlers, with filters on these.
    pub fn look_at_essences_only(&self) -> bool {
        let others = [
            &self.indexing,
            &self.watching,
            &self.spawning,
            &self.reconciling,
        ];
        // Owners and owned objects need their newest version at any time.
        !self.is_owner()
            && !self.is_owned
            && others.iter().all(|handlers| handlers.is_empty())
            && self.changing.iter().all(|handler| {
                let Filters {
                    labels: _,
                    annotations,
                    field,
                    value,
                    old,
                    new,
                    when,
                } = &handler.filters;
                annotations.is_empty()
                    && field.is_none()
                    && when.is_none()
                    && [value, old, new].iter().all(|value| value.is_none())
            })
    }

    /// Returns the ids of all change handlers, each once: their records on objects are ours. The records of
    /// reconcile handlers are independent of other causes than the deletion, which ends them.
    pub fn owned(&self, reason: Reason) -> &[HandlerId] {
        match reason {
            Reason::Delete => &self.owned_at_deletion,
            _ => &self.owned,
        }
    }
}

impl<F> std::fmt::Debug for ResourceHandlers<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceHandlers")
            .field("indexing", &self.indexing)
            .field("spawning", &self.spawning)
            .field("watching", &self.watching)
            .field("changing", &self.changing)
            .field("reconciling", &self.reconciling)
            .field("extra_fields", &self.extra_fields)
            .finish_non_exhaustive()
    }
}

/// Returns the id that a reconcile handler of this resource shares with another change handler of it.
pub fn shared_id<F>(handlers: &[Arc<Handler<F>>], resource: &Resource) -> Option<HandlerId> {
    let is_selected = |handler: &Handler<F>| {
        let selector = handler.selector.as_ref();
        selector.is_some_and(|selector| selector.check(resource))
    };
    let is_same = |one: &Handler<F>, other: &Handler<F>| {
        let is_other = other.kind.is_change() && other.kind.reconciliation().is_none();
        is_other && one.id == other.id && is_selected(other)
    };
    let reconciling = handlers.iter().filter(|one| {
        let is_reconciling = one.kind.reconciliation().is_some();
        is_reconciling && handlers.iter().any(|other| is_same(one, other))
    });
    let mut shared = reconciling.filter(|one| is_selected(one));
    shared.next().map(|one| HandlerId::clone(&one.id))
}

/// Returns the sub-handlers to be called for this cause.
pub fn select_from<F>(
    handlers: &[Arc<Handler<F>>],
    cause: &Cause,
    context: &dyn Any,
) -> Result<Vec<Arc<Handler<F>>>, FilterError> {
    collect(handlers.iter(), |handler| {
        Ok(reacts(handler.kind, cause) && matching::matches(handler, cause, context)?)
    })
}

/// Returns `true` if this type of handlers reacts to the reason of this cause.
fn reacts(kind: HandlerKind, cause: &Cause) -> bool {
    let Some(change) = cause
        .change
        .as_ref()
        .filter(|change| change.reason.is_handled())
    else {
        return false;
    };
    match kind {
        kind if !kind.is_change() => false,
        HandlerKind::Reconcile(reconciliation) => {
            reconciliation.finalizer && change.reason == Reason::Delete
        }
        HandlerKind::Resume { deleted } => change.initial && (deleted || !cause.body.is_deleting()),
        kind => kind.reason().is_none_or(|reason| reason == change.reason),
    }
}

/// Returns the matching handlers, in order, each function once per id: the first registered one
/// wins.
///
/// One function can be registered for several reasons, and more than one of them can apply.
fn collect<'a, F: 'a>(
    handlers: impl Iterator<Item = &'a Arc<Handler<F>>>,
    matches: impl Fn(&Handler<F>) -> Result<bool, FilterError>,
) -> Result<Vec<Arc<Handler<F>>>, FilterError> {
    let mut selected: Vec<Arc<Handler<F>>> = Vec::new();
    for handler in handlers {
        if !is_repeated(&selected, handler) && matches(handler)? {
            selected.push(Arc::clone(handler));
        }
    }
    Ok(selected)
}

/// Returns the matching handlers; one whose filter fails is omitted.
fn collect_lenient<F>(
    handlers: &[Arc<Handler<F>>],
    cause: &Cause,
    context: &dyn Any,
    mut failed: impl FnMut(&Handler<F>, FilterError),
) -> Vec<Arc<Handler<F>>> {
    let mut selected: Vec<Arc<Handler<F>>> = Vec::new();
    for handler in handlers {
        if is_repeated(&selected, handler) {
            continue;
        }
        match matching::matches_object(handler, cause, context) {
            Ok(true) => selected.push(Arc::clone(handler)),
            Ok(false) => {}
            Err(error) => failed(handler, error),
        }
    }
    selected
}

fn is_repeated<F>(selected: &[Arc<Handler<F>>], handler: &Handler<F>) -> bool {
    selected
        .iter()
        .any(|other| other.function == handler.function && other.id == handler.id)
}

/// Returns the ids of the handlers, each once.
fn distinct_ids<'a, F: 'a>(handlers: impl Iterator<Item = &'a Arc<Handler<F>>>) -> Vec<HandlerId> {
    let mut ids: Vec<HandlerId> = Vec::new();
    for handler in handlers {
        if !ids.contains(&handler.id) {
            ids.push(Arc::clone(&handler.id));
        }
    }
    ids
}

/// Returns the ids of the handlers whose objects own objects of this resource.
fn owning<'a, F>(
    handlers: &'a [Arc<Handler<F>>],
    child: &Resource,
) -> impl Iterator<Item = &'a HandlerId> {
    let owning = handlers.iter().filter(|handler| handler.owns(child));
    owning.map(|handler| &handler.id)
}

fn any<'a, F: 'a>(
    handlers: impl Iterator<Item = &'a Arc<Handler<F>>>,
    matches: impl Fn(&Handler<F>) -> Result<bool, FilterError>,
) -> Result<bool, FilterError> {
    for handler in handlers {
        if matches(handler)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
