//! Traces of an operator, as a collector receives them.

#![expect(clippy::unwrap_used, reason = "failures fail the test")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kopf::otel::Telemetry;
use kopf::prelude::*;
use kopf_sandbox::Sandbox;
use tracing_subscriber::layer::SubscriberExt as _;

/// A collector that stores the bodies of all requests.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<u8>>>);

impl Collector {
    fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let collector = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                collector.receive(stream.unwrap());
            }
        });
        address
    }

    fn receive(&self, mut stream: TcpStream) {
        let mut request = Vec::new();
        let mut part = [0; 4096];
        while !is_whole(&request) {
            let count = stream.read(&mut part).unwrap();
            request.extend_from_slice(&part[..count]);
        }
        self.0.lock().unwrap().extend(request);
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(response).unwrap();
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, _)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().parse().unwrap();
    request.len() >= head.len() + 4 + length
}

async fn make(Name(name): Name) -> kopf::Result<Value> {
    let span = tracing::info_span!("span-of-the-author", name);
    span.in_scope(|| ());
    Ok(json!({"made": true}))
}

#[test]
fn cycles_handlers_and_requests_are_exported() {
    let collector = Collector::default();
    let address = collector.start();
    let telemetry = Telemetry::to(&format!("http://{address}")).unwrap();
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(handle_one());
    });
    telemetry.shutdown();
    let text = collector.text();
    for expected in [
        "POST /v1/traces HTTP/1.1",
        "cycle",
        "make-it",
        "span-of-the-author",
        "request",
        "configmaps.v1",
        "kopf.outcome",
    ] {
        assert!(text.contains(expected), "{expected:?} is not exported");
    }
}

/// Runs an operator until it has handled one object.
async fn handle_one() {
    use kopf::k8s_openapi::api::core::v1::ConfigMap;
    use kopf::kube::api::{Api, ObjectMeta, PostParams};

    let sandbox = Sandbox::builder().build().unwrap();
    let client = kopf_client::Client::from_service(sandbox.service(), "default");
    let operator = Operator::builder()
        .handler(on::create("configmaps", make).id("make-it"))
        .settings(|settings| settings.posting.enabled = false)
        .build()
        .unwrap();
    let running = operator.start(client.clone()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.kube(), "default");
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("obj".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await.unwrap();
    let is_handled = async || {
        let map = maps.get("obj").await.unwrap();
        let annotations = map.metadata.annotations.unwrap_or_default();
        annotations.contains_key("kopf.zalando.org/last-handled-configuration")
    };
    while !is_handled().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.stop().await.unwrap();
}
