//! Tests of requests and responses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::Full;
use kopf_core::admission::Refusal;
use kopf_webhooks::{Limits, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Barrier;

use crate::client::Connecting;
use crate::operator::{Setup, allowed, review};

fn server() -> Server {
    Server::new().addr("127.0.0.1")
}

#[tokio::test]
async fn review_gets_a_response() {
    let running = Setup::allowing().run(server()).await;
    let mut client = Connecting::to(&running.config).connect().await.unwrap();
    let answer = client
        .review("/check?timeout=10s", &review("u-1"))
        .await
        .unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.headers["content-type"],
        "application/json; charset=utf-8"
    );
    assert_eq!(answer.json(), allowed(&review("u-1")));

    let seen = running.reviewed();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].review, review("u-1"));
    assert_eq!(seen[0].webhook.as_deref(), Some("check"));
    assert_eq!(seen[0].sslpeer, None);
    assert_eq!(
        seen[0].headers,
        BTreeMap::from([
            (
                "Content-Length".to_owned(),
                review("u-1").to_string().len().to_string()
            ),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            (
                "User-Agent".to_owned(),
                "kube-apiserver-admission".to_owned()
            ),
        ])
    );
}

#[tokio::test]
async fn http2_is_negotiated() {
    let running = Setup::allowing().run(server()).await;
    let connecting = Connecting::to(&running.config).by_http2();
    let mut client = connecting.connect().await.unwrap();
    let answer = client.review("/check", &review("u-1")).await.unwrap();
    assert_eq!(answer.json(), allowed(&review("u-1")));
    let seen = running.reviewed();
    assert_eq!(seen[0].headers["Content-Type"], "application/json");
    assert_eq!(seen[0].headers["Host"], "operator.example");
}

#[tokio::test]
async fn http10_is_supported() {
    let running = Setup::allowing().run(server()).await;
    let connecting = Connecting::to(&running.config);
    let mut tls = (*connecting.tls_config()).clone();
    tls.alpn_protocols = vec![b"http/1.0".to_vec()];
    let mut stream = connecting.tls_by(Arc::new(tls)).await.unwrap();
    let body = review("u").to_string();
    let request = format!(
        "POST /x HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\"allowed\":true"), "{answer}");
}

#[tokio::test]
async fn ids_are_the_rest_of_the_path() {
    let running = Setup::allowing().run(server().path("/hooks/")).await;
    assert!(running.url().ends_with("/hooks/"), "{}", running.url());
    let mut client = Connecting::to(&running.config).connect().await.unwrap();
    for path in [
        "/hooks/a/b%20c/spec.field?timeout=1s",
        "/hooks/",
        "/hooks",
        "/hooks/a%2Fb",
    ] {
        let answer = client.review(path, &review("u")).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
    }
    for path in ["/", "/other/x", "/hookss/x"] {
        let answer = client.review(path, &review("u")).await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.text, "404: no webhooks at this path");
    }
    let ids: Vec<_> = running
        .reviewed()
        .into_iter()
        .map(|seen| seen.webhook)
        .collect();
    let ids: Vec<_> = ids.iter().map(Option::as_deref).collect();
    assert_eq!(ids, [Some("a/b c/spec.field"), None, None, Some("a/b")]);
}

#[tokio::test]
async fn rejections_have_codes_and_keep_the_connection() {
    let refusing = Setup::new(|incoming| async move {
        let about = "things".to_owned();
        match incoming.webhook.as_deref() {
            Some("ambiguous") => Err(Refusal::Ambiguous(about)),
            Some("unknown") => Err(Refusal::Unknown(about)),
            Some("missing") => Err(Refusal::Missing(about)),
            Some("internal") => Err(Refusal::Internal(about)),
            Some("panic") => panic!("on purpose"),
            _ => Ok(allowed(&incoming.review)),
        }
    });
    let running = refusing.run(server()).await;
    for is_http2 in [false, true] {
        let mut connecting = Connecting::to(&running.config);
        connecting.is_http2 = is_http2;
        let mut client = connecting.connect().await.unwrap();
        for (id, code, text) in [
            ("/ambiguous", 409, "409: the resource is ambiguous: things"),
            ("/unknown", 404, "404: the resource is unknown: things"),
            ("/missing", 400, "400: the review lacks data: things"),
            ("/internal", 500, "500: things"),
            ("/panic", 500, "500: the review panicked"),
        ] {
            let answer = client.review(id, &review("u")).await.unwrap();
            assert_eq!(answer.status, code, "{id}");
            assert_eq!(answer.text, text);
            assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        }
        let answer = client.review("/fine", &review("u")).await.unwrap();
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn bad_requests_are_rejected_before_the_operator() {
    let running = Setup::allowing().run(server()).await;
    for is_http2 in [false, true] {
        let mut connecting = Connecting::to(&running.config);
        connecting.is_http2 = is_http2;
        let mut client = connecting.connect().await.unwrap();
        for (text, reason) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("garbage", "expected value at line 1 column 1"),
            (
                "{\"a\": 1",
                "EOF while parsing an object at line 1 column 7",
            ),
            ("{} {}", "trailing characters at line 1 column 4"),
        ] {
            let answer = client.post("/check", text).await.unwrap();
            assert_eq!(answer.status, 400, "{text}");
            assert_eq!(
                answer.text,
                format!("400: the review is not valid JSON: {reason}")
            );
        }
        for (text, code) in [
            (vec![b'['; 100_000], 422),
            (b"\"\xFF\"".to_vec(), 400),
            (b"{\"a\":\"\\ud800\"}".to_vec(), 400),
        ] {
            let answer = client.post("/check", text).await.unwrap();
            assert_eq!(answer.status, code);
        }
        for (method, path, content_type, code) in [
            ("GET", "/check", "application/json", 405),
            ("PUT", "/check", "application/json", 405),
            ("POST", "/check", "application/x-www-form-urlencoded", 200),
            ("POST", "/check", "application/yaml", 200),
            ("POST", "/check", "", 200),
            ("POST", "/%FF", "application/json", 400),
            ("POST", "/check", "application/json;charset=utf-8", 200),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", content_type)
                .body(Full::from(review("u").to_string()))
                .unwrap();
            let answer = client.send(request).await.unwrap();
            assert_eq!(
                answer.status, code,
                "{method} {path} {content_type}: {}",
                answer.text
            );
            assert_eq!(answer.headers.contains_key("allow"), code == 405);
        }
    }
    assert_eq!(running.reviewed().len(), 8);
}

/// Returns a review with this object in the format of API servers.
fn written(object: &str) -> String {
    format!(
        "{{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1beta1\",\
         \"request\":{{\"uid\":\"u-1\",\"object\":{object}}}}}"
    )
}

#[tokio::test]
async fn unreadable_reviews_are_denied_and_the_connection_stays_usable() {
    let mut limits = Limits::default();
    limits.body = 300_000;
    limits.memory = limits.body;
    let running = Setup::allowing().run(server().limits(limits)).await;
    let deep = written(&format!("{}1{}", "[".repeat(200), "]".repeat(200)));
    let large = written(&format!("\"{}\"", "x".repeat(400_000)));
    let many = written(&format!("[{}0]", "{\"\":0},".repeat(30_000)));
    for is_http2 in [false, true] {
        let mut connecting = Connecting::to(&running.config);
        connecting.is_http2 = is_http2;
        let mut client = connecting.connect().await.unwrap();
        for (body, code, reason) in [
            (&deep, 422, "the review is nested deeper than 128 levels"),
            (&large, 413, "the review is larger than 300000 bytes"),
            (
                &many,
                413,
                "the review has more values than fit into 4800000 bytes",
            ),
        ] {
            let answer = client.post("/check", body.clone()).await.unwrap();
            assert_eq!(answer.status, 200, "{reason}: {}", answer.text);
            let review = answer.json();
            assert_eq!(review["apiVersion"], "admission.k8s.io/v1beta1");
            let response = &review["response"];
            assert_eq!(response["uid"], "u-1", "{reason}");
            assert_eq!(response["allowed"], false, "{reason}");
            assert_eq!(response["status"]["message"], reason);
            assert_eq!(response["status"]["code"], code);
            assert_eq!(response["warnings"].as_array().map(Vec::len), Some(1));
        }
        let answer = client.review("/check", &review("u")).await.unwrap();
        assert_eq!(answer.status, 200);
    }
    assert_eq!(running.reviewed().len(), 2);
}

#[tokio::test]
async fn too_large_bodies_without_a_uid_are_rejected() {
    let mut limits = Limits::default();
    limits.body = 100_000;
    let running = Setup::allowing().run(server().limits(limits)).await;
    let large = |size: usize| json!({"x": "y".repeat(size - 8)}).to_string();
    assert_eq!(large(100_000).len(), 100_000);
    for is_http2 in [false, true] {
        let mut connecting = Connecting::to(&running.config);
        connecting.is_http2 = is_http2;
        for (size, code) in [(100_000, 200), (100_001, 413), (400_000, 413)] {
            let mut client = connecting.connect().await.unwrap();
            let answer = client.post("/check", large(size)).await.unwrap();
            assert_eq!(answer.status, code, "{size}");
            if code == 413 {
                assert_eq!(answer.text, "413: the review is larger than 100000 bytes");
            }
        }
    }
    // A body of unknown size.
    let mut stream = Connecting::to(&running.config).tls().await.unwrap();
    let head = "POST /check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..20 {
        let chunk = format!("2710\r\n{}\r\n", " ".repeat(10_000));
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn expect_continue_is_rejected_before_the_body() {
    let mut limits = Limits::default();
    limits.body = 1000;
    let running = Setup::allowing().run(server().limits(limits)).await;
    for (length, expected) in [(1001, "HTTP/1.1 413"), (1000, "HTTP/1.1 100")] {
        let mut stream = Connecting::to(&running.config).tls().await.unwrap();
        let head = format!(
            "POST /check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), expected);
    }
}

#[tokio::test]
async fn invalid_http_ends_only_its_connection() {
    let running = Setup::allowing().run(server()).await;
    let connecting = Connecting::to(&running.config);
    let mut client = connecting.connect().await.unwrap();
    let headers = "x: y\r\n".repeat(1000);
    let long = format!("x: {}\r\n", "y".repeat(100_000));
    for garbage in [
        "\0\u{1}\u{2}garbage\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("POST /x HTTP/1.1\r\nhost: x\r\n{headers}\r\n"),
        format!("POST /x HTTP/1.1\r\nhost: x\r\n{long}\r\n"),
        "POST /x HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_owned(),
        "POST /x HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(),
    ] {
        let mut stream = connecting.tls().await.unwrap();
        let _ = stream.write_all(garbage.as_bytes()).await;
        let mut answer = Vec::new();
        // The connection may be closed without a response.
        let _ = stream.read_to_end(&mut answer).await;
        let is_refused = answer.is_empty() || answer.starts_with(b"HTTP/1.1 4");
        assert!(
            is_refused,
            "{garbage:.40}: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    let mut stream = connecting.tcp().await.unwrap();
    stream
        .write_all(b"POST /check HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "it is not TLS");

    let answer = client.review("/check", &review("u")).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(running.reviewed().len(), 1);
}

#[tokio::test]
async fn reviews_on_one_connection_run_concurrently() {
    const COUNT: usize = 50;
    let barrier = Arc::new(Barrier::new(COUNT));
    let waiting = Setup::new(move |incoming| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok(allowed(&incoming.review))
        }
    });
    let running = waiting.run(server()).await;
    let connecting = Connecting::to(&running.config).by_http2();
    // HTTP/2 connections are shared, so that this would not end otherwise.
    let clients = futures::future::join_all((0..5).map(|_| connecting.connect())).await;
    let mut clients: Vec<_> = clients.into_iter().map(Result::unwrap).collect();
    let mut answers = Vec::new();
    for client in &mut clients {
        for number in 0..10 {
            let asking = client.fork();
            answers.push(async move {
                let mut asking = asking;
                let uid = format!("u-{number}");
                let answer = asking.review("/x", &review(&uid)).await.unwrap();
                assert_eq!(answer.json()["response"]["uid"], Value::from(uid));
            });
        }
    }
    assert_eq!(answers.len(), COUNT);
    futures::future::join_all(answers).await;
}

#[tokio::test]
async fn slow_reviews_time_out() {
    let mut limits = Limits::default();
    limits.review_time = Duration::from_millis(50);
    let hanging = Setup::new(|_| std::future::pending());
    let running = hanging.run(server().limits(limits)).await;
    let mut client = Connecting::to(&running.config).connect().await.unwrap();
    let answer = client.review("/check", &review("u")).await.unwrap();
    assert_eq!(answer.status, 500);
    assert_eq!(answer.text, "500: the review took longer than 50ms");
}

#[tokio::test]
async fn concurrent_reviews_are_limited() {
    let mut limits = Limits::default();
    limits.reviews = 1;
    let under_way = Arc::new(tokio::sync::Mutex::new(()));
    let exclusive = Setup::new(move |incoming| {
        let under_way = Arc::clone(&under_way);
        async move {
            let _alone = under_way.try_lock().expect("there is no other one");
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            Ok(allowed(&incoming.review))
        }
    });
    let running = exclusive.run(server().limits(limits)).await;
    let connecting = Connecting::to(&running.config);
    let asking = (0..20).map(|_| async {
        let mut client = connecting.connect().await.unwrap();
        client.review("/check", &review("u")).await.unwrap().status
    });
    for status in futures::future::join_all(asking).await {
        assert_eq!(status, 200);
    }
}

#[tokio::test]
async fn plain_http_is_optional() {
    let running = Setup::allowing()
        .run(server().insecure(true).path("x"))
        .await;
    let url = format!("http://127.0.0.1:{}/x", running.port());
    assert_eq!(running.url(), url);
    assert_eq!(running.config.ca_bundle, None);
    let mut client = Connecting::to(&running.config).connect().await.unwrap();
    let answer = client.review("/x/check", &review("u")).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(running.reviewed()[0].sslpeer, None);
}
