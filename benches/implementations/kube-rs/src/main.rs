//! The same work as a small controller on kube-rs: two patches per new object, and an annotation on
//! handled objects. Without diffs, retries and progress, it measures the client and the runtime
//! only.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const HANDLED: &str = "kopf.zalando.org/last-handled-configuration";
/// Without a limit, it would open a connection for each waiting object.
const CONCURRENCY: u16 = 32;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
#[kube(
    group = "kopf.dev",
    version = "v1",
    kind = "KopfExample",
    namespaced,
    schema = "disabled",
    status = "KopfExampleStatus"
)]
struct KopfExampleSpec {
    duration: String,
    field: String,
    items: Vec<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct KopfExampleStatus {
    create_fn: Option<Value>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let namespace = std::env::args().nth(1);
    let namespace = namespace.context("missing argument: the namespace")?;
    let api: Api<KopfExample> = Api::namespaced(Client::try_default().await?, &namespace);
    Controller::new(api.clone(), watcher::Config::default())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .run(reconcile, retry, Arc::new(api))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

async fn reconcile(
    object: Arc<KopfExample>,
    api: Arc<Api<KopfExample>>,
) -> Result<Action, kube::Error> {
    if object.annotations().contains_key(HANDLED) {
        return Ok(Action::await_change());
    }
    let name = object.name_any();
    let spec = serde_json::to_string(&json!({"spec": object.spec}));
    let spec = spec.map_err(kube::Error::SerdeError)?;
    let mark = json!({"metadata": {"annotations": {HANDLED: spec}}});
    let parameters = PatchParams::default();
    api.patch(&name, &parameters, &Patch::Merge(mark)).await?;
    let status = json!({"status": {"create_fn": {"message": "hello world"}}});
    api.patch_status(&name, &parameters, &Patch::Merge(status))
        .await?;
    Ok(Action::await_change())
}

fn retry(_: Arc<KopfExample>, _: &kube::Error, _: Arc<Api<KopfExample>>) -> Action {
    Action::requeue(Duration::from_secs(1))
}
