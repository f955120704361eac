//! An API server with a namespace and an API group for one test.

use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::Method;
use serde_json::{Value, json};

use crate::{
    ApiResponse, CrdBuilder, PatchType, RequestBuilder, Server, Watch,
    cleanup::remove,
    server::{Connection, Rbac},
    unique, with_query,
};

/// An API server with a namespace and an API group that belong to one test.
///
/// Tests run concurrently on one control plane: a case must write only into its namespace and
/// group, and must expect objects of other cases in lists of all namespaces.
pub struct Api {
    server: Server,
    connection: Connection,
    suffix: String,
    namespace: String,
    leftovers: Mutex<Vec<String>>,
}

impl Drop for Api {
    /// Removes the objects of the test from a shared server, also after a failure.
    fn drop(&mut self) {
        if self.server != Server::ControlPlane {
            return;
        }
        let leftovers = std::mem::take(&mut *self.leftovers());
        // The runtime of the test cannot be used here.
        let removal = std::thread::spawn(move || remove(leftovers)).join();
        assert!(
            removal.is_ok() || std::thread::panicking(),
            "the objects of the test remain on the server"
        );
    }
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
    /// Connects to the server selected by the environment and creates the test's namespace.
    pub async fn start() -> Self {
        Self::start_on(Server::from_env(), Rbac::Off).await
    }

    /// Starts with RBAC enabled, for cases about rights.
    pub async fn start_with_rbac() -> Self {
        Self::start_on(Server::from_env(), Rbac::On).await
    }

    /// Starts with a TLS connection, for cases about connections and credentials.
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

    /// Compacts the history of the server, at least its first version.
    ///
    /// A shared server keeps later versions, which other tests use.
    pub async fn compact(&self) {
        self.connection.compact().await;
    }

    /// Returns the server under test.
    pub fn server(&self) -> Server {
        self.server
    }

    /// Returns the client, for cases about kube-rs itself.
    pub fn client(&self) -> &kube::Client {
        &self.connection.client
    }

    /// Returns the sandbox, for cases about its faults; `None` on a real control plane.
    pub fn sandbox(&self) -> Option<&kopf_sandbox::Sandbox> {
        self.connection.sandbox()
    }

    /// Returns a kubeconfig file for other programs. It exists for as long as the test runs.
    ///
    /// Requires [`start_over_tls`](Self::start_over_tls).
    pub fn kubeconfig_path(&self) -> std::path::PathBuf {
        self.connection.kubeconfig_path()
    }

    /// Returns the test's own namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the test's own API group, for custom resources.
    pub fn group(&self) -> String {
        format!("g{}.example.com", self.suffix)
    }

    /// Returns a unique name for objects outside of the test's namespace.
    pub fn unique(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.suffix)
    }

    /// Returns the path of a core resource in the test's namespace: `configmaps` or
    /// `configmaps/name`.
    pub fn ns_path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// Returns the path of a resource of another group in the test's namespace: `apps/v1`,
    /// `deployments`.
    pub fn group_path(&self, group_version: &str, rest: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{rest}", self.namespace)
    }

    /// Registers an object for deletion at the end of the test.
    pub fn delete_at_end(&self, path: impl Into<String>) {
        self.leftovers().push(path.into());
    }

    fn leftovers(&self) -> MutexGuard<'_, Vec<String>> {
        self.leftovers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates another namespace, which is deleted at the end of the test.
    pub async fn create_namespace(&self, name: &str) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        });
        self.create("/api/v1/namespaces", &namespace)
            .await
            .expect_code(201);
        self.delete_at_end(format!("/api/v1/namespaces/{name}"));
    }

    /// Returns a builder of the CRD `widgets.<group>`.
    pub fn crd(&self) -> CrdBuilder<'_> {
        CrdBuilder::new(self)
    }

    /// Returns a builder of a request.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        RequestBuilder::new(&self.connection.client, method, path)
    }

    /// Returns a builder of a request without credentials, over a new connection.
    ///
    /// Requires [`start_over_tls`](Self::start_over_tls).
    pub async fn request_without_credentials(&self, method: Method, path: &str) -> RequestBuilder {
        RequestBuilder::new(&self.connection.anonymous_client().await, method, path)
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> ApiResponse {
        self.request(Method::GET, path).send().await
    }

    /// Waits until the server's cache has the current version of the object.
    ///
    /// A real server processes writes based on its cache first, and repeats them if that was
    /// outdated: a webhook would then receive an outdated object.
    pub async fn cached(&self, path: &str) {
        let object = self.get(path).await.expect_code(200).json;
        let version = object["metadata"]["resourceVersion"]
            .as_str()
            .expect("objects have a resource version");
        let path = format!("{path}?resourceVersion={version}");
        self.get(&path).await.expect_code(200);
    }

    /// Sends a POST request with JSON.
    pub async fn create(&self, path: &str, object: &Value) -> ApiResponse {
        self.request(Method::POST, path).json(object).send().await
    }

    /// Sends a PUT request with JSON.
    pub async fn put(&self, path: &str, object: &Value) -> ApiResponse {
        self.request(Method::PUT, path).json(object).send().await
    }

    /// Sends a PATCH request with the content type of the patch.
    pub async fn patch(&self, path: &str, kind: PatchType, patch: &Value) -> ApiResponse {
        self.request(Method::PATCH, path)
            .header("content-type", kind.content_type())
            .body(patch.to_string())
            .send()
            .await
    }

    /// Sends a merge patch, which all kinds support.
    pub async fn merge(&self, path: &str, patch: &Value) -> ApiResponse {
        self.patch(path, PatchType::Merge, patch).await
    }

    /// Sends a DELETE request without options.
    pub async fn delete(&self, path: &str) -> ApiResponse {
        self.request(Method::DELETE, path).send().await
    }

    /// Sends a GET request. Fails the test unless the status is 200.
    #[track_caller]
    pub fn found(&self, path: &str) -> impl Future<Output = ApiResponse> {
        expect(200, self.get(path))
    }

    /// Sends a POST request with JSON. Fails the test unless the status is 201.
    #[track_caller]
    pub fn created(&self, path: &str, object: &Value) -> impl Future<Output = ApiResponse> {
        expect(201, self.create(path, object))
    }

    /// Sends a PUT request with JSON. Fails the test unless the status is 200.
    #[track_caller]
    pub fn replaced(&self, path: &str, object: &Value) -> impl Future<Output = ApiResponse> {
        expect(200, self.put(path, object))
    }

    /// Sends a PATCH request. Fails the test unless the status is 200.
    #[track_caller]
    pub fn patched(
        &self,
        path: &str,
        kind: PatchType,
        patch: &Value,
    ) -> impl Future<Output = ApiResponse> {
        expect(200, self.patch(path, kind, patch))
    }

    /// Sends a merge patch. Fails the test unless the status is 200.
    #[track_caller]
    pub fn merged(&self, path: &str, patch: &Value) -> impl Future<Output = ApiResponse> {
        expect(200, self.merge(path, patch))
    }

    /// Sends a DELETE request without options. Fails the test unless the status is 200.
    #[track_caller]
    pub fn deleted(&self, path: &str) -> impl Future<Output = ApiResponse> {
        expect(200, self.delete(path))
    }

    /// Sends a GET request with `watch=1`.
    pub async fn watch(&self, path: &str) -> Watch {
        self.request(Method::GET, &with_query(path, &[("watch", "1")]))
            .watch()
            .await
    }
}

/// Checks the status code of a response. Failures name the line of the test.
#[track_caller]
pub(crate) fn expect(
    code: u16,
    response: impl Future<Output = ApiResponse>,
) -> impl Future<Output = ApiResponse> {
    let caller = Location::caller();
    async move {
        let mut response = response.await;
        response.asked = format!("{caller}: {}", response.asked);
        response.expect_code(code)
    }
}
