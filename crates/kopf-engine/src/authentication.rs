//! Access of an operator to the API: by a given client, or by its own login.
//!
//! With a login, all requests of the operator and its handlers use a vault of credentials. A task
//! of the operator refills the vault when it is empty; if that fails permanently, the operator
//! ends. The credentials come from the login handlers, or from the kubeconfig or the service
//! account if there are no such handlers.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_client::Client;
use kopf_client::connection::Options;
pub use kopf_client::vault::LoginError;
use kopf_client::vault::{Credentials, DefaultLogin, Login, Retrieved, Vault};
use kopf_core::handler::Activity;

use crate::activities::Activities;
use crate::clock::Clock;
use crate::execution::BlockingPool;
use crate::invocation::{OperatorContext, Registry};

/// Access of an operator to the API.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Access {
    /// Login by the login handlers. Without such handlers: by the kubeconfig or the service
    /// account, whichever exists.
    #[default]
    Login,
    /// Login in this way. Login handlers are not called.
    Custom(Arc<dyn Login>),
    /// A client with its own credentials. Login handlers are not called.
    Client(Client),
}

impl From<Client> for Access {
    fn from(client: Client) -> Self {
        Self::Client(client)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Login => f.write_str("Login"),
            Self::Custom(_) => f.write_str("Custom"),
            Self::Client(client) => client.fmt(f),
        }
    }
}

/// The access of one run of an operator.
pub(crate) struct Authentication {
    client: Client,
    vault: Option<Vault>,
    login: Option<Arc<dyn Login>>,
    is_given: bool,
}

impl Authentication {
    pub(crate) fn new(access: Access, clock: Clock) -> Self {
        let is_given = !matches!(access, Access::Login);
        let (client, vault, login) = match access {
            Access::Client(client) => (client, None, None),
            Access::Custom(login) => {
                let vault = Vault::new(move || clock.now());
                (vault.client(), Some(vault), Some(login))
            }
            Access::Login => {
                let vault = Vault::new(move || clock.now());
                (vault.client(), Some(vault), None)
            }
        };
        Self {
            client,
            vault,
            login,
            is_given,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Re-authenticates until login fails permanently. `None` if the client was supplied by the
    /// caller.
    pub(crate) fn retriever(
        self,
        context: &Arc<OperatorContext>,
        registry: &Registry,
        pool: &BlockingPool,
    ) -> Option<impl Future<Output = LoginError> + Send + use<>> {
        let handlers = Activities::new(Activity::Authentication, registry, pool.urgent());
        if !handlers.is_empty() && self.is_given {
            tracing::info!(
                "Login handlers are not called: the operator uses a given client or login."
            );
        }
        let vault = self.vault?;
        let login = self.login.unwrap_or_else(|| {
            Arc::new(Handlers {
                handlers,
                context: Arc::clone(context),
            })
        });
        Some(async move { vault.serve(&*login).await })
    }
}

/// Logs in by the login handlers.
struct Handlers {
    handlers: Activities,
    context: Arc<OperatorContext>,
}

impl Handlers {
    async fn call(&self) -> Result<Retrieved, LoginError> {
        if self.handlers.is_empty() {
            let mut options = Options::default();
            options.trust_env = self.context.settings.networking.trust_env;
            return DefaultLogin::new(options).login().await;
        }
        let called = self.handlers.run(|| Arc::clone(&self.context)).await;
        let returned = called.map_err(|error| LoginError::failed(&error))?;
        let credentials = returned.take::<Credentials>().into_iter();
        Ok(credentials
            .map(|(id, credentials)| (id.to_string(), credentials))
            .collect())
    }
}

impl Login for Handlers {
    fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>> {
        Box::pin(self.call())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
    use kopf_core::outcome::HandlerError;
    use kopf_core::settings::Settings;
    use tokio::time::Instant;

    use super::*;
    use crate::fake_api::{FakeResponse, credentials, serve};
    use crate::invocation::{Call, Invoke, Work};

    type Try = Result<Option<Credentials>, HandlerError>;

    /// A login handler with these outcomes of its attempts; the last one repeats.
    struct Function(Vec<Try>);

    impl Invoke for Function {
        fn invoke(&self, call: Call) -> Work {
            let last = self.0.len() - 1;
            let result = self.0[last.min(call.retry as usize)].clone();
            Work::Async(Box::pin(async move {
                if let Some(credentials) = result? {
                    call.slot.put(credentials);
                }
                Ok(None)
            }))
        }
    }

    fn registry(handlers: Vec<(&str, Vec<Try>)>) -> Registry {
        let mut registry = Registry::default();
        for (number, (id, results)) in handlers.into_iter().enumerate() {
            let kind = HandlerKind::Activity(Activity::Authentication);
            let spec = HandlerSpec::new(id, FunctionId::Number(number as u64), kind);
            registry.add(spec.build(Arc::new(Function(results)) as _).unwrap());
        }
        registry
    }

    fn context(client: &Client) -> Arc<OperatorContext> {
        let (client, settings) = (client.clone(), Arc::new(Settings::default()));
        let context = OperatorContext::new(client, settings, Clock::system(), Arc::new(()));
        Arc::new(context)
    }

    /// Sends one request while the login task runs.
    async fn ask(registry: &Registry) -> Result<(), kopf_client::Error> {
        let authentication = Authentication::new(Access::Login, Clock::system());
        let client = authentication.client().clone();
        let retriever = authentication
            .retriever(&context(&client), registry, &BlockingPool::new(None))
            .unwrap();
        tokio::select! {
            biased;
            response = client.get_json("/version") => response.map(drop),
            () = async { retriever.await; std::future::pending::<()>().await } => Ok(()),
        }
    }

    fn temporary(seconds: u64) -> Try {
        let delay = Some(Duration::from_secs(seconds));
        Err(HandlerError::temporary("not yet", delay))
    }

    #[tokio::test(start_paused = true)]
    async fn login_handlers_are_tried_until_they_succeed() {
        let (good, log) = credentials(|_| FakeResponse::Json(200, serde_json::json!({})));
        let registry = registry(vec![
            ("silent", vec![Ok(None)]),
            ("late", vec![temporary(10), temporary(20), Ok(Some(good))]),
        ]);
        let start = Instant::now();
        ask(&registry).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 30);
        assert_eq!(log.count("/version"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_failures_of_login_handlers_fail_the_request() {
        let (good, log) = credentials(|_| FakeResponse::Json(200, serde_json::json!({})));
        let failing = registry(vec![
            ("good", vec![Ok(Some(good))]),
            ("bad", vec![Err(HandlerError::permanent("no such user"))]),
        ]);
        let error = ask(&failing).await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("logging in has failed: "), "{text}");
        assert!(
            text.contains("'bad'") && text.contains("no such user"),
            "{text}"
        );
        assert!(log.all().is_empty());

        let silent = registry(vec![("silent", vec![Ok(None)])]);
        let error = ask(&silent).await.unwrap_err();
        assert!(
            matches!(error, kopf_client::Error::Login(LoginError::Nothing)),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn given_clients_need_no_login() {
        let (client, _) = serve(|_| FakeResponse::Json(200, serde_json::json!({})));
        let registry = registry(vec![("bad", vec![Err(HandlerError::permanent("never"))])]);
        let authentication = Authentication::new(client.into(), Clock::system());
        let client = authentication.client().clone();
        client.get_json("/version").await.unwrap();
        let pool = BlockingPool::new(None);
        let retriever = authentication.retriever(&context(&client), &registry, &pool);
        assert!(retriever.is_none());
    }
}
