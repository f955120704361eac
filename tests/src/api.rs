//! A test's own corner of an API server.

use std::sync::{Mutex, PoisonError};

use http::Method;
use serde_json::{Value, json};

use crate::{
    Answer, CrdBuilder, PatchType, RequestBuilder, Server, Watch,
    server::{Connection, Rbac},
    unique, with_query,
};

/// An API server together with a namespace and an API group that belong to one test alone.
///
/// Tests run concurrently on one control plane, so that a case must write only into its
/// namespace and group, and must not count on being alone in lists over all namespaces.
pub struct Api {
    server: Server,
    connection: Connection,
    suffix: String,
    namespace: String,
    leftovers: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("server", &self.server)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Api {
    /// Reaches the server that the environment asks for and creates the test's namespace there.
    pub async fn start() -> Self {
        Self::start_on(Server::from_env(), Rbac::Off).await
    }

    /// Starts with requests checked against roles and bindings, for cases about rights.
    pub async fn start_with_rbac() -> Self {
        Self::start_on(Server::from_env(), Rbac::On).await
    }

    /// The same through a socket with TLS, for cases about connections and credentials: the
    /// sandbox in process has neither.
    pub async fn start_over_tls() -> Self {
        Self::start_on(Server::from_env().over_tls(), Rbac::Off).await
    }

    async fn start_on(server: Server, rbac: Rbac) -> Self {
        let suffix = unique::suffix();
        let api = Self {
            server,
            connection: Connection::open(server, rbac).await,
            namespace: format!("test-{suffix}"),
            suffix,
            leftovers: Mutex::new(Vec::new()),
        };
        api.create_namespace(&api.namespace).await;
        api
    }

    /// Removes what the test left on a shared server, without waiting for its end.
    ///
    /// A test that fails never comes here; its leftovers have unique names and harm no one.
    pub async fn finish(self) {
        if self.server == Server::ControlPlane {
            let leftovers = std::mem::take(
                &mut *self
                    .leftovers
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
            for path in leftovers.iter().rev() {
                let answer = self.delete(path).await;
                assert!(
                    matches!(answer.code, 200 | 202 | 404 | 409),
                    "cannot delete {path}: {}",
                    answer.text()
                );
            }
        }
        self.connection.close().await;
    }

    /// Makes the server forget its history, at least of its very first version.
    ///
    /// More of it is not forgotten on a shared server, since other tests live in that history.
    pub async fn compact(&self) {
        self.connection.compact().await;
    }

    /// The server under test.
    pub fn server(&self) -> Server {
        self.server
    }

    /// The client that everything goes through, for cases about kube-rs itself.
    pub fn client(&self) -> &kube::Client {
        &self.connection.client
    }

    /// The sandbox behind it, for cases about its faults; none on a real control plane.
    pub fn sandbox(&self) -> Option<&kopf_sandbox::Sandbox> {
        self.connection.sandbox()
    }

    /// The file which leads other programs to the server, for as long as the test runs.
    ///
    /// Only for what [`start_over_tls`](Self::start_over_tls) gave.
    pub fn kubeconfig_path(&self) -> std::path::PathBuf {
        self.connection.kubeconfig_path()
    }

    /// The test's own namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The test's own API group, for its custom resources.
    pub fn group(&self) -> String {
        format!("g{}.example.com", self.suffix)
    }

    /// A name that no other test has, for objects outside of the test's namespace.
    pub fn unique(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.suffix)
    }

    /// The path of a core resource in the test's namespace: `configmaps` or `configmaps/name`.
    pub fn ns_path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// The path of a resource of another group in the test's namespace: `apps/v1`, `deployments`.
    pub fn group_path(&self, group_version: &str, rest: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{rest}", self.namespace)
    }

    /// Has the object at this path deleted when the test ends.
    pub fn delete_at_end(&self, path: impl Into<String>) {
        self.leftovers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path.into());
    }

    /// Creates one more namespace, which goes away when the test ends.
    pub async fn create_namespace(&self, name: &str) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        });
        self.create("/api/v1/namespaces", &namespace)
            .await
            .expect_code(201);
        self.delete_at_end(format!("/api/v1/namespaces/{name}"));
    }

    /// Begins a custom resource definition `widgets.<group>`.
    pub fn crd(&self) -> CrdBuilder<'_> {
        CrdBuilder::new(self)
    }

    /// Begins a request of any shape.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        RequestBuilder::new(&self.connection.client, method, path)
    }

    /// Begins a request that carries no credentials, over a connection of its own.
    ///
    /// Only for what [`start_over_tls`](Self::start_over_tls) gave.
    pub async fn request_as_nobody(&self, method: Method, path: &str) -> RequestBuilder {
        RequestBuilder::new(&self.connection.nobody().await, method, path)
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.request(Method::GET, path).send().await
    }

    /// Waits until the server's cache has the object as it is.
    ///
    /// A real server decides on writes by what its cache holds, and again if that was too old: a
    /// webhook then hears of a state that has passed.
    pub async fn cached(&self, path: &str) {
        let object = self.get(path).await.expect_code(200).json;
        let version = object["metadata"]["resourceVersion"]
            .as_str()
            .expect("objects have a resource version");
        let path = format!("{path}?resourceVersion={version}");
        self.get(&path).await.expect_code(200);
    }

    /// POST of JSON.
    pub async fn create(&self, path: &str, object: &Value) -> Answer {
        self.request(Method::POST, path).json(object).send().await
    }

    /// PUT of JSON.
    pub async fn put(&self, path: &str, object: &Value) -> Answer {
        self.request(Method::PUT, path).json(object).send().await
    }

    /// PATCH with the content type of the kind of patch.
    pub async fn patch(&self, path: &str, kind: PatchType, patch: &Value) -> Answer {
        self.request(Method::PATCH, path)
            .header("content-type", kind.content_type())
            .body(patch.to_string())
            .send()
            .await
    }

    /// PATCH as a merge patch, the kind that works for everything.
    pub async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.patch(path, PatchType::Merge, patch).await
    }

    /// DELETE without options.
    pub async fn delete(&self, path: &str) -> Answer {
        self.request(Method::DELETE, path).send().await
    }

    /// DELETE with a `DeleteOptions` body; its kind and version are filled in.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let (Some(body), Some(options)) = (body.as_object_mut(), options.as_object()) {
            body.extend(options.clone());
        }
        self.request(Method::DELETE, path).json(&body).send().await
    }

    /// GET with `watch=1` added.
    pub async fn watch(&self, path: &str) -> Watch {
        self.request(Method::GET, &with_query(path, &[("watch", "1")]))
            .watch()
            .await
    }
}
