//! The counted work.

use std::pin::Pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use http::Request;
use http::header::CONTENT_TYPE;
use kopf::admission::{ClientConfig, Incoming, ServerError, Serving, Shutdown, WebhookServer};
use kopf::prelude::*;
use kopf::settings::Shards;
use kopf::{OperatorBuilder, Running, SubHandlers};
use kopf_client::Client as Direct;
use kopf_sandbox::Sandbox;
use kube::client::Body as RequestBody;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::server::Server;

/// Number of objects that are handled at the same time.
const WINDOW: usize = 32;
/// Number of objects that get events.
const FEW: usize = 64;
/// Virtual time in which everything that is due happens.
const SETTLING: Duration = Duration::from_secs(1);

const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"kopfexamples.kopf.dev"},"spec":{"group":"kopf.dev","scope":"Namespaced",
"names":{"kind":"KopfExample","plural":"kopfexamples","singular":"kopfexample"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":
{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;

const REVIEW: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{
"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":{"group":"kopf.dev","version":"v1","kind":"KopfExample"},
"resource":{"group":"kopf.dev","version":"v1","resource":"kopfexamples"},"name":"object-1","namespace":"default",
"operation":"CREATE","userInfo":{"username":"admin","groups":["system:masters","system:authenticated"]},
"object":{"apiVersion":"kopf.dev/v1","kind":"KopfExample","metadata":{"name":"object-1","namespace":"default",
"labels":{"somelabel":"somevalue"},"annotations":{"someannotation":"somevalue"}},
"spec":{"duration":"1m","field":"value","items":["item1","item2"]}},"oldObject":null,"dryRun":false,"options":null}}"#;

/// The patches of a created object with one handler.
const HANDLED: &str = r#"{"metadata":{"annotations":{"kopf.zalando.org/last-handled-configuration":"{\"metadata\":{\"labels\":{\"somelabel\":\"somevalue\"},\"annotations\":{\"someannotation\":\"somevalue\"}},\"spec\":{\"duration\":\"1m\",\"field\":\"value\",\"items\":[\"item1\",\"item2\"]}}\n"}}}"#;
const RESULT: &str = r#"{"status":{"create_fn":{"message":"hello world"}}}"#;

/// The unit that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// An object is created; one handler returns a result.
    Created,
    /// An object is created; two handlers, one with two sub-handlers.
    Subhandlers,
    /// An event of an object whose tracked part is unchanged.
    Unchanged,
    /// An event of an object that another replica handles.
    OtherShard,
    /// A handled object in the first list.
    Resumed,
    /// A validating review.
    Review,
    /// A call of a timer.
    Timer,
    /// The patches of `created` by a plain client: the share of the server and the transport.
    Raw,
}

impl FromStr for Scenario {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "created" => Self::Created,
            "subhandlers" => Self::Subhandlers,
            "unchanged" => Self::Unchanged,
            "other-shard" => Self::OtherShard,
            "resumed" => Self::Resumed,
            "review" => Self::Review,
            "timer" => Self::Timer,
            "raw" => Self::Raw,
            other => bail!("unknown scenario {other:?}"),
        })
    }
}

impl Scenario {
    pub(crate) async fn run(self, count: usize) -> Result<()> {
        // Replicas filter the objects themselves: the server in memory does not.
        let sandbox = Sandbox::builder().seed(1).without_shards().build()?;
        define(&sandbox).await?;
        let server = Server::new(sandbox.service());
        let stage = Stage { sandbox, server };
        match self {
            Self::Created => stage.created(kopf::handlers![create_fn], count).await,
            Self::Subhandlers => stage.created(kopf::handlers![first, second], count).await,
            Self::Unchanged => stage.unchanged(count).await,
            Self::OtherShard => stage.other_shard(count).await,
            Self::Resumed => stage.resumed(count).await,
            Self::Review => stage.review(count).await,
            Self::Timer => stage.timer(count).await,
            Self::Raw => stage.raw(count).await,
        }
    }
}

#[kopf::on::create("kopfexamples")]
async fn create_fn() -> kopf::Result<Value> {
    Ok(json!({"message": "hello world"}))
}

#[kopf::on::create("kopfexamples")]
async fn first() {}

#[kopf::on::create("kopfexamples")]
async fn second(subs: SubHandlers) {
    subs.register("a", || async {});
    subs.register("b", || async {});
}

#[kopf::on::validate("kopfexamples")]
async fn check() {}

static TICKS: AtomicUsize = AtomicUsize::new(0);

#[kopf::timer("kopfexamples", interval = 1.0)]
async fn tick() {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

/// The server and the sandbox behind it.
struct Stage {
    sandbox: Sandbox,
    server: Server,
}

impl Stage {
    async fn start(&self, mut operator: OperatorBuilder) -> Result<Running> {
        operator.settings_mut().posting.enabled = false;
        let operator = operator.all_namespaces().build()?;
        Ok(operator
            .start(Direct::from_service(self.server.clone(), "default"))
            .await?)
    }

    /// Creates objects in groups, each when the one before it is handled.
    async fn create(&self, count: usize) -> Result<()> {
        let before = self.server.handled();
        for number in 0..count {
            self.server.create();
            if number % WINDOW == WINDOW - 1 {
                sleep(SETTLING).await;
            }
        }
        sleep(SETTLING).await;
        let handled = self.server.handled() - before;
        ensure!(handled == count, "{handled} of {count} objects are handled");
        Ok(())
    }

    async fn created(self, handlers: Vec<kopf::on::AnyHandler>, count: usize) -> Result<()> {
        let _running = self.start(Operator::builder().handlers(handlers)).await?;
        self.create(count).await
    }

    async fn touch(&self, count: usize) -> Result<()> {
        let before = self.server.patches();
        for number in 0..count {
            self.server.touch(number % FEW, number)?;
            if number % FEW == FEW - 1 {
                sleep(SETTLING).await;
            }
        }
        sleep(SETTLING).await;
        let patches = self.server.patches() - before;
        ensure!(patches == 0, "{patches} patches without changes");
        Ok(())
    }

    async fn unchanged(self, count: usize) -> Result<()> {
        let operator = Operator::builder().handlers(kopf::handlers![create_fn]);
        let _running = self.start(operator).await?;
        self.create(FEW).await?;
        self.touch(count).await
    }

    async fn other_shard(self, count: usize) -> Result<()> {
        let operator = |identity| {
            let operator = Operator::builder().handlers(kopf::handlers![create_fn]);
            let operator = operator.identity(identity);
            operator.sharding("bench", Shards::Fixed(2))
        };
        // The other replica shares the Leases, but has a server without objects.
        let other = operator("other").all_namespaces().build()?;
        let other = other
            .start(Direct::from_service(self.sandbox.service(), "default"))
            .await?;
        let running = self.start(operator("own")).await?;
        sleep(60 * SETTLING).await;
        for _ in 0..FEW {
            self.server.create();
        }
        sleep(SETTLING).await;
        let foreign = self.server.unhandled();
        ensure!(!foreign.is_empty(), "no object belongs to another replica");
        for number in 0..count {
            let object = foreign.get(number % foreign.len()).context("no object")?;
            self.server.touch(*object, number)?;
            if number % FEW == FEW - 1 {
                sleep(SETTLING / 100).await;
            }
        }
        sleep(SETTLING).await;
        ensure!(
            self.server.unhandled() == foreign,
            "the objects were handled"
        );
        drop((running, other));
        Ok(())
    }

    async fn resumed(self, count: usize) -> Result<()> {
        let operator = || Operator::builder().handlers(kopf::handlers![create_fn]);
        let first = self.start(operator()).await?;
        self.create(1).await?;
        first.stop().await?;
        self.server.copy_first(count);
        let patches = self.server.patches();
        let _running = self.start(operator()).await?;
        sleep(SETTLING).await;
        ensure!(
            self.server.patches() == patches,
            "handled objects are patched"
        );
        Ok(())
    }

    async fn review(self, count: usize) -> Result<()> {
        let (give, given) = oneshot::channel();
        let mut operator = Operator::builder().handlers(kopf::handlers![check]);
        operator.settings_mut().admission.server = Some(Arc::new(Reviews(Mutex::new(Some(give)))));
        let _running = self.start(operator).await?;
        let serving = given.await?;
        for _ in 0..count {
            let mut incoming = Incoming::new(serde_json::from_str(REVIEW)?);
            incoming.webhook = Some("check".to_owned());
            let review = serving.review(incoming).await?;
            let text = serde_json::to_string(&review)?;
            ensure!(text.contains("\"allowed\":true"), "denied: {text}");
        }
        Ok(())
    }

    async fn timer(self, count: usize) -> Result<()> {
        let operator = Operator::builder().handlers(kopf::handlers![tick]);
        let _running = self.start(operator).await?;
        for _ in 0..FEW {
            self.server.create();
        }
        while TICKS.load(Ordering::Relaxed) < count {
            sleep(SETTLING).await;
        }
        Ok(())
    }

    async fn raw(self, count: usize) -> Result<()> {
        let client = Client::new(self.server.clone(), "default");
        for number in 0..count {
            self.server.create();
            let path = format!("/apis/kopf.dev/v1/namespaces/default/kopfexamples/object-{number}");
            for (path, patch) in [(path.clone(), HANDLED), (format!("{path}/status"), RESULT)] {
                let request = Request::patch(path)
                    .header(CONTENT_TYPE, "application/merge-patch+json")
                    .body(patch.as_bytes().to_vec())?;
                client.request_text(request).await?;
            }
        }
        Ok(())
    }
}

async fn define(sandbox: &Sandbox) -> Result<()> {
    let request = Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .header(CONTENT_TYPE, "application/json")
        .body(RequestBody::from(DEFINITION.as_bytes().to_vec()))?;
    let answer = sandbox.service().oneshot(request).await;
    let answer = answer.map_err(|error| anyhow::anyhow!("{error}"))?;
    ensure!(answer.status().is_success(), "the CRD is rejected");
    sleep(SETTLING).await;
    Ok(())
}

/// A webhook server that gives its operator away.
struct Reviews(Mutex<Option<oneshot::Sender<Arc<dyn Serving>>>>);

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reviews")
    }
}

impl WebhookServer for Reviews {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        shutdown: Shutdown,
    ) -> Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
        operator.announce(ClientConfig::default());
        let give = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(give) = give {
            // The receiver lives as long as the operator.
            let _ = give.send(operator);
        }
        Box::pin(async move {
            shutdown.await;
            Ok(())
        })
    }
}
