//! Tests of slow, silent or many clients: others are served nevertheless.

use std::sync::Arc;
use std::time::Duration;

use kopf_webhooks::{Limits, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::client::Connecting;
use crate::operator::{Setup, allowed, review};

fn server(limits: Limits) -> Server {
    Server::new().addr("127.0.0.1").limits(limits)
}

/// Incomplete connections.
#[derive(Default)]
struct Slow {
    plain: Vec<TcpStream>,
    tls: Vec<TlsStream<TcpStream>>,
}

impl Slow {
    /// Opens `each` connections of every type: without data, with half a handshake, with half of
    /// the headers, with half of a body.
    async fn begin(connecting: &Connecting, each: usize) -> Self {
        let mut slow = Self::default();
        let config = connecting.tls_config();
        for _ in 0..each {
            slow.plain.push(connecting.tcp().await.unwrap());
            let mut half = connecting.tcp().await.unwrap();
            half.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
            slow.plain.push(half);
            for begun in [
                "POST /check HTTP/1.1\r\nhost: x\r\nx-y",
                "POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: 99999\r\n\r\n{\"apiVersion\":",
            ] {
                let mut stream = connecting.tls_by(config.clone()).await.unwrap();
                stream.write_all(begun.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                slow.tls.push(stream);
            }
        }
        slow
    }

    fn len(&self) -> usize {
        self.plain.len() + self.tls.len()
    }
}

async fn hold_a_thousand(limits: Limits) {
    let running = Setup::allowing().run(server(limits)).await;
    let connecting = Connecting::to(&running.config);
    let mut early = connecting.connect().await.unwrap();
    assert_eq!(
        early.review("/check", &review("u")).await.unwrap().status,
        200
    );

    let slow = Slow::begin(&connecting, 250).await;
    assert_eq!(slow.len(), 1000);
    // Existing clients stay connected, and new ones are accepted.
    assert_eq!(
        early.review("/check", &review("u")).await.unwrap().status,
        200
    );
    for is_http2 in [false, true] {
        let mut connecting = connecting.clone();
        connecting.is_http2 = is_http2;
        for _ in 0..20 {
            let mut client = connecting.connect().await.unwrap();
            let response = client.review("/check", &review("u")).await.unwrap();
            assert_eq!(response.status, 200);
        }
    }
    assert_eq!(running.reviewed().len(), 42);
    drop(slow);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_slow_connections_do_not_block_others() {
    hold_a_thousand(Limits::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connections_do_not_block_others_at_a_low_limit() {
    let mut limits = Limits::default();
    limits.connections = 16;
    hold_a_thousand(limits).await;
}

#[tokio::test]
async fn connections_without_a_request_time_out() {
    let mut limits = Limits::default();
    limits.header_time = Duration::from_millis(500);
    let running = Setup::allowing().run(server(limits)).await;
    let connecting = Connecting::to(&running.config);
    let mut slow = Slow::begin(&connecting, 1).await;
    for stream in &mut slow.plain {
        // An orderly end or a reset.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    let _ = slow.tls[0].read_to_end(&mut Vec::new()).await;
    // The connection with a request is kept.
    let reading = slow.tls[1].read_u8();
    assert!(
        tokio::time::timeout(Duration::from_millis(1), reading)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn idle_connections_time_out() {
    let mut limits = Limits::default();
    limits.idle_time = Duration::from_millis(300);
    let running = Setup::allowing().run(server(limits)).await;
    for is_http2 in [false, true] {
        let mut connecting = Connecting::to(&running.config);
        connecting.is_http2 = is_http2;
        let mut client = connecting.connect().await.unwrap();
        let response = client.review("/check", &review("u")).await.unwrap();
        assert_eq!(response.status, 200);
        while client.is_usable().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn missing_bodies_time_out() {
    let mut limits = Limits::default();
    limits.body_time = Duration::from_millis(50);
    let running = Setup::allowing().run(server(limits)).await;
    let mut slow = Slow::begin(&Connecting::to(&running.config), 1).await;
    let mut response = Vec::new();
    let _ = slow.tls[1].read_to_end(&mut response).await;
    let response = String::from_utf8(response).unwrap();
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
    assert!(
        response.ends_with("408: the body was not received within 50ms"),
        "{response}"
    );
    assert!(running.reviewed().is_empty());
}

#[tokio::test]
async fn reviews_under_way_are_not_displaced() {
    let mut limits = Limits::default();
    limits.connections = 2;
    let (begin, begun) = tokio::sync::mpsc::channel(1);
    let begun = tokio::sync::Mutex::new(begun);
    let release = Arc::new(tokio::sync::Notify::new());
    let released = Arc::clone(&release);
    let waiting = Setup::new(move |incoming| {
        let (begin, released) = (begin.clone(), Arc::clone(&released));
        async move {
            if incoming.webhook.as_deref() == Some("slow") {
                begin.send(()).await.unwrap();
                released.notified().await;
            }
            Ok(allowed(&incoming.review))
        }
    });
    let running = waiting.run(server(limits)).await;
    let connecting = Connecting::to(&running.config);
    let mut patient = connecting.connect().await.unwrap();
    let review = review("u");
    let reviewing = patient.review("/slow", &review);
    let others = async {
        begun.lock().await.recv().await.unwrap();
        let mut idle = Vec::new();
        for _ in 0..10 {
            let mut client = connecting.connect().await.unwrap();
            assert_eq!(client.review("/fast", &review).await.unwrap().status, 200);
            idle.push(client);
        }
        release.notify_one();
    };
    let (response, ()) = tokio::join!(reviewing, others);
    assert_eq!(response.unwrap().status, 200);
}

#[tokio::test]
async fn reviews_under_way_are_finished_when_the_server_stops() {
    let slow = Setup::new(|incoming| async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(allowed(&incoming.review))
    });
    let running = slow.run(server(Limits::default())).await;
    let connecting = Connecting::to(&running.config);
    let mut idle = connecting.connect().await.unwrap();
    let mut clients = Vec::new();
    for is_http2 in [false, true] {
        let mut connecting = connecting.clone();
        connecting.is_http2 = is_http2;
        clients.push(connecting.connect().await.unwrap());
    }
    let asked = review("u");
    let asking = clients
        .iter_mut()
        .map(|client| client.review("/check", &asked));
    let asking = futures::future::join_all(asking);
    let stopping = async {
        while running.reviewed().len() < 2 {
            tokio::task::yield_now().await;
        }
        running.stop().await;
    };
    let (responses, ()) = tokio::join!(asking, stopping);
    for response in responses {
        assert_eq!(response.unwrap().status, 200);
    }
    assert!(idle.review("/check", &asked).await.is_err());
    assert!(connecting.tcp().await.is_err(), "the port is closed");
}

#[tokio::test]
async fn connections_and_reviews_end_with_the_server() {
    let under_way = Arc::new(());
    let held = Arc::clone(&under_way);
    let hanging = Setup::new(move |_| {
        let held = Arc::clone(&held);
        async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(serde_json::Value::Null)
        }
    });
    let running = hanging.run(server(Limits::default())).await;
    let connecting = Connecting::to(&running.config);
    let mut slow = Slow::begin(&connecting, 2).await;
    let mut clients = Vec::new();
    for is_http2 in [false, true] {
        let mut connecting = connecting.clone();
        connecting.is_http2 = is_http2;
        clients.push(connecting.connect().await.unwrap());
    }
    let asked = review("u");
    let asking = clients
        .iter_mut()
        .map(|client| client.review("/check", &asked));
    let asking = futures::future::join_all(asking);
    let stopping = async {
        while running.reviewed().len() < 2 {
            tokio::task::yield_now().await;
        }
        running.stop().await;
    };
    let (responses, ()) = tokio::join!(asking, stopping);
    assert!(responses.iter().all(Result::is_err), "{responses:?}");
    // Reviews are dropped as well.
    while Arc::strong_count(&under_way) > 1 {
        tokio::task::yield_now().await;
    }
    for stream in &mut slow.plain {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    for stream in &mut slow.tls {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    assert!(connecting.tcp().await.is_err(), "the port is closed");
}

#[tokio::test]
async fn clients_that_hold_all_memory_do_not_block_others() {
    let mut limits = Limits::default();
    limits.body = 1024 * 1024;
    limits.memory = 4 * limits.body;
    // The timeouts never expire in this test.
    limits.body_time = Duration::from_secs(600);
    let size = limits.body;
    let running = Setup::allowing().run(server(limits)).await;
    let connecting = Connecting::to(&running.config);
    let config = connecting.tls_config();
    let head = format!("POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n");
    let mut slow = Vec::new();
    for _ in 0..5 {
        let mut stream = connecting.tls_by(config.clone()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // Some bodies have to wait for memory themselves.
        let sending = async {
            stream.write_all(&vec![b' '; size - 1]).await?;
            stream.flush().await
        };
        let _ = tokio::time::timeout(Duration::from_millis(300), sending).await;
        slow.push(stream);
    }
    let mut asked = review("u");
    asked["request"]["object"] = "x".repeat(300_000).into();
    for is_http2 in [false, true] {
        let mut connecting = connecting.clone();
        connecting.is_http2 = is_http2;
        let mut client = connecting.connect().await.unwrap();
        let response = client.review("/check", &asked);
        let response = tokio::time::timeout(Duration::from_secs(60), response).await;
        let response = response.expect("it gets a response").unwrap();
        assert_eq!(response.status, 200);
    }
}

#[tokio::test]
async fn small_bodies_with_too_many_values_are_rejected() {
    let mut limits = Limits::default();
    limits.body = 1024 * 1024;
    limits.memory = limits.body;
    let running = Setup::allowing().run(server(limits)).await;
    for is_http2 in [false, true] {
        let mut connecting = Connecting::to(&running.config);
        connecting.is_http2 = is_http2;
        let mut client = connecting.connect().await.unwrap();
        let dense = format!("[{}0]", "{\"\":0},".repeat(100_000));
        let response = client.post("/check", dense).await.unwrap();
        assert_eq!(response.status, 413);
        assert_eq!(
            response.text,
            "413: the review has more values than fit into 16777216 bytes"
        );
        // Long strings of the same size are accepted.
        let mut long = review("u");
        long["request"]["object"] = ",{[".repeat(300_000).into();
        let response = client.review("/check", &long).await.unwrap();
        assert_eq!(response.status, 200);
    }
    assert_eq!(running.reviewed().len(), 2);
}
