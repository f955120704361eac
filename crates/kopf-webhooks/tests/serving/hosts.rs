//! Tests of the detection of host names.

use kopf_webhooks::{AutoTunnel, Server};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;

use crate::client::Connecting;
use crate::operator::{Setup, review};

/// Returns a certificate of an API server.
fn certificate(common_name: &str, name: &str) -> Vec<u8> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    made.der().to_vec()
}

#[tokio::test]
async fn local_clusters_are_detected() {
    let k3s = json!({"gitVersion": "v1.36.4+k3s1"});
    let other = json!({"gitVersion": "v1.36.4"});
    for (certificate, version, host) in [
        (Some(certificate("k3s", "x")), None, "host.k3d.internal"),
        (
            Some(certificate("minikube", "x")),
            None,
            "host.minikube.internal",
        ),
        (
            Some(certificate("kube-apiserver", "docker-for-desktop")),
            Some(&other),
            "host.docker.internal",
        ),
        (Some(certificate("x", "x")), Some(&k3s), "host.k3d.internal"),
        (Some(b"garbage".to_vec()), Some(&k3s), "host.k3d.internal"),
        (None, Some(&k3s), "host.k3d.internal"),
        (None, Some(&other), "localhost"),
        (Some(certificate("x", "x")), None, "localhost"),
        (None, None, "localhost"),
    ] {
        let setup = || {
            let mut setup = Setup::allowing();
            setup.certificate.clone_from(&certificate);
            setup.version = version.cloned();
            setup
        };
        let running = setup().run(Server::auto()).await;
        let url = format!("https://{host}:{}", running.port());
        assert_eq!(running.url(), url);
        let mut client = Connecting::to(&running.config).connect().await.unwrap();
        assert_eq!(client.review("/x", &review("u")).await.unwrap().status, 200);

        // An explicit host takes precedence over the detection.
        let running = setup().run(Server::auto().host("said.example")).await;
        assert!(running.url().starts_with("https://said.example:"));

        if host != "localhost" {
            let tunnel = AutoTunnel::new().addr("127.0.0.1").path("/hooks");
            let running = setup().run(tunnel).await;
            let url = format!("https://{host}:{}/hooks", running.port());
            assert_eq!(running.url(), url);
        }
    }
}

#[tokio::test]
async fn local_servers_listen_on_the_loopback_interface_only() {
    let setup = || {
        let mut setup = Setup::allowing();
        setup.is_loopback = true;
        setup
    };
    for server in [Server::new(), Server::auto(), Server::k3d()] {
        let running = setup().run(server).await;
        let url = format!("https://127.0.0.1:{}", running.port());
        assert_eq!(running.url(), url);
        let mut client = Connecting::to(&running.config).connect().await.unwrap();
        assert_eq!(client.review("/x", &review("u")).await.unwrap().status, 200);
        // The other loopback addresses are not served, so all interfaces are not either.
        let elsewhere = tokio::net::TcpStream::connect(("127.0.0.2", running.port())).await;
        assert!(elsewhere.is_err());
    }
    let running = setup().run(Server::new().addr("0.0.0.0")).await;
    let elsewhere = tokio::net::TcpStream::connect(("127.0.0.2", running.port())).await;
    assert!(elsewhere.is_ok(), "an explicit address is respected");
}
