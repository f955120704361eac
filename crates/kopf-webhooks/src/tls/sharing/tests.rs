use std::pin::Pin;

use kopf_core::admission::ServerError;
use kopf_core::sync::Mutex;

use super::super::generating::generate;
use super::*;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store in memory, as an object with versions.
#[derive(Default)]
struct Memory(Mutex<Content>);

#[derive(Default)]
struct Content {
    stored: Option<Certificate>,
    version: u64,
    /// Stored by another replica before the next save.
    rival: Option<Certificate>,
}

impl Memory {
    fn with<T>(&self, change: impl FnOnce(&mut Content) -> T) -> T {
        change(&mut self.0.lock())
    }

    fn put(&self, certificate: Option<Certificate>) {
        self.with(|content| {
            content.stored = certificate;
            content.version += 1;
        });
    }

    fn saves(&self) -> u64 {
        self.with(|content| content.version)
    }
}

impl Content {
    fn stored(&self) -> Option<StoredCertificate> {
        let certificate = self.stored.clone()?;
        Some(StoredCertificate {
            certificate,
            version: self.version.to_string(),
            origin: "Secret ns/x".to_owned(),
        })
    }
}

impl CertificateStore for Memory {
    fn load(&self) -> BoxFuture<'_, Result<Option<StoredCertificate>, ServerError>> {
        Box::pin(async { Ok(self.with(|content| content.stored())) })
    }

    fn save(
        &self,
        certificate: Certificate,
        replaced: Option<String>,
    ) -> BoxFuture<'_, Result<Option<StoredCertificate>, ServerError>> {
        Box::pin(async move {
            Ok(self.with(|content| {
                if let Some(rival) = content.rival.take() {
                    content.stored = Some(rival);
                    content.version += 1;
                }
                let stored = content.stored();
                if stored.map(|stored| stored.version) != replaced {
                    return None;
                }
                content.stored = Some(certificate);
                content.version += 1;
                content.stored()
            }))
        })
    }
}

fn replica(store: &Arc<Memory>, names: &[&str]) -> Sharing {
    let names = names.iter().map(|name| (*name).to_owned());
    Sharing::new(
        Arc::clone(store) as Arc<dyn CertificateStore>,
        names.collect(),
    )
}

/// A certificate that was generated so many days ago.
fn aged(names: &[&str], days: i64) -> Certificate {
    let now = Timestamp::now().as_second() - days * 86_400;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = generate(&names, Timestamp::from_second(now).unwrap()).unwrap();
    Certificate {
        chain: pem("CERTIFICATE", &made.certificate),
        key: pem("PRIVATE KEY", made.key.secret_der()),
        authorities: Bundle::new(vec![made.authority]).pem(),
    }
}

#[tokio::test]
async fn the_first_replica_generates_and_others_use_its_certificate() {
    let store = Arc::new(Memory::default());
    let (one, two) = (replica(&store, &["op.svc"]), replica(&store, &["op.svc"]));
    let first = one.identity(None).await.unwrap();
    let second = two.identity(None).await.unwrap();
    assert_eq!(first.certificate, second.certificate);
    assert_eq!(first.key.secret_der(), second.key.secret_der());
    assert_eq!(first.authorities, second.authorities);
    assert_eq!(store.saves(), 1);
    let again = one.identity(Some(&first)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again), "nothing has changed");
}

#[tokio::test]
async fn of_two_replicas_that_start_at_once_the_faster_one_wins() {
    let store = Arc::new(Memory::default());
    let rival = aged(&["op.svc"], 1);
    store.with(|content| content.rival = Some(rival.clone()));
    let identity = replica(&store, &["op.svc"]).identity(None).await.unwrap();
    assert_eq!(encode(&identity), rival);
}

#[tokio::test]
async fn certificates_are_replaced_before_they_expire() {
    let store = Arc::new(Memory::default());
    let young = aged(&["op.svc"], 200);
    store.put(Some(young.clone()));
    let one = replica(&store, &["op.svc"]);
    let known = one.identity(None).await.unwrap();
    assert_eq!(encode(&known), young);

    store.put(Some(aged(&["op.svc", "other.svc"], 300)));
    let old = parse(&store.with(|content| content.stored()).unwrap()).unwrap();
    let replaced = one.identity(Some(&known)).await.unwrap();
    assert_ne!(replaced.certificate, old.certificate);
    assert_eq!(names_of(&replaced.certificate), ["op.svc"]);
    let [new, earlier] = &replaced.authorities[..] else {
        panic!("both CAs are needed until all replicas use the new certificate");
    };
    assert_ne!(new, earlier);
    assert_eq!(earlier, &old.authorities[0]);
    let other = replica(&store, &["op.svc"]);
    let followed = other.identity(None).await.unwrap();
    assert_eq!(followed.certificate, replaced.certificate);
    assert_eq!(followed.authorities, replaced.authorities);

    store.put(Some(aged(&["op.svc"], 400)));
    let replaced = one.identity(Some(&known)).await.unwrap();
    assert_eq!(replaced.authorities.len(), 1, "expired CAs are dropped");
}

#[tokio::test]
async fn names_of_all_replicas_are_joined() {
    let store = Arc::new(Memory::default());
    let (one, two) = (
        replica(&store, &["op.svc", "10.0.0.1"]),
        replica(&store, &["op.svc", "::2"]),
    );
    let first = one.identity(None).await.unwrap();
    let second = two.identity(None).await.unwrap();
    let names = names_of(&second.certificate);
    assert_eq!(names, ["op.svc", "::2", "10.0.0.1"]);
    assert_eq!(second.authorities.len(), 2);
    let followed = one.identity(Some(&first)).await.unwrap();
    assert_eq!(followed.certificate, second.certificate);
    assert_eq!(store.saves(), 2, "they agree");
}

#[tokio::test]
async fn a_deleted_certificate_is_restored() {
    let store = Arc::new(Memory::default());
    let one = replica(&store, &["op.svc"]);
    let known = one.identity(None).await.unwrap();
    store.put(None);
    let restored = one.identity(Some(&known)).await.unwrap();
    assert!(Arc::ptr_eq(&known, &restored));
    let stored = store.with(|content| content.stored.clone());
    assert_eq!(stored, Some(encode(&known)));
}

#[tokio::test]
async fn malformed_certificates_are_errors_and_are_kept() {
    let (good, other) = (aged(&["op.svc"], 1), aged(&["op.svc"], 1));
    let spoiled = |change: fn(&mut Certificate, Certificate)| {
        let mut certificate = good.clone();
        change(&mut certificate, other.clone());
        certificate
    };
    for (certificate, reason) in [
        (spoiled(|one, _| one.chain.clear()), "tls.crt has no"),
        (spoiled(|one, _| one.key = "x".to_owned()), "tls.key has no"),
        (spoiled(|one, other| one.key = other.key), "private key of"),
        (
            spoiled(|one, other| one.authorities = other.authorities),
            "not signed by",
        ),
        (spoiled(|one, _| one.authorities.clear()), "not signed by"),
    ] {
        let store = Arc::new(Memory::default());
        store.put(Some(certificate.clone()));
        let Err(error) = replica(&store, &["op.svc"]).identity(None).await else {
            panic!("it is used: {reason}");
        };
        let error = error.to_string();
        assert!(error.contains(reason), "{error}");
        assert!(error.contains("Secret ns/x"), "{error}");
        let stored = store.with(|content| content.stored.clone());
        assert_eq!(stored, Some(certificate), "it is not overwritten");
    }
}
