//! Kubernetes operators in a few lines: the Rust API of Kopf.
//!
//! An operator declares handlers: functions for the creation, change and deletion of objects. The
//! framework watches the objects, detects causes, calls handlers, retries failed ones, stores their
//! progress on the objects, and reports errors.
//!
//! ```no_run
//! use kopf::prelude::*;
//!
//! #[kopf::on::create("kopfexamples")]
//! async fn create_fn(Spec(spec): Spec) -> kopf::Result<Value> {
//!     println!("And here we are! Creating: {spec}");
//!     Ok(json!({"message": "hello world"})) // stored in status.create_fn
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     kopf::main(kopf::handlers![create_fn])
//! }
//! ```
//!
//! - [`on`]: causes of calls, and the options of handlers;
//! - [`admission`]: admission handlers; [`webhooks`]: their servers and tunnels;
//! - [`background`]: daemons and timers;
//! - [`extract`]: arguments of handlers;
//! - [`resource`] and [`schema`]: custom resources as types;
//! - [`index`](index()) and [`Index`]: in-memory indices; [`Memo`]: per-object stores;
//! - [`filters`]: criteria for objects and changes;
//! - [`IntoOutcome`]: results of handlers; [`temporary`], [`permanent`] and [`denied`] errors;
//! - [`SubHandlers`]: handlers inside of handlers;
//! - [`Events`]: Kubernetes events about objects;
//! - [`Children`]: owned objects and their server-side apply; [`adopt`] and related functions: owner
//!   references, names, labels;
//! - [`Conditions`]: `status.conditions` of objects;
//! - [`main()`] and [`cli`]: the command line; [`Operator`]: operators inside of other programs.
//!
//! The [`prelude`] contains the names that most operators use. Other names are written with the
//! crate: `patch: kopf::Patch`.
//!
//! # Other crates
//!
//! Programs need no dependency other than `kopf`: [`serde`], [`serde_json`], [`schemars`], [`kube`]
//! and [`k8s_openapi`] are re-exported. [`resource`] and [`schema`] derive with these re-exports.
//! Plain derives refer to crates by name. For crates that are not dependencies of the program,
//! attributes give the paths:
//!
//! ```
//! #[derive(kopf::serde::Serialize, kopf::schemars::JsonSchema)]
//! #[serde(crate = "kopf::serde")]
//! #[schemars(crate = "kopf::schemars")]
//! struct Report {
//!     ready: bool,
//! }
//! ```

#![warn(clippy::too_many_lines)]

pub mod admission;
pub mod background;
mod chain;
mod children;
#[cfg(feature = "cli")]
pub mod cli;
mod definitions;
mod error;
pub mod extract;
mod fields;
pub mod filters;
pub mod handler;
pub mod hierarchy;
pub mod indexing;
mod indices;
pub mod lifecycles;
mod login;
mod memos;
pub mod objects;
pub mod on;
pub mod operator;
#[cfg(feature = "otel")]
pub mod otel;
mod outcome;
mod posting;
pub mod prelude;
mod registration;
mod seconds;
mod selecting;
mod subhandlers;
mod view;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use background::{StopReason, daemon, timer};
pub use children::{Applied, ApplyError, Child, ChildError, Children, Effect};
#[cfg(feature = "cli")]
pub use cli::main;
pub use definitions::DefinitionError;
pub use error::{Denied, Error, Result, Temporary, denied, permanent, temporary};
pub use extract::{
    Annotations, Conditions, DryRun, Headers, Labels, Live, Logger, Meta, Name, Namespace, New,
    Now, Object, Old, Param, Patch, Retry, Runtime, SettingsMut, Spec, SslPeer, Started, State,
    Status, Stopped, Subresource, Uid, UserInfo, Warnings, WatchEvent,
};
pub use filters::{ABSENT, PRESENT, all_, any_, none_, not_};
pub use hierarchy::{
    Adoption, IntoLabels, IntoName, IntoNamespace, Labelling, Naming, Ownership, adjust_namespace,
    adopt, append_owner_reference, build_object_reference, build_owner_reference, force_namespace,
    harmonize_naming, label, remove_owner_reference,
};
pub use indexing::{Index, IndexOf, Lister, index};
#[doc(inline)]
pub use kopf_client::connection::ConnectionInfo;
#[doc(inline)]
pub use kopf_client::vault::{Credentials, LoginError};
#[doc(inline)]
pub use kopf_core::admission::Operation;
#[doc(inline)]
pub use kopf_core::body::Body;
#[doc(inline)]
pub use kopf_core::cause::{EventType, Reason};
#[doc(inline)]
pub use kopf_core::conditions::ConditionStatus;
#[doc(inline)]
pub use kopf_core::diff::{Diff, DiffItem, DiffOperation};
#[doc(inline)]
pub use kopf_core::field::FieldPath;
#[doc(inline)]
pub use kopf_core::handler::ErrorsMode;
#[doc(inline)]
pub use kopf_core::namespace::{NamespacePattern, Scope};
#[doc(inline)]
pub use kopf_core::reference::ObjectReference;
#[doc(inline)]
pub use kopf_core::resource::Resource;
#[doc(inline)]
pub use kopf_core::settings::{self, Level, Settings};
#[doc(inline)]
pub use kopf_core::trigger::{Requeue, Trigger, Triggers};
#[doc(inline)]
pub use kopf_core::{diffbase, progress};
#[doc(inline)]
pub use kopf_engine::health::Health;
#[doc(inline)]
pub use kopf_engine::metrics::Format as MetricsFormat;
pub use kube::Client;
pub use login::{IntoCredentials, login_with_kubeconfig, login_with_service_account};
pub use memos::{Memo, MemoValue};
pub use objects::ObjectError;
pub use operator::{BuildError, IntoClient, Operator, OperatorBuilder, RunError, Running};
pub use outcome::{AnyError, IntoError, IntoOutcome, Json, KopfError};
#[cfg(any(feature = "cli", feature = "otel"))]
pub use posting::events_layer;
pub use posting::{Events, PostedEvent};
pub use seconds::{IntoDuration, InvalidDuration};
pub use selecting::{EVERYTHING, Everything, IntoSelect, ResourceType, Select};
pub use subhandlers::SubHandlers;
pub use tokio_util::sync::CancellationToken;
pub use view::View;

#[cfg(feature = "cli")]
#[doc(no_inline)]
pub use clap;
/// Returns a constant [`Duration`](std::time::Duration): days, hours, minutes, seconds and
/// milliseconds, such as `"500ms"`, `"90s"`, `"5m"`, `"1h30m"` or `"7d"`. Invalid texts do not
/// compile. Options of attributes accept such texts directly: `timeout = "5m"`.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(kopf::duration!("1h30m"), Duration::from_secs(5400));
/// ```
///
/// ```compile_fail
/// kopf::duration!("5 minutes");
/// ```
#[doc(inline)]
pub use kopf_macros::duration;
/// Turns the type of a `spec` into a custom resource.
///
/// The options are those of `#[kube(…)]` of [`kube::CustomResource`]. `group`, `version` and `kind`
/// are required; `namespaced`, `status`, `plural`, `singular`, `shortname`, `category`,
/// `printcolumn`, `scale`, `derive` and others are optional. The type of the whole object has the
/// name of the `kind`.
///
/// The attribute derives `CustomResource`, `Serialize`, `Deserialize`,
/// [`JsonSchema`](schemars::JsonSchema), `Clone` and `Debug`, except for those that are already
/// derived.
///
/// ```
/// use kopf::kube::CustomResourceExt as _;
/// use kopf::prelude::*;
///
/// #[kopf::resource(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
/// #[kube(status = "GreetingStatus", shortname = "gr")]
/// #[derive(PartialEq)]
/// #[serde(rename_all = "camelCase")]
/// struct GreetingSpec {
///     full_name: Option<String>,
/// }
///
/// #[kopf::schema]
/// #[derive(Default)]
/// struct GreetingStatus {
///     message: Option<String>,
/// }
///
/// #[kopf::on::create(Greeting)]
/// fn greet(greeting: kopf::Object<Greeting>, patch: kopf::Patch) {
///     let name = greeting.spec.full_name.as_deref().unwrap_or("world");
///     patch.status().merge(GreetingStatus { message: Some(format!("Hello, {name}!")) });
/// }
///
/// assert_eq!(Greeting::crd_name(), "greetings.example.com");
/// ```
///
/// With validation rules (`validation = …`, `#[x_kube(validation = …)]` at fields), the derive of
/// kube refers to `schemars` in the scope of the type: add `use kopf::schemars;`.
#[doc(inline)]
pub use kopf_macros::resource;
/// Makes a type usable in custom resources, results of handlers and patches: derives `Serialize`,
/// `Deserialize`, [`JsonSchema`](schemars::JsonSchema), `Clone` and `Debug`, except for those that
/// are already derived.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::schema]
/// #[serde(rename_all = "camelCase")]
/// struct Claimed {
///     pvc_name: String,
/// }
///
/// #[kopf::on::create("kopfexamples")]
/// async fn claim(Name(name): Name) -> kopf::Result<Claimed> {
///     Ok(Claimed { pvc_name: name })
/// }
/// ```
#[doc(inline)]
pub use kopf_macros::schema;
/// Webhook servers and tunnels.
#[cfg(feature = "webhooks")]
#[doc(inline)]
pub use kopf_webhooks as webhooks;
#[cfg(any(feature = "cli", feature = "otel"))]
#[doc(no_inline)]
pub use tracing_subscriber;
#[doc(no_inline)]
pub use {jiff, k8s_openapi, kube, schemars, serde, serde_json, tracing};
