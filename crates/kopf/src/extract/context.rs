//! Where extractors take from: one call of a handler, or one question to a filter.

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
use crate::indexing::IndexTypes;
use crate::memos::Seeds;

/// Where extractors take from: what has happened to which object, in which operator.
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

    /// As if the call was about another version of its object.
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

    /// The object; empty for handlers that are not about objects, such as `on::startup`.
    pub fn body(&self) -> &'a Body {
        self.body
    }

    /// The object, or the reason why the named argument cannot be made.
    pub(crate) fn object(&self, argument: &'static str) -> Result<&'a Body, Rejection> {
        match self.cause {
            Some(_) => Ok(self.body),
            None => Err(Rejection::NoObject { argument }),
        }
    }

    /// The kind of the object; `None` for handlers that are not about objects.
    pub fn resource(&self) -> Option<&'a Arc<Resource>> {
        self.cause.map(|cause| &cause.resource)
    }

    /// The settings of the operator.
    pub fn settings(&self) -> &'a Arc<Settings> {
        &self.operator.settings
    }

    /// The full id of the handler; filters are asked on behalf of none.
    pub fn handler_id(&self) -> Option<&'a str> {
        self.call.map(|call| &*call.id)
    }

    /// The `param` that the handler was declared with.
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

    /// What is remembered of the object; of the operator, if there is no object.
    pub(crate) fn memo(&self) -> &'a MemoCell {
        self.memo
    }

    pub(crate) fn change(&self) -> Option<&'a Change> {
        self.cause?.change.as_ref()
    }

    /// The change, or the reason why the named argument cannot be made.
    pub(crate) fn changed(&self, argument: &'static str) -> Result<&'a Change, Rejection> {
        self.change().ok_or(Rejection::NoChange { argument })
    }

    /// What is asked for, or the reason why the named argument cannot be made.
    pub(crate) fn admission(&self, argument: &'static str) -> Result<&'a Admission, Rejection> {
        self.admission.ok_or(Rejection::NoAdmission { argument })
    }

    /// What has changed or is to be changed, or the reason why the named argument cannot be made.
    pub(crate) fn difference(&self, argument: &'static str) -> Result<Difference<'a>, Rejection> {
        match (self.admission, self.change()) {
            (Some(admission), _) => Ok(Difference::Wanted(admission)),
            (None, Some(change)) => Ok(Difference::Made(change)),
            (None, None) => Err(Rejection::NoDifference { argument }),
        }
    }

    /// The call, or the reason why the named argument cannot be made.
    pub(crate) fn call(&self, argument: &'static str) -> Result<&'a Call, Rejection> {
        self.call.ok_or(Rejection::NoCall { argument })
    }

    /// What the operator was built with.
    pub(crate) fn state<T: Clone + 'static>(&self) -> Option<T> {
        self.operator.front.downcast_ref::<Front>()?.state()
    }
}

/// An old and a new state.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Difference<'a> {
    /// It is there.
    Made(&'a Change),
    /// Somebody wants it.
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

/// What is known of a handler when the operator is built.
#[derive(Debug, Clone, Copy)]
pub struct Declared<'a> {
    pub(crate) kind: HandlerKind,
    pub(crate) param: Option<&'a Param>,
    pub(crate) front: &'a Front,
}

impl Declared<'_> {
    /// Whether the handler reacts to changes, and has old, new, diff and reason.
    pub fn is_change(&self) -> bool {
        self.kind.is_change()
    }

    /// The activity of the operator that the handler is for; `None` for handlers of objects.
    pub fn activity(&self) -> Option<Activity> {
        match self.kind {
            HandlerKind::Activity(activity) => Some(activity),
            _ => None,
        }
    }

    /// Refuses arguments that make sense for objects only.
    pub(crate) fn objects(&self, argument: &'static str) -> Result<(), Rejection> {
        if self.kind.is_for_objects() {
            Ok(())
        } else {
            Err(Rejection::NoObject { argument })
        }
    }

    /// Refuses arguments that make sense for daemons and timers only.
    pub(crate) fn beside(&self, argument: &'static str) -> Result<(), Rejection> {
        if self.kind.is_background() {
            Ok(())
        } else {
            Err(Rejection::NotBackground { argument })
        }
    }

    /// Refuses arguments that make sense for admission only.
    pub(crate) fn admission(&self, argument: &'static str) -> Result<(), Rejection> {
        match self.kind {
            HandlerKind::Admission(_) => Ok(()),
            _ => Err(Rejection::NoAdmission { argument }),
        }
    }

    /// Refuses arguments that make sense only where there is an old and a new state.
    pub(crate) fn differences(&self, argument: &'static str) -> Result<(), Rejection> {
        if self.is_change() || self.admission(argument).is_ok() {
            Ok(())
        } else {
            Err(Rejection::NoDifference { argument })
        }
    }

    /// Refuses arguments that make sense for changes only.
    pub(crate) fn changes(&self, argument: &'static str) -> Result<(), Rejection> {
        if self.is_change() {
            Ok(())
        } else {
            Err(Rejection::NoChange { argument })
        }
    }
}

/// What this front keeps with the operator, for its extractors.
#[derive(Clone, Default)]
pub(crate) struct Front {
    states: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// What the indices of the operator keep, by their names.
    pub(crate) indices: BTreeMap<String, IndexTypes>,
    /// What memos begin with.
    pub(crate) seeds: Seeds,
}

impl Front {
    /// Adds a state; the former one of that type is replaced.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, state: T) {
        self.states.insert(TypeId::of::<T>(), Arc::new(state));
    }

    /// All indices, empty.
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

/// Asks a filter's question with the context that the engine hands through core.
pub(crate) fn with_filter_context<R>(
    cause: &Cause,
    context: &dyn Any,
    param: Option<&Param>,
    ask: impl FnOnce(&Context<'_>) -> Result<R, Rejection>,
) -> Result<R, Rejection> {
    let context = context
        .downcast_ref::<FilterContext>()
        .ok_or_else(|| Rejection::other("filters are asked outside of an operator"))?;
    ask(&Context::of_filter(cause, context, param))
}
