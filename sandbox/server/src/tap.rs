//! Observation and control of every call of a client: what a debugger is for code.
//!
//! Tests of operators need answers that ordinary tests cannot get: which requests did it send, and
//! what happens if the third write gets no response, if a pod is deleted and recreated while its
//! events are delayed, or if another client changes the object just before a patch? A [`Tap`] sees each
//! request before it is carried out and each response before it is sent, and may wait, reject or break the
//! connection at either point. It decides about each watch event as well, and is notified of every change.
//!
//! | method | when | decides |
//! |---|---|---|
//! | [`Tap::on_request`] | before a request is carried out | [`Decision`]: carry out, reject, break |
//! | [`Tap::on_commit`] | after each change of an object, in order | |
//! | [`Tap::on_response`] | after a request was carried out, before the response is sent | [`Reply`]: send, break |
//! | [`Tap::on_event`] | before an event is sent to a watch | [`Delivery`]: send, skip, hold, expire, break |
//! | [`Tap::on_delivery`] | when an event is sent | |
//! | [`Tap::on_watch_end`] | when a watch ends | |
//!
//! ```
//! use std::sync::Arc;
//! use kopf_sandbox::Sandbox;
//! use kopf_sandbox::tap::{Reply, Tap, TapFuture, TapRequest, TapResponse, Verb};
//! use tower::ServiceExt as _;
//!
//! /// Loses the response to every creation, after it was carried out.
//! struct LostResponses;
//!
//! impl Tap for LostResponses {
//!     fn on_response<'a>(
//!         &'a self,
//!         request: &'a TapRequest,
//!         response: &'a TapResponse,
//!     ) -> TapFuture<'a, Reply> {
//!         let lost = request.verb == Verb::Create && response.is_success();
//!         Box::pin(async move { if lost { Reply::Break } else { Reply::Send } })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::builder().tap(Arc::new(LostResponses)).build()?;
//! let namespace = r#"{"metadata": {"name": "shop"}}"#.to_owned();
//! let create = http::Request::post("/api/v1/namespaces").body(namespace)?;
//! assert!(sandbox.service().oneshot(create).await.is_err(), "the connection broke");
//!
//! let get = http::Request::get("/api/v1/namespaces/shop").body(String::new())?;
//! assert_eq!(sandbox.service().oneshot(get).await?.status(), 200); // but the namespace exists
//! # Ok(()) }
//! ```
//!
//! It works in process ([`Sandbox::service`](crate::Sandbox::service), also with paused time) and over TLS, where
//! [`Listen::endpoint`](crate::Listen) tells the listeners of one sandbox apart. Without a tap, it costs one
//! comparison per request.
//!
//! # Limits
//!
//! At most 20,000 events are held per watch; a watch with more of them ends with the error 410, like
//! one that is too slow for a real server. Requests that a tap holds end with their connection, or
//! with the sandbox.

#[doc(inline)]
pub use kopf_sandbox_api::fault::Verb;
#[doc(inline)]
pub use kopf_sandbox_api::tap::{
    Change, Commit, Decision, Delivery, Gate, Hold, HoldScope, ObjectVersion, OnRelease, Reply,
    Tap, TapEvent, TapFuture, TapRejection, TapRequest, TapResponse,
};
