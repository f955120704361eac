//! The user of a scenario: a client in this process.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use kopf_sandbox::Service;
use kopf_sandbox::manifests::segment;
use serde_json::{Value, json};
use tower::Service as _;

use crate::scenario::Target;

/// The field manager of applied objects.
const MANAGER: &str = "kopf-explore";

/// A rejected request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} {message}")]
pub struct Rejection {
    /// The HTTP status; 0 if there is no response.
    pub code: u16,
    /// The message of the server.
    pub message: String,
}

/// A client without a socket, with all rights.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    service: Service,
}

/// The path of a kind.
#[derive(Debug, Clone)]
struct Resource {
    plural: String,
    is_namespaced: bool,
}

impl Client {
    pub(crate) fn new(service: Service) -> Self {
        Self { service }
    }

    /// Creates or changes an object by a server-side apply.
    pub(crate) async fn apply(&self, object: &Value, is_dry: bool) -> Result<Value, Rejection> {
        let target = Target::of(object).ok_or_else(|| unexpected("not an object"))?;
        let dry = if is_dry { "&dryRun=All" } else { "" };
        let path = self.path(&target).await?;
        let path = format!("{path}?fieldManager={MANAGER}&force=true{dry}");
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", object)
            .await
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn merge(
        &self,
        target: &Target,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Value, Rejection> {
        let mut path = self.path(target).await?;
        if let Some(name) = subresource {
            path = format!("{path}/{}", segment(name));
        }
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch)
            .await
    }

    pub(crate) async fn delete(&self, target: &Target) -> Result<Value, Rejection> {
        let path = self.path(target).await?;
        self.delete_at(&path).await
    }

    pub(crate) async fn delete_at(&self, path: &str) -> Result<Value, Rejection> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        });
        self.send(Method::DELETE, path, "application/json", &options)
            .await
    }

    pub(crate) async fn merge_at(&self, path: &str, patch: &Value) -> Result<Value, Rejection> {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch)
            .await
    }

    pub(crate) async fn create_at(&self, path: &str, object: &Value) -> Result<Value, Rejection> {
        self.send(Method::POST, path, "application/json", object)
            .await
    }

    /// Returns `true` if an object exists.
    pub(crate) async fn exists(&self, target: &Target) -> bool {
        match self.path(target).await {
            Ok(path) => self.get(&path).await.is_ok(),
            Err(_) => false,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Rejection> {
        self.send(Method::GET, path, "", &Value::Null).await
    }

    /// Creates a namespace, unless it exists.
    pub(crate) async fn ensure_namespace(&self, name: &str) -> Result<(), Rejection> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        });
        let created = self.send(
            Method::POST,
            "/api/v1/namespaces",
            "application/json",
            &namespace,
        );
        match created.await {
            Err(rejection) if rejection.code != 409 => Err(rejection),
            _ => Ok(()),
        }
    }

    /// Returns the schema of a custom kind.
    pub(crate) async fn schema(&self, target: &Target) -> Option<Value> {
        let (group, version) = target.api_version.split_once('/')?;
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let list = self.get(crds).await.ok()?;
        let crd = list.get("items")?.as_array()?.iter().find(|crd| {
            let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str);
            text("/spec/group") == Some(group)
                && text("/spec/names/kind") == Some(target.kind.as_str())
        })?;
        let versions = crd.pointer("/spec/versions")?.as_array()?;
        let named = |value: &&Value| value.get("name").and_then(Value::as_str) == Some(version);
        let version = versions.iter().find(named)?;
        version.pointer("/schema/openAPIV3Schema").cloned()
    }

    /// Returns the path of an object, by the discovery of the server.
    async fn path(&self, target: &Target) -> Result<String, Rejection> {
        let base = match target.api_version.split_once('/') {
            Some((group, version)) => format!("/apis/{}/{}", segment(group), segment(version)),
            None => format!("/api/{}", segment(&target.api_version)),
        };
        let list = self.get(&base).await;
        let unknown = || {
            unexpected(&format!(
                "unknown kind {} in {}: is its CRD among the manifests (-f)?",
                target.kind, target.api_version
            ))
        };
        let list = list.map_err(|rejection| match rejection.code {
            404 => unknown(),
            _ => rejection,
        })?;
        let resource = find_kind(&list, &target.kind).ok_or_else(unknown)?;
        let (plural, name) = (resource.plural, segment(&target.name));
        Ok(if resource.is_namespaced {
            let namespace = target.namespace.as_deref().unwrap_or("default");
            format!("{base}/namespaces/{}/{plural}/{name}", segment(namespace))
        } else {
            format!("{base}/{plural}/{name}")
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, Rejection> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::USER_AGENT, "kopf-explore")
            .header(header::ACCEPT, "application/json");
        let mut bytes = Bytes::new();
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
            bytes = Bytes::from(body.to_string());
        }
        let request = request
            .body(Full::new(bytes))
            .map_err(|error| unexpected(&format!("invalid path {path:?}: {error}")))?;
        // A sandbox is always ready, so `poll_ready` is not needed.
        let response = self.service.clone().call(request).await;
        let response = response.map_err(|error| unexpected(&error.to_string()))?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| unexpected(&error.to_string()))?;
        let value: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        let message = value.get("message").and_then(Value::as_str);
        Err(Rejection {
            code: status.as_u16(),
            message: message.unwrap_or_default().to_owned(),
        })
    }
}

fn find_kind(list: &Value, kind: &str) -> Option<Resource> {
    let resources = list.get("resources")?.as_array()?;
    resources.iter().find_map(|resource| {
        let plural = resource.get("name")?.as_str()?;
        let is_kind = resource.get("kind")?.as_str()? == kind && !plural.contains('/');
        is_kind.then(|| Resource {
            plural: plural.to_owned(),
            is_namespaced: resource
                .get("namespaced")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
        })
    })
}

fn unexpected(message: &str) -> Rejection {
    Rejection {
        code: 0,
        message: message.to_owned(),
    }
}
