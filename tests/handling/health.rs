//! Health of operators and the responses to probes.

use std::time::Duration;

use futures::future::BoxFuture;
use kopf_engine::invocation::Heartbeat;
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::front::{arbitrary, done, on};
use crate::stage::{Actor, is_handled, sandboxed};

#[test]
fn operator_of_an_idle_cluster_is_alive() {
    sandboxed(async |stage| {
        let operator = stage.run([on::create("make")]).await;
        for _ in 0..20 {
            stage.pass(180.0).await;
            let health = operator.inspect().health();
            assert!(health.is_alive(), "{health}");
        }
    });
}

#[test]
fn outage_of_the_api_server_is_noted_until_it_ends() {
    sandboxed(async |stage| {
        let operator = stage.operator([on::create("make")]).probed().start().await;
        stage.pass(10.0).await;
        assert_eq!(probe(&operator, "/readyz").await, "200");
        let outages = [Fault::error(503), Fault::reset()];
        let outages = outages.map(|outage| stage.faults().inject(outage.kind("things")));
        stage.faults().kill_watches();
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            for path in ["/healthz", "/livez", "/readyz"] {
                assert_eq!(probe(&operator, path).await, "200", "{path}");
            }
        }
        let health = operator.inspect().health();
        assert!(health.is_alive(), "{health}");
        let note = &health.notes[0];
        assert!(note.contains("things"), "{note}");
        assert!(note.contains("no data for 6"), "{note}");

        for outage in outages {
            stage.faults().remove(outage);
        }
        stage.create("obj", json!({})).await;
        tokio::time::sleep(Duration::from_secs(45)).await;
        assert!(is_handled(&stage.get("obj").await));
        let health = operator.inspect().health();
        assert!(health.notes.is_empty(), "{health}");
        operator.stop().await;
    });
}

#[test]
fn silent_api_server_is_only_noted() {
    sandboxed(async |stage| {
        let operator = stage.operator([on::create("make")]).probed().start().await;
        stage.pass(10.0).await;
        let silence = stage.faults().inject(Fault::half_open().kind("things"));
        stage.faults().kill_watches();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(probe(&operator, "/healthz").await, "200");
        assert!(!operator.inspect().health().notes.is_empty());
        stage.faults().remove(silence);
        operator.stop().await;
    });
}

#[test]
fn forbidden_resources_are_notes_only() {
    sandboxed(async |stage| {
        let forbidden = || Fault::error(403).kind("things");
        stage.faults().inject(forbidden().verb(Verb::List));
        let operator = stage.run([on::create("make")]).await;
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        let health = operator.inspect().health();
        assert!(health.is_alive(), "{health}");
        assert!(health.notes[0].contains("refused"), "{health}");
    });
}

#[test]
fn throttled_watch_is_alive() {
    sandboxed(async |stage| {
        let slow = on::create("make").does(|_| async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            done()
        });
        let operator = stage
            .operator([slow])
            .settings(|settings| {
                settings.queueing.worker_limit = Some(1);
                settings.queueing.max_events = 1;
            })
            .start()
            .await;
        for name in ["a", "b", "c", "d"] {
            stage.create(name, json!({})).await;
        }
        tokio::time::sleep(Duration::from_secs(500)).await;
        let health = operator.inspect().health();
        assert!(health.is_alive(), "{health}");
        assert!(health.notes[0].contains("throttled"), "{health}");
        stage.pass(3_000.0).await;
        assert_eq!(stage.journal.count("make"), 4);
        let health = operator.inspect().health();
        assert!(health.is_alive() && health.notes.is_empty(), "{health}");
    });
}

#[test]
fn outages_of_namespaces_and_crds_are_reported() {
    sandboxed(async |stage| {
        let patterns = vec![stage.api.namespace().parse().unwrap()];
        let operator = stage
            .operator([on::create("make")])
            .scope(kopf_core::namespace::Scope::Namespaces(patterns))
            .start()
            .await;
        stage.pass(10.0).await;
        assert!(operator.inspect().health().is_alive());
        for kind in [
            "namespaces",
            "customresourcedefinitions.apiextensions.k8s.io",
        ] {
            let outages = [Verb::Watch, Verb::List].map(|verb| {
                stage
                    .faults()
                    .inject(Fault::error(500).kind(kind).verb(verb))
            });
            stage.faults().kill_watches();
            tokio::time::sleep(Duration::from_secs(200)).await;
            let health = operator.inspect().health();
            let name = kind.split('.').next().unwrap_or_default();
            assert!(health.is_alive(), "{health}");
            let note = health.notes.join(" ");
            assert!(note.contains(name) && note.contains("no data"), "{note}");
            for outage in outages {
                stage.faults().remove(outage);
            }
            stage.pass(120.0).await;
            let health = operator.inspect().health();
            assert!(health.notes.is_empty(), "{health}");
        }
    });
}

/// Returns the status code of a probe.
async fn probe(operator: &Actor<'_>, path: &str) -> String {
    let address = operator.inspect().probed_at().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn exited_operator_is_not_alive() {
    sandboxed(async |stage| {
        let operator = stage.run([on::create("make")]).await;
        let inspect = operator.inspect();
        assert!(inspect.health().is_alive());
        operator.stop().await;
        assert_eq!(inspect.health().problems, ["the operator has ended"]);
    });
}

#[test]
fn failed_probe_handlers_are_reported_immediately() {
    sandboxed(async |stage| {
        let sick = on::probe("sick").does(|_| async { arbitrary("I am sick") });
        let operator = stage
            .operator([on::create("make"), sick])
            .probed()
            .start()
            .await;
        assert_eq!(probe(&operator, "/healthz").await, "500");
        operator.stop().await;
    });
}

/// A frontend that responds after this many seconds.
struct Reacts(u64);

impl Heartbeat for Reacts {
    fn beat(&self) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_secs(self.0)))
    }
}

#[test]
fn unresponsive_frontend_is_unhealthy() {
    sandboxed(async |stage| {
        for (seconds, expected, livez) in [(9, "200", "200"), (11, "500", "503")] {
            let operator = stage
                .operator([on::create("make")])
                .heartbeat(Reacts(seconds))
                .probed()
                .start()
                .await;
            assert_eq!(probe(&operator, "/healthz").await, expected, "{seconds} s");
            assert_eq!(probe(&operator, "/livez").await, livez, "{seconds} s");
            operator.stop().await;
        }
    });
}
