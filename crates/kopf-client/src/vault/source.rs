//! The vault as a source of credentials: selection for each request, and rejections.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use kopf_core::failure::describe;
use kube::client::Body as RequestBody;
use tokio::time::Instant;
use tower::BoxError;
use tracing::{debug, warn};

use super::Vault;
use super::serving::LOGGER;
use super::state::Removal;
use crate::connection::trust::is_distrust;
use crate::error::LoginError;
use crate::grant::{Grant, GrantSource};
use crate::transport::{ResponseBody, ResponseFuture};

impl GrantSource for Vault {
    fn try_pick(&self) -> Option<Result<Arc<Grant>, LoginError>> {
        let mut state = self.state();
        let was_wanting = state.is_wanting();
        if let Some(grant) = state.pick(Instant::now()) {
            return Some(Ok(grant));
        }
        let over = state.over.clone();
        drop(state);
        if !was_wanting {
            self.notify();
        }
        over.map(Err)
    }

    fn pick(&self) -> BoxFuture<'_, Result<Arc<Grant>, LoginError>> {
        Box::pin(self.wait_for_grant())
    }

    fn peek(&self) -> Option<Arc<Grant>> {
        self.state().peek()
    }

    fn invalidate(&self, rejected: &Arc<Grant>) {
        let is_news = self.state().invalidate(rejected);
        if !is_news {
            return;
        }
        let id = &rejected.id;
        // Credentials that have worked before are usually expired.
        if rejected.has_worked() {
            debug!(
                target: LOGGER,
                "The credentials of {id:?} are rejected by the server and no longer used."
            );
        } else {
            warn!(
                target: LOGGER,
                "The credentials of {id:?} are rejected by the server, although they are new."
            );
        }
        self.notify();
    }

    fn distrust(&self, grant: &Arc<Grant>, error: &dyn fmt::Display) {
        let id = &grant.id;
        match self.state().distrust(grant) {
            Removal::Repeated => return,
            Removal::First => warn!(
                target: LOGGER,
                "Cannot connect with the credentials of {id:?}; retrieving them again with the \
                 current certificates: {error}"
            ),
            Removal::Again => debug!(
                target: LOGGER,
                "Still cannot connect with the credentials of {id:?}: {error}"
            ),
        }
        self.notify();
    }

    fn carry(&self, request: Request<RequestBody>) -> ResponseFuture {
        let vault = self.clone();
        Box::pin(async move { vault.send(request).await })
    }
}

impl Vault {
    async fn wait_for_grant(&self) -> Result<Arc<Grant>, LoginError> {
        let mut changes = self.0.changes.subscribe();
        loop {
            if let Some(picked) = self.try_pick() {
                return picked;
            }
            // The sender is a part of the vault, so this does not fail.
            if changes.changed().await.is_err() {
                return Err(LoginError::Over);
            }
        }
    }

    async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        loop {
            let grant = self.wait_for_grant().await?;
            let request = Request::from_parts(head.clone(), RequestBody::from(body.clone()));
            let response = match grant.channel().send(request).await {
                Ok(response) => response,
                Err(error) => {
                    let cause: &(dyn std::error::Error + 'static) = &*error;
                    if is_distrust(cause) {
                        self.distrust(&grant, &describe(cause));
                    }
                    return Err(error);
                }
            };
            if response.status() != StatusCode::UNAUTHORIZED {
                grant.note_success();
                return Ok(response);
            }
            self.invalidate(&grant);
        }
    }
}
