//! One call of a function.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change, EventType};
use kopf_core::handler::{Activity, HandlerId, Param};
use kopf_core::trigger::Triggers;
use serde_json::Value;

use super::logger::ObjectLogger;
use super::memos::MemoCell;
use super::{
    Admission, LiveBody, OperatorContext, OwnedObject, SharedPatch, Slot, Stopped, SubHandlers,
};

/// The subject of a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Subject {
    /// An event of an object. For handlers with a field, the change is reduced to that field.
    Object(Arc<Cause>),
    /// An admission request.
    Admission(Arc<Admission>),
    /// An activity of the operator itself.
    Activity(Activity),
}

/// The arguments of one call. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// The handler's full id.
    pub id: HandlerId,
    /// The subject of the call.
    pub subject: Subject,
    /// The `param` that the handler was declared with.
    pub param: Option<Param>,
    /// The number of attempts before this one.
    pub retry: u32,
    /// The time of the first attempt for this cause.
    pub started: Timestamp,
    /// The time since `started`, at the beginning of this attempt.
    pub runtime: Duration,
    /// Changes of the object, sent when the cycle ends.
    pub patch: SharedPatch,
    /// A logger for the object. Its records are also posted as events of the object.
    pub logger: ObjectLogger,
    /// Registers and runs sub-handlers; only in change handlers.
    pub subs: Option<SubHandlers>,
    /// A slot for results that are not JSON.
    pub slot: Slot,
    /// The memo of the object, or of the operator if the call has no object.
    pub memo: MemoCell,
    /// The stop flag; only in daemons and timers.
    pub stopped: Option<Stopped>,
    /// The newest version of the object at any time; only in daemons and timers.
    pub live: Option<LiveBody>,
    /// The changed child of the object; only in child handlers.
    pub child: Option<Arc<OwnedObject>>,
    /// The reasons of the call; only in reconcile handlers. Their functions store a
    /// [`Requeue`](kopf_core::trigger::Requeue) in the slot.
    pub triggers: Triggers,
    /// Context shared by all handlers of the operator.
    pub operator: Arc<OperatorContext>,
}

impl Call {
    /// Returns the cause; `None` if the call has no object.
    pub fn cause(&self) -> Option<&Arc<Cause>> {
        match &self.subject {
            Subject::Object(cause) => Some(cause),
            Subject::Admission(admission) => Some(&admission.cause),
            Subject::Activity(_) => None,
        }
    }

    /// Returns the admission request; only in admission handlers.
    pub fn admission(&self) -> Option<&Arc<Admission>> {
        match &self.subject {
            Subject::Admission(admission) => Some(admission),
            Subject::Object(_) | Subject::Activity(_) => None,
        }
    }

    /// Returns the body of the object; empty if the call has no object.
    pub fn body(&self) -> &Body {
        static NONE: LazyLock<Body> = LazyLock::new(|| Body::new(Value::Null));
        self.cause().map_or(&NONE, |cause| &cause.body)
    }

    /// Returns the newest known versions of the existing objects that the object owns, of the kinds
    /// that handlers of this operator declare as owned, in the order of their last changes. Reads
    /// memory only.
    pub fn children(&self) -> Vec<Arc<OwnedObject>> {
        let cause = self.cause();
        cause.map_or_else(Vec::new, |cause| {
            let children = &self.operator.children;
            children.children_of(&cause.resource, &cause.body)
        })
    }

    /// Returns the change; only in change handlers.
    pub fn change(&self) -> Option<&Change> {
        self.cause()?.change.as_ref()
    }

    /// Returns the type of the event; only in event handlers.
    pub fn event(&self) -> Option<EventType> {
        self.cause()?.event
    }
}
