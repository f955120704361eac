//! Admission webhooks. Sections refer to the description of admission in the original.
//!
//! There are no sockets: a fake webhook server passes requests to the operator.

mod certificates;
mod configuration;
mod conversion;
mod golden;
mod memos;
mod reconciliation;
mod requests;
mod responses;
mod services;
mod workers;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_core::admission::{
    ClientConfig, Incoming, ParseError, Refusal, ReviewHead, ServerError, Serving, Shutdown,
    Unreadable, WebhookServer, parse,
};
use kopf_core::sync::Mutex;
use serde_json::{Value, json};

use crate::front::Declaration;
use crate::stage::{Actor, Setup, Stage};

/// A webhook server without sockets. Clones share their state.
#[derive(Clone, Default)]
struct FakeServer(Arc<Mutex<ServerState>>);

#[derive(Default)]
struct ServerState {
    operator: Option<Arc<dyn Serving>>,
    place: Option<ClientConfig>,
    ending: Ending,
}

/// Reaction of the server to the exit of the operator.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Ending {
    #[default]
    OnSignal,
    Ignored,
    Stopped,
}

impl FakeServer {
    /// Returns a server that announces this URL when it starts.
    fn at(url: &str) -> Self {
        let server = Self::default();
        server.lock().place = Some(place(url));
        server
    }

    /// Returns a server that ignores the shutdown signal.
    fn ignoring_shutdown() -> Self {
        let server = Self::default();
        server.lock().ending = Ending::Ignored;
        server
    }

    /// Returns `true` if the server was stopped by the shutdown signal.
    fn has_stopped(&self) -> bool {
        self.lock().ending == Ending::Stopped
    }

    /// Announces another URL.
    fn moves(&self, url: &str) {
        self.announces(place(url));
    }

    /// Announces another address.
    fn announces(&self, config: ClientConfig) {
        let operator = self.operator().expect("the server is running");
        operator.announce(config);
    }

    /// Returns `true` if an operator is connected.
    fn is_open(&self) -> bool {
        self.lock().operator.is_some()
    }

    /// Passes a request to the operator.
    async fn put(&self, incoming: Incoming) -> Result<Value, Refusal> {
        let operator = self.operator().expect("the server is running");
        operator.review(incoming).await
    }

    /// Handles a request body as webhook servers do.
    async fn post(&self, body: &str) -> Value {
        match parse(body.as_bytes()) {
            Ok(review) => {
                let incoming = Incoming::new(review);
                self.put(incoming).await.expect("the review is valid")
            }
            Err(ParseError::TooDeep(_)) => {
                let head =
                    ReviewHead::scan(body.as_bytes()).expect("the review begins with the uid");
                Unreadable::TooDeep.deny(&head)
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Passes a review to all handlers and returns the response.
    async fn ask(&self, review: Value) -> Value {
        let incoming = Incoming::new(review);
        let mut answer = self.put(incoming).await.expect("the review is valid");
        answer["response"].take()
    }

    fn operator(&self) -> Option<Arc<dyn Serving>> {
        self.lock().operator.clone()
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.0.lock()
    }
}

fn place(url: &str) -> ClientConfig {
    ClientConfig {
        url: Some(url.to_owned()),
        ca_bundle: Some(STANDARD.encode(CERTIFICATE)),
        ..ClientConfig::default()
    }
}

/// A valid certificate. No connections are made in these cases.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBeTCCAR+gAwIBAgIUBK6owEZ0I2KVgNT8elrZ2C8nbv8wCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGdGVzdGVyMCAXDTI2MTExNjA1MDcyMVoYDzIxMjYxMDIzMDUw
NzIxWjARMQ8wDQYDVQQDDAZ0ZXN0ZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AASMtp0+G0UKDrqLvRx0v9gnHXCvkCUhgyspDeS7DJoUibluKKBlmvmUxqOPgwCx
P6LVIKb7na+Uq2Ztb9qGgI7uo1MwUTAdBgNVHQ4EFgQUhp3wkw4+Shb0KHhBU9cN
eQP++pEwHwYDVR0jBBgwFoAUhp3wkw4+Shb0KHhBU9cNeQP++pEwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAFLWqMw5ixnX6K+Mo7BtE2yRy5dIvJ
n+tS1w+VK2AGQAIhAOBlyZXdp2X+zl2+41JeG7qUJoKL3THvalPlt8BwRHe3
-----END CERTIFICATE-----
";

impl fmt::Debug for FakeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeServer")
    }
}

impl WebhookServer for FakeServer {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        shutdown: Shutdown,
    ) -> Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
        /// Disconnects the operator when the server is dropped.
        struct Closing(FakeServer);

        impl Drop for Closing {
            fn drop(&mut self) {
                self.0.lock().operator = None;
            }
        }

        Box::pin(async move {
            let place = self.lock().place.clone();
            if let Some(place) = place {
                operator.announce(place);
            }
            self.lock().operator = Some(operator);
            let _closing = Closing((*self).clone());
            let is_ignored = self.lock().ending == Ending::Ignored;
            if is_ignored {
                std::future::pending::<()>().await;
            }
            shutdown.await;
            self.lock().ending = Ending::Stopped;
            Ok(())
        })
    }
}

/// Returns an operator with this server.
fn admitting<'a>(
    stage: &'a Stage,
    server: &FakeServer,
    handlers: impl IntoIterator<Item = Declaration>,
) -> Setup<'a> {
    let server = Arc::new(server.clone());
    stage
        .operator(handlers)
        .settings(|settings| settings.admission.server = Some(server))
}

impl<'a> Setup<'a> {
    /// Starts the operator and waits until its server is running.
    async fn open(self, server: &FakeServer) -> Actor<'a> {
        let stage = self.stage;
        let actor = self.start().await;
        stage
            .wait_for("the server to start", || server.is_open())
            .await;
        actor
    }
}

/// Builds a review of a thing of the case.
fn review(stage: &Stage, operation: &str, new: Option<Value>, old: Option<Value>) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "resource": {"group": stage.api.group(), "version": "v1", "resource": "things"},
            "operation": operation,
            "userInfo": {"username": "someone", "groups": ["people"]},
            "object": new,
            "oldObject": old,
            "dryRun": false,
        },
    })
}

/// Builds a review of the creation of a thing.
fn creation(stage: &Stage, spec: Value) -> Value {
    review(stage, "CREATE", Some(stage.thing("obj", spec)), None)
}

/// Decodes the operations of the patch in a response.
fn patch(response: &Value) -> Vec<Value> {
    let Some(patch) = response["patch"].as_str() else {
        assert_eq!(response["patchType"], Value::Null);
        return Vec::new();
    };
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = STANDARD.decode(patch).expect("the patch is base64");
    serde_json::from_slice(&patch).expect("the patch is JSON")
}
