//! The seam between the engine and the fronts: *given this cause and this context, run the function
//! and say what came out*.
//!
//! A front turns every function of its users into an [`Invoke`]; the engine calls it with a
//! [`Call`]. All that depends on a language is behind this trait: how arguments are made, how
//! functions of that language are run, what its errors look like. The engine never names a front.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kopf_client::Client;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change, EventType};
use kopf_core::handler::{Activity, HandlerId, Param};
use kopf_core::outcome::HandlerError;
use kopf_core::patch::Patch;
use kopf_core::settings::Settings;
use serde_json::Value;

use crate::admission::Admission;
use crate::background::{LiveBody, Stopped};
use crate::clock::Clock;
use crate::execution::SubHandlers;
use crate::indexing::Indices;
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;

/// A function as the engine sees it.
pub type Function = Arc<dyn Invoke>;

/// A handler with its function.
pub type Handler = kopf_core::handler::Handler<Function>;

/// All handlers of one operator.
pub type Registry = kopf_core::registry::Registry<Function>;

/// What comes out of a function: a value for the status (or none), or an error.
pub type HandlerResult = Result<Option<Value>, HandlerError>;

/// A user's function, whatever its language.
pub trait Invoke: Send + Sync {
    /// Prepares one call. Cheap: what takes time belongs into the returned work.
    ///
    /// A panic, here or in the work, is a failure of this handler and of nothing else.
    fn invoke(&self, call: Call) -> Work;
}

impl fmt::Debug for dyn Invoke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invoke")
    }
}

/// One prepared call of a function.
#[must_use]
pub enum Work {
    /// Runs in the engine's tasks. It is dropped at the handler's timeout and when the operator
    /// is forced to stop.
    Async(BoxFuture<'static, HandlerResult>),
    /// Runs in a thread of a bounded pool. It cannot be interrupted.
    Blocking(Box<dyn FnOnce() -> HandlerResult + Send>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
        })
    }
}

/// What a function is called about.
#[derive(Debug, Clone)]
pub enum Subject {
    /// What has happened to which object. For handlers of a field, the change is reduced to it.
    Object(Arc<Cause>),
    /// What somebody wants to be done to an object.
    Admission(Arc<Admission>),
    /// What happens to the operator itself.
    Activity(Activity),
}

/// All that a function can ask for. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// The handler's full id.
    pub id: HandlerId,
    /// What the function is called about.
    pub subject: Subject,
    /// What the handler was declared with.
    pub param: Option<Param>,
    /// How many attempts were made before this one.
    pub retry: u32,
    /// When the handler was first seen for this cause.
    pub started: Timestamp,
    /// How long ago that was, at the beginning of this attempt.
    pub runtime: Duration,
    /// What is to be changed on the object when the cycle ends.
    pub patch: SharedPatch,
    /// Writes to the log (and to the object's events) in the object's name.
    pub logger: ObjectLogger,
    /// Where sub-handlers are registered; only in handlers of changes.
    pub subs: Option<SubHandlers>,
    /// Where a result goes that is no JSON.
    pub slot: Slot,
    /// What is remembered of the object, or of the operator if it is not about an object.
    pub memo: MemoCell,
    /// Whether it is to end; only in daemons and timers.
    pub stopped: Option<Stopped>,
    /// The object as it is at any time; only in daemons and timers.
    pub live: Option<LiveBody>,
    /// What all handlers of the operator share.
    pub operator: Arc<OperatorContext>,
}

impl Call {
    /// What has happened to the object; `None` if it is not about an object.
    pub fn cause(&self) -> Option<&Arc<Cause>> {
        match &self.subject {
            Subject::Object(cause) => Some(cause),
            Subject::Admission(admission) => Some(&admission.cause),
            Subject::Activity(_) => None,
        }
    }

    /// What somebody wants to be done to the object; only in handlers for admission.
    pub fn admission(&self) -> Option<&Arc<Admission>> {
        match &self.subject {
            Subject::Admission(admission) => Some(admission),
            Subject::Object(_) | Subject::Activity(_) => None,
        }
    }

    /// The object; an empty one if it is not about an object.
    pub fn body(&self) -> &Body {
        static NONE: LazyLock<Body> = LazyLock::new(|| Body::new(Value::Null));
        self.cause().map_or(&NONE, |cause| &cause.body)
    }

    /// What has changed; only in handlers of changes.
    pub fn change(&self) -> Option<&Change> {
        self.cause()?.change.as_ref()
    }

    /// The type of the event; only in handlers of events.
    pub fn event(&self) -> Option<EventType> {
        self.cause()?.event
    }
}

/// What all handlers of one operator share.
#[derive(Clone)]
#[non_exhaustive]
pub struct OperatorContext {
    /// The operator's connection to the API.
    pub client: Client,
    /// The operator's settings.
    pub settings: Arc<Settings>,
    /// The operator's time.
    pub clock: Clock,
    /// Whatever the front has put here; the engine only carries it.
    pub front: Arc<dyn Any + Send + Sync>,
    /// The settings as they will be; only while the operator starts up, afterwards they are fixed.
    pub draft: Option<SettingsDraft>,
    /// The operator's indices.
    pub indices: Indices,
    /// The operator's own memo; those of objects are made from it.
    pub memo: MemoCell,
}

impl OperatorContext {
    /// Joins the parts, without indices and memos.
    pub fn new(
        client: Client,
        settings: Arc<Settings>,
        clock: Clock,
        front: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            client,
            settings,
            clock,
            front,
            draft: None,
            indices: Indices::default(),
            memo: MemoCell::of_operator(Arc::new(())),
        }
    }

    /// With these indices.
    #[must_use]
    pub fn with_indices(self, indices: Indices) -> Self {
        Self { indices, ..self }
    }

    /// With this memo, from which those of objects are made.
    #[must_use]
    pub fn with_memo(self, memo: MemoCell) -> Self {
        Self { memo, ..self }
    }
}

impl fmt::Debug for OperatorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorContext").finish_non_exhaustive()
    }
}

/// The context that filters, lifecycles and delays of one object get through `kopf-core`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FilterContext {
    /// What all handlers of the operator share.
    pub operator: Arc<OperatorContext>,
    /// What is remembered of the object.
    pub memo: MemoCell,
    /// What somebody wants to be done to the object; only for handlers for admission.
    pub admission: Option<Arc<Admission>>,
}

impl FilterContext {
    /// Joins the parts.
    pub fn new(operator: Arc<OperatorContext>, memo: MemoCell) -> Self {
        Self {
            operator,
            memo,
            admission: None,
        }
    }

    /// For handlers for admission.
    #[must_use]
    pub fn with_admission(self, admission: Arc<Admission>) -> Self {
        Self {
            admission: Some(admission),
            ..self
        }
    }
}

/// The settings while they can be changed: by the startup handlers. Cheap to clone: clones are the
/// same settings.
#[derive(Debug, Clone, Default)]
pub struct SettingsDraft(Arc<Mutex<Settings>>);

impl SettingsDraft {
    /// Starts with these.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(settings)))
    }

    /// The settings as they are now.
    pub fn get(&self) -> Settings {
        self.lock().clone()
    }

    /// Replaces the settings.
    pub fn set(&self, settings: Settings) {
        *self.lock() = settings;
    }

    fn lock(&self) -> MutexGuard<'_, Settings> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A result that is no JSON, such as credentials: put here by the function (or its front), taken
/// from here by the engine when the function has succeeded. Cheap to clone: clones are the same slot.
///
/// ```
/// use kopf_engine::invocation::Slot;
///
/// let slot = Slot::default();
/// slot.put("a ticket".to_owned());
/// assert_eq!(slot.take::<u64>(), None, "it is of another type, and stays");
/// assert_eq!(slot.take::<String>().as_deref(), Some("a ticket"));
/// assert_eq!(slot.take::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Slot(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl Slot {
    /// Puts a result here. A former one is forgotten.
    pub fn put<T: Send + 'static>(&self, result: T) {
        *self.lock() = Some(Box::new(result));
    }

    /// Takes the result, if it is there and of this type.
    pub fn take<T: Send + 'static>(&self) -> Option<T> {
        let mut slot = self.lock();
        match slot.take()?.downcast::<T>() {
            Ok(result) => Some(*result),
            Err(other) => {
                *slot = Some(other);
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without what is in it: that can be secret.
impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

/// The patch of one cycle, written to by all its handlers. Cheap to clone: clones are the same
/// patch.
#[derive(Debug, Clone, Default)]
pub struct SharedPatch(Arc<Mutex<Patch>>);

impl SharedPatch {
    /// Starts with what is there already.
    pub fn new(patch: Patch) -> Self {
        Self(Arc::new(Mutex::new(patch)))
    }

    /// Reads or changes the patch. Not to be nested.
    pub fn with<R>(&self, action: impl FnOnce(&mut Patch) -> R) -> R {
        // A handler that panicked amid a change has left a valid, if incomplete, patch.
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes everything out: what is written afterwards belongs to nobody.
    pub fn take(&self) -> Patch {
        self.with(std::mem::take)
    }
}

/// A handler for tests that do not call it, or do not mind.
#[cfg(test)]
pub(crate) struct Nothing;

#[cfg(test)]
impl Invoke for Nothing {
    fn invoke(&self, _: Call) -> Work {
        Work::Async(Box::pin(async { Ok(None) }))
    }
}
