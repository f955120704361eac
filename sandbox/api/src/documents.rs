//! Documents about the server: health, version, discovery, OpenAPI.

use http::{HeaderValue, Response, header, request::Parts};
use serde_json::{Value, json};

use crate::body::Body;
use crate::cluster::Cluster;
use crate::discovery;
use crate::health;
use crate::metrics;
use crate::openapi::{self, Reply};
use crate::request::path::Path;
use crate::respond;
use crate::status::{ApiError, Result};

/// Responds to a GET request of a path that does not belong to a resource.
pub fn respond(
    cluster: &Cluster,
    path: &Path,
    parts: &Parts,
    accept: Option<&str>,
) -> Result<Response<Body>> {
    let kinds = cluster.kinds();
    let document = match path {
        Path::Api | Path::Apis => {
            let form = discovery::Form::negotiate(accept)
                .ok_or_else(|| ApiError::not_acceptable("application/json"))?;
            let document = match (form, path) {
                (discovery::Form::Aggregated, Path::Api) => discovery::aggregated_api(&kinds),
                (discovery::Form::Aggregated, _) => discovery::aggregated_apis(&kinds),
                (discovery::Form::Legacy, Path::Api) => {
                    let host = parts
                        .headers
                        .get(header::HOST)
                        .and_then(|host| host.to_str().ok());
                    discovery::api_versions(&kinds, host.unwrap_or("localhost"))
                }
                (discovery::Form::Legacy, _) => discovery::api_group_list(&kinds),
            };
            return Ok(respond::typed(
                200,
                form.content_type(),
                format!("{document}\n"),
            ));
        }
        Path::Group(group) => discovery::api_group(&kinds, group),
        Path::GroupVersion { group, version } => {
            discovery::api_resource_list(&kinds, group, version)
        }
        Path::Other(path) => return other(cluster, path, parts, accept),
        Path::Resource(_) => None,
    };
    let document = document.ok_or_else(ApiError::no_such_path)?;
    Ok(respond::json(200, document.to_string()))
}

fn other(
    cluster: &Cluster,
    path: &str,
    parts: &Parts,
    accept: Option<&str>,
) -> Result<Response<Body>> {
    let path = path.trim_end_matches('/');
    if let Some(name) = path.strip_prefix("/openapi/v3/") {
        return openapi_document(cluster, name, parts);
    }
    let query = parts.uri.query().unwrap_or_default();
    if let Some(text) = health::text(path, query) {
        return Ok(respond::typed(200, "text/plain; charset=utf-8", text));
    }
    match path {
        "/metrics" => Ok(respond::typed(
            200,
            metrics::CONTENT_TYPE,
            metrics::all(cluster),
        )),
        "/metrics/slis" => Ok(respond::typed(
            200,
            metrics::CONTENT_TYPE,
            metrics::service_levels(),
        )),
        "/version" => Ok(respond::indented(&discovery::version())),
        "/openapi/v3" => Ok(respond::verbatim(
            openapi::index(&cluster.kinds()).to_string(),
        )),
        "/openapi/v2" if openapi::accepts_json(accept) => Ok(respond::verbatim(
            openapi::swagger(&cluster.kinds()).to_string(),
        )),
        "/openapi/v2" if openapi::gnostic::accepts_protobuf(accept) => {
            let document = openapi::gnostic::document(&cluster.kinds());
            Ok(respond::typed(
                200,
                openapi::gnostic::CONTENT_TYPE,
                document,
            ))
        }
        "/openapi/v2" => Err(ApiError::not_acceptable("application/json")),
        "" => Ok(respond::indented(&root(cluster))),
        _ => Ok(respond::typed(
            404,
            "text/plain; charset=utf-8",
            "404 page not found\n",
        )),
    }
}

/// Returns the document of `/`: all served paths.
fn root(cluster: &Cluster) -> Value {
    let kinds = cluster.kinds();
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in kinds.groups().filter(|group| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        for version in kinds.versions_of_group(group) {
            paths.push(format!("/apis/{group}/{version}"));
        }
    }
    for path in [
        "/healthz",
        "/livez",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ] {
        paths.push(path.to_owned());
    }
    paths.sort();
    json!({ "paths": paths })
}

fn openapi_document(cluster: &Cluster, name: &str, parts: &Parts) -> Result<Response<Body>> {
    let query = parts.uri.query().unwrap_or_default();
    let wanted = form_urlencoded::parse(query.as_bytes())
        .find_map(|(key, value)| (key == "hash").then(|| value.into_owned()));
    let known = parts
        .headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let mut response = match openapi::document(&cluster.kinds(), name, wanted.as_deref(), known) {
        Reply::NotFound => return Err(ApiError::no_such_path()),
        Reply::Moved { location } => {
            let mut response = respond::empty(301);
            set(&mut response, header::LOCATION, &location);
            return Ok(response);
        }
        Reply::NotModified { etag, immutable } => {
            let mut response = respond::empty(304);
            caching(&mut response, &etag, immutable);
            response
        }
        Reply::Document {
            body,
            etag,
            immutable,
        } => {
            let mut response = respond::verbatim(body);
            caching(&mut response, &etag, immutable);
            response
        }
    };
    set(&mut response, header::VARY, "Accept");
    Ok(response)
}

fn caching(response: &mut Response<Body>, etag: &str, immutable: bool) {
    set(response, header::ETAG, etag);
    if immutable {
        set(response, header::CACHE_CONTROL, "public, immutable");
    }
}

fn set(response: &mut Response<Body>, name: header::HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        response.headers_mut().insert(name, value);
    }
}
