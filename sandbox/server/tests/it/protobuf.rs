//! Request bodies in protobuf.

use bytes::Bytes;
use http_body_util::Full;
use kopf_sandbox::Sandbox;
use serde_json::json;
use tower::ServiceExt as _;

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// Encodes a field of a message: a string, or another message.
fn field(number: usize, content: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2), &varint(content.len()), content].concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [&b"k8s\0"[..], &field(1, &meta), &field(2, raw)].concat()
}

/// Returns the status of the response.
async fn status(sandbox: &Sandbox, method: &str, path: &str, kind: &str, body: Vec<u8>) -> u16 {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", kind);
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = sandbox.service().oneshot(request).await.unwrap();
    response.status().as_u16()
}

#[tokio::test]
async fn only_custom_resources_are_rejected_in_protobuf() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let sandbox = Sandbox::builder().build().unwrap();
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let raw = field(1, &field(1, b"a"));
    let sent = body("v1", "ConfigMap", &raw);
    let create = |path, body| status(&sandbox, "POST", path, PROTOBUF, body);
    assert_eq!(create(config_maps, sent.clone()).await, 201);
    assert_eq!(create(config_maps, sent.clone()).await, 409);
    assert_eq!(create(config_maps, b"k8s\0\x0a".to_vec()).await, 400);
    let options = body("v1", "DeleteOptions", b"");
    let path = format!("{config_maps}/a");
    assert_eq!(
        status(&sandbox, "DELETE", &path, PROTOBUF, options.clone()).await,
        200
    );

    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let json = "application/json";
    let definition = definition.to_string().into_bytes();
    assert_eq!(
        status(&sandbox, "POST", definitions, json, definition).await,
        201
    );
    let things = "/apis/example.com/v1/things";
    assert_eq!(
        create(things, body("example.com/v1", "Thing", &raw)).await,
        415
    );
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    let thing = thing.to_string().into_bytes();
    assert_eq!(status(&sandbox, "POST", things, json, thing).await, 201);
    assert_eq!(
        status(
            &sandbox,
            "DELETE",
            "/apis/example.com/v1/things/a",
            PROTOBUF,
            options
        )
        .await,
        200
    );
    sandbox.shutdown().await;
}
