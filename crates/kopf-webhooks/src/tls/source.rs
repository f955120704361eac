//! The source of TLS material: loaded on startup and again when the files change.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::admission::CertificateStore;
use kopf_core::failure::describe;
use tokio::task::spawn_blocking;
use tracing::{debug, warn};

use super::bundle::Bundle;
use super::dumping::dump;
use super::files::Files;
use super::material::{Identity, Material};
use super::sharing::Sharing;
use super::{Options, Verify};
use crate::Error;

/// Minimum interval for checking the files.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Time for which changed files must stay unchanged, unless they are checked more often.
const SETTLING: Duration = Duration::from_secs(1);

/// A loader of material.
pub(crate) struct Source {
    options: Arc<Options>,
    /// The names of the server, for generated certificates.
    names: Arc<Vec<String>>,
    interval: Duration,
    /// The certificate of all replicas, if it is generated and shared.
    sharing: Option<Sharing>,
}

impl Source {
    pub(crate) fn new(
        options: Options,
        names: Vec<String>,
        interval: Duration,
        store: Option<Arc<dyn CertificateStore>>,
    ) -> Self {
        let store = store.filter(|_| options.is_generated());
        Self {
            sharing: store.map(|store| Sharing::new(store, names.clone())),
            options: Arc::new(options),
            names: Arc::new(names),
            interval: interval.max(SHORTEST_INTERVAL),
        }
    }

    /// Returns the time until all replicas have noticed a new certificate.
    pub(crate) fn notice_time(&self) -> Duration {
        let interval = self.sharing.as_ref().map(|_| self.interval);
        interval.unwrap_or_default()
    }

    /// Loads the material from the files, and writes the bundle to `cadump`.
    pub(crate) async fn load(&self) -> Result<Material, Error> {
        self.options.check()?;
        let files = Files::read(&self.options).await?;
        let files = files.settled(&self.options, Duration::ZERO).await?;
        let shared = match &self.sharing {
            Some(sharing) => Some(sharing.identity(None).await?),
            None => None,
        };
        let material = self.make(files, shared).await?;
        debug!(
            "{}",
            match (&material.config, &*self.options) {
                (None, _) => "Using no certificate: the webhook server uses plain HTTP.",
                (_, options) if options.context.is_some() => "Using a provided context for HTTPS.",
                (_, options) if options.certfile.is_some() =>
                    "Using a provided certificate for HTTPS.",
                _ if self.sharing.is_some() =>
                    "Using the certificate that the replicas share for HTTPS.",
                _ => "Generating a self-signed certificate for HTTPS.",
            }
        );
        if self.options.verify() != Verify::None {
            debug!("Loading a CA for client certificate verification.");
        }
        if !material.is_vouched {
            // This can be intended: a proxy may present another certificate to API servers.
            warn!("{}", Error::Unvouched);
        }
        self.complain(&material);
        if let Some(bundle) = &material.bundle {
            self.dump(bundle).await?;
        }
        Ok(material)
    }

    /// Waits for material that differs from the current one. Unusable files, such as one of two
    /// that are being replaced, are checked again later.
    ///
    /// # Cancellation
    /// Cancel-safe.
    pub(crate) async fn renewed(&self, current: &Material) -> Material {
        loop {
            tokio::time::sleep(self.interval).await;
            match self.look(current).await {
                Ok(Some(material)) => return material,
                Ok(None) => {}
                Err(error) => {
                    let error = describe(&error);
                    warn!("The webhook server keeps its old certificate: {error}");
                }
            }
        }
    }

    /// Returns material that differs from the current one, if there is any.
    async fn look(&self, current: &Material) -> Result<Option<Material>, Error> {
        let files = Files::read(&self.options).await?;
        let is_same = files.digest == current.digest;
        let identity = self.identity(current).await?;
        let address = |identity: &Option<Arc<Identity>>| identity.as_ref().map(Arc::as_ptr);
        if is_same && address(&identity) == address(&current.identity) {
            return Ok(None);
        }
        let files = if is_same {
            files
        } else {
            let pause = self.interval.min(SETTLING);
            files.settled(&self.options, pause).await?
        };
        let material = self.make(files, identity).await?;
        if current.is_vouched && !material.is_vouched {
            return Err(Error::Unvouched);
        }
        self.complain(&material);
        Ok(Some(material))
    }

    /// Returns the generated certificate to go on with, whatever happens to the files. `None` if a new one
    /// is to be generated, or if it is not generated.
    async fn identity(&self, current: &Material) -> Result<Option<Arc<Identity>>, Error> {
        let known = current.identity.clone();
        match &self.sharing {
            Some(sharing) => sharing.identity(known.as_ref()).await.map(Some),
            None => Ok(known.filter(|known| Timestamp::now() < known.due)),
        }
    }

    /// Warns of certificates that clients will reject. They are used nevertheless: the clock can be
    /// wrong.
    fn complain(&self, material: &Material) {
        if let (Some(path), Some(complaint)) =
            (&self.options.certfile, material.complaint(Timestamp::now()))
        {
            let path = path.display();
            warn!(
                "The certificate of the webhook server in {path} {complaint}: API servers reject it, \
                 and requests that need the webhooks fail. It is loaded again when it is replaced."
            );
        }
    }

    /// Builds the material on a blocking thread.
    async fn make(&self, files: Files, identity: Option<Arc<Identity>>) -> Result<Material, Error> {
        let (options, names) = (Arc::clone(&self.options), Arc::clone(&self.names));
        let making = spawn_blocking(move || Material::new(&options, &files, &names, identity));
        // Fails only if the task panics or the runtime shuts down.
        let failed = |error| Error::Certificate(rustls::Error::General(format!("{error}")));
        making.await.map_err(failed)?
    }

    /// Writes the bundle to `cadump`, if it is set.
    pub(crate) async fn dump(&self, bundle: &Bundle) -> Result<(), Error> {
        let Some(path) = &self.options.cadump else {
            return Ok(());
        };
        dump(path, &bundle.pem())
            .await
            .map_err(|source| Error::Dump {
                path: path.clone(),
                source,
            })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rcgen::{CertificateParams, KeyPair};

    use super::super::generating::generate;
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn source(options: Options) -> Source {
        Source::new(options, vec!["localhost".to_owned()], MINUTE, None)
    }

    async fn is_renewed_within(source: &Source, current: &Material, time: Duration) -> bool {
        let renewed = tokio::time::timeout(time, source.renewed(current));
        renewed.await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn generated_certificates_are_renewed_in_time() {
        let source = source(Options::default());
        let current = source.load().await.unwrap();
        let due = current.identity.as_ref().expect("it was made up").due;
        let days = due.duration_since(Timestamp::now()).as_hours() / 24;
        assert!((230..365).contains(&days), "{days}");
        assert!(!is_renewed_within(&source, &current, 100 * MINUTE).await);

        let current = current.overdue(&source.names);
        let renewed = source.renewed(&current).await;
        assert_ne!(renewed.bundle, current.bundle);
        assert!(renewed.identity.as_ref().expect("it was made up").due >= due);
        // The new CA must be announced before the new certificate is used.
        let both = renewed.bridge_from(&current).expect("it is another one");
        let (old, new) = (current.bundle.unwrap(), renewed.bundle.unwrap());
        assert_eq!(both, old.joined(&new));
    }

    #[tokio::test(start_paused = true)]
    async fn without_files_there_is_nothing_to_renew() {
        let source = source(Options {
            insecure: true,
            cadata: None,
            ..Options::default()
        });
        let current = source.load().await.unwrap();
        assert!(current.config.is_none() && current.bundle.is_none());
        assert!(!is_renewed_within(&source, &current, 100 * MINUTE).await);
    }

    #[tokio::test(start_paused = true)]
    async fn client_ca_files_are_reloaded() {
        let folder = tempfile::TempDir::new().unwrap();
        let cafile: PathBuf = folder.path().join("clients.pem");
        let authority = || {
            let made = generate(&["x".to_owned()], Timestamp::now()).unwrap();
            Bundle::new(vec![made.authority]).pem()
        };
        std::fs::write(&cafile, authority()).unwrap();
        let source = source(Options {
            verify_cafile: Some(cafile.clone()),
            ..Options::default()
        });
        let current = source.load().await.unwrap();
        assert!(!is_renewed_within(&source, &current, 10 * MINUTE).await);
        std::fs::write(&cafile, authority()).unwrap();
        let renewed = source.renewed(&current).await;
        // The server's own certificate is unchanged.
        assert_eq!(renewed.bundle, current.bundle);
        assert_eq!(renewed.bridge_from(&current), None);
        assert!(!is_renewed_within(&source, &renewed, 10 * MINUTE).await);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_not_decrypted_unless_files_have_changed() {
        let folder = tempfile::TempDir::new().unwrap();
        let (certfile, pkeyfile) = (folder.path().join("crt"), folder.path().join("key"));
        let key = KeyPair::from_pem(include_str!("testdata/plain.pem")).unwrap();
        let certificate = CertificateParams::new(vec!["x".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap().pem();
        std::fs::write(&certfile, &certificate).unwrap();
        std::fs::write(&pkeyfile, include_str!("testdata/aes256-sha256.pem")).unwrap();
        let with = |password: &str| {
            source(Options {
                certfile: Some(certfile.clone()),
                pkeyfile: Some(pkeyfile.clone()),
                password: Some(password.to_owned()),
                ..Options::default()
            })
        };
        let current = with("secret").load().await.unwrap();
        // Another password would be detected.
        let other = with("other");
        assert!(matches!(other.look(&current).await, Ok(None)));
        std::fs::write(&certfile, format!("{certificate}\n")).unwrap();
        let noticed = other.look(&current).await;
        assert!(matches!(noticed, Err(Error::EncryptedKey { .. })));
    }

    #[tokio::test]
    async fn zero_interval_is_replaced_by_the_minimum() {
        let source = Source::new(Options::default(), Vec::new(), Duration::ZERO, None);
        assert_eq!(source.interval, SHORTEST_INTERVAL);
    }
}
