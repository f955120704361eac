//! Load generation: creates and patches of objects by concurrent tasks at the maximum rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Data bytes of a configmap of about one kilobyte.
pub(crate) const KILOBYTE: usize = 800;

/// Returns the number of objects per second.
pub(crate) fn rate(count: u32, time: Duration) -> f64 {
    f64::from(count) / time.as_secs_f64()
}

/// Creates a namespace.
pub(crate) async fn namespace(client: &Client, name: &str) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    post(client, "/api/v1/namespaces", &body).await
}

/// Returns a configmap with this number of data bytes.
pub(crate) fn config_map(number: u32, bytes: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("object-{number}"), "labels": {"app": "bench"}},
        "data": {"filling": "x".repeat(bytes)},
    })
}

/// Creates an object.
pub(crate) async fn post(client: &Client, path: &str, body: &Value) -> Result<()> {
    send(client, "POST", path, "application/json", body).await
}

/// Creates `count` configmaps by concurrent tasks. Returns the elapsed time.
pub(crate) async fn create(
    client: &Client,
    namespace: &str,
    count: u32,
    bytes: usize,
    tasks: u32,
) -> Result<Duration> {
    let path: Arc<str> = format!("/api/v1/namespaces/{namespace}/configmaps").into();
    repeat(client, count, tasks, move |client, number| {
        let body = config_map(number, bytes);
        let path = Arc::clone(&path);
        async move { post(&client, &path, &body).await }
    })
    .await
}

/// Patches each of `count` configmaps once. Returns the elapsed time.
pub(crate) async fn patch(
    client: &Client,
    namespace: &str,
    count: u32,
    tasks: u32,
) -> Result<Duration> {
    let path: Arc<str> = format!("/api/v1/namespaces/{namespace}/configmaps").into();
    repeat(client, count, tasks, move |client, number| {
        let path = format!("{path}/object-{number}");
        async move {
            let body = json!({"metadata": {"annotations": {"changed": "yes"}}});
            send(
                &client,
                "PATCH",
                &path,
                "application/merge-patch+json",
                &body,
            )
            .await
        }
    })
    .await
}

/// Runs an action for each number below `count`, by concurrent tasks. Returns the elapsed time.
pub(crate) async fn repeat<A, F>(
    client: &Client,
    count: u32,
    tasks: u32,
    action: A,
) -> Result<Duration>
where
    A: Fn(Client, u32) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let next = Arc::new(AtomicU32::new(0));
    let began = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (client, next, action) = (client.clone(), Arc::clone(&next), action.clone());
        running.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                action(client.clone(), number).await?;
            }
        });
    }
    while let Some(result) = running.join_next().await {
        let result: Result<()> = result?;
        result?;
    }
    Ok(began.elapsed())
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<()> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content_type)
        .body(body.to_string().into_bytes())?;
    client
        .request_text(request)
        .await
        .with_context(|| format!("{method} {path}"))?;
    Ok(())
}
