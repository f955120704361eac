//! Certificates that several servers share.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_core::admission::{
    Certificate, CertificateStore, ClientConfig, ServerError, StoredCertificate,
};
use kopf_core::sync::Mutex;
use kopf_webhooks::{Server, build_certificate};

use crate::client::Connecting;
use crate::operator::{Running, Setup, review};

/// A store in memory; the number is the version.
#[derive(Default)]
struct Store(Mutex<Option<(Certificate, u64)>>);

impl Store {
    fn put(&self, certificate: Certificate) {
        let mut stored = self.0.lock();
        let version = stored.as_ref().map_or(0, |(_, version)| *version);
        *stored = Some((certificate, version + 1));
    }

    fn stored(&self) -> Option<StoredCertificate> {
        let stored = self.0.lock();
        let (certificate, version) = stored.clone()?;
        Some(StoredCertificate {
            certificate,
            version: version.to_string(),
            origin: "Secret ns/x".to_owned(),
        })
    }
}

impl CertificateStore for Store {
    fn load(&self) -> BoxFuture<'_, Result<Option<StoredCertificate>, ServerError>> {
        Box::pin(async { Ok(self.stored()) })
    }

    fn save(
        &self,
        certificate: Certificate,
        replaced: Option<String>,
    ) -> BoxFuture<'_, Result<Option<StoredCertificate>, ServerError>> {
        Box::pin(async move {
            if self.stored().map(|stored| stored.version) != replaced {
                return Ok(None);
            }
            self.put(certificate);
            Ok(self.stored())
        })
    }
}

fn server() -> Server {
    Server::new()
        .addr("127.0.0.1")
        .file_check_interval(Duration::from_millis(10))
}

fn replica(store: &Arc<Store>) -> Setup {
    let mut setup = Setup::allowing();
    setup.store = Some(Arc::clone(store) as Arc<dyn CertificateStore>);
    setup
}

/// Sends a review to one server with the CA bundle of another one.
async fn reviewed(running: &Running, bundle: &ClientConfig) {
    let config = ClientConfig {
        ca_bundle: bundle.ca_bundle.clone(),
        ..running.config.clone()
    };
    let mut client = Connecting::to(&config).connect().await.unwrap();
    let answer = client.review("/", &review("1")).await.unwrap();
    assert_eq!(answer.json()["response"]["allowed"], true);
}

#[tokio::test]
async fn any_replica_can_be_reached_with_one_ca_bundle() {
    let store = Arc::new(Store::default());
    let first = replica(&store).run(server()).await;
    let second = replica(&store).run(server()).await;
    assert_ne!(first.port(), second.port());
    assert_eq!(first.config.ca_bundle, second.config.ca_bundle);
    reviewed(&first, &second.config).await;
    reviewed(&second, &first.config).await;
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn given_certificates_are_not_shared() {
    let store = Arc::new(Store::default());
    let running = replica(&store).run(server().insecure(true)).await;
    assert_eq!(running.config.ca_bundle, None);
    assert_eq!(store.stored(), None);
    running.stop().await;
}

#[tokio::test]
async fn a_replacement_is_announced_together_with_the_earlier_ca() {
    let store = Arc::new(Store::default());
    let mut running = replica(&store).run(server()).await;
    let before = running.config.clone();
    let (chain, key) = build_certificate(&["127.0.0.1".to_owned()]).unwrap();
    let (certificate, authority) = chain.split_at(chain.rfind("-----BEGIN").unwrap());
    store.put(Certificate {
        chain: certificate.to_owned(),
        key,
        authorities: authority.to_owned(),
    });
    running.next_config().await;
    // The old certificate is used until API servers have the new CA.
    reviewed(&running, &before).await;
    reviewed(&running, &running.config).await;
    assert_ne!(running.config.ca_bundle, before.ca_bundle);
    running.stop().await;
}

#[tokio::test]
async fn a_malformed_certificate_ends_the_server_at_its_start() {
    let store = Arc::new(Store::default());
    store.put(Certificate {
        chain: String::new(),
        key: String::new(),
        authorities: String::new(),
    });
    let Err(error) = replica(&store).try_run(server()).await else {
        panic!("it runs");
    };
    assert!(error.to_string().contains("Secret ns/x"), "{error}");
}
