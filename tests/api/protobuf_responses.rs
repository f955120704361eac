//! Responses in protobuf, for clients that accept no other form.

use http::Method;
use kopf_tests::{Api, objects};
use serde_json::json;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn objects_and_lists_are_encoded_in_an_envelope() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let map = objects::config_map("one", json!({"key": "some-value"}));
    api.created(&maps, &map).await;
    for (path, kind) in [
        (format!("{maps}/one"), "ConfigMap"),
        (maps, "ConfigMapList"),
    ] {
        let request = api.request(Method::GET, &path).header("accept", PROTOBUF);
        let response = request.send().await.expect_code(200);
        assert_eq!(response.content_type(), PROTOBUF);
        assert!(response.bytes.starts_with(b"k8s\0"), "{path}");
        for part in [kind, "some-value", "one"] {
            assert!(contains(&response.bytes, part.as_bytes()), "{path}: {part}");
        }
    }
}

#[tokio::test]
async fn errors_are_encoded_as_messages() {
    let api = Api::start().await;
    let request = api.request(Method::GET, &api.ns_path("configmaps/none"));
    let response = request
        .header("accept", PROTOBUF)
        .send()
        .await
        .expect_code(404);
    assert!(contains(&response.bytes, b"NotFound"));
    assert!(response.bytes.starts_with(b"k8s\0"));
}

#[tokio::test]
async fn custom_resources_have_no_protobuf_form() {
    let api = Api::start().await;
    let widgets = api.crd().create().await;
    let request = api
        .request(Method::GET, &widgets.path())
        .header("accept", PROTOBUF);
    request.send().await.expect_code(406);
}
