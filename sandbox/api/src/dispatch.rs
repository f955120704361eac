//! Dispatch of requests: authentication, authorization, parsing of the path, and the call of a
//! verb.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, header, request::Parts};
use http_body_util::Full;
use kopf_sandbox_schema::duration;
use kopf_sandbox_schema::kind::{Kind, KindVersion};
use kopf_sandbox_schema::rights::UserInfo;
use kopf_sandbox_schema::rights::{Access, Action};
use kopf_sandbox_schema::selectors::FieldSelector;

use crate::access;
use crate::access::PeerCertificate;
use crate::body::{Body, BodyError};
use crate::call::{Call, Target};
use crate::cluster::Cluster;
use crate::control;
use crate::fault::{ConnectionFault, Outcome, RequestFacts, Verb};
use crate::request::accept::{
    Accepted, Encoding, Form, negotiate, negotiate_protobuf, prefers_protobuf_metadata,
};
use crate::request::body::{self, user_agent};
use crate::request::options::Options;
use crate::request::path::{self, Path, ResourcePath};
use crate::respond::{self, Layout};
use crate::status::{ApiError, Result};
use crate::tap::{self, Decision, Reply, Sender, TapRequest, TapResponse, Tapped, Told};
use crate::verbs::containers::ContainerPart;
use crate::verbs::perform::perform;
use crate::verbs::reviews::is_review;
use crate::view::{CacheReader, Lag};

/// The way on which a request arrives.
#[derive(Debug, Clone)]
pub struct Entrance {
    /// The name of the endpoint.
    pub endpoint: Arc<str>,
    /// Requests without credentials are those of the administrator.
    pub in_process: bool,
}

/// Responds to any request. Errors become responses.
pub async fn handle<B>(
    cluster: &Arc<Cluster>,
    request: Request<B>,
    entrance: &Entrance,
) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    if cluster.stopping.is_cancelled() {
        return respond::error(&ApiError::unavailable("the sandbox has ended"));
    }
    let (parts, body) = request.into_parts();
    let layout = Layout::of(&parts, &cluster.ids);
    let response = match identify(cluster, &parts, entrance.in_process) {
        Ok(user) => dispatch(cluster, &parts, body, user, &entrance.endpoint).await,
        Err(rejection) => Err(rejection),
    };
    layout.apply(response.unwrap_or_else(|rejection| respond::error(&rejection)))
}

fn identify(cluster: &Cluster, parts: &Parts, in_process: bool) -> Result<UserInfo> {
    let peer = parts.extensions.get::<PeerCertificate>();
    let is_allowed = |sender: &UserInfo, access: Access<'_>| {
        cluster.rbac && cluster.allows(sender, Action::Resource(access)).is_some()
    };
    if in_process && !parts.headers.contains_key(header::AUTHORIZATION) {
        return access::Access::acting(&parts.headers, UserInfo::administrator(), &is_allowed);
    }
    let now = cluster.clock.now();
    cluster
        .access
        .identify(&parts.headers, peer, now, &is_allowed)
}

async fn dispatch<B>(
    cluster: &Arc<Cluster>,
    parts: &Parts,
    body: B,
    user: UserInfo,
    endpoint: &Arc<str>,
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
            "invalid percent-encoding in the path",
        ));
    }
    let path = path::parse(parts.uri.path()).ok_or_else(ApiError::no_such_path)?;
    match path {
        Path::Resource(resource) => {
            let arrival = Arrival {
                parts,
                user,
                endpoint,
                accept,
            };
            match &cluster.tap {
                None => resource_request(cluster, arrival, body, resource).await,
                Some(tapped) => tapped_request(cluster, tapped, arrival, body, resource).await,
            }
        }
        other => {
            let verb = parts.method.as_str().to_ascii_lowercase();
            let path = parts.uri.path();
            cluster.authorize(&user, Action::Url { verb: &verb, path })?;
            check_timeout(parts.uri.query().unwrap_or_default())?;
            if path.starts_with(control::PREFIX) {
                let body = body::read(body).await?;
                return control::respond(cluster, parts, &body);
            }
            if parts.method != Method::GET {
                return Err(ApiError::method_not_allowed());
            }
            crate::documents::respond(cluster, &other, parts, accept)
        }
    }
}

/// A request with its sender.
struct Arrival<'a> {
    parts: &'a Parts,
    user: UserInfo,
    endpoint: &'a Arc<str>,
    accept: Option<&'a str>,
}

/// Carries out a request to a resource as the tap decides.
async fn tapped_request<B>(
    cluster: &Arc<Cluster>,
    tapped: &Tapped,
    arrival: Arrival<'_>,
    body: B,
    path: ResourcePath,
) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    let parts = arrival.parts;
    let Ok(verb) = requested_verb(parts, &path) else {
        return resource_request(cluster, arrival, body, path).await; // its error is returned there
    };
    let body = body::read(body).await?;
    let sender = Sender {
        number: tapped.next_number(),
        endpoint: Arc::clone(arrival.endpoint),
        user: &arrival.user,
    };
    let kinds = cluster.kinds();
    let kind = kinds.by_plural(&path.group, &path.plural);
    let kind = kind.map(|kind| kind.kind.to_string());
    let request = TapRequest::new(sender, verb, &path, kind, parts, body.clone());
    let request = Arc::new(request);
    let ended = || ApiError::unavailable("the sandbox has ended");
    let stopping = &cluster.stopping;
    let decision = stopping.run_until_cancelled(tapped.tap().on_request(&request));
    match decision.await.ok_or_else(ended)? {
        Decision::Proceed => {}
        Decision::Reject(rejection) => return Err(rejection.error(&request)),
        Decision::Break => return Ok(broken(ConnectionFault::Reset)),
    }
    let work = resource_request(cluster, arrival, Full::new(body), path);
    let outcome = Box::pin(tap::within(Arc::clone(&request), work)).await;
    let response = match &outcome {
        Ok(response) if ConnectionFault::of(response).is_some() => return outcome,
        Ok(response) => {
            let told = response.extensions().get::<Told>().cloned();
            TapResponse::new(response.status().as_u16(), told)
        }
        Err(error) => {
            let status = Told::Document(error.body().to_string().into());
            TapResponse::new(error.code(), Some(status))
        }
    };
    let reply = stopping.run_until_cancelled(tapped.tap().on_response(&request, &response));
    match reply.await.ok_or_else(ended)? {
        Reply::Send => outcome,
        Reply::Break => Ok(broken(ConnectionFault::Reset)),
    }
}

/// Returns the verb of a well-formed request.
fn requested_verb(parts: &Parts, path: &ResourcePath) -> Result<Verb> {
    let query = parts.uri.query().unwrap_or_default();
    let mut options = Options::parse(query, options_kind(&parts.method))?;
    options.watch |= path.watch;
    verb(&parts.method, path, &options)
}

/// Returns a response that breaks the connection instead of being sent.
fn broken(fault: ConnectionFault) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(fault);
    response
}

async fn resource_request<B>(
    cluster: &Arc<Cluster>,
    arrival: Arrival<'_>,
    body: B,
    path: ResourcePath,
) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    let Arrival {
        parts,
        user,
        endpoint,
        accept,
    } = arrival;
    let kinds = cluster.kinds();
    let kind = kinds.by_plural(&path.group, &path.plural);
    let kind = kind.ok_or_else(ApiError::no_such_path)?;
    let version = kind.version(&path.version);
    let version = version.ok_or_else(ApiError::no_such_path)?;
    check_scope(kind.namespaced, &path)?;
    let query = parts.uri.query().unwrap_or_default();
    let mut options = Options::parse(query, options_kind(&parts.method))?;
    options.watch |= path.watch;
    options.shard_selector = options.shard_selector.filter(|_| cluster.shards);
    let verb = verb(&parts.method, &path, &options)?;
    let selected = selected_name(verb, &options);
    authorize(cluster, &user, verb, &path, selected.as_deref())?;
    let part = ContainerPart::of(cluster, kind, &path);
    match part {
        // As a real server since 1.35, whatever the method of the request.
        Some(ContainerPart::Exec) if verb != Verb::Create => {
            authorize_exec(cluster, &user, &path)?;
        }
        Some(_) => {}
        None => check_verb(kind, version, verb, &path)?,
    }
    let lag = match struck_by_fault(cluster, verb, &path, &user).await? {
        Struck::Broken(fault) => return Ok(broken(fault)),
        Struck::Lagging(lag) => lag,
    };
    if let Some(part) = part {
        return part.respond(cluster, kind, &path, parts);
    }
    let of_a_list = matches!(verb, Verb::List | Verb::DeleteCollection);
    let accepted = accepted(kind, accept, of_a_list)?;
    let target = Target {
        namespace: path.namespace,
        name: path.name.unwrap_or_default(),
        subresource: path.subresource,
    };
    let name = Arc::clone(&version.name);
    let reader = CacheReader {
        user: user.username.clone(),
        endpoint: Arc::clone(endpoint),
        lag,
    };
    let mut call = Call::new(Arc::clone(kind), name, target, options, accepted, user);
    (call.reader, call.is_patch) = (reader, verb == Verb::Patch);
    call.agent = user_agent(&parts.headers);
    if let Some(warning) = &version.deprecation_warning {
        call.warn(warning.clone());
    }
    let body = body::read(body).await?;
    let performed = perform(cluster, &call, verb, &parts.headers, &body).await;
    let response = performed.unwrap_or_else(|rejection| rejected(cluster, &rejection));
    finished(cluster, &call, verb, response).await
}

/// Returns the response of a rejected request. A tap receives its `Status`.
fn rejected(cluster: &Cluster, rejection: &ApiError) -> Response<Body> {
    let mut response = respond::error(rejection);
    if cluster.tap.is_some() {
        let status = Told::Document(rejection.body().to_string().into());
        response.extensions_mut().insert(status);
    }
    response
}

/// Checks the right of a user to the resource of a request. `selected` is the name in a selector.
fn authorize(
    cluster: &Cluster,
    user: &UserInfo,
    verb: Verb,
    path: &ResourcePath,
    selected: Option<&str>,
) -> Result<()> {
    let access = Access {
        verb: verb.name(),
        group: &path.group,
        resource: &path.plural,
        subresource: path.subresource.as_deref().unwrap_or_default(),
        namespace: path.namespace.as_deref(),
        name: path.name.as_deref().or(selected).unwrap_or_default(),
    };
    cluster.authorize(user, Action::Resource(access))
}

/// The effect of faults on a request that is not rejected.
enum Struck {
    Broken(ConnectionFault),
    /// It is carried out, for a read with the lag of a cache.
    Lagging(Option<Lag>),
}

/// Injects faults. Returns the error of a rejection.
async fn struck_by_fault(
    cluster: &Cluster,
    verb: Verb,
    path: &ResourcePath,
    user: &UserInfo,
) -> Result<Struck> {
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
        Outcome::Proceed => Ok(Struck::Lagging(verdict.lag)),
        Outcome::Reject(rejection) => Err(*rejection),
        Outcome::Break(fault) => Ok(Struck::Broken(fault)),
    }
}

/// Converts the response to the accepted encoding, waits until the changes that it reveals are
/// durable, and adds the warnings.
async fn finished(
    cluster: &Cluster,
    call: &Call,
    verb: Verb,
    mut response: Response<Body>,
) -> Result<Response<Body>> {
    if call.accepted.encoding == Encoding::Protobuf {
        response = match verb {
            Verb::Watch if response.status().is_success() => {
                respond::protobuf::convert_watch(response)
            }
            _ => respond::protobuf::convert(response).await,
        };
    }
    // A response must not reveal changes that a crash could revert, neither own nor read ones.
    if let Err(why) = cluster.store.durable().await {
        return Err(ApiError::internal(why.to_string()));
    }
    respond::warn(
        &mut response,
        &crate::admission::limited(&call.take_warnings()),
    );
    Ok(response)
}

/// Requires the right to create executions, not only to get them.
fn authorize_exec(cluster: &Cluster, user: &UserInfo, path: &ResourcePath) -> Result<()> {
    cluster.authorize(
        user,
        Action::Resource(Access {
            verb: "create",
            group: &path.group,
            resource: &path.plural,
            subresource: path.subresource.as_deref().unwrap_or_default(),
            namespace: path.namespace.as_deref(),
            name: path.name.as_deref().unwrap_or_default(),
        }),
    )?;
    Ok(())
}

/// Rejects a malformed `timeout` parameter.
fn check_timeout(query: &str) -> Result<()> {
    let timeout = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "timeout");
    match timeout {
        Some((_, value)) if !value.is_empty() => {
            duration::check_timeout(&value).map_err(ApiError::bad_request)
        }
        _ => Ok(()),
    }
}

/// Negotiates the form of the response.
fn accepted(kind: &Kind, accept: Option<&str>, of_a_list: bool) -> Result<Accepted> {
    const ALL: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    if let Some(preferred) = prefers_protobuf_metadata(accept, of_a_list) {
        return Ok(preferred); // applies to custom resources as well: only metadata is written
    }
    let (found, offered) = if kind.is_custom() {
        // Custom resources have no protobuf messages.
        let found = negotiate(accept, of_a_list);
        (found, "application/json, application/yaml")
    } else {
        let found = negotiate(accept, of_a_list);
        (found.or_else(|| negotiate_protobuf(accept, of_a_list)), ALL)
    };
    match found {
        Some(accepted) if accepted.form == Form::Table && is_review(&kind.group) => {
            Err(ApiError::not_acceptable(ALL)) // reviews have no table columns
        }
        Some(accepted) => Ok(accepted),
        None => Err(ApiError::not_acceptable(offered)),
    }
}

/// Checks that a path fits the scope of its kind.
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

/// Returns the name that a list or watch is limited to by its field selector. Rules with
/// `resourceNames` apply to it.
fn selected_name(verb: Verb, options: &Options) -> Option<String> {
    if !matches!(verb, Verb::List | Verb::Watch) {
        return None;
    }
    let selector = FieldSelector::parse(options.field_selector.as_deref()?).ok()?;
    let name = selector.exact("metadata.name")?;
    let is_segment = !matches!(name, "" | "." | "..") && !name.contains(['/', '%']);
    is_segment.then(|| name.to_owned())
}

/// Rejects a verb that the kind, its subresource or the path does not support.
fn check_verb(kind: &Kind, version: &KindVersion, verb: Verb, path: &ResourcePath) -> Result<()> {
    let known = |verbs: &[String]| verbs.iter().any(|known| known == verb.name());
    let is_supported = match &path.subresource {
        Some(name) => {
            let subresource = version.subresource(name);
            known(&subresource.ok_or_else(|| no_subresource(kind, name))?.verbs)
        }
        // Discovery lists fewer verbs for a terminating CRD than are served.
        None => kind.terminating || known(&version.verbs),
    };
    // Only lists and watches can be about all namespaces.
    let needs_namespace =
        kind.namespaced && path.namespace.is_none() && !matches!(verb, Verb::List | Verb::Watch);
    if needs_namespace && kind.is_custom() {
        return Err(ApiError::no_such_path());
    }
    if !is_supported || needs_namespace {
        return Err(ApiError::method_not_allowed());
    }
    match path.name.as_deref() {
        Some(name @ ("." | "..")) => Err(ApiError::bad_request(format!(
            "name parameter invalid: {name:?}: may not be '{name}'"
        ))),
        _ => Ok(()),
    }
}

/// Returns the error of a subresource that the kind or the path does not have.
fn no_subresource(kind: &Kind, name: &str) -> ApiError {
    let needs_node = match (&*kind.group, &*kind.plural) {
        ("", "pods") => matches!(name, "log" | "exec" | "attach" | "portforward" | "proxy"),
        ("", "nodes" | "services") => name == "proxy",
        _ => false,
    };
    if !needs_node {
        return ApiError::no_such_path();
    }
    let plural = &kind.plural;
    ApiError::not_implemented(format!(
        "{plural}/{name} requires a kubelet, and a sandbox has none"
    ))
}

/// Returns the kind of the request options, for error messages.
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
