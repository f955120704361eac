//! Operators: building and running.
//!
//! An operator is built once and can run several times, each time with a connection. Several
//! operators can share a process: each has its own handlers, settings and state.

mod builder;
mod connection;
mod error;
mod running;

use std::fmt;
use std::sync::Arc;

use kopf_core::lifecycle::Lifecycle;
use kopf_core::namespace::Scope;
use kopf_core::settings::Settings;
use kopf_core::wording::Style;
use kopf_engine::authentication::Access;
use kopf_engine::invocation::Registry;
use kopf_engine::probing::Endpoint;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub use builder::OperatorBuilder;
pub use connection::IntoClient;
pub use error::{BuildError, RunError};
pub use running::Running;

use crate::definitions::Definitions;
use crate::extract::Front;
use crate::on::AnyHandler;

/// An operator: handlers with settings, ready to run. Cheap to clone.
///
/// Most programs use [`kopf::main`](crate::main()), which runs an operator with the command line. To
/// embed one or several operators into a program:
///
/// ```no_run
/// use kopf::prelude::*;
///
/// async fn make(Name(name): Name, logger: Logger) {
///     logger.info(format_args!("making {name}"));
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let operator = Operator::builder()
///     .handler(on::create("things", make))
///     .namespaces(["team-*,!team-x"])
///     .settings(|settings| settings.posting.enabled = false)
///     .build()?;
///
/// let client = kopf::kube::Client::try_default().await?;
/// let running = operator.start(client).await?;
/// // …
/// running.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Operator(Arc<Parts>);

/// The parts of an operator.
struct Parts {
    handlers: Vec<AnyHandler>,
    settings: Settings,
    scope: Scope,
    lifecycle: Option<Arc<dyn Lifecycle>>,
    liveness: Option<Endpoint>,
    metrics: Option<Endpoint>,
    front: Arc<Front>,
    identity: Option<String>,
    keep_managed_fields: bool,
    definitions: Definitions,
}

impl Operator {
    /// Returns a builder without handlers.
    pub fn builder() -> OperatorBuilder {
        OperatorBuilder::default()
    }

    /// Runs until it is stopped or fails.
    ///
    /// The client is a [`kube::Client`], with any transport.
    ///
    /// ```
    /// use kopf::CancellationToken;
    /// use kopf::prelude::*;
    ///
    /// # async fn example(operator: Operator) -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::try_default().await?;
    /// operator.run(client, CancellationToken::new()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it fails, or exits without being stopped.
    ///
    /// # Cancellation
    /// Dropping the future aborts all tasks; only blocking handlers run to completion.
    pub async fn run(
        self,
        client: impl IntoClient,
        stop: CancellationToken,
    ) -> Result<(), RunError> {
        let client = client.into_client();
        let running = self.to_engine().run(client, stop);
        running.await.map_err(RunError::from)
    }

    /// Like [`run`](Self::run), but logs in with the kubeconfig (`$KUBECONFIG`, `~/.kube/config`)
    /// or with the service account of the pod.
    ///
    /// When the credentials expire or are rejected, it logs in again.
    ///
    /// ```
    /// use kopf::CancellationToken;
    /// use kopf::prelude::*;
    ///
    /// # async fn example(operator: Operator) -> Result<(), Box<dyn std::error::Error>> {
    /// let stop = CancellationToken::new();
    /// operator.run_with_login(stop.clone()).await?; // until another task calls stop.cancel()
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it fails, cannot log in, or exits without being stopped.
    ///
    /// # Cancellation
    /// Dropping the future aborts all tasks; only blocking handlers run to completion.
    pub async fn run_with_login(self, stop: CancellationToken) -> Result<(), RunError> {
        let running = self.to_engine().run(Access::Login, stop);
        running.await.map_err(RunError::from)
    }

    /// Starts the operator in the background and waits until it watches all its resources.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// # async fn example(operator: Operator, client: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let running = operator.start(client).await?;
    /// assert!(running.health().is_alive());
    /// running.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it exits before.
    ///
    /// # Cancellation
    /// Dropping the future aborts the operator.
    pub async fn start(self, client: impl IntoClient) -> Result<Running, RunError> {
        self.start_by(Access::Client(client.into_client())).await
    }

    /// Like [`start`](Self::start), but logs in like [`run_with_login`](Self::run_with_login).
    ///
    /// ```
    /// # async fn example(operator: kopf::Operator) -> Result<(), Box<dyn std::error::Error>> {
    /// let running = operator.start_with_login().await?;
    /// running.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it exits before.
    ///
    /// # Cancellation
    /// Dropping the future aborts the operator.
    pub async fn start_with_login(self) -> Result<Running, RunError> {
        self.start_by(Access::Login).await
    }

    async fn start_by(self, access: Access) -> Result<Running, RunError> {
        let (ready, is_ready) = oneshot::channel();
        let stop = CancellationToken::new();
        let operator = self.to_engine().on_ready(ready);
        let inspect = operator.inspect();
        let running = operator.run(access, stop.clone());
        let mut running = Running::spawn(running, stop, inspect);
        if is_ready.await.is_err() {
            // The sender is dropped unsent only if the operator exits.
            running.join().await?;
            return Err(RunError::EndedEarly);
        }
        Ok(running)
    }

    /// Returns the handlers for the engine.
    #[doc(hidden)]
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        for handler in &self.0.handlers {
            let handler = handler.build(&self.0.front);
            registry.add(handler.expect("`build` checked the handlers"));
        }
        registry
    }

    /// Returns the settings before the startup handlers.
    #[cfg_attr(
        not(feature = "cli"),
        expect(dead_code, reason = "for the command line")
    )]
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the CRDs of the resource types.
    #[cfg_attr(
        not(feature = "cli"),
        expect(dead_code, reason = "for the command line")
    )]
    pub(crate) fn definitions(&self) -> &Definitions {
        &self.0.definitions
    }

    /// Returns the served namespaces.
    #[cfg_attr(
        not(feature = "cli"),
        expect(dead_code, reason = "for the command line")
    )]
    pub(crate) fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// Returns the operator of the engine, which can be observed or get another clock.
    #[doc(hidden)]
    pub fn to_engine(&self) -> kopf_engine::Operator {
        let parts = &self.0;
        let mut operator = kopf_engine::Operator::new(self.registry())
            .settings(parts.settings.clone())
            .scope(parts.scope.clone())
            .front(Arc::clone(&parts.front) as Arc<_>)
            .indices(parts.front.make_indices())
            .memos(Arc::new(parts.front.seeds.clone()))
            .keep_managed_fields(parts.keep_managed_fields)
            .style(Style::Native)
            .definitions(parts.definitions.complete.clone());
        if let Some(identity) = &parts.identity {
            operator = operator.identity(identity);
        }
        if let Some(endpoint) = &parts.liveness {
            operator = operator.liveness(endpoint.clone());
        }
        if let Some(endpoint) = &parts.metrics {
            operator = operator.metrics_endpoint(endpoint.clone());
        }
        match &parts.lifecycle {
            Some(lifecycle) => operator.lifecycle(Arc::clone(lifecycle)),
            None => operator,
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("handlers", &self.0.handlers)
            .field("scope", &self.0.scope)
            .finish_non_exhaustive()
    }
}
