//! Lists that are too long for one part.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use kopf_sandbox::{Listen, Sandbox};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::tls::Kubeconfig;
use crate::support::{Api, ApiResponse, CONFIG_MAPS, config_map, request};

const COUNT: usize = 600;
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn filled() -> (Sandbox, Api) {
    let sandbox = Sandbox::builder().seed(1).starting_at(0).build().unwrap();
    let api = Api::of(&sandbox);
    for number in 0..COUNT {
        let mut object = config_map(&format!("m{number:04}"), &"x".repeat(700));
        object["metadata"]["labels"] = json!({ "even": (number % 2 == 0).to_string() });
        api.create(CONFIG_MAPS, &object).await.expect(201);
    }
    (sandbox, api)
}

fn accepting(path: &str, accept: &str) -> Request<Full<bytes::Bytes>> {
    let mut request = request(Method::GET, path, None, "");
    request
        .headers_mut()
        .insert("accept", accept.parse().unwrap());
    request
}

async fn list(api: &Api, query: &str, accept: &str) -> ApiResponse {
    let path = format!("{CONFIG_MAPS}?{query}");
    api.send(accepting(&path, accept)).await.expect(200)
}

#[tokio::test(start_paused = true)]
async fn long_lists_have_the_content_of_their_pages() {
    let (_sandbox, api) = filled().await;
    for (accept, field) in [
        ("application/json", "items"),
        (TABLE, "rows"),
        (METADATA, "items"),
    ] {
        let whole = list(&api, "", accept).await.json();
        let mut pages: Vec<Value> = Vec::new();
        let mut token = String::new();
        loop {
            let page = list(&api, &format!("limit=20&continue={token}"), accept).await;
            let page = page.json();
            pages.extend(page[field].as_array().unwrap().iter().cloned());
            match page["metadata"]["continue"].as_str() {
                Some(next) => token = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(pages.len(), COUNT, "{accept}");
        assert_eq!(whole[field], Value::Array(pages), "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn long_lists_are_equal_in_all_encodings() {
    let (_sandbox, api) = filled().await;
    for form in ["", ";as=Table;v=v1;g=meta.k8s.io"] {
        let json = list(&api, "", &format!("application/json{form}"))
            .await
            .json();
        let yaml = list(&api, "", &format!("application/yaml{form}")).await;
        let yaml: Value = serde_saphyr::from_str(&yaml.text()).unwrap();
        assert_eq!(yaml, json, "{form}");
    }
    let empty = list(&api, "labelSelector=no", "application/yaml").await;
    assert!(empty.text().contains("items: []"), "{}", empty.text());
    let message = list(&api, "", PROTOBUF).await;
    assert_eq!(message.headers["content-type"], PROTOBUF);
    let names = message
        .bytes
        .windows(5)
        .filter(|part| part.starts_with(b"m0"));
    assert!(names.count() >= COUNT);
}

#[tokio::test]
async fn long_lists_are_written_in_parts() {
    let (_sandbox, api) = filled().await;
    for accept in ["application/json", TABLE, METADATA, "application/yaml"] {
        let response = api.open(accepting(CONFIG_MAPS, accept)).await.unwrap();
        let mut body = response.into_body();
        let mut parts = 0;
        while let Some(frame) = body.frame().await {
            let size = frame.unwrap().into_data().unwrap().len();
            assert!(size < 100_000, "{accept}: {size}");
            parts += 1;
        }
        assert!(parts > 1, "{accept}: {parts}");
    }
}

#[tokio::test]
async fn other_tasks_run_while_a_list_is_written() {
    let (_sandbox, api) = filled().await;
    for (query, accept) in [
        ("", "application/json"),
        ("", TABLE),
        ("", METADATA),
        ("", PROTOBUF),
        ("labelSelector=even=no", "application/json"),
    ] {
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        let mut other = JoinSet::new();
        other.spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        tokio::task::yield_now().await;
        let before = turns.load(Ordering::Relaxed);
        list(&api, query, accept).await;
        let turns = turns.load(Ordering::Relaxed) - before;
        other.abort_all();
        assert!(turns >= 2, "{query} {accept}: {turns}");
    }
}

#[tokio::test]
async fn long_lists_are_complete_if_the_listener_ends_meanwhile() {
    let (sandbox, _) = filled().await;
    let listening = sandbox.listen(Listen::default()).await.unwrap();
    let config = Kubeconfig::read(&listening.kubeconfig());
    let mut client = config.connect().await.unwrap();
    let response = client.open(accepting(CONFIG_MAPS, TABLE)).await.unwrap();
    let reading = async move {
        tokio::task::yield_now().await;
        response.into_body().collect().await
    };
    let (body, ()) = tokio::join!(reading, listening.shutdown());
    let body = body.unwrap().to_bytes();
    let table: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(table["rows"].as_array().unwrap().len(), COUNT);
}
