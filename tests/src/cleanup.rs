//! Removal of a test's objects from a shared server.

use http::Method;
use serde_json::{Value, json};

use crate::server::{Connection, Rbac};
use crate::{ApiResponse, PatchType, RequestBuilder, Server};

/// Deletes objects from the control plane, the last one first, without waiting for their end.
///
/// Contained objects lose their finalizers: after a failed test, no operator removes them, and they
/// would block the deletion of their namespace or CRD.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn remove(paths: Vec<String>) {
    let connection = Connection::open(Server::ControlPlane, Rbac::Off).await;
    let client = &connection.client;
    for path in paths.iter().rev() {
        release(client, path).await;
        let response = send(client, Method::DELETE, path, None).await;
        assert!(
            matches!(response.code, 200 | 202 | 404 | 409),
            "cannot delete {path}: {}",
            response.text()
        );
    }
}

/// Removes the finalizers from the objects of a CRD, or from `ConfigMap`s of a namespace.
async fn release(client: &kube::Client, path: &str) {
    let owner = send(client, Method::GET, path, None).await.json;
    let spec = &owner["spec"];
    let (prefix, plural) = match owner["kind"].as_str() {
        Some("CustomResourceDefinition") => {
            let (group, version) = (text(&spec["group"]), text(&spec["versions"][0]["name"]));
            let plural = text(&spec["names"]["plural"]);
            (format!("/apis/{group}/{version}"), plural)
        }
        Some("Namespace") => (path.to_owned(), "configmaps"),
        _ => return,
    };
    let list = send(client, Method::GET, &format!("{prefix}/{plural}"), None).await;
    for object in list.json["items"].as_array().into_iter().flatten() {
        let metadata = &object["metadata"];
        if metadata["finalizers"].is_null() {
            continue;
        }
        let namespace = match metadata["namespace"].as_str() {
            Some(namespace) if prefix != path => format!("/namespaces/{namespace}"),
            _ => String::new(),
        };
        let path = format!("{prefix}{namespace}/{plural}/{}", text(&metadata["name"]));
        let none = json!({"metadata": {"finalizers": null}});
        send(client, Method::PATCH, &path, Some(none)).await;
    }
}

async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    patch: Option<Value>,
) -> ApiResponse {
    let request = RequestBuilder::new(client, method, path);
    let request = match patch {
        Some(patch) => request
            .header("content-type", PatchType::Merge.content_type())
            .body(patch.to_string()),
        None => request,
    };
    request.send().await
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
