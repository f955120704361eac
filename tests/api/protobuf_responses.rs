//! Responses in Kubernetes' protobuf form, for clients that accept nothing else.

use http::Method;
use kopf_tests::{Api, objects};
use serde_json::json;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn objects_and_lists_are_messages_in_an_envelope() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let map = objects::config_map("one", json!({"key": "some-value"}));
    api.create(&maps, &map).await.expect_code(201);
    for (path, kind) in [
        (format!("{maps}/one"), "ConfigMap"),
        (maps, "ConfigMapList"),
    ] {
        let request = api.request(Method::GET, &path).header("accept", PROTOBUF);
        let answer = request.send().await.expect_code(200);
        assert_eq!(answer.content_type(), PROTOBUF);
        assert!(answer.bytes.starts_with(b"k8s\0"), "{path}");
        for part in [kind, "some-value", "one"] {
            assert!(contains(&answer.bytes, part.as_bytes()), "{path}: {part}");
        }
    }
    api.finish().await;
}

#[tokio::test]
async fn failures_are_messages_as_well() {
    let api = Api::start().await;
    let request = api.request(Method::GET, &api.ns_path("configmaps/none"));
    let answer = request
        .header("accept", PROTOBUF)
        .send()
        .await
        .expect_code(404);
    assert!(contains(&answer.bytes, b"NotFound"));
    assert!(answer.bytes.starts_with(b"k8s\0"));
    api.finish().await;
}

#[tokio::test]
async fn custom_resources_have_no_protobuf_form() {
    let api = Api::start().await;
    let widgets = api.crd().create().await;
    let request = api
        .request(Method::GET, &widgets.path())
        .header("accept", PROTOBUF);
    request.send().await.expect_code(406);
    api.finish().await;
}
