//! Extractors: the types of arguments of handlers.
//!
//! The types of its arguments determine the values that a handler is called with: [`Spec`] is the
//! spec of the object, [`Logger`] logs for the object, [`State<T>`](State) is shared state of the
//! operator. The arguments can be in any order, and all are optional.
//!
//! ```
//! use kopf::prelude::*;
//!
//! #[kopf::on::create("kopfexamples")]
//! async fn create_fn(Spec(spec): Spec, Name(name): Name, logger: Logger) {
//!     logger.info(format_args!("{name} is created with {spec}"));
//! }
//! ```
//!
//! # Rejections
//!
//! If an argument is not available, the handler is not called and fails permanently, with a message
//! that names the object, the handler and the argument. To handle this in the function, use
//! `Option<T>` for absent values, or `Result<T, Rejection>` for malformed ones.
//!
//! # Custom extractors
//!
//! Implement [`Extract`], usually with the help of other extractors:
//!
//! ```
//! use kopf::extract::{Context, Extract, Rejection};
//! use kopf::prelude::*;
//!
//! /// The number of replicas.
//! struct Replicas(u64);
//!
//! impl Extract for Replicas {
//!     fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
//!         let Spec(spec): Spec = Spec::extract(context)?;
//!         let replicas = spec["replicas"].as_u64();
//!         replicas.map(Self).ok_or_else(|| Rejection::other("spec.replicas must be a number"))
//!     }
//! }
//!
//! #[kopf::on::create("kopfexamples")]
//! fn create_fn(replicas: Replicas, logger: Logger) {
//!     logger.info(format_args!("{} replicas", replicas.0));
//! }
//! ```

mod admission;
mod attempt;
mod background;
mod change;
mod conditions;
mod context;
mod metadata;
mod object;
mod operator;
mod patch;
mod present;
mod rejection;
mod triggers;

pub use admission::{DryRun, Headers, SslPeer, Subresource, UserInfo, Warnings};
pub use attempt::{Logger, Now, Param, Retry, Runtime, Started};
pub use background::{Live, Stopped};
pub use change::{New, Old, WatchEvent};
pub use conditions::Conditions;
pub use context::{Context, Declared};
pub(crate) use context::{Front, with_filter_context};
pub use metadata::{Annotations, Labels, Meta, Name, Namespace, Uid};
pub(crate) use object::read;
pub use object::{Object, Spec, Status};
pub use operator::{ApiScope, SettingsMut, State};
pub use patch::{IntoTransformed, MetaPatch, Patch, SectionPatch};
pub use rejection::Rejection;

use crate::indices::Listing;

/// An argument of a handler.
///
/// The [module](self) explains arguments and custom extractors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "not an extractor",
    note = "arguments of handlers are: Body, Spec, Status, Meta, Object<K>, Name, Namespace, Uid, Labels, \
            Annotations, Old, New, Diff, Reason, Triggers, Retry, Started, Runtime, Now, Param<T>, Patch, Conditions, Logger, Events, WatchEvent, \
            Resource, Client, Api<K>, State<T>, Memo<T>, Index<I>, Lister<K>, Settings, \
            SettingsMut, SubHandlers, \
            Stopped, Live<T>, Child, Children, Operation, Subresource, DryRun, UserInfo, Headers, SslPeer, Warnings; \
            Option<T> and Result<T, Rejection> of those",
    note = "use `State<T>` for shared values: `Operator::builder().state(…)`"
)]
pub trait Extract: Sized {
    /// Extracts the argument for one call of the handler.
    fn extract(context: &Context<'_>) -> Result<Self, Rejection>;

    /// Rejects the argument when the operator is built, if it is never available.
    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        let _ = declared;
        Ok(())
    }

    /// Returns the index of a kind whose objects the argument lists.
    #[doc(hidden)]
    fn listing() -> Option<Listing> {
        None
    }
}

/// An argument that can be absent and thus be an `Option`.
///
/// ```compile_fail
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("things")]
/// async fn create_fn(body: Option<Body>) {} // bodies are never absent
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is never absent: `Option<{Self}>` cannot be an argument of a handler",
    label = "not an optional extractor",
    note = "arguments that can be absent are: Name, Namespace, Uid, Old, New, Diff, Reason, Param<T>, WatchEvent, \
            State<T>, Spec, Status, SubHandlers, Stopped, Child, Operation, Subresource, DryRun, UserInfo, Headers, \
            SslPeer, Warnings"
)]
pub trait OptionalExtract: Sized {
    /// Extracts the argument; `None` if it is absent. Malformed values are rejected.
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection>;
}

/// An argument that is available before the call of a handler, and thus to filters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a filter",
    label = "not an extractor for filters",
    note = "arguments of filters are: Body, Spec, Status, Meta, Object<K>, Name, Namespace, Uid, Labels, \
            Annotations, Old, New, Diff, Reason, WatchEvent, Resource, Param<T>, Logger, State<T>, Memo<T>, Index<I>, \
            Settings, Client, Now, Operation, Subresource, DryRun, UserInfo, Headers, SslPeer, Warnings; \
            Option<T> and Result<T, Rejection> of those"
)]
pub trait FilterExtract: Extract {}

impl<T: OptionalExtract> Extract for Option<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        T::extract_optional(context)
    }
}

impl<T: OptionalExtract + FilterExtract> FilterExtract for Option<T> {}

impl<T: Extract> Extract for Result<T, Rejection> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(T::extract(context))
    }
}

impl<T: FilterExtract> FilterExtract for Result<T, Rejection> {}
