//! Tests of replacing certificates while the server runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_core::admission::ClientConfig;
use kopf_webhooks::Server;
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::client::Connecting;
use crate::operator::{Running, Setup, allowed, review};
use crate::pki::{Authority, Identity, certificates, write};

/// Returns a server with these files and a short check interval.
fn server(folder: &Path) -> Server {
    Server::new()
        .addr("127.0.0.1")
        .certfile(folder.join("cert.pem"))
        .pkeyfile(folder.join("key.pem"))
        .cafile(folder.join("ca.pem"))
        .file_check_interval(Duration::from_millis(1))
}

fn replace(folder: &Path, identity: &Identity) {
    write(folder, "key.pem", &identity.key);
    write(folder, "cert.pem", &identity.certificate);
}

fn authorities(config: &ClientConfig) -> Vec<CertificateDer<'static>> {
    certificates(&STANDARD.decode(config.ca_bundle.as_ref().unwrap()).unwrap())
}

async fn shown(running: &Running) -> Vec<u8> {
    let stream = Connecting::to(&running.config).tls().await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// Returns `true` if an HTTP/2 request was not processed before GOAWAY: clients resend such
/// requests on another connection.
fn is_not_taken(error: &hyper::Error) -> bool {
    let error = format!("{error:?}");
    error.contains("Canceled") || (error.contains("GoAway") && error.contains("NO_ERROR"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_certificates_are_replaced() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("ca");
    write(folder.path(), "ca.pem", &authority.pem);
    replace(folder.path(), &authority.server("127.0.0.1"));
    // Slow reviews ensure that some are always in progress.
    let slow = Setup::new(|incoming| async move {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(allowed(&incoming.review))
    });
    let mut running = slow.run(server(folder.path())).await;

    let is_over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for number in 0..8 {
        let mut connecting = Connecting::to(&running.config);
        connecting.is_http2 = number % 2 == 1;
        let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
        clients.spawn(async move {
            let (mut reconnected, mut asked) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                let mut client = connecting.connect().await.unwrap();
                reconnected += 1;
                while client.is_usable().await && !is_over.load(Ordering::Relaxed) {
                    let uid = format!("{number}-{asked}");
                    match client.review("/check", &review(&uid)).await {
                        Ok(response) => assert_eq!(response.status, 200),
                        Err(error) if is_not_taken(&error) => break,
                        Err(error) => panic!("a review is lost: {error:?}"),
                    }
                    asked += 1;
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
            reconnected
        });
    }
    for _ in 0..5 {
        let identity = authority.server("127.0.0.1");
        replace(folder.path(), &identity);
        running.next_config().await;
        while *shown(&running).await != *identity.chain()[0] {
            running.next_config().await;
        }
        // All clients have time to observe the change.
        let before = answered.load(Ordering::Relaxed);
        while answered.load(Ordering::Relaxed) < before + 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let reconnected = clients.join_all().await;
    // Requests rejected by one connection were resent on another, and none was processed twice.
    let mut uids: Vec<String> = running
        .reviewed()
        .iter()
        .map(|seen| seen.review["request"]["uid"].to_string())
        .collect();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), running.reviewed().len());
    assert_eq!(uids.len(), answered.load(Ordering::Relaxed));
    // Old connections end with the old certificate.
    assert!(
        reconnected.iter().all(|count| *count >= 3),
        "{reconnected:?}"
    );
}

#[tokio::test]
async fn new_bundle_is_announced() {
    let folder = TempDir::new().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    write(folder.path(), "ca.pem", &old.pem);
    replace(folder.path(), &old.server("127.0.0.1"));
    let dump = folder.path().join("dump.pem");
    let mut running = Setup::allowing()
        .run(server(folder.path()).cadump(&dump))
        .await;
    let url = running.url().to_owned();

    // First the CA bundle, then the certificate, so that clients always accept one.
    let both = format!("{}{}", old.pem, new.pem);
    write(folder.path(), "ca.pem", &both);
    let config = running.next_config().await.clone();
    assert_eq!(authorities(&config), certificates(both.as_bytes()));
    assert_eq!(config.url, Some(url), "it listens where it was");
    let dumped = std::fs::read(&dump).unwrap();
    assert_eq!(certificates(&dumped), certificates(both.as_bytes()));
    shown(&running).await;

    let identity = new.server("127.0.0.1");
    replace(folder.path(), &identity);
    running.next_config().await;
    assert_eq!(shown(&running).await, *identity.chain()[0]);
}

#[tokio::test]
async fn new_ca_is_announced_before_its_certificate_is_used() {
    let folder = TempDir::new().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    write(folder.path(), "ca.pem", &old.pem);
    let before = old.server("127.0.0.1");
    replace(folder.path(), &before);
    let mut running = Setup::allowing().run(server(folder.path())).await;
    let known = running.config.clone();
    let mut client = Connecting::to(&known).by_http2().connect().await.unwrap();

    // One after another: a mismatch of certificate and key is tolerated for a while.
    let after = new.server("127.0.0.1");
    write(folder.path(), "ca.pem", &new.pem);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!running.has_more_configs());
    replace(folder.path(), &after);

    let both = format!("{}{}", old.pem, new.pem);
    let config = running.next_config().await;
    assert_eq!(authorities(config), certificates(both.as_bytes()));
    // Clients with the old bundle are served as before, on old and new connections.
    assert!(client.is_usable().await);
    let mut late = Connecting::to(&known).connect().await.unwrap();
    for client in [&mut client, &mut late] {
        let response = client.review("/check", &review("u")).await.unwrap();
        assert_eq!(response.status, 200);
    }
    assert_eq!(shown(&running).await, *before.chain()[0]);

    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    // Clients with both CAs see no difference.
    let trusting = running.config.clone();
    let config = running.next_config().await;
    assert_eq!(authorities(config), certificates(new.pem.as_bytes()));
    assert_eq!(shown(&running).await, *after.chain()[0]);
    Connecting::to(&trusting).connect().await.unwrap();
}

#[tokio::test]
async fn unusable_files_are_checked_again() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("ca");
    write(folder.path(), "ca.pem", &authority.pem);
    let first = authority.server("127.0.0.1");
    replace(folder.path(), &first);
    let mut running = Setup::allowing().run(server(folder.path())).await;

    let second = authority.server("127.0.0.1");
    let breaking: [&dyn Fn(); 4] = [
        &|| drop(write(folder.path(), "key.pem", &second.key)),
        &|| drop(write(folder.path(), "key.pem", "")),
        &|| std::fs::remove_file(folder.path().join("key.pem")).unwrap(),
        &|| drop(write(folder.path(), "cert.pem", "garbage")),
    ];
    for broken in breaking {
        broken();
        // Enough for many checks.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(shown(&running).await, *first.chain()[0]);
        assert!(!running.has_more_configs());
    }
    replace(folder.path(), &second);
    running.next_config().await;
    assert_eq!(shown(&running).await, *second.chain()[0]);
}

#[tokio::test]
async fn connections_end_after_their_requests() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("ca");
    write(folder.path(), "ca.pem", &authority.pem);
    replace(folder.path(), &authority.server("127.0.0.1"));
    let mut running = Setup::allowing().run(server(folder.path())).await;
    let mut client = Connecting::to(&running.config).connect().await.unwrap();
    let response = client.review("/check", &review("u")).await.unwrap();
    assert!(!response.headers.contains_key("connection"));

    write(folder.path(), "ca.pem", &format!("{}\n", authority.pem));
    running.next_config().await;
    let response = client.review("/check", &review("u")).await.unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(response.headers["connection"], "close");
    assert!(!client.is_usable().await);
}
