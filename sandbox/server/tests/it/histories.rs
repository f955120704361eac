//! Replay of random histories: the sandbox must respond like a real server.
//!
//! `tests/control-plane/histories.py` records them.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kopf_sandbox::{Sandbox, Service};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const OBJECTS: &str = "/apis/histories.example.com/v1/namespaces/histories/widgets";

async fn send(
    service: &Service,
    method: &str,
    path: &str,
    content_type: &str,
    body: String,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

/// Returns the part of a response that is equal on all servers; the recorder does the same.
fn essence(code: u16, answer: &Value) -> Value {
    if code >= 400 {
        let causes = answer.pointer("/details/causes").and_then(Value::as_array);
        let mut fields: Vec<&str> = causes
            .into_iter()
            .flatten()
            .map(|cause| cause["field"].as_str().unwrap_or_default())
            .collect();
        fields.sort_unstable();
        return json!({"code": code, "fields": fields});
    }
    let managers = answer.pointer("/metadata/managedFields").cloned();
    let mut managers = managers.unwrap_or_else(|| json!([]));
    let managers = managers.as_array_mut().unwrap();
    for entry in managers.iter_mut() {
        entry.as_object_mut().unwrap().remove("time");
    }
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    managers.sort_by_key(|entry| {
        (
            text(entry, "manager"),
            text(entry, "operation"),
            text(entry, "subresource"),
        )
    });
    json!({
        "code": code,
        "spec": answer.get("spec"),
        "status": answer.get("status"),
        "labels": answer.pointer("/metadata/labels"),
        "managers": managers,
    })
}

#[tokio::test]
async fn histories_match_a_real_server() {
    let recorded = include_str!("../../../schema/data/samples/histories.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let sandbox = Sandbox::builder().build().unwrap();
    let service = sandbox.service();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "histories"}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (path, object) in [
        ("/api/v1/namespaces", &namespace),
        (crds, &recorded["definition"]),
    ] {
        let body = object.to_string();
        let (code, answer) = send(&service, "POST", path, "application/json", body).await;
        assert_eq!(code, 201, "{answer}");
    }
    let mut steps = 0;
    for (index, history) in recorded["histories"].as_array().unwrap().iter().enumerate() {
        let mut current = String::new();
        for (number, step) in history.as_array().unwrap().iter().enumerate() {
            let text = |field: &str| step[field].as_str().unwrap();
            let path = format!("{OBJECTS}/h{index}{}?{}", text("sub"), text("query"));
            let body = step["body"].to_string().replace("$current", &current);
            let (code, answer) = send(&service, text("method"), &path, text("type"), body).await;
            if code < 400 {
                answer["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap()
                    .clone_into(&mut current);
            }
            let found = essence(code, &answer);
            assert_eq!(
                found, step["answer"],
                "step {number} of {index}: {step}\n{answer}"
            );
            steps += 1;
        }
    }
    assert!(steps >= 200, "only {steps} steps are recorded");
    sandbox.shutdown().await;
}
