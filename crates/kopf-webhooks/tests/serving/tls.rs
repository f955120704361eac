//! Tests of certificates: of servers, generated or given, and of clients.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_webhooks::{Error, Server, Verify};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ProtocolVersion, ServerConfig};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::Connecting;
use crate::operator::{Running, Setup, review};
use crate::pki::{Authority, Identity, write};

fn server() -> Server {
    Server::new().addr("127.0.0.1")
}

/// Returns a server with a certificate from files.
fn server_with(folder: &TempDir, identity: &Identity) -> Server {
    server()
        .certfile(write(folder.path(), "cert.pem", &identity.certificate))
        .pkeyfile(write(folder.path(), "key.pem", &identity.key))
}

async fn is_served(connecting: &Connecting) -> bool {
    let Ok(mut client) = connecting.connect().await else {
        return false;
    };
    let answered = client.review("/check", &review("u")).await;
    answered.is_ok_and(|response| response.status == 200)
}

fn bundle(running: &Running) -> String {
    let bundle = running
        .config
        .ca_bundle
        .as_ref()
        .expect("there is a CA bundle");
    String::from_utf8(STANDARD.decode(bundle).unwrap()).unwrap()
}

/// Returns the error of a server.
async fn failure(server: Server) -> Error {
    let Err(error) = Setup::allowing().try_run(server).await else {
        panic!("it runs");
    };
    *error.downcast().expect("it is an error of this crate")
}

#[tokio::test]
async fn both_tls_versions_work_with_both_http_versions() {
    let running = Setup::allowing().run(server()).await;
    for (version, expected) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        for is_http2 in [false, true] {
            let mut connecting = Connecting::to(&running.config);
            connecting.version = Some(version);
            connecting.is_http2 = is_http2;
            let stream = connecting.tls().await.unwrap();
            assert_eq!(stream.get_ref().1.protocol_version(), Some(expected));
            assert!(is_served(&connecting).await, "{expected:?}, {is_http2}");
        }
    }
}

#[tokio::test]
async fn generated_certificates_cover_the_announced_names() {
    let extra = ["extra.example", "10.1.2.3"];
    for (server, url, others) in [
        (Server::new(), "https://localhost:", &[][..]),
        (Server::new().addr("localhost"), "https://localhost:", &[]),
        (Server::new().addr("0.0.0.0"), "https://127.0.0.1:", &[]),
        (Server::new().addr("127.0.0.1"), "https://127.0.0.1:", &[]),
        (
            server().host("h.example"),
            "https://h.example:",
            &["127.0.0.1"],
        ),
        (
            server().host("10.9.8.7"),
            "https://10.9.8.7:",
            &["127.0.0.1"],
        ),
        (server().extra_sans(extra), "https://127.0.0.1:", &extra),
        (Server::k3d(), "https://host.k3d.internal:", &["localhost"]),
        (
            Server::minikube(),
            "https://host.minikube.internal:",
            &["localhost"],
        ),
        (
            Server::docker_desktop(),
            "https://host.docker.internal:",
            &["localhost"],
        ),
        (
            Server::k3d().host("other"),
            "https://other:",
            &["localhost"],
        ),
    ] {
        let running = Setup::allowing().run(server).await;
        assert!(
            running.url().starts_with(url),
            "{} is not {url}",
            running.url()
        );
        let connecting = Connecting::to(&running.config);
        assert!(is_served(&connecting).await, "{url}");
        for name in others {
            assert!(
                is_served(&connecting.clone().with_name(name)).await,
                "{url}: {name}"
            );
        }
        for name in ["stranger.example", "10.0.0.1"] {
            assert!(
                !is_served(&connecting.clone().with_name(name)).await,
                "{url}: {name}"
            );
        }
    }
}

#[tokio::test]
async fn ipv6_is_served() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        // OpenSSL is optional.
        return;
    }
    for (addr, url) in [
        (Some("::1"), "https://[::1]:"),
        (Some("::"), "https://[::1]:"),
        (None, "https://localhost:"),
    ] {
        let mut server = Server::new();
        if let Some(addr) = addr {
            server = server.addr(addr);
        }
        let running = Setup::allowing().run(server).await;
        assert!(
            running.url().starts_with(url),
            "{} is not {url}",
            running.url()
        );
        let mut connecting = Connecting::to(&running.config);
        connecting.address = "::1";
        assert!(is_served(&connecting).await, "{addr:?}");
    }
}

#[tokio::test]
async fn bundle_is_the_generated_ca_and_is_dumped() {
    let folder = TempDir::new().unwrap();
    let dump = folder.path().join("ca.pem");
    // The given CA is not that of the generated certificate.
    let other = Authority::new("other").pem;
    let running = Setup::allowing()
        .run(server().cadump(&dump).cadata(other))
        .await;
    let dumped = std::fs::read_to_string(&dump).unwrap();
    assert_eq!(dumped, bundle(&running));
    assert_eq!(dumped.matches("BEGIN CERTIFICATE").count(), 1);
    assert!(!dumped.contains("KEY"));
    let stream = Connecting::to(&running.config).tls().await.unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap();
    assert_ne!(shown, crate::pki::certificates(dumped.as_bytes()));
    assert!(is_served(&Connecting::to(&running.config)).await);

    let nowhere = folder.path().join("no/such/folder");
    let error = failure(server().cadump(&nowhere)).await;
    assert!(matches!(error, Error::Dump { .. }), "{error}");
}

#[tokio::test]
async fn given_certificates_are_used() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("ca");
    let identity = authority.server("127.0.0.1");
    let given = || server_with(&folder, &identity);
    let cafile = write(folder.path(), "ca.pem", &authority.pem);

    let running = Setup::allowing().run(given().cafile(&cafile)).await;
    assert_eq!(bundle(&running), authority.pem);
    assert!(is_served(&Connecting::to(&running.config)).await);

    let other = Authority::new("other").pem;
    let running = Setup::allowing()
        .run(given().cafile(&cafile).cadata(&*other))
        .await;
    assert_eq!(bundle(&running), other);

    let running = Setup::allowing().run(given()).await;
    assert_eq!(bundle(&running), identity.certificate);

    // Both in one file: the key must not be announced.
    let both = format!("{}{}", identity.key, identity.certificate);
    let both = write(folder.path(), "both.pem", &both);
    let running = Setup::allowing()
        .run(server().certfile(&both).pkeyfile(&both))
        .await;
    assert_eq!(bundle(&running), identity.certificate);
}

#[tokio::test]
async fn keys_with_passwords_are_decrypted() {
    const KEY: &str = include_str!("../../src/tls/testdata/aes256-sha256.pem");
    const CERTIFICATE: &str = include_str!("certificate.pem");
    let folder = TempDir::new().unwrap();
    let identity = Identity {
        certificate: CERTIFICATE.to_owned(),
        key: KEY.to_owned(),
    };
    let given = || server_with(&folder, &identity);
    // The certificate expires one day, which does not matter: only the key must match.
    Setup::allowing().run(given().password("secret")).await;
    for (server, problem) in [
        (given(), "the option `password` is not set"),
        (given().password("wrong"), "wrong password"),
    ] {
        let error = failure(server).await.to_string();
        assert!(
            error.contains(problem) && error.contains("key.pem"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn errors_name_unusable_files() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let authority = Authority::new("ca");
    let (one, other) = (authority.server("a"), authority.server("b"));
    let given = || server_with(&folder, &one);
    let wrong = write(folder.path(), "wrong.pem", &other.key);
    let empty = write(folder.path(), "empty.pem", "");
    let pem = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
    let odd = write(folder.path(), "odd.pem", &pem("CERTIFICATE"));
    let odd_key = write(folder.path(), "odd-key.pem", &pem("PRIVATE KEY"));
    let running = Setup::allowing().run(given()).await;
    let taken = running.port();
    for (server, problem) in [
        (given().certfile(path("missing")), "certfile"),
        (given().pkeyfile(path("missing")), "missing"),
        (given().cafile(path("missing")), "cafile"),
        (given().cafile(&empty), "cafile"),
        (given().certfile(&empty), "contains no certificates"),
        (given().pkeyfile(&empty), "contains no private key"),
        (given().pkeyfile(&wrong), "wrong.pem for the webhook server"),
        (given().pkeyfile(&wrong), "the key does not match"),
        (given().certfile(&odd), "the certificate is malformed"),
        (given().pkeyfile(&odd_key), "unsupported: must be RSA"),
        (given().host("a.b:9443"), "invalid host \"a.b:9443\""),
        (given().extra_sans(["a b"]), "invalid extra_sans \"a b\""),
        (
            given().addr("127.0.0.1:9443"),
            "invalid addr \"127.0.0.1:9443\"",
        ),
        (given().path("/../x"), "invalid path \"/../x\""),
        (server().pkeyfile(&wrong), "must be set together"),
        (given().verify_cafile(path("missing")), "verify_cafile"),
        (given().verify_capath(path("missing")), "verify_capath"),
        (given().verify_cadata("x"), "verify_cadata"),
        (given().insecure(true), "insecure"),
        (server().host("bücher.example"), "bücher.example"),
        (server().port(taken), "cannot listen at 127.0.0.1"),
    ] {
        let error = failure(server).await.to_string();
        assert!(error.contains(problem), "{error} is not about {problem}");
    }
}

#[tokio::test]
async fn given_context_is_used_unchanged() {
    let authority = Authority::new("ca");
    let identity = authority.server("127.0.0.1");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(identity.chain(), identity.private_key())
        .unwrap();
    let context = server().context(Arc::new(config));
    let running = Setup::allowing()
        .run(context.clone().cadata(&*authority.pem))
        .await;
    let mut connecting = Connecting::to(&running.config);
    assert!(is_served(&connecting).await);
    connecting.version = Some(&TLS13);
    assert!(!is_served(&connecting).await);

    let running = Setup::allowing().run(context.clone()).await;
    assert_eq!(running.config.ca_bundle, None);
    let error = failure(context.insecure(true)).await.to_string();
    assert!(error.contains("excludes a TLS context"), "{error}");
}

#[tokio::test]
async fn sessions_are_resumed() {
    let running = Setup::allowing().run(server()).await;
    let connecting = Connecting::to(&running.config);
    for version in [&TLS12, &TLS13] {
        let mut connecting = connecting.clone();
        connecting.version = Some(version);
        let config = connecting.tls_config();
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let mut stream = connecting.tls_by(Arc::clone(&config)).await.unwrap();
            kinds.push(stream.get_ref().1.handshake_kind().unwrap());
            // Tickets arrive with the first data.
            let head = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            stream.write_all(head).await.unwrap();
            stream.read_to_end(&mut Vec::new()).await.unwrap();
        }
        assert_eq!(
            kinds,
            [HandshakeKind::Full, HandshakeKind::Resumed],
            "{version:?}"
        );
    }
}

#[tokio::test]
async fn verified_clients_are_passed_to_the_operator() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("clients");
    let known = authority.client("someone");
    let alone = Identity::self_signed("Example Common Name");
    let stranger = Authority::new("strangers").client("stranger");
    write(folder.path(), "a.0", &authority.pem);
    let both = format!("{}{}", authority.pem, alone.certificate);
    let cafile = write(folder.path(), "b.0", &both);
    for (server, needs_one) in [
        (server().verify_cafile(&cafile), false),
        (server().verify_cadata(&*both), false),
        (server().verify_capath(folder.path()), false),
        (
            server().verify_cafile(&cafile).verify_mode(Verify::None),
            false,
        ),
        (
            server()
                .verify_cafile(&cafile)
                .verify_mode(Verify::Optional),
            false,
        ),
        (
            server()
                .verify_cafile(&cafile)
                .verify_mode(Verify::Required),
            true,
        ),
    ] {
        let running = Setup::allowing().run(server).await;
        let connecting = Connecting::to(&running.config);
        assert_eq!(is_served(&connecting).await, !needs_one);
        assert!(!is_served(&connecting.clone().with_identity(&stranger)).await);
        for version in [&TLS12, &TLS13] {
            for (identity, name) in [(&known, "someone"), (&alone, "Example Common Name")] {
                let mut connecting = connecting.clone().with_identity(identity);
                connecting.version = Some(version);
                assert!(is_served(&connecting).await, "{name}");
                let peer = running.reviewed().pop().unwrap().sslpeer.unwrap();
                let subject = peer["subject"].as_array().unwrap();
                assert!(subject.contains(&json!([["commonName", name]])), "{peer}");
                assert_eq!(peer["version"], 3);
            }
        }
        let first = running.reviewed().into_iter().next().unwrap().sslpeer;
        assert_eq!(first.is_none(), !needs_one);
    }
}

#[tokio::test]
async fn client_certificates_are_not_requested_by_default() {
    let running = Setup::allowing().run(server()).await;
    let identity = Identity::self_signed("someone");
    let connecting = Connecting::to(&running.config).with_identity(&identity);
    assert!(is_served(&connecting).await);
    assert_eq!(running.reviewed()[0].sslpeer, None);
}
