//! Admission webhooks: handlers that the API server calls before it stores objects.
//!
//! - [`on::validate`](crate::on::validate()) and [`on::mutate`](crate::on::mutate()) declare
//!   handlers;
//! - [`denied`](crate::denied) rejects the request;
//! - [`Operation`], [`Subresource`](crate::Subresource), [`DryRun`](crate::DryRun),
//!   [`UserInfo`](crate::UserInfo), [`Headers`](crate::Headers), [`SslPeer`](crate::SslPeer) and
//!   [`Warnings`](crate::Warnings) are additional arguments of these handlers;
//! - `settings.admission.server` is the server that receives the requests: a built-in one or a
//!   custom [`WebhookServer`];
//! - `settings.admission.managed` is the name of the webhook configurations that the operator
//!   maintains. By default, it maintains none.
//!
//! # Options
//!
//! The resource, `id`, `param`, filters (`labels`, `annotations`, `field`, `value`, `when`) and
//! `registry` are those of [all handlers](crate::on). Filters apply to the object in the request.
//! Further options:
//!
//! | option | meaning |
//! |---|---|
//! | `operations = ["CREATE", "UPDATE"]` | the operations to review: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`; by default, all |
//! | `operation = "CREATE"` | a single operation to review |
//! | `subresource = "status"` | the subresource to review; `"*"` for the main resource and all its subresources; by default, the main resource only |
//! | `persistent = true` | the webhook configuration remains when the operator exits |
//! | `side_effects = true` | the function has side effects outside of dry runs |
//! | `ignore_failures = true` | requests are admitted if the webhook fails or is unreachable |
//!
//! # Custom servers
//!
//! A server receives requests from any source and passes them to the operator:
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
//!                     else => return Err("the listener is closed".into()), // stops the operator
//!                 };
//!                 let incoming = Incoming::new(review);
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
