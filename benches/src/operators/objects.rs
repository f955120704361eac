//! The objects that operators handle, and their CRD.

use std::time::Duration;

use anyhow::{Context as _, Result};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::load;

/// Returns the URL path of the objects of a namespace.
pub(crate) fn path(namespace: &str) -> String {
    format!("/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples")
}

/// Creates the CRD, and waits until it is served.
pub(crate) async fn define(client: &Client) -> Result<()> {
    let free_form = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfexamples.kopf.dev"},
        "spec": {
            "group": "kopf.dev", "scope": "Namespaced",
            "names": {"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": free_form, "status": free_form},
                }},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    load::post(client, definitions, &definition).await?;
    for _ in 0..100 {
        let request = Request::get(path("default")).body(Vec::new())?;
        if client.request_text(request).await.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("the CRD is not served after ten seconds")
}

/// Creates objects whose names start with `prefix`, by concurrent tasks.
pub(crate) async fn create(
    client: &Client,
    namespace: &str,
    prefix: &'static str,
    count: u32,
    tasks: u32,
) -> Result<()> {
    let path = path(namespace);
    load::repeat(client, count, tasks, move |client, number| {
        let path = path.clone();
        async move { load::post(&client, &path, &object(prefix, number)).await }
    })
    .await
    .context("cannot create objects")?;
    Ok(())
}

/// Returns an object like those of the original's examples.
pub(crate) fn object(prefix: &str, number: u32) -> Value {
    json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {
            "name": format!("{prefix}-{number}"),
            "labels": {"somelabel": "somevalue"},
            "annotations": {"someannotation": "somevalue"},
        },
        "spec": {"duration": "1m", "field": "value", "items": ["item1", "item2"]},
    })
}
