//! Kinds of handlers, as attribute macros and as functions of the same names.
//!
//! ```
//! use kopf::prelude::*;
//!
//! // By an attribute:
//! #[kopf::on::create("kopfexamples", retries = 3)]
//! async fn create_fn(Spec(spec): Spec) -> kopf::Result<()> {
//!     Ok(())
//! }
//!
//! // By a function:
//! async fn other_fn(Spec(spec): Spec) -> kopf::Result<()> {
//!     Ok(())
//! }
//!
//! let operator = Operator::builder()
//!     .handlers(kopf::handlers![create_fn])
//!     .handler(on::create("kopfexamples", other_fn).retries(3))
//!     .build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Options
//!
//! In attributes, options are written `name = value`; for functions, each is a method of
//! [`HandlerBuilder`]. The resource comes first: see [`IntoSelect`] for its forms. Attributes
//! accept one to three strings, a type (`Pod`), `EVERYTHING`, a function or a closure, or the
//! options `group`, `version`, `kind`, `plural`, `singular`, `shortcut`, `category`.
//!
//! | option | meaning |
//! |---|---|
//! | `id = "name"` | the id, for progress and results; by default, the name of the function |
//! | `param = value` | a value for the function, as [`Param<T>`](crate::Param) |
//! | `labels = {"key": criterion, …}` | criteria for labels: a string, `PRESENT`, `ABSENT`, a function |
//! | `annotations = {"key": criterion, …}` | criteria for annotations |
//! | `field = "spec.field"` or `["spec", "field"]` | a field that must exist, or must have changed |
//! | `value = criterion` | a criterion for the field: any JSON, `PRESENT`, `ABSENT`, a function |
//! | `old = criterion`, `new = criterion` | criteria for its old and new values (`update`, `field`) |
//! | `when = function` | a [filter](crate::filters) function, called after the other filters |
//! | `errors = kopf::ErrorsMode::Permanent`, or another mode | the treatment of arbitrary errors (not for `event`) |
//! | `timeout = "5m"` | the time for all attempts together (not for `event`) |
//! | `retries = 3` | the maximum number of attempts (not for `event`) |
//! | `backoff = 30` | the time between attempts after arbitrary errors (not for `event`) |
//! | `optional = true` | objects can be deleted without a call (`delete`) |
//! | `deleted = true` | also for objects that are being deleted (`resume`) |
//! | `owns = ["deployments"]`, `owns = [Deployment]` | resources of owned objects whose changes trigger the next attempt immediately (handlers of changes), or a call (`reconcile`) |
//! | `every = "5m"`, `finalizer = true` | the period, and calls for deletions ([`reconcile`](reconcile())) |
//! | `parent = "things"` | the resource of the owners (`child`) |
//! | `registry = "name"` | the registry of the handler: see [`OperatorBuilder::registry`](crate::OperatorBuilder::registry) |
//!
//! Activities ([`startup`](startup()), [`cleanup`](cleanup()), [`login`](login()) and
//! [`probe`](probe())) have no resource and no filters. They have `id`, `param`, `errors`,
//! `timeout`, `retries`, `backoff`, `registry`.
//!
//! Admission handlers, [`validate`](validate()) and [`mutate`](mutate()), are called once and have
//! no retry options; see [`admission`](crate::admission) for their other options. Conversion
//! handlers, [`convert`](convert()), have `source`, `target` and `persistent`.
//!
//! Several attributes on one function declare several handlers. For one cause, the function is
//! called once for each id.
//!
//! ```
//! use kopf::Reason;
//! use kopf::prelude::*;
//!
//! #[kopf::on::resume("kopf.dev", "v1", "kopfexamples")]
//! #[kopf::on::create("kopf.dev", "v1", "kopfexamples")]
//! #[kopf::on::update("kopfexamples", field = "spec.field", old = "x", new = PRESENT, timeout = "3s")]
//! fn changed(reason: Reason, logger: Logger) {
//!     logger.info(format_args!("{reason}"));
//! }
//! ```

mod activities;
mod admission;
mod builder;
mod children;
mod conversion;
pub mod kinds;
mod reconciliation;

pub use activities::{cleanup, login, probe, startup};
pub use admission::{IntoOperation, mutate, validate};
pub(crate) use builder::Check;
pub use builder::{AnyHandler, HandlerBuilder};
pub use children::child;
pub use conversion::convert;
use kinds::{Create, Delete, Event, Field, Kind, Resume, Sub, Update};
pub use kopf_macros::{child, create, delete, event, field, reconcile, resume, update};
pub use kopf_macros::{cleanup, login, probe, startup};
pub use kopf_macros::{convert, mutate, validate};
pub(crate) use reconciliation::store_requeue;
pub use reconciliation::{IntoRequeue, ReconcileFunction, reconcile};

use crate::handler::{Handler, SubHandler};
use crate::selecting::IntoSelect;

/// A function with attributes of handlers, for [`kopf::handlers!`](crate::handlers!).
///
/// The attributes implement it for a type with the name of the function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function with attributes of Kopf",
    label = "not a handler",
    note = "functions in `kopf::handlers![…]` have an attribute, such as `#[kopf::on::create(…)]`; add other \
            functions by `.handler(on::create(…, function))`"
)]
pub trait Attributed {
    /// Returns one handler per attribute, in their order.
    fn handlers() -> Vec<AnyHandler>;
}

/// Returns the handlers of functions with attributes, in this order, for
/// [`OperatorBuilder::handlers`](crate::OperatorBuilder::handlers) and
/// [`kopf::main`](crate::main()).
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// #[kopf::on::resume("kopfexamples")]
/// fn started() {}
///
/// mod removal {
///     #[kopf::on::delete("kopfexamples")]
///     pub fn stopped() {}
/// }
///
/// let handlers = kopf::handlers![started, removal::stopped];
/// assert_eq!(handlers.len(), 3);
/// let operator = Operator::builder().handlers(handlers).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each function is listed once: an operator with a repeated one cannot be built.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn started() {}
///
/// let handlers = kopf::handlers![started, started];
/// let error = Operator::builder().handlers(handlers).build().unwrap_err();
/// assert!(error.to_string().starts_with("invalid handler \"started\": it is added twice"));
/// ```
///
/// A function without attributes does not compile here: add it by
/// [`OperatorBuilder::handler`](crate::OperatorBuilder::handler). The name of a function with
/// attributes is also the name of a type, so a module or a type of the same name next to it is a
/// conflict.
#[macro_export]
macro_rules! handlers {
    ($($function:path),* $(,)?) => {
        ::std::vec::Vec::from_iter(
            ::std::iter::empty::<$crate::on::AnyHandler>()
                $(.chain(<$function as $crate::on::Attributed>::handlers()))*
        )
    };
}

pub(crate) fn declare<K: Kind, S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<K> {
    let select = resource.into_select();
    let definition = select.definition();
    HandlerBuilder::declare(Some(select.build()), function.into_function()).defined_by(definition)
}

/// Calls the function when an object is created, even if this happened while the operator was not
/// running.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// async fn create_fn(Spec(spec): Spec) -> kopf::Result<Value> {
///     Ok(json!({"message": format!("hello, {}", spec["name"])}))
/// }
/// ```
pub fn create<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Create> {
    declare(resource, function)
}

/// Calls the function when an object is changed, even if this happened while the operator was not
/// running. Changes of the status and of system metadata are ignored.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::update("kopfexamples")]
/// async fn update_fn(diff: Diff, logger: Logger) {
///     for item in diff.iter() {
///         logger.info(format_args!("{}: {} -> {}", item.field, item.old, item.new));
///     }
/// }
/// ```
pub fn update<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Update> {
    declare(resource, function)
}

/// Calls the function when an object is being deleted. Unless the handler is `optional`, the object
/// remains until the function succeeds or fails permanently.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::delete("kopfexamples", optional = true)]
/// async fn delete_fn(Name(name): Name, logger: Logger) {
///     logger.info(format_args!("{name} is deleted"));
/// }
/// ```
pub fn delete<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Delete> {
    declare(resource, function)
}

/// Calls the function when the operator starts and finds an object that was handled before, such as
/// to restore state that is not stored in the cluster.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::resume("kopfexamples", deleted = true)]
/// async fn resume_fn(Name(name): Name, logger: Logger) {
///     logger.info(format_args!("{name} is resumed"));
/// }
/// ```
pub fn resume<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Resume> {
    declare(resource, function)
}

/// Calls the function when a field of an object is added, changed or removed, for any reason. The
/// option `field` is required; old, new and diff are those of the field.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{New, Old};
///
/// #[kopf::on::field("kopfexamples", field = "spec.field")]
/// async fn field_fn(Old(old): Old, New(new): New, logger: Logger) {
///     logger.info(format_args!("{old} -> {new}"));
/// }
/// ```
pub fn field<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Field> {
    declare(resource, function)
}

/// Calls the function once for every event of an object, without retries and progress.
///
/// ```
/// use kopf::WatchEvent;
/// use kopf::prelude::*;
///
/// #[kopf::on::event("pods", labels = {"app": PRESENT})]
/// async fn event_fn(event: WatchEvent, Name(name): Name, logger: Logger) {
///     logger.info(format_args!("{:?} {name}", event.kind()));
/// }
/// ```
pub fn event<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Event> {
    declare(resource, function)
}

/// Creates a sub-handler with options, for [`SubHandlers::handler`](crate::SubHandlers::handler).
///
/// ```
/// use kopf::SubHandlers;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(subs: SubHandlers) -> kopf::Result<()> {
///     let step = |logger: Logger| async move {
///         logger.info("a step");
///         Ok(())
///     };
///     subs.handler(on::subhandler("first", step).retries(3).backoff(1))
/// }
/// ```
pub fn subhandler<M>(id: impl Into<String>, function: impl SubHandler<M>) -> HandlerBuilder<Sub> {
    HandlerBuilder::declare(None, function.into_function()).id(id)
}

/// Checks a sub-handler and converts it for the engine.
pub(crate) fn build_sub(
    builder: HandlerBuilder<Sub>,
) -> Result<kopf_engine::invocation::Handler, String> {
    AnyHandler::from(builder).build_sub()
}
