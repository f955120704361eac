//! Robustness against arbitrary requests: every one gets a valid response, and a rejected write
//! changes nothing.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use kopf_sandbox::Sandbox;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rough::{self, Rough};
use crate::support::{
    Api, ApiResponse, CONFIG_MAPS, DEFINITIONS, config_map, definition, get, request,
};

const THINGS: &str = "/apis/test.dev/v1/namespaces/default/things";

/// All collections that a request could change.
const LISTS: [&str; 8] = [
    "/api/v1/configmaps",
    "/api/v1/pods",
    "/api/v1/secrets",
    "/api/v1/namespaces",
    "/api/v1/events",
    "/apis/apps/v1/deployments",
    "/apis/test.dev/v1/things",
    DEFINITIONS,
];

async fn filled() -> (Sandbox, Api) {
    let sandbox = Sandbox::builder().seed(1).build().unwrap();
    let api = Api::of(&sandbox);
    let things = definition("things", "Thing");
    api.create(DEFINITIONS, &things).await.expect(201);
    let one = config_map("one", "1");
    api.create(CONFIG_MAPS, &one).await.expect(201);
    let metadata = json!({ "name": "one", "labels": { "a": "b" } });
    let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
    let thing = json!({
        "apiVersion": "test.dev/v1", "kind": "Thing", "metadata": metadata, "spec": {},
    });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": metadata, "spec": spec },
        },
    });
    for (path, object) in [
        (THINGS, thing),
        ("/api/v1/namespaces/default/pods", pod),
        ("/apis/apps/v1/namespaces/default/deployments", deployment),
    ] {
        api.create(path, &object).await.expect(201);
    }
    (sandbox, api)
}

async fn state(api: &Api) -> Vec<(u16, Bytes)> {
    let mut all = Vec::new();
    for path in LISTS {
        let answer = api.get(path).await;
        all.push((answer.code, answer.bytes));
    }
    all
}

/// Returns `true` if a real server returns the same internal error.
fn is_known(status: &Value, what: &Rough) -> bool {
    let message = status["message"].as_str().unwrap_or_default();
    let is_strategic = what
        .headers
        .iter()
        .any(|(_, value)| value.starts_with(b"application/strategic-merge-patch+json"));
    match status["code"].as_u64() {
        Some(500) => {
            message == "resourceVersion should not be set on objects to be created"
                || (is_strategic && what.method == "PATCH")
        }
        Some(501) => status["reason"] == "NotImplemented",
        Some(504) => message.contains("Too large resource version"),
        _ => false,
    }
}

/// Checks the form of a response.
fn check(answer: &ApiResponse, what: &Rough) {
    let media = answer.headers.get("content-type");
    let media = media.map_or("", |value| value.to_str().unwrap());
    if media == "application/vnd.kubernetes.protobuf" {
        assert!(answer.bytes.starts_with(b"k8s\0"), "{what:?}");
        return;
    }
    if media == "application/vnd.kubernetes.protobuf;stream=watch" {
        return;
    }
    let text = String::from_utf8(answer.bytes.to_vec()).expect("text");
    if answer.code < 400 {
        if media == "application/json" {
            let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
            for value in values {
                assert!(value.is_ok(), "{what:?}: {text}");
            }
        }
        return;
    }
    if answer.code == 404 && media.starts_with("text/plain") {
        return;
    }
    assert_eq!(media, "application/json", "{what:?}: {text}");
    let status = answer.json();
    assert_eq!(status["kind"], "Status", "{what:?}: {text}");
    assert_eq!(status["code"], answer.code, "{what:?}: {text}");
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{what:?}: {text}"
    );
    assert!(
        answer.code < 500 || is_known(&status, what),
        "{what:?}: {text}"
    );
}

async fn survive(all: &[Rough]) {
    let (_sandbox, api) = filled().await;
    for rough in all {
        let Some(request) = rough.request() else {
            continue;
        };
        // Background work settles first.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let before = state(&api).await;
        let answer = api.send(request).await;
        check(&answer, rough);
        let reads = matches!(rough.method, "GET" | "HEAD" | "OPTIONS");
        // The query of a deletion with a body is ignored.
        let dry = rough.query.contains("dryRun=All") && rough.method != "DELETE";
        if reads || dry || answer.code >= 400 {
            assert!(before == state(&api).await, "{rough:?}: {}", answer.text());
        }
    }
}

fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_requests_get_valid_responses(
        requests in prop::collection::vec(rough::requests(), 1..10),
    ) {
        block_on(survive(&requests));
    }
}

/// Sends a body, asserts that nothing has changed, and returns the status code.
async fn refused(api: &Api, request: Request<Full<Bytes>>) -> u16 {
    let before = state(api).await;
    let answer = api.send(request).await;
    assert!(answer.code >= 400, "{}", answer.text());
    assert_eq!(answer.json()["kind"], "Status");
    assert!(before == state(api).await);
    answer.code
}

#[tokio::test]
async fn large_bodies_are_rejected() {
    let (_sandbox, api) = filled().await;
    let large = config_map("large", &"x".repeat(3 << 20)).to_string();
    let media = Some("application/json");
    let request = request(Method::POST, CONFIG_MAPS, media, large);
    assert_eq!(refused(&api, request).await, 413);
}

#[tokio::test]
async fn deep_and_malformed_bodies_are_rejected() {
    let (_sandbox, api) = filled().await;
    let one = format!("{CONFIG_MAPS}/one");
    for (method, path, media) in [
        (Method::POST, CONFIG_MAPS, "application/json"),
        (Method::POST, CONFIG_MAPS, "application/yaml"),
        (Method::PUT, &*one, "application/json"),
        (Method::PATCH, &*one, "application/merge-patch+json"),
        (Method::PATCH, &*one, "application/json-patch+json"),
        (
            Method::PATCH,
            &*one,
            "application/strategic-merge-patch+json",
        ),
    ] {
        for body in [
            "[".repeat(100_000),
            "{\"a\":".repeat(100_000),
            "{\"data\": 1e400}".to_owned(),
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"".to_owned(),
            "\u{feff}\u{0}".to_owned(),
        ] {
            let start: String = body.chars().take(30).collect();
            let request = request(method.clone(), path, Some(media), body);
            let code = refused(&api, request).await;
            assert_eq!(code, 400, "{method} {media} {start}");
        }
    }
}

#[tokio::test]
async fn duplicate_keys_are_reported() {
    let (_sandbox, api) = filled().await;
    let body = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\
                \"metadata\":{\"name\":\"x\",\"name\":\"y\"}}";
    let path = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let strict = request(Method::POST, &path, Some("application/json"), body);
    assert_eq!(refused(&api, strict).await, 400);
    let lenient = request(Method::POST, CONFIG_MAPS, Some("application/json"), body);
    let answer = api.send(lenient).await.expect(201);
    assert!(answer.headers.contains_key("warning"));
    assert_eq!(answer.json()["metadata"]["name"], "y");
}

#[tokio::test]
async fn truncated_body_is_rejected() {
    use futures::StreamExt as _;
    use http_body_util::{BodyExt as _, StreamBody};
    use tower::ServiceExt as _;

    let (sandbox, api) = filled().await;
    let before = state(&api).await;
    let frames = futures::stream::iter([
        Ok(http_body::Frame::data(Bytes::from_static(b"{\"kind\":"))),
        Err(std::io::Error::other("gone")),
    ]);
    let body = StreamBody::new(frames.boxed());
    let request = Request::post(CONFIG_MAPS).body(body).unwrap();
    let response = sandbox.service().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 400);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(status["kind"], "Status");
    assert!(before == state(&api).await);
    api.send(get(CONFIG_MAPS)).await.expect(200);
}
