//! Kubernetes operators in a few lines: the Rust front of Kopf.
//!
//! An operator's author declares *what happened* to objects (created, changed, deleted, a field
//! changed, …) and writes only the reaction to it. The framework watches, finds out what has
//! happened and what has changed, calls, retries, remembers on the objects, and reports.
//!
//! ```no_run
//! use kopf::prelude::*;
//!
//! #[kopf::on::create("kopfexamples")]
//! async fn create_fn(Spec(spec): Spec) -> kopf::Result<Value> {
//!     println!("And here we are! Creating: {spec}");
//!     Ok(json!({"message": "hello world"})) // goes to status.create_fn
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     kopf::main()
//! }
//! ```
//!
//! - [`on`]: what handlers react to, and their options;
//! - [`admission`]: what the API server asks before it stores objects; [`webhooks`]: how it does;
//! - [`background`]: daemons and timers, which run beside objects;
//! - [`extract`]: what handlers can ask for;
//! - [`index`](index()) and [`Index`]: what is prepared for all handlers; [`Memo`]: what they remember;
//! - [`filters`]: which objects and changes handlers are for;
//! - [`IntoOutcome`]: what handlers can return; [`temporary`], [`permanent`] and [`denied`] errors;
//! - [`SubHandlers`]: handlers inside of handlers;
//! - [`event()`], [`info`], [`warn()`], [`exception`]: events about objects;
//! - [`adopt`] and its neighbours: objects that belong to others; [`apply_child`]: how they get there;
//! - [`Conditions`]: `status.conditions` of objects;
//! - [`main()`]: the command line; [`Operator`]: operators inside of other programs.

#![warn(clippy::too_many_lines)]

pub mod admission;
pub mod background;
mod chain;
mod children;
pub mod cli;
mod definitions;
mod error;
pub mod extract;
pub mod filters;
pub mod handler;
pub mod hierarchy;
pub mod indexing;
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

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use background::{StopReason, daemon, timer};
pub use children::{Applied, ApplyError, Applying, Effect, apply_child};
pub use cli::{main, main_with};
pub use error::{Error, Result, denied, permanent, temporary};
pub use extract::{
    Annotations, Child, Conditions, DryRun, Event, Headers, Labels, Live, Logger, Memo, MemoValue,
    Meta, Name, Namespace, New, Now, Object, Old, Param, Patch, Retry, Runtime, SettingsMut, Spec,
    SslPeer, Started, State, Status, Stopped, SubHandlers, Subresource, Uid, UserInfo, View,
    Warnings,
};
pub use filters::{ABSENT, PRESENT, all_, any_, none_, not_};
pub use hierarchy::{
    Adoption, Labelling, Naming, Ownership, adjust_namespace, adopt, append_owner_reference,
    build_object_reference, build_owner_reference, force_namespace, harmonize_naming, label,
    remove_owner_reference,
};
pub use indexing::{Index, IndexOf, index};
pub use kopf_client::connection::ConnectionInfo;
pub use kopf_client::vault::{Credentials, LoginError};
pub use kopf_core::admission::Operation;
pub use kopf_core::body::Body;
pub use kopf_core::cause::{EventType, Reason};
pub use kopf_core::conditions::ConditionStatus;
pub use kopf_core::diff::{Diff, DiffItem, DiffOperation};
pub use kopf_core::field::FieldPath;
pub use kopf_core::handler::ErrorsMode;
pub use kopf_core::namespace::{NamespacePattern, Scope};
pub use kopf_core::reference::ObjectReference;
pub use kopf_core::resource::Resource;
pub use kopf_core::settings::{self, Level, Settings};
pub use kopf_core::{diffbase, progress};
pub use kopf_engine::health::Health;
pub use kopf_engine::metrics::Format as MetricsFormat;
pub use kube::Client;
pub use login::{IntoCredentials, login_with_kubeconfig, login_with_service_account};
pub use objects::Current;
pub use operator::{IntoClient, Operator, OperatorBuilder, Running};
pub use outcome::{AnyError, IntoError, IntoOutcome, Json, KopfError};
pub use posting::{event, exception, info, warn};
pub use seconds::{IntoDuration, InvalidDuration};
pub use selecting::{EVERYTHING, Everything, IntoSelect, ResourceType, Select};
pub use tokio_util::sync::CancellationToken;

/// Webhook servers and tunnels: how the API server reaches an operator.
#[cfg(feature = "webhooks")]
#[doc(inline)]
pub use kopf_webhooks as webhooks;
#[doc(no_inline)]
pub use {jiff, k8s_openapi, kopf_client as client, kube, serde_json};

#[doc(hidden)]
pub use {kopf_core as core, kopf_engine as engine};
