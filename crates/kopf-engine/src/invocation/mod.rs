//! The interface between the engine and the frontends.
//!
//! A frontend wraps every function of its users into an [`Invoke`]. The engine calls it with a
//! [`Call`] and runs the returned [`Work`]. The implementation of this trait contains everything
//! that depends on a language: building arguments, running functions, converting errors. The engine
//! does not depend on any frontend.
//!
//! This module is a leaf: it imports only other leaf modules of the engine (clock, indices,
//! posting). Fronts use the engine through handles that the engine passes to them, such as
//! [`SubHandlers`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use kopf_engine::invocation::{Call, Function, Invoke, Work};
//! use serde_json::json;
//!
//! /// A frontend whose functions return the name of the object.
//! struct Name;
//!
//! impl Invoke for Name {
//!     fn invoke(&self, call: Call) -> Work {
//!         Work::Async(Box::pin(async move { Ok(Some(json!(call.body().name()))) }))
//!     }
//! }
//!
//! let function: Function = Arc::new(Name);
//! ```

mod admission;
mod call;
mod context;
mod current;
mod draft;
mod filter;
mod heartbeat;
mod host;
mod leftovers;
mod live;
pub mod logger;
pub mod memos;
mod owned;
mod patch;
mod slot;
mod stopped;
mod subs;
mod work;

use std::fmt;
use std::sync::Arc;

use kopf_core::outcome::HandlerError;
use serde_json::Value;

pub use self::admission::{Admission, Warnings};
pub use self::call::{Call, Subject};
pub use self::context::OperatorContext;
pub use self::current::current;
pub(crate) use self::current::{polled, within, within_blocking};
pub use self::draft::SettingsDraft;
pub use self::filter::FilterContext;
pub use self::heartbeat::Heartbeat;
pub(crate) use self::host::Hosting;
pub use self::host::{Host, Hosted};
pub(crate) use self::leftovers::Leftovers;
pub use self::live::LiveBody;
pub(crate) use self::owned::FindChildren;
pub use self::owned::OwnedObject;
pub use self::patch::SharedPatch;
pub use self::slot::Slot;
pub use self::stopped::Stopped;
pub(crate) use self::subs::RunSubHandlers;
pub use self::subs::{RegistrationError, SubHandlers};
pub use self::work::{Cancel, Work};

/// A function of a frontend.
pub type Function = Arc<dyn Invoke>;

/// A handler with its function.
pub type Handler = kopf_core::handler::Handler<Function>;

/// All handlers of one operator.
pub type Registry = kopf_core::registry::Registry<Function>;

/// The result of a function: an optional value for the status, or an error.
pub type HandlerResult = Result<Option<Value>, HandlerError>;

/// A function of a user, in any language.
pub trait Invoke: Send + Sync {
    /// Prepares one call. Must return immediately: slow steps belong into the returned work.
    ///
    /// A panic here or in the work fails only this handler.
    fn invoke(&self, call: Call) -> Work;
}

impl fmt::Debug for dyn Invoke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invoke")
    }
}

/// A handler that does nothing.
#[cfg(test)]
pub(crate) struct Noop;

#[cfg(test)]
impl Invoke for Noop {
    fn invoke(&self, _: Call) -> Work {
        Work::Async(Box::pin(async { Ok(None) }))
    }
}
