//! An operator on kube-rs that copies the specification of a shop into a ConfigMap. With `--bug`,
//! failed reconciliations are not repeated.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";

struct Context {
    client: Client,
    resource: ApiResource,
    has_bug: bool,
}

/// Returns the fields of the specification as texts.
fn data(shop: &DynamicObject) -> Value {
    let spec = shop.data["spec"].as_object().cloned().unwrap_or_default();
    let texts = spec.into_iter().map(|(name, value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        (name, Value::String(text))
    });
    Value::Object(texts.collect())
}

async fn reconcile(shop: Arc<DynamicObject>, context: Arc<Context>) -> kube::Result<Action> {
    if shop.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let name = format!("{}-map", shop.name_any());
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [shop.controller_owner_ref(&context.resource)]},
        "data": data(&shop),
    });
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), NAMESPACE);
    let parameters = PatchParams::apply("zoo").force();
    maps.patch(&name, &parameters, &Patch::Apply(&map)).await?;
    Ok(Action::await_change())
}

fn after_failure(_: Arc<DynamicObject>, _: &kube::Error, context: Arc<Context>) -> Action {
    if context.has_bug {
        Action::await_change()
    } else {
        Action::requeue(Duration::from_secs(1))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("zoo.example.com", "v1", "Shop"));
    let shops: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let context = Context {
        client,
        resource: resource.clone(),
        has_bug: std::env::args().any(|argument| argument == "--bug"),
    };
    Controller::new_with(shops, watcher::Config::default(), resource)
        .owns(maps, watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, after_failure, Arc::new(context))
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}
