//! A fake operator that responds to reviews by a function and records announcements.

use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_core::admission::{
    CertificateStore, ClientConfig, Incoming, Refusal, ServerError, Serving, WebhookServer,
};
use kopf_core::sync::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

type Script = dyn Fn(Incoming) -> BoxFuture<'static, Result<Value, Refusal>> + Send + Sync;

/// The operator of a server under test.
pub(crate) struct Operator {
    script: Box<Script>,
    reviewed: Mutex<Vec<Incoming>>,
    announced: mpsc::UnboundedSender<ClientConfig>,
    certificate: Option<Vec<u8>>,
    version: Option<Value>,
    namespace: Option<String>,
    is_loopback: bool,
    store: Option<Arc<dyn CertificateStore>>,
}

impl Serving for Operator {
    fn review(&self, incoming: Incoming) -> BoxFuture<'_, Result<Value, Refusal>> {
        self.lock().push(incoming.clone());
        (self.script)(incoming)
    }

    fn announce(&self, config: ClientConfig) {
        let _ = self.announced.send(config);
    }

    fn api_certificate(&self) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async { self.certificate.clone() })
    }

    fn api_version(&self) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async { self.version.clone() })
    }

    fn namespace(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { self.namespace.clone() })
    }

    fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    fn certificate_store(&self) -> Option<Arc<dyn CertificateStore>> {
        self.store.clone()
    }
}

impl Operator {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Incoming>> {
        self.reviewed.lock()
    }
}

/// The setup of a server under test.
pub(crate) struct Setup {
    script: Box<Script>,
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) version: Option<Value>,
    pub(crate) namespace: Option<String>,
    pub(crate) is_loopback: bool,
    pub(crate) store: Option<Arc<dyn CertificateStore>>,
}

impl Setup {
    /// Responds to each review by this function.
    pub(crate) fn new<F>(script: impl Fn(Incoming) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, Refusal>> + Send + 'static,
    {
        Self {
            script: Box::new(move |incoming| Box::pin(script(incoming))),
            certificate: None,
            version: None,
            namespace: None,
            is_loopback: false,
            store: None,
        }
    }

    /// Allows all requests.
    pub(crate) fn allowing() -> Self {
        Self::new(|incoming| async move { Ok(allowed(&incoming.review)) })
    }

    /// Runs a server until it announces its address.
    pub(crate) async fn run(self, server: impl WebhookServer + 'static) -> Running {
        self.try_run(server)
            .await
            .unwrap_or_else(|error| panic!("it does not run: {error:?}"))
    }

    /// Runs a server until it announces its address, or ends.
    pub(crate) async fn try_run(
        self,
        server: impl WebhookServer + 'static,
    ) -> Result<Running, ServerError> {
        let (announced, mut configs) = mpsc::unbounded_channel();
        let operator = Arc::new(Operator {
            script: self.script,
            reviewed: Mutex::default(),
            announced,
            certificate: self.certificate,
            version: self.version,
            namespace: self.namespace,
            is_loopback: self.is_loopback,
            store: self.store,
        });
        let mut task = JoinSet::new();
        let stop = CancellationToken::new();
        let shutdown = Box::pin(stop.clone().cancelled_owned());
        task.spawn(Arc::new(server).serve(Arc::clone(&operator) as Arc<dyn Serving>, shutdown));
        tokio::select! {
            Some(config) = configs.recv() => Ok(Running { operator, config, configs, stop, task }),
            Some(ended) = task.join_next() => match ended.unwrap() {
                Ok(()) => panic!("it ended without an error"),
                Err(error) => Err(error),
            },
        }
    }
}

/// A running server. It ends on drop.
pub(crate) struct Running {
    operator: Arc<Operator>,
    /// The last announced address.
    pub(crate) config: ClientConfig,
    configs: mpsc::UnboundedReceiver<ClientConfig>,
    stop: CancellationToken,
    task: JoinSet<Result<(), ServerError>>,
}

impl Running {
    /// Returns all requests so far.
    pub(crate) fn reviewed(&self) -> Vec<Incoming> {
        self.operator.lock().clone()
    }

    /// Waits for the next announcement.
    pub(crate) async fn next_config(&mut self) -> &ClientConfig {
        self.config = self.configs.recv().await.expect("it runs");
        &self.config
    }

    /// Returns `true` if there are unread announcements.
    pub(crate) fn has_more_configs(&self) -> bool {
        !self.configs.is_empty()
    }

    /// Waits until the server ends by itself. Returns the error.
    pub(crate) async fn ended(mut self) -> ServerError {
        let ended = self.task.join_next().await.expect("there is one task");
        ended.unwrap().expect_err("it can end by an error only")
    }

    /// Stops the server by the shutdown signal, and waits for its end.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let ended = self.task.join_next().await.expect("there is one task");
        ended.unwrap().expect("it stops without an error");
    }

    pub(crate) fn url(&self) -> &str {
        self.config.url.as_deref().expect("there is a URL")
    }

    pub(crate) fn port(&self) -> u16 {
        let uri: http::Uri = self.url().parse().unwrap();
        uri.port_u16().expect("there is a port")
    }
}

/// Returns a review with this uid.
pub(crate) fn review(uid: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": uid}})
}

/// Returns the response to a review.
pub(crate) fn allowed(review: &Value) -> Value {
    json!({
        "apiVersion": review["apiVersion"],
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    })
}
