//! The source of extractors: a call of a handler or of a filter.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change};
use kopf_core::diff::Diff;
use kopf_core::handler::{Activity, HandlerKind, Param};
use kopf_core::resource::Resource;
use kopf_core::settings::Settings;
use kopf_engine::admission::Admission;
use kopf_engine::indexing::Indices;
use kopf_engine::invocation::{Call, FilterContext, OperatorContext};
use kopf_engine::logger::ObjectLogger;
use kopf_engine::memos::MemoCell;
use serde_json::Value;

use super::Rejection;
use crate::indices::IndexTypes;
use crate::memos::Seeds;

/// The source of extractors: the cause, the object and the operator of a call.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    cause: Option<&'a Cause>,
    body: &'a Body,
    operator: &'a OperatorContext,
    memo: &'a MemoCell,
    call: Option<&'a Call>,
    admission: Option<&'a Admission>,
    param: Option<&'a Param>,
    logger: &'a ObjectLogger,
}

impl<'a> Context<'a> {
    pub(crate) fn of_call(call: &'a Call) -> Self {
        Self {
            cause: call.cause().map(AsRef::as_ref),
            body: call.body(),
            operator: &call.operator,
            memo: &call.memo,
            call: Some(call),
            admission: call.admission().map(AsRef::as_ref),
            param: call.param.as_ref(),
            logger: &call.logger,
        }
    }

    /// Returns the context of a call with another version of its object.
    pub(crate) fn of_live(cause: &'a Cause, call: &'a Call) -> Self {
        Self {
            cause: Some(cause),
            body: &cause.body,
            ..Self::of_call(call)
        }
    }

    pub(crate) fn of_filter(
        cause: &'a Cause,
        context: &'a FilterContext,
        param: Option<&'a Param>,
    ) -> Self {
        Self {
            cause: Some(cause),
            body: &cause.body,
            operator: &context.operator,
            memo: &context.memo,
            call: None,
            admission: context.admission.as_deref(),
            param,
            logger: &context.logger,
        }
    }

    /// Returns the object; empty for activities, such as `on::startup`.
    pub fn body(&self) -> &'a Body {
        self.body
    }

    /// Returns the object.
    ///
    /// # Errors
    /// In activities. The error contains the name of the argument, here and below.
    pub(crate) fn object(&self, argument: &'static str) -> Result<&'a Body, Rejection> {
        match self.cause {
            Some(_) => Ok(self.body),
            None => Err(Rejection::NoObject { argument }),
        }
    }

    /// Returns the resource of the object; `None` for activities.
    pub fn resource(&self) -> Option<&'a Arc<Resource>> {
        self.cause.map(|cause| &cause.resource)
    }

    /// Returns the settings of the operator.
    pub fn settings(&self) -> &'a Arc<Settings> {
        &self.operator.settings
    }

    /// Returns the full id of the handler; `None` for filters.
    pub fn handler_id(&self) -> Option<&'a str> {
        self.call.map(|call| &*call.id)
    }

    /// Returns the `param` of the handler.
    pub(crate) fn param(&self) -> Option<&'a Param> {
        self.param
    }

    pub(crate) fn logger(&self) -> &'a ObjectLogger {
        self.logger
    }

    pub(crate) fn cause(&self) -> Option<&'a Cause> {
        self.cause
    }

    pub(crate) fn operator(&self) -> &'a OperatorContext {
        self.operator
    }

    /// Returns the memo of the object; that of the operator in activities.
    pub(crate) fn memo(&self) -> &'a MemoCell {
        self.memo
    }

    pub(crate) fn change(&self) -> Option<&'a Change> {
        self.cause?.change.as_ref()
    }

    /// Returns the change.
    pub(crate) fn changed(&self, argument: &'static str) -> Result<&'a Change, Rejection> {
        self.change().ok_or(Rejection::NoChange { argument })
    }

    /// Returns the admission request.
    pub(crate) fn admission(&self, argument: &'static str) -> Result<&'a Admission, Rejection> {
        self.admission.ok_or(Rejection::NoAdmission { argument })
    }

    /// Returns the change or the requested change.
    pub(crate) fn difference(&self, argument: &'static str) -> Result<Difference<'a>, Rejection> {
        match (self.admission, self.change()) {
            (Some(admission), _) => Ok(Difference::Wanted(admission)),
            (None, Some(change)) => Ok(Difference::Made(change)),
            (None, None) => Err(Rejection::NoDifference { argument }),
        }
    }

    /// Returns the call.
    pub(crate) fn call(&self, argument: &'static str) -> Result<&'a Call, Rejection> {
        self.call.ok_or(Rejection::NoCall { argument })
    }

    /// Returns a state that the operator was built with.
    pub(crate) fn state<T: Clone + 'static>(&self) -> Option<T> {
        self.operator.front.downcast_ref::<Front>()?.state()
    }
}

/// An old and a new state.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Difference<'a> {
    /// A change of a stored object.
    Made(&'a Change),
    /// A requested change.
    Wanted(&'a Admission),
}

impl<'a> Difference<'a> {
    pub(crate) fn old_side(self) -> Option<&'a Arc<Value>> {
        match self {
            Self::Made(change) => change.old.as_ref(),
            Self::Wanted(admission) => admission.review.old.as_ref(),
        }
    }

    pub(crate) fn new_side(self) -> Option<&'a Arc<Value>> {
        match self {
            Self::Made(change) => change.new.as_ref(),
            Self::Wanted(admission) => admission.review.new.as_ref(),
        }
    }

    pub(crate) fn diff(self) -> &'a Diff {
        match self {
            Self::Made(change) => &change.diff,
            Self::Wanted(admission) => admission.review.diff(),
        }
    }
}

/// The declaration of a handler when the operator is built.
#[derive(Debug, Clone, Copy)]
pub struct Declared<'a> {
    pub(crate) kind: HandlerKind,
    pub(crate) param: Option<&'a Param>,
    pub(crate) front: &'a Front,
}

impl Declared<'_> {
    /// Returns `true` for handlers of changes, which have old, new, diff and reason.
    pub fn is_change(&self) -> bool {
        self.kind.is_change() && self.kind.reconciliation().is_none()
    }

    /// Returns the activity; `None` for handlers of objects.
    pub fn activity(&self) -> Option<Activity> {
        match self.kind {
            HandlerKind::Activity(activity) => Some(activity),
            _ => None,
        }
    }

    /// Rejects an argument that requires an object.
    pub(crate) fn objects(&self, argument: &'static str) -> Result<(), Rejection> {
        if self.kind.is_for_objects() {
            Ok(())
        } else {
            Err(Rejection::NoObject { argument })
        }
    }

    /// Rejects an argument for daemons and timers only.
    pub(crate) fn background(&self, argument: &'static str) -> Result<(), Rejection> {
        if self.kind.is_background() {
            Ok(())
        } else {
            Err(Rejection::NotBackground { argument })
        }
    }

    /// Rejects an argument for admission handlers only.
    pub(crate) fn admission(&self, argument: &'static str) -> Result<(), Rejection> {
        match self.kind {
            HandlerKind::Admission(_) => Ok(()),
            _ => Err(Rejection::NoAdmission { argument }),
        }
    }

    /// Rejects an argument that requires an old and a new state.
    pub(crate) fn differences(&self, argument: &'static str) -> Result<(), Rejection> {
        if self.is_change() || self.admission(argument).is_ok() {
            Ok(())
        } else {
            Err(Rejection::NoDifference { argument })
        }
    }

    /// Rejects an argument for handlers of changes only.
    pub(crate) fn changes(&self, argument: &'static str) -> Result<(), Rejection> {
        if self.is_change() {
            Ok(())
        } else {
            Err(Rejection::NoChange { argument })
        }
    }
}

/// Data of the Rust API that is stored with the operator, for extractors.
#[derive(Clone, Default)]
pub(crate) struct Front {
    states: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// The types of the indices, by name.
    pub(crate) indices: BTreeMap<String, IndexTypes>,
    /// Initial values of memos.
    pub(crate) seeds: Seeds,
}

impl Front {
    /// Adds a state. It replaces an earlier one of its type.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, state: T) {
        self.states.insert(TypeId::of::<T>(), Arc::new(state));
    }

    /// Returns empty indices.
    pub(crate) fn make_indices(&self) -> Indices {
        let indices = self.indices.iter();
        indices
            .map(|(id, types)| (id.as_str(), types.make()))
            .collect()
    }

    pub(crate) fn has<T: 'static>(&self) -> bool {
        self.states.contains_key(&TypeId::of::<T>())
    }

    fn state<T: Clone + 'static>(&self) -> Option<T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref().cloned()
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Front({} states)", self.states.len())
    }
}

/// Calls a filter with the context from the engine.
pub(crate) fn with_filter_context<R>(
    cause: &Cause,
    context: &dyn Any,
    param: Option<&Param>,
    call: impl FnOnce(&Context<'_>) -> Result<R, Rejection>,
) -> Result<R, Rejection> {
    let context = context
        .downcast_ref::<FilterContext>()
        .ok_or_else(|| Rejection::other("a filter was called outside of an operator"))?;
    call(&Context::of_filter(cause, context, param))
}
