//! Execution of calls, and their responses.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response};
use kopf_sandbox_schema::protobuf::Expected;

use super::patch::PatchType;
use super::pod_parts::PodPart;
use super::{Call, Payload, apply, reviews};
use crate::body::{Body, Unending};
use crate::cluster::Cluster;
use crate::fault::Verb;
use crate::request::body::{content_type, decoded_options, read_as};
use crate::request::decode::Decoded;
use crate::request::options::DeleteOptions;
use crate::respond;
use crate::status::{ApiError, Result};

/// Performs a call.
pub async fn perform(
    cluster: &Arc<Cluster>,
    call: &Call,
    verb: Verb,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>> {
    match call.subresource.as_deref() {
        None | Some("status" | "approval") => {}
        Some(_) if PodPart::of(call).is_some() => {}
        Some("scale") => return scale(cluster, call, verb, headers, body).await,
        Some(other) => return action(cluster, call, other, verb, headers, body).await,
    }
    let (code, payload) = match verb {
        Verb::Get => (200, cluster.get(call).await?),
        Verb::List => {
            let page = cluster.list(call).await?;
            return Ok(respond::list(cluster, call, page).await);
        }
        Verb::Watch => {
            let watcher = cluster.watch(call).await?;
            let mut response = respond::empty(200);
            *response.body_mut() = Body::stream(watcher.into_stream());
            response.extensions_mut().insert(Unending);
            return Ok(response);
        }
        Verb::Create => (201, create(cluster, call, headers, body).await?),
        Verb::Update => {
            cluster
                .update(call, decoded(call, headers, body)?, body)
                .await?
        }
        Verb::Patch => {
            let patch_type = PatchType::parse(content_type(headers), call.kind.is_custom())?;
            apply::check_options(call, patch_type)?;
            if patch_type == PatchType::Apply {
                cluster.apply(call, body).await?
            } else {
                (200, cluster.patch(call, patch_type, body).await?)
            }
        }
        Verb::Delete | Verb::DeleteCollection => {
            // Options in the body replace those of the query completely.
            let options = if body.is_empty() {
                call.options.delete.clone()
            } else {
                DeleteOptions::read(&decoded_options(headers, body)?.value)?
            };
            let mut call = call.about(call.namespace.as_deref(), &call.name);
            call.options.dry_run = options.dry_run;
            let payload = if verb == Verb::Delete {
                cluster.delete(&call, options).await?
            } else {
                cluster.delete_collection(&call, options).await?
            };
            (200, payload)
        }
    };
    let payload = cluster.presented(call, payload).await?;
    Ok(respond::object(cluster, call, code, payload))
}

async fn create(
    cluster: &Arc<Cluster>,
    call: &Call,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Payload> {
    let decoded = decoded(call, headers, body)?;
    if reviews::is_review(&call.kind.group) {
        let mut object = decoded.value;
        super::incoming::identify(call, &mut object, body)?;
        return cluster.review(call, object);
    }
    if call.kind.group.is_empty() && &*call.kind.plural == "bindings" {
        // Storing it would suggest that a pod was bound.
        return Err(ApiError::not_implemented(
            "bindings are not available on this server: post to pods/NAME/binding",
        ));
    }
    cluster.create(call, decoded, body).await
}

async fn scale(
    cluster: &Arc<Cluster>,
    call: &Call,
    verb: Verb,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>> {
    let payload = match verb {
        Verb::Get => cluster.get_scale(call).await?,
        Verb::Update => {
            let scale = decoded(call, headers, body)?.value;
            cluster.change_scale(call, |_| Ok(scale.clone())).await?
        }
        Verb::Patch => {
            let patch_type = PatchType::parse(content_type(headers), call.kind.is_custom())?;
            apply::check_options(call, patch_type)?;
            if patch_type == PatchType::Apply {
                cluster.apply_scale(call, body).await?
            } else {
                cluster.patch_scale(call, patch_type, body).await?
            }
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(respond::object(cluster, call, 200, payload))
}

async fn action(
    cluster: &Arc<Cluster>,
    call: &Call,
    subresource: &str,
    verb: Verb,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>> {
    let read = || Ok::<_, ApiError>(decoded(call, headers, body)?.value);
    let (code, payload): (u16, Payload) = match (&*call.kind.plural, subresource, verb) {
        ("pods", "binding", Verb::Create) => {
            let (binding, call) = cluster.admitted(call, read()?).await?;
            (201, cluster.bind(&call, &binding).await?)
        }
        ("pods", "eviction", Verb::Create) => {
            let (eviction, call) = cluster.admitted(call, read()?).await?;
            (201, cluster.evict(&call, &eviction).await?)
        }
        ("namespaces", "finalize", Verb::Update) => {
            (200, cluster.finalize_namespace(call, &read()?).await?)
        }
        ("serviceaccounts", "token", Verb::Create) => {
            let (request, call) = cluster.admitted(call, read()?).await?;
            (201, cluster.issue_token(&call, &request)?)
        }
        _ => {
            return Err(ApiError::not_implemented(format!(
                "{}/{subresource} is not available on this server",
                call.kind.qualified_plural()
            )));
        }
    };
    let payload = cluster.presented(call, payload).await?;
    Ok(respond::object(cluster, call, code, payload))
}

/// Decodes the body of a create or update.
fn decoded(call: &Call, headers: &HeaderMap, body: &Bytes) -> Result<Decoded> {
    let api_version = call.api_version();
    let (api_version, kind) = match call.subresource.as_deref() {
        Some("scale") => ("autoscaling/v1", "Scale"),
        Some("binding") => ("v1", "Binding"),
        Some("eviction") => ("policy/v1", "Eviction"),
        Some("token") => ("authentication.k8s.io/v1", "TokenRequest"),
        // Custom resources have no protobuf form.
        _ if call.kind.is_custom() => return read_as(None, headers, body),
        _ => (&*api_version, &*call.kind.kind),
    };
    read_as(Some(Expected { api_version, kind }), headers, body)
}
