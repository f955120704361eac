//! The whole API as a service: a request comes in, an answer goes out.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header, request::Parts};
use http_body_util::{BodyExt as _, Limited};

use crate::access::{Access, UserInfo};
use crate::answer;
use crate::body::{Body, BodyError};
use crate::cluster::Cluster;
use crate::fault::{ConnectionBroken, ConnectionFault, Outcome, RequestFacts, Verb};
use crate::protobuf::{self, Expected};
use crate::request::accept::negotiate;
use crate::request::decode::{self, Decoded};
use crate::request::options::{DeleteOptions, Options};
use crate::request::path::{self, Path, ResourcePath};
use crate::server::PeerCertificate;
use crate::status::{ApiError, Result};
use crate::verbs::patch::PatchType;
use crate::verbs::{Call, Payload, Target, reviews};

/// The largest body that is read, as on a real server.
const MOST_BODY_BYTES: usize = 3 * 1024 * 1024;

type Answer<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

/// The API of a sandbox, in process: no socket, no TLS. Requests without credentials of their own are the
/// administrator's.
///
/// It is cheap to clone, and any client that speaks HTTP over a [`tower::Service`] can use it:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tower::ServiceExt as _;
///
/// let sandbox = kopf_sandbox::Sandbox::builder().build()?;
/// let request = http::Request::get("/api/v1/namespaces/default").body(String::new())?;
/// let response = sandbox.service().oneshot(request).await?;
/// assert_eq!(response.status(), 200);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Service {
    cluster: Arc<Cluster>,
}

impl Service {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    type Response = Response<Body>;
    type Error = ConnectionBroken;
    type Future = Answer<ConnectionBroken>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionBroken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let cluster = Arc::clone(&self.cluster);
        Box::pin(async move {
            let response = handle(&cluster, request, true).await;
            match ConnectionFault::of(&response) {
                Some(fault) => fault.act_in_process().await,
                None => Ok(response),
            }
        })
    }
}

/// The same API behind a listener: everybody must say who they are.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    cluster: Arc<Cluster>,
}

impl Endpoint {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }
}

impl<B> tower::Service<Request<B>> for Endpoint
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let cluster = Arc::clone(&self.cluster);
        Box::pin(async move { Ok(handle(&cluster, request, false).await) })
    }
}

/// Answers any request; what goes wrong is an answer, too.
async fn handle<B>(cluster: &Arc<Cluster>, request: Request<B>, in_process: bool) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    if cluster.stopping.is_cancelled() {
        return answer::error(&ApiError::unavailable("the sandbox has ended"));
    }
    let (parts, body) = request.into_parts();
    let user = match identify(cluster, &parts, in_process) {
        Ok(user) => user,
        Err(refusal) => return answer::error(&refusal),
    };
    match dispatch(cluster, &parts, body, user).await {
        Ok(response) => response,
        Err(refusal) => answer::error(&refusal),
    }
}

fn identify(cluster: &Cluster, parts: &Parts, in_process: bool) -> Result<UserInfo> {
    let peer = parts.extensions.get::<PeerCertificate>();
    if in_process && !parts.headers.contains_key(header::AUTHORIZATION) {
        return Access::acting(&parts.headers, UserInfo::administrator());
    }
    cluster
        .access
        .identify(&parts.headers, peer, cluster.clock.now())
}

async fn dispatch<B>(
    cluster: &Arc<Cluster>,
    parts: &Parts,
    body: B,
    user: UserInfo,
) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    let accept = parts
        .headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    if !path::is_well_encoded(parts.uri.path()) {
        return Err(ApiError::bad_request(
            "the path has a broken percent-encoding",
        ));
    }
    let path = path::parse(parts.uri.path()).ok_or_else(ApiError::no_such_path)?;
    match path {
        Path::Resource(resource) => {
            resource_request(cluster, parts, body, user, resource, accept).await
        }
        other => {
            if parts.method != Method::GET {
                return Err(ApiError::method_not_allowed());
            }
            crate::documents::answer(cluster, &other, parts, accept)
        }
    }
}

async fn resource_request<B>(
    cluster: &Arc<Cluster>,
    parts: &Parts,
    body: B,
    user: UserInfo,
    path: ResourcePath,
    accept: Option<&str>,
) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    let kinds = cluster.kinds();
    let kind = kinds
        .by_plural(&path.group, &path.plural)
        .filter(|kind| kind.version(&path.version).is_some())
        .ok_or_else(ApiError::no_such_path)?;
    let version = kind
        .version(&path.version)
        .ok_or_else(ApiError::no_such_path)?;
    check_scope(kind.namespaced, &path)?;
    let mut options = Options::parse(
        parts.uri.query().unwrap_or_default(),
        options_kind(&parts.method),
    )?;
    options.watch |= path.watch;
    let verb = verb(&parts.method, &path, &options)?;
    match &path.subresource {
        Some(name) => {
            let subresource = version
                .subresource(name)
                .ok_or_else(ApiError::no_such_path)?;
            if !subresource.verbs.iter().any(|known| known == verb.name()) {
                return Err(ApiError::method_not_allowed());
            }
        }
        // Of a kind that is about to go, discovery shows fewer verbs than there are.
        None if kind.terminating => {}
        None => {
            if !version.verbs.iter().any(|known| known == verb.name()) {
                return Err(ApiError::method_not_allowed());
            }
        }
    }
    if let Some(name @ ("." | "..")) = path.name.as_deref() {
        return Err(ApiError::bad_request(format!(
            "name parameter invalid: {name:?}: may not be '{name}'"
        )));
    }
    let facts = RequestFacts {
        verb,
        group: &path.group,
        resource: &path.plural,
        subresource: path.subresource.as_deref(),
        namespace: path.namespace.as_deref(),
        name: path.name.as_deref(),
        user: &user.username,
    };
    let verdict = cluster.faults.on_request(&facts);
    if !verdict.delay.is_zero() {
        tokio::time::sleep(verdict.delay).await;
    }
    match verdict.outcome {
        Outcome::Proceed => {}
        Outcome::Answer(refusal) => return Err(*refusal),
        Outcome::Break(fault) => {
            let mut response = Response::new(Body::empty());
            response.extensions_mut().insert(fault);
            return Ok(response);
        }
    }
    let of_a_list = matches!(verb, Verb::List | Verb::DeleteCollection);
    let accepted = negotiate(accept, of_a_list)
        .ok_or_else(|| ApiError::not_acceptable("application/json, application/yaml"))?;
    let mut call = Call::new(
        Arc::clone(kind),
        Arc::clone(&version.name),
        Target {
            namespace: path.namespace,
            name: path.name.unwrap_or_default(),
            subresource: path.subresource,
        },
        options,
        accepted,
        user,
    );
    call.is_patch = verb == Verb::Patch;
    if let Some(warning) = &version.deprecation_warning {
        call.warn(warning.clone());
    }
    let body = read(body).await?;
    let mut response = answer_call(cluster, &call, verb, &parts.headers, &body)
        .await
        .unwrap_or_else(|refusal| answer::error(&refusal));
    answer::warn(
        &mut response,
        &crate::admission::limited(&call.take_warnings()),
    );
    Ok(response)
}

/// Whether a path fits the scope of its kind.
fn check_scope(namespaced: bool, path: &ResourcePath) -> Result<()> {
    let fits = match (namespaced, &path.namespace, &path.name) {
        (false, Some(_), _) | (true, None, Some(_)) => false,
        (true, Some(_), _) | (true, None, None) | (false, None, _) => true,
    };
    if fits {
        Ok(())
    } else {
        Err(ApiError::no_such_path())
    }
}

/// How error messages call the options of a request.
fn options_kind(method: &Method) -> &'static str {
    match *method {
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => "DeleteOptions",
        _ => "ListOptions",
    }
}

fn verb(method: &Method, path: &ResourcePath, options: &Options) -> Result<Verb> {
    let named = path.name.is_some();
    Ok(match *method {
        Method::GET if options.watch && (!named || path.watch) => Verb::Watch,
        Method::GET if named => Verb::Get,
        Method::GET => Verb::List,
        Method::POST if !named || path.subresource.is_some() => Verb::Create,
        Method::PUT if named => Verb::Update,
        Method::PATCH if named => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => return Err(ApiError::method_not_allowed()),
    })
}

async fn read<B>(body: B) -> Result<Bytes>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    match Limited::new(body, MOST_BODY_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::too_large(
            format!("Request entity too large: limit is {MOST_BODY_BYTES}"),
        )),
        Err(error) => Err(ApiError::bad_request(format!(
            "the body can't be read: {error}"
        ))),
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Decodes the body of a create or update.
fn decoded(call: &Call, headers: &HeaderMap, body: &Bytes) -> Result<Decoded> {
    let api_version = call.api_version();
    let (api_version, kind) = match call.subresource.as_deref() {
        Some("scale") => ("autoscaling/v1", "Scale"),
        Some("binding") => ("v1", "Binding"),
        Some("eviction") => ("policy/v1", "Eviction"),
        Some("token") => ("authentication.k8s.io/v1", "TokenRequest"),
        // Custom resources have no form in protobuf.
        _ if call.kind.is_custom() => return read_as(None, headers, body),
        _ => (&*api_version, &*call.kind.kind),
    };
    read_as(Some(Expected { api_version, kind }), headers, body)
}

/// Decodes the body of a delete.
fn decoded_options(headers: &HeaderMap, body: &Bytes) -> Result<Decoded> {
    let (api_version, kind) = ("meta.k8s.io/v1", "DeleteOptions");
    read_as(Some(Expected { api_version, kind }), headers, body)
}

/// Decodes a body in the form that its headers tell.
fn read_as(protobuf: Option<Expected<'_>>, headers: &HeaderMap, body: &Bytes) -> Result<Decoded> {
    let content_type = content_type(headers);
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let decoded = match (media, protobuf) {
        ("" | "application/json", _) => decode::json(body),
        ("application/yaml", _) => decode::yaml(body),
        ("application/vnd.kubernetes.protobuf", Some(expected)) => {
            let value = protobuf::decode(body, expected).map_err(ApiError::bad_request)?;
            let complaints = Vec::new();
            return Ok(Decoded { value, complaints });
        }
        (other, protobuf) => {
            let also = protobuf.map_or("", |_| ", application/vnd.kubernetes.protobuf");
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml{also} (not {other:?})"
            )));
        }
    };
    decoded.map_err(|error| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized: couldn't be read: {error}"
        ))
    })
}

async fn answer_call(
    cluster: &Arc<Cluster>,
    call: &Call,
    verb: Verb,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>> {
    match call.subresource.as_deref() {
        None | Some("status") => {}
        Some("scale") => return scale(cluster, call, verb, headers, body).await,
        Some(other) => return action(cluster, call, other, verb, headers, body).await,
    }
    let (code, payload) = match verb {
        Verb::Get => (200, cluster.get(call)?),
        Verb::List => {
            let page = cluster.list(call)?;
            return Ok(answer::list(cluster, call, &page));
        }
        Verb::Watch => {
            let watcher = cluster.watch(call)?;
            let mut response = answer::json(200, Bytes::new());
            *response.body_mut() = Body::stream(watcher.into_stream());
            return Ok(response);
        }
        Verb::Create => {
            let decoded = decoded(call, headers, body)?;
            if reviews::is_review(&call.kind.group) {
                let mut object = decoded.value;
                crate::verbs::incoming::identify(call, &mut object, body)?;
                (201, cluster.review(call, object)?)
            } else if call.namespace.is_none() && call.kind.namespaced {
                return Err(ApiError::method_not_allowed());
            } else {
                (201, cluster.create(call, decoded, body).await?)
            }
        }
        Verb::Update => {
            cluster
                .update(call, decoded(call, headers, body)?, body)
                .await?
        }
        Verb::Patch => {
            let patch_type = PatchType::parse(content_type(headers), call.kind.is_custom())?;
            (200, cluster.patch(call, patch_type, body).await?)
        }
        Verb::Delete | Verb::DeleteCollection => {
            // Options in the body replace those of the query altogether.
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
    Ok(answer::object(cluster, call, code, payload))
}

async fn scale(
    cluster: &Arc<Cluster>,
    call: &Call,
    verb: Verb,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>> {
    let payload = match verb {
        Verb::Get => cluster.get_scale(call)?,
        Verb::Update => {
            let scale = decoded(call, headers, body)?.value;
            cluster.change_scale(call, |_| Ok(scale.clone())).await?
        }
        Verb::Patch => {
            let patch_type = PatchType::parse(content_type(headers), call.kind.is_custom())?;
            cluster.patch_scale(call, patch_type, body).await?
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(answer::object(cluster, call, 200, payload))
}

async fn action(
    cluster: &Arc<Cluster>,
    call: &Call,
    subresource: &str,
    verb: Verb,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>> {
    let (code, payload): (u16, Payload) = match (&*call.kind.plural, subresource, verb) {
        ("pods", "binding", Verb::Create) => (
            201,
            cluster
                .bind(call, &decoded(call, headers, body)?.value)
                .await?,
        ),
        ("pods", "eviction", Verb::Create) => (
            201,
            cluster
                .evict(call, &decoded(call, headers, body)?.value)
                .await?,
        ),
        ("namespaces", "finalize", Verb::Update) => (
            200,
            cluster
                .finalize_namespace(call, &decoded(call, headers, body)?.value)
                .await?,
        ),
        ("serviceaccounts", "token", Verb::Create) => (
            201,
            cluster.issue_token(call, &decoded(call, headers, body)?.value)?,
        ),
        _ => {
            return Err(ApiError::not_implemented(format!(
                "{}/{subresource} is not available on this server",
                call.kind.qualified_plural()
            )));
        }
    };
    Ok(answer::object(cluster, call, code, payload))
}
