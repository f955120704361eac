//! Where a server has its TLS settings from, once at the start and again when the files change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest as _};
use jiff::{Timestamp, ToSpan};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use tracing::{debug, warn};

use super::certificates::{certificates, private_key, without_keys};
use super::generating::{Generated, RENEWED_AFTER_DAYS, generate};
use super::verifying::verifier;
use super::{Options, Verify};
use crate::Error;

/// Files are not read more often than this, whatever the options say.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// What a server is run with.
#[derive(Clone)]
pub(crate) struct Material {
    /// How it talks; in plain text if there is none.
    pub(crate) config: Option<Arc<ServerConfig>>,
    /// Who vouches for it: certificates in PEM.
    pub(crate) bundle: Option<Vec<u8>>,
    /// A fingerprint of all the files. Not the files: keys do not stay in memory for this.
    digest: [u8; 32],
    /// When the certificate is to be made anew, if it was made up.
    renewed: Option<Timestamp>,
}

/// Makes the material.
pub(crate) struct Source {
    options: Options,
    /// What the server is called, for certificates that are made up.
    names: Vec<String>,
    interval: Duration,
}

impl Source {
    pub(crate) fn new(options: Options, names: Vec<String>, interval: Duration) -> Self {
        Self {
            options,
            names,
            interval: interval.max(SHORTEST_INTERVAL),
        }
    }

    /// The material as the files are now; the bundle is dumped where it is wanted.
    pub(crate) async fn load(&self) -> Result<Material, Error> {
        self.options.check()?;
        let material = self.material().await?;
        debug!(
            "{}",
            match (&material.config, &self.options) {
                (None, _) => "Using no certificate: the webhook server speaks plain HTTP.",
                (_, options) if options.context.is_some() => "Using a provided context for HTTPS.",
                (_, options) if options.certfile.is_some() =>
                    "Using a provided certificate for HTTPS.",
                _ => "Generating a self-signed certificate for HTTPS.",
            }
        );
        if self.options.verify() != Verify::None {
            debug!("Loading a CA for client certificate verification.");
        }
        self.dump(&material).await?;
        Ok(material)
    }

    /// Waits until there is other material than this. Files that cannot be used, such as one of two
    /// that are being replaced, are looked at again later.
    ///
    /// # Cancellation
    /// Can be dropped at any moment; then nothing has happened.
    pub(crate) async fn renewed(&self, current: &Material) -> Material {
        loop {
            tokio::time::sleep(self.interval).await;
            let is_due = current
                .renewed
                .is_some_and(|renewed| Timestamp::now() >= renewed);
            let is_generated = current.renewed.is_some();
            if is_generated && !is_due && self.options.verify() == Verify::None {
                continue;
            }
            let material = match self.material().await {
                Ok(material) if is_due || material.digest != current.digest => material,
                Ok(_) => continue,
                Err(error) => {
                    let cause = std::error::Error::source(&error);
                    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
                    warn!("The webhook server goes on with its old certificate: {error}{cause}");
                    continue;
                }
            };
            if let Err(error) = self.dump(&material).await {
                warn!("{error}");
            }
            return material;
        }
    }

    async fn dump(&self, material: &Material) -> Result<(), Error> {
        let (Some(path), Some(bundle)) = (&self.options.cadump, &material.bundle) else {
            return Ok(());
        };
        tokio::fs::write(path, bundle)
            .await
            .map_err(|source| Error::Dump {
                path: path.clone(),
                source,
            })
    }

    async fn material(&self) -> Result<Material, Error> {
        let options = &self.options;
        let mut files = Files::default();
        let mut bundle = None;
        if let Some(text) = &options.cadata {
            certificates(text, "cadata", "given as it is")?;
            bundle = Some(without_keys(text));
        } else if let Some(path) = &options.cafile {
            let text = files.read("cafile", path).await?;
            certificates(&text, "cafile", &path.display().to_string())?;
            bundle = Some(without_keys(&text));
        }
        let mut renewed = None;
        let config = if options.insecure {
            bundle = None;
            None
        } else if let Some(context) = &options.context {
            Some(Arc::clone(context))
        } else {
            let files_given = options.certfile.as_ref().zip(options.pkeyfile.as_ref());
            let (chain, key) = if let Some((certfile, pkeyfile)) = files_given {
                let text = files.read("certfile", certfile).await?;
                let from = certfile.display().to_string();
                let chain = certificates(&text, "certfile", &from)?;
                let key = files.read("pkeyfile", pkeyfile).await?;
                let key = private_key(&key, pkeyfile, options.password.as_deref())?;
                bundle.get_or_insert_with(|| without_keys(&text));
                (chain, key)
            } else {
                let now = Timestamp::now();
                let made = self.generate(now)?;
                renewed = now.checked_add((24 * RENEWED_AFTER_DAYS).hours()).ok();
                bundle = Some(made.authority.into_bytes());
                (vec![made.certificate], made.key)
            };
            let provider = Arc::new(ring::default_provider());
            let verifier = self.verifier(&mut files, &provider).await?;
            Some(Arc::new(config(chain, key, verifier, provider)?))
        };
        Ok(Material {
            config,
            bundle,
            digest: files.hasher.finalize().into(),
            renewed,
        })
    }

    fn generate(&self, now: Timestamp) -> Result<Generated, Error> {
        generate(&self.names, now).map_err(|source| Error::Generation {
            names: self.names.clone(),
            source,
        })
    }

    async fn verifier(
        &self,
        files: &mut Files,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
        let options = &self.options;
        let mode = options.verify();
        if mode == Verify::None {
            return Ok(None);
        }
        let mut authorities = Vec::new();
        if let Some(path) = &options.verify_cafile {
            let text = files.read("verify_cafile", path).await?;
            let from = path.display().to_string();
            authorities.extend(certificates(&text, "verify_cafile", &from)?);
        }
        if let Some(text) = &options.verify_cadata {
            authorities.extend(certificates(text, "verify_cadata", "given as it is")?);
        }
        if let Some(path) = &options.verify_capath {
            let text = files.read_all("verify_capath", path).await?;
            let from = path.display().to_string();
            authorities.extend(certificates(&text, "verify_capath", &from)?);
        }
        verifier(mode, authorities, Arc::clone(provider)).map(Some)
    }
}

/// How a server talks with this certificate.
fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Certificate)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(Error::Certificate)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Sessions are kept by clients: those of one cannot push out those of another.
    config.ticketer = ring::Ticketer::new().map_err(Error::Certificate)?;
    Ok(config)
}

/// Reads files, and remembers whether they are the same.
#[derive(Default)]
struct Files {
    hasher: Blake2b<U32>,
}

impl Files {
    async fn read(&mut self, option: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
        let text = tokio::fs::read(path).await.map_err(|source| Error::File {
            option,
            path: path.to_owned(),
            source,
        })?;
        self.hasher.update(text.len().to_be_bytes());
        self.hasher.update(&text);
        Ok(text)
    }

    /// All files of a folder, one after another in the order of their names.
    async fn read_all(&mut self, option: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
        let error = |source| Error::File {
            option,
            path: path.to_owned(),
            source,
        };
        let mut entries = tokio::fs::read_dir(path).await.map_err(error)?;
        let mut paths = Vec::new();
        while let Some(entry) = entries.next_entry().await.map_err(error)? {
            // Links are followed: mounted secrets are made of them, and so are hashed names.
            let metadata = tokio::fs::metadata(entry.path()).await.map_err(error)?;
            if metadata.is_file() {
                paths.push(entry.path());
            }
        }
        paths.sort();
        let mut all = Vec::new();
        for path in paths {
            all.extend(self.read(option, &path).await?);
            all.push(b'\n');
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn source(options: Options) -> Source {
        Source::new(options, vec!["localhost".to_owned()], MINUTE)
    }

    async fn is_renewed_within(source: &Source, current: &Material, time: Duration) -> bool {
        let renewed = tokio::time::timeout(time, source.renewed(current));
        renewed.await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn generated_certificates_are_made_anew_in_time() {
        let source = source(Options::default());
        let mut current = source.load().await.unwrap();
        let due = current.renewed.expect("it was made up");
        let days = due.duration_since(Timestamp::now()).as_hours() / 24;
        assert!((230..365).contains(&days), "{days}");
        assert!(!is_renewed_within(&source, &current, 100 * MINUTE).await);

        current.renewed = Some(Timestamp::now());
        let renewed = source.renewed(&current).await;
        assert_ne!(renewed.bundle, current.bundle);
        assert!(renewed.renewed > current.renewed);
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
    async fn authorities_of_clients_are_files_too() {
        let folder = tempfile::TempDir::new().unwrap();
        let cafile: PathBuf = folder.path().join("clients.pem");
        let authority = || {
            generate(&["x".to_owned()], Timestamp::now())
                .unwrap()
                .authority
        };
        std::fs::write(&cafile, authority()).unwrap();
        let source = source(Options {
            verify_cafile: Some(cafile.clone()),
            ..Options::default()
        });
        let current = source.load().await.unwrap();
        assert!(!is_renewed_within(&source, &current, 10 * MINUTE).await);
        std::fs::write(&cafile, authority()).unwrap();
        assert!(is_renewed_within(&source, &current, 10 * MINUTE).await);
    }

    #[tokio::test]
    async fn intervals_of_nothing_are_not_nothing() {
        let source = Source::new(Options::default(), Vec::new(), Duration::ZERO);
        assert_eq!(source.interval, SHORTEST_INTERVAL);
    }
}
