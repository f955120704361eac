//! The fourth layer of the sandbox: requests, verbs, responses, discovery, OpenAPI, admission, and the
//! state of one server with its controllers.
//!
//! An internal crate of `kopf-sandbox`, without a stable interface.

#![warn(clippy::too_many_lines)]

#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod admission;
#[doc(hidden)]
pub mod answers;
#[doc(hidden)]
pub mod body;
#[doc(hidden)]
pub mod call;
#[doc(hidden)]
pub mod certificates;
#[doc(hidden)]
pub mod cluster;
#[doc(hidden)]
pub mod control;
#[doc(hidden)]
pub mod conversion;
#[doc(hidden)]
pub mod discovery;
#[doc(hidden)]
pub mod dispatch;
#[doc(hidden)]
pub mod documents;
#[doc(hidden)]
pub mod fault;
#[doc(hidden)]
pub mod health;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod openapi;
#[doc(hidden)]
pub mod request;
#[doc(hidden)]
pub mod respond;
#[doc(hidden)]
pub mod scale;
#[doc(hidden)]
pub mod status;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod tap;
#[doc(hidden)]
pub mod verbs;
#[doc(hidden)]
pub mod view;
