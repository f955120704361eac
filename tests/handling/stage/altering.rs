//! A client that alters patches before they are sent, like a webhook that undoes the writes of an
//! operator. It needs no sockets, so it works with virtual time.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A change of the payload of each patch.
pub(crate) type Alteration = fn(&mut Value);

/// Returns a client that alters the payload of every patch before it sends it.
pub(super) fn altered(client: Client, alter: Alteration) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if request.method() != Method::PATCH {
                return client.send(request).await;
            }
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let mut payload = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
            alter(&mut payload);
            let body = Body::from(payload.to_string().into_bytes());
            client.send(Request::from_parts(parts, body)).await
        }
    });
    Client::new(service, "default")
}

/// Removes finalizers from the payload of a patch.
pub(crate) fn strip_finalizers(payload: &mut Value) {
    strip(payload, "finalizers");
}

/// Removes annotations from the payload of a patch.
pub(crate) fn strip_annotations(payload: &mut Value) {
    strip(payload, "annotations");
}

/// Adds a changing field of the spec to the payload of a patch.
pub(crate) fn stamp_spec(payload: &mut Value) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let stamp = json!(COUNT.fetch_add(1, Ordering::Relaxed));
    if let Some(operations) = payload.as_array_mut() {
        operations.push(json!({"op": "add", "path": "/spec/stamp", "value": stamp}));
    } else if payload["status"].is_null() {
        // The status of things is a subresource, whose writes do not change the spec.
        payload["spec"]["stamp"] = stamp;
    }
}

fn strip(payload: &mut Value, field: &str) {
    let path = format!("/metadata/{field}");
    if let Some(operations) = payload.as_array_mut() {
        operations.retain(|operation| {
            let target = operation["path"].as_str().unwrap_or_default();
            !target.starts_with(&path)
        });
    } else if let Some(metadata) = payload["metadata"].as_object_mut() {
        metadata.remove(field);
    }
}
