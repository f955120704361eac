//! Requests of the test to the API, independent of the operator.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::objects::{KindRef, ObjectRef};
use super::refusal::Refusal;

/// A client for requests of the test. Failures other than rejected requests fail the test.
pub(super) struct Access {
    client: Client,
}

/// The path of a resource.
struct ResourcePath {
    /// `/api/v1` or `/apis/<group>/<version>`.
    root: String,
    plural: String,
    namespaced: bool,
}

impl ResourcePath {
    fn path(&self, namespace: Option<&str>, name: &str) -> String {
        let Self { root, plural, .. } = self;
        let namespace = namespace.unwrap_or("default");
        if self.namespaced {
            format!("{root}/namespaces/{namespace}/{plural}/{name}")
        } else {
            format!("{root}/{plural}/{name}")
        }
    }

    fn path_of(&self, object: &ObjectRef) -> String {
        self.path(object.namespace.as_deref(), &object.name)
    }
}

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(super) async fn apply(&self, object: Value) -> Result<Value, Refusal> {
        let reference = ObjectRef::from(&object);
        let resource_path = self.resource_path(&reference.kind).await;
        let path = resource_path.path_of(&reference);
        let collection = resource_path.path(reference.namespace.as_deref(), "");
        let collection = collection.trim_end_matches('/');
        if resource_path.namespaced {
            self.ensure_namespace(reference.namespace.as_deref()).await;
        }
        let (code, answer) = self
            .request(Method::POST, collection, "application/json", &object)
            .await;
        let made = match code {
            201 => answer,
            409 => self.merge(&path, &object).await?,
            code => return Err(Refusal::new(code, answer)),
        };
        if object["kind"] == "CustomResourceDefinition" {
            self.served(&made).await;
        }
        Ok(made)
    }

    pub(super) async fn get(&self, object: &ObjectRef) -> Value {
        let path = self.resource_path(&object.kind).await.path_of(object);
        match self.request(Method::GET, &path, "", &Value::Null).await {
            (200, object) => object,
            (404, _) => Value::Null,
            (code, answer) => panic!("cannot get {path}: {code}: {answer}"),
        }
    }

    pub(super) async fn list(&self, resource: &str) -> Vec<Value> {
        let resource_path = self.resource_path(&KindRef::named(resource)).await;
        let mut list = self
            .read(&format!("{}/{}", resource_path.root, resource_path.plural))
            .await;
        let api_version = list["apiVersion"].take();
        let kind = list["kind"].as_str().unwrap_or_default();
        let kind = json!(kind.strip_suffix("List").unwrap_or(kind));
        let mut items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for item in &mut items {
            item["apiVersion"] = api_version.clone();
            item["kind"] = kind.clone();
        }
        items
    }

    pub(super) async fn patch(
        &self,
        object: &ObjectRef,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Value, Refusal> {
        let mut path = self.resource_path(&object.kind).await.path_of(object);
        if let Some(subresource) = subresource {
            path = format!("{path}/{subresource}");
        }
        self.merge(&path, patch).await
    }

    pub(super) async fn delete(&self, object: &ObjectRef) -> Result<(), Refusal> {
        let path = self.resource_path(&object.kind).await.path_of(object);
        let (code, answer) = self.request(Method::DELETE, &path, "", &Value::Null).await;
        match code {
            200..300 => Ok(()),
            code => Err(Refusal::new(code, answer)),
        }
    }

    pub(super) async fn events(&self, object: &ObjectRef) -> Vec<Value> {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let mut list = self
            .read(&format!("/api/v1/namespaces/{namespace}/events"))
            .await;
        let mut events: Vec<Value> = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        events.retain(|event| event["involvedObject"]["name"] == *object.name);
        // The names are generated; resource versions give the order.
        events.sort_by_key(|event| {
            let version = event["metadata"]["resourceVersion"].as_str();
            version.and_then(|version| version.parse::<u64>().ok())
        });
        events
    }

    /// Waits until the resource of a CRD is served, which happens some time after its creation.
    async fn served(&self, definition: &Value) {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let path = format!(
            "/apis/{}/{}/{}",
            text(&spec["group"]),
            text(&spec["versions"][0]["name"]),
            text(&spec["names"]["plural"])
        );
        let since = Instant::now();
        while self.request(Method::GET, &path, "", &Value::Null).await.0 != 200 {
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "the resource of the CRD is not served: {definition}"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn ensure_namespace(&self, name: Option<&str>) {
        let Some(name) = name else { return };
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        });
        let (code, answer) = self
            .request(
                Method::POST,
                "/api/v1/namespaces",
                "application/json",
                &namespace,
            )
            .await;
        assert!(
            matches!(code, 201 | 409),
            "cannot create the namespace {name}: {code}: {answer}"
        );
    }

    /// Finds a resource by discovery.
    async fn resource_path(&self, kind: &KindRef) -> ResourcePath {
        match kind {
            KindRef::Kind { api_version, kind } => {
                let root = match api_version.split_once('/') {
                    Some(_) => format!("/apis/{api_version}"),
                    None => format!("/api/{api_version}"),
                };
                self.find(&root, |resource| resource["kind"] == **kind)
                    .await
            }
            KindRef::Named { name, group } => self.find_named(name, group.as_deref()).await,
        }
        .unwrap_or_else(|| panic!("the API has no such kind: {kind:?}; is its CRD installed?"))
    }

    async fn find_named(&self, name: &str, group: Option<&str>) -> Option<ResourcePath> {
        let mut roots = Vec::new();
        if group.is_none_or(str::is_empty) {
            roots.push("/api/v1".to_owned());
        }
        let groups = self.read("/apis").await;
        for found in groups["groups"].as_array().into_iter().flatten() {
            if group.is_none_or(|group| found["name"] == group)
                && let Some(version) = found["preferredVersion"]["groupVersion"].as_str()
            {
                roots.push(format!("/apis/{version}"));
            }
        }
        let called = |resource: &Value| {
            let kind = resource["kind"].as_str().unwrap_or_default();
            let mut short = resource["shortNames"].as_array().into_iter().flatten();
            resource["name"] == name
                || resource["singularName"] == name
                || kind.eq_ignore_ascii_case(name)
                || short.any(|short| short == name)
        };
        for root in roots {
            if let Some(resource_path) = self.find(&root, called).await {
                return Some(resource_path);
            }
        }
        None
    }

    async fn find(&self, root: &str, predicate: impl Fn(&Value) -> bool) -> Option<ResourcePath> {
        let (code, found) = self.request(Method::GET, root, "", &Value::Null).await;
        if code == 404 {
            return None;
        }
        let mut resources = found["resources"].as_array()?.iter();
        let resource = resources.find(|resource| {
            let name = resource["name"].as_str().unwrap_or_default();
            !name.contains('/') && predicate(resource)
        })?;
        Some(ResourcePath {
            root: root.to_owned(),
            plural: resource["name"].as_str()?.to_owned(),
            namespaced: resource["namespaced"] == true,
        })
    }

    async fn read(&self, path: &str) -> Value {
        let (code, answer) = self.request(Method::GET, path, "", &Value::Null).await;
        assert_eq!(code, 200, "cannot read {path}: {answer}");
        answer
    }

    async fn merge(&self, path: &str, patch: &Value) -> Result<Value, Refusal> {
        let content_type = "application/merge-patch+json";
        match self.request(Method::PATCH, path, content_type, patch).await {
            (200, object) => Ok(object),
            (code, answer) => Err(Refusal::new(code, answer)),
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        let bytes = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let mut request = Request::builder().method(method).uri(path);
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let request = request
            .body(Body::from(bytes))
            .unwrap_or_else(|error| panic!("{path}: not a valid path: {error}"));
        let response = self
            .client
            .send(request)
            .await
            .unwrap_or_else(|error| panic!("{path}: no response: {error}"));
        let (parts, body) = response.into_parts();
        let bytes = body
            .collect_bytes()
            .await
            .unwrap_or_else(|error| panic!("{path}: cannot read the response: {error}"));
        let answer = serde_json::from_slice(&bytes).unwrap_or_default();
        (parts.status.as_u16(), answer)
    }
}
