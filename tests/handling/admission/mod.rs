//! Admission webhooks, as they are seen from outside; sections (§) are those of the description of
//! admission in the original.
//!
//! There are no sockets: a desk takes the place of the webhook server, and requests are put on it.

mod answers;
mod certificates;
mod configuration;
mod conversion;
mod golden;
mod memos;
mod reconciliation;
mod requests;
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

/// Where requests are put, instead of being sent. Clones are the same desk.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Staff>>);

#[derive(Default)]
struct Staff {
    operator: Option<Arc<dyn Serving>>,
    place: Option<ClientConfig>,
    ending: Ending,
}

/// How the desk reacts to the end of the operator.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Ending {
    #[default]
    OnSignal,
    Ignored,
    Stopped,
}

impl Desk {
    /// Is told to be at this address when it opens.
    fn at(url: &str) -> Self {
        let desk = Self::default();
        desk.lock().place = Some(place(url));
        desk
    }

    /// Does not stop when it has to.
    fn ignoring_shutdown() -> Self {
        let desk = Self::default();
        desk.lock().ending = Ending::Ignored;
        desk
    }

    /// Returns `true` if it was stopped by the signal.
    fn has_stopped(&self) -> bool {
        self.lock().ending == Ending::Stopped
    }

    /// Moves to another address.
    fn moves(&self, url: &str) {
        let operator = self.operator().expect("it is open");
        operator.announce(place(url));
    }

    /// Whether anybody is there.
    fn is_open(&self) -> bool {
        self.lock().operator.is_some()
    }

    /// Has a request reviewed.
    async fn put(&self, incoming: Incoming) -> Result<Value, Refusal> {
        let operator = self.operator().expect("it is open");
        operator.review(incoming).await
    }

    /// Handles the body of a request as webhook servers do.
    async fn post(&self, body: &str) -> Value {
        match parse(body.as_bytes()) {
            Ok(review) => {
                let incoming = Incoming::new(review);
                self.put(incoming).await.expect("it is a proper review")
            }
            Err(ParseError::TooDeep(_)) => {
                let head = ReviewHead::scan(body.as_bytes()).expect("the uid is at the beginning");
                Unreadable::TooDeep.deny(&head)
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Has a review reviewed by all handlers, and gives the response.
    async fn ask(&self, review: Value) -> Value {
        let incoming = Incoming::new(review);
        let mut answer = self.put(incoming).await.expect("it is a proper review");
        answer["response"].take()
    }

    fn operator(&self) -> Option<Arc<dyn Serving>> {
        self.lock().operator.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Staff> {
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

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl WebhookServer for Desk {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        shutdown: Shutdown,
    ) -> Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
        /// Nobody is there when the operator has ended.
        struct Closing(Desk);

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

/// An operator with this desk.
fn staffed<'a>(
    stage: &'a Stage,
    desk: &Desk,
    handlers: impl IntoIterator<Item = Declaration>,
) -> Setup<'a> {
    let server = Arc::new(desk.clone());
    stage
        .operator(handlers)
        .settings(|settings| settings.admission.server = Some(server))
}

impl<'a> Setup<'a> {
    /// Starts the operator, and waits until its desk is open.
    async fn open(self, desk: &Desk) -> Actor<'a> {
        let stage = self.stage;
        let actor = self.start().await;
        stage.until_so("the desk to open", || desk.is_open()).await;
        actor
    }
}

/// A review about a thing of the case.
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

/// A review about the creation of a thing with this spec.
fn creation(stage: &Stage, spec: Value) -> Value {
    review(stage, "CREATE", Some(stage.thing("obj", spec)), None)
}

/// The operations of the patch in a response.
fn patch(response: &Value) -> Vec<Value> {
    let Some(patch) = response["patch"].as_str() else {
        assert_eq!(response["patchType"], Value::Null);
        return Vec::new();
    };
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = STANDARD.decode(patch).expect("it is base64");
    serde_json::from_slice(&patch).expect("it is JSON")
}
