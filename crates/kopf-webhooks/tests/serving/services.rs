//! Tests of servers behind a Service.

use std::net::TcpListener;
use std::process::Command;

use kopf_core::admission::{ClientConfig, SERVER_PORT, SERVICE_VARIABLE, ServiceReference};
use kopf_webhooks::{AutoTunnel, Server};

use crate::client::Connecting;
use crate::operator::{Running, Setup, review};

fn in_namespace(namespace: &str) -> Setup {
    let mut setup = Setup::allowing();
    setup.namespace = Some(namespace.to_owned());
    setup
}

/// Returns a port that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn service(running: &Running) -> &ServiceReference {
    assert_eq!(running.config.url, None, "{:?}", running.config);
    running.config.service.as_ref().expect("there is a service")
}

/// Sends a review to a server on this port. Its certificate must be for the name.
async fn reviewed(running: &Running, port: u16, name: &str, path: &str) {
    let config = ClientConfig {
        url: Some(format!("https://localhost:{port}")),
        ..running.config.clone()
    };
    let connecting = Connecting::to(&config).with_name(name);
    let mut client = connecting.connect().await.unwrap();
    assert_eq!(client.review(path, &review("u")).await.unwrap().status, 200);
}

#[tokio::test]
async fn services_are_announced_instead_of_urls() {
    let port = free_port();
    let server = Server::service("op", 443).port(port).path("hooks/");
    let running = in_namespace("ops").run(server).await;
    let expected = ServiceReference {
        namespace: "ops".to_owned(),
        name: "op".to_owned(),
        path: Some("/hooks".to_owned()),
        port: Some(443),
    };
    assert_eq!(service(&running), &expected);
    for name in ["op.ops.svc", "op.ops.svc.cluster.local", "op.ops"] {
        reviewed(&running, port, name, "/hooks/x").await;
    }
    let server = Server::service("other/op", 8443).port(0);
    let running = in_namespace("ops").run(server).await;
    assert_eq!(service(&running).to_string(), "other/op:8443");
    // Credentials without a namespace are those of the default one, as in kubectl.
    let running = Setup::allowing()
        .run(Server::service("op", 1).port(0))
        .await;
    assert_eq!(service(&running).to_string(), "default/op:1");
}

#[tokio::test]
async fn services_listen_on_the_port_of_generated_manifests_by_default() {
    // If another process has this port, the error names it, which shows the same.
    match in_namespace("ops")
        .try_run(Server::service("op", 443))
        .await
    {
        Ok(running) => reviewed(&running, SERVER_PORT, "op.ops.svc", "/x").await,
        Err(error) => assert!(error.to_string().contains(":9443"), "{error}"),
    }
}

#[tokio::test]
async fn invalid_services_fail_the_start() {
    let server = |name: &str| Server::service(name, 443).port(0);
    for (server, words) in [
        (server("op.ops.svc"), "must be NAME or NAMESPACE/NAME"),
        (server("a/b/c"), "must be NAME or NAMESPACE/NAME"),
        (Server::service("op", 0), "must be 1 to 65535"),
        (server("op").path("/A_b"), "invalid path \"/A_b\""),
        (server("op").host("example.com"), "excludes a host"),
        (server("op").insecure(true), "excludes insecure mode"),
    ] {
        let Err(error) = in_namespace("ops").try_run(server).await else {
            panic!("it runs: {words}");
        };
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn local_api_servers_get_a_url_instead_of_a_service() {
    let mut setup = in_namespace("ops");
    setup.is_loopback = true;
    let running = setup.run(Server::service("op", 443)).await;
    let url = format!("https://127.0.0.1:{}", running.port());
    assert_eq!(running.url(), url);
    reviewed(&running, running.port(), "127.0.0.1", "/x").await;
}

/// Runs this test in a process with the variable. Returns `true` in that process.
fn is_in_pod(test: &str, variable: &str) -> bool {
    if std::env::var_os(SERVICE_VARIABLE).is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("services::{test}"), "--nocapture"])
        .env(SERVICE_VARIABLE, variable)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

#[tokio::test]
async fn servers_in_generated_pods_announce_the_service_of_the_pod() {
    let variable = "ops/op-webhook:443";
    if !is_in_pod(
        "servers_in_generated_pods_announce_the_service_of_the_pod",
        variable,
    ) {
        return;
    }
    let port = free_port();
    for server in [Server::new(), Server::auto(), Server::k3d()] {
        let running = Setup::allowing().run(server.port(port)).await;
        assert_eq!(service(&running).to_string(), variable);
        reviewed(&running, port, "op-webhook.ops.svc", "/x").await;
        running.stop().await;
    }
    let tunnel = AutoTunnel::new().port(port).path("/hooks");
    let running = Setup::allowing().run(tunnel).await;
    assert_eq!(service(&running).to_string(), variable);
    reviewed(&running, port, "op-webhook.ops.svc", "/hooks/x").await;
    running.stop().await;

    // Whatever the code says takes precedence.
    let running = Setup::allowing().run(Server::new().host("a.example")).await;
    assert!(running.url().starts_with("https://a.example:"));
    let running = Setup::allowing()
        .run(Server::service("a/b", 1).port(0))
        .await;
    assert_eq!(service(&running).to_string(), "a/b:1");
    let running = Setup::allowing().run(Server::new().insecure(true)).await;
    assert!(running.url().starts_with("http://localhost:"));
    let mut setup = Setup::allowing();
    setup.is_loopback = true;
    let running = setup.run(Server::new()).await;
    assert!(running.url().starts_with("https://127.0.0.1:"));
}

#[tokio::test]
async fn malformed_variables_fail_the_start() {
    let variable = "op-webhook.ops.svc:443";
    if !is_in_pod("malformed_variables_fail_the_start", variable) {
        return;
    }
    let Err(error) = Setup::allowing().try_run(Server::auto()).await else {
        panic!("it runs");
    };
    let text = error.to_string();
    for words in [SERVICE_VARIABLE, variable, "NAMESPACE/NAME:PORT"] {
        assert!(text.contains(words), "{text}");
    }
    // It is not needed with an explicit address.
    Setup::allowing().run(Server::new().host("a.example")).await;
}
