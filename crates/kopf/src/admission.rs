//! Admission webhooks: handlers that the API server asks before it stores objects.
//!
//! - [`on::validate`](crate::on::validate()) and [`on::mutate`](crate::on::mutate()) declare the handlers;
//! - [`denied`](crate::denied) is their answer if something is not to be done;
//! - [`Operation`], [`Subresource`](crate::Subresource), [`DryRun`](crate::DryRun),
//!   [`UserInfo`](crate::UserInfo), [`Headers`](crate::Headers), [`SslPeer`](crate::SslPeer) and
//!   [`Warnings`](crate::Warnings) are their arguments, besides those of other handlers;
//! - `settings.admission.server` takes the requests: one of the servers that come with Kopf, or one of
//!   your own, a [`WebhookServer`];
//! - `settings.admission.managed` is the name of the configurations that tell the API server of it, if
//!   the operator is to keep them.
//!
//! # Options
//!
//! The resource, `id`, `param`, filters (`labels`, `annotations`, `field`, `value`, `when`) and `registry`
//! are those of [all handlers](crate::on); filters are asked about the object in the request. Further
//! options:
//!
//! | option | meaning |
//! |---|---|
//! | `operations = [CREATE, UPDATE]` | what is asked about: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`; by default, all of it |
//! | `operation = CREATE` | the same for one |
//! | `subresource = "status"` | the subresource to review; `"*"` for the main resource and all its subresources; by default, the main resource only |
//! | `persistent = true` | the API server goes on asking when the operator has ended |
//! | `side_effects = true` | the function changes other things, too, except in dry runs |
//! | `ignore_failures = true` | if nobody answers, it is admitted |
//!
//! # Servers of your own
//!
//! A server takes requests from wherever they come, and hands them to the operator:
//!
//! ```
//! use std::sync::Arc;
//! use kopf::admission::{ClientConfig, Incoming, ServerError, Serving, Shutdown, WebhookServer};
//! use kopf::SettingsMut;
//! use kopf::prelude::*;
//!
//! # async fn next_request() -> Option<Value> { None }
//! # async fn answer(_: Value) {}
//! #[derive(Debug)]
//! struct MyServer;
//!
//! impl WebhookServer for MyServer {
//!     fn serve(
//!         self: Arc<Self>,
//!         operator: Arc<dyn Serving>,
//!         mut shutdown: Shutdown,
//!     ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
//!         Box::pin(async move {
//!             operator.announce(ClientConfig {
//!                 url: Some("https://webhooks.example.com/".to_owned()),
//!                 ..ClientConfig::default()
//!             });
//!             loop {
//!                 let review = tokio::select! {
//!                     Some(review) = next_request() => review,
//!                     () = &mut shutdown => return Ok(()),
//!                     else => return Err("the listener is closed".into()), // this ends the operator
//!                 };
//!                 let incoming = Incoming { review, ..Incoming::default() };
//!                 match operator.review(incoming).await {
//!                     Ok(response) => answer(response).await,
//!                     Err(refusal) => answer(json!({"code": refusal.code()})).await,
//!                 }
//!             }
//!         })
//!     }
//! }
//!
//! #[kopf::on::startup]
//! fn configure(mut settings: SettingsMut) {
//!     settings.admission.server = Some(Arc::new(MyServer));
//!     settings.admission.managed = Some("auto.example.com".to_owned());
//! }
//! ```

#[doc(inline)]
pub use kopf_core::admission::{
    ClientConfig, Incoming, Operation, ParseError, Refusal, ReviewHead, ServerError,
    ServiceReference, Serving, Shutdown, Unreadable, WebhookServer, parse,
};
