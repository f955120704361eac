//! TLS material of a server, built from its options and files.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use x509_cert::der::Decode as _;
use x509_cert::{Certificate, Version};

use super::bundle::Bundle;
use super::certificates::{certificates, private_key};
use super::files::Files;
use super::generating::{Generated, RENEWED_AFTER_DAYS, generate};
use super::verifying::verifier;
use super::{Options, Verify};
use crate::Error;

/// The TLS material of a server.
#[derive(Clone)]
pub(crate) struct Material {
    /// The TLS configuration; `None` for plain HTTP.
    pub(crate) config: Option<Arc<ServerConfig>>,
    /// The CA bundle for API servers.
    pub(crate) bundle: Option<Bundle>,
    /// The certificate chain, if it is known.
    chain: Vec<CertificateDer<'static>>,
    /// `true` if the CA bundle contains the issuer of the certificate.
    pub(super) is_vouched: bool,
    /// The digest of all files.
    pub(super) digest: [u8; 32],
    /// The generated certificate, if there is one.
    pub(super) identity: Option<Arc<Identity>>,
}

/// A generated certificate.
pub(super) struct Identity {
    /// The CA of the certificate, followed by those of earlier certificates.
    pub(super) authorities: Vec<CertificateDer<'static>>,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
    /// The time of its renewal.
    pub(super) due: Timestamp,
}

impl Identity {
    pub(super) fn new(names: &[String]) -> Result<Self, Error> {
        let now = Timestamp::now();
        let made = generate(names, now).map_err(|source| Error::Generation {
            names: names.to_vec(),
            source,
        })?;
        let due = now.checked_add((24 * RENEWED_AFTER_DAYS).hours());
        Ok(Self::of(made, due.unwrap_or(Timestamp::MAX)))
    }

    fn of(made: Generated, due: Timestamp) -> Self {
        Self {
            authorities: vec![made.authority],
            certificate: made.certificate,
            key: made.key,
            due,
        }
    }
}

impl Material {
    /// Builds the material. Blocks for long if a key is encrypted.
    pub(super) fn new(
        options: &Options,
        files: &Files,
        names: &[String],
        identity: Option<Arc<Identity>>,
    ) -> Result<Self, Error> {
        let mut material = Self {
            config: None,
            bundle: authorities(options, files)?,
            chain: Vec::new(),
            is_vouched: true,
            digest: files.digest,
            identity: None,
        };
        if options.insecure {
            material.bundle = None;
            return Ok(material);
        }
        if let Some(context) = &options.context {
            material.config = Some(Arc::clone(context));
            return Ok(material);
        }
        let key = if let Some((chain, key)) = given(options, files)? {
            material
                .bundle
                .get_or_insert_with(|| Bundle::new(chain.clone()));
            material.chain = chain;
            key
        } else {
            let identity = match identity {
                Some(identity) => identity,
                None => Arc::new(Identity::new(names)?),
            };
            material.bundle = Some(Bundle::new(identity.authorities.clone()));
            material.chain = vec![identity.certificate.clone()];
            let key = identity.key.clone_key();
            material.identity = Some(identity);
            key
        };
        let provider = Arc::new(ring::default_provider());
        if let Some(bundle) = &material.bundle {
            material.is_vouched = bundle.vouches_for(&material.chain, Arc::clone(&provider));
        }
        let verifier = client_verifier(options, files, &provider)?;
        let config = config(material.chain.clone(), key, verifier, provider);
        let config = config.map_err(|error| blamed(error, options, &material.chain))?;
        material.config = Some(Arc::new(config));
        Ok(material)
    }

    /// Returns the reason why clients reject the certificate at this time, regardless of the CA.
    pub(super) fn complaint(&self, now: Timestamp) -> Option<&'static str> {
        let certificate = Certificate::from_der(self.chain.first()?).ok()?;
        let validity = certificate.tbs_certificate().validity();
        let now = u64::try_from(now.as_second()).unwrap_or_default();
        if now > validity.not_after.to_unix_duration().as_secs() {
            Some("has expired")
        } else if now < validity.not_before.to_unix_duration().as_secs() {
            Some("is not valid yet")
        } else {
            None
        }
    }

    /// Returns the union of both CA bundles if it must be announced before this material replaces
    /// the current one. API servers get the bundle through the cluster, which takes time.
    pub(crate) fn bridge_from(&self, current: &Self) -> Option<Bundle> {
        let (old, new) = (current.bundle.as_ref()?, self.bundle.as_ref()?);
        let is_needed = self.chain != current.chain && !new.is_within(old);
        is_needed.then(|| old.joined(new))
    }
}

/// Returns the CA bundle in the options, if there is one.
fn authorities(options: &Options, files: &Files) -> Result<Option<Bundle>, Error> {
    let authorities = match (&options.cadata, &options.cafile, &files.cafile) {
        (Some(text), _, _) => certificates(text, "cadata", "given as it is")?,
        (None, Some(path), Some(text)) => {
            certificates(text, "cafile", &path.display().to_string())?
        }
        _ => return Ok(None),
    };
    Ok(Some(Bundle::new(authorities)))
}

type CertificateAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns the certificate and the key in the options, if there are any.
fn given(options: &Options, files: &Files) -> Result<Option<CertificateAndKey>, Error> {
    let certificate = options.certfile.as_ref().zip(files.certfile.as_ref());
    let key = options.pkeyfile.as_ref().zip(files.pkeyfile.as_ref());
    let Some(((certfile, certificate), (pkeyfile, key))) = certificate.zip(key) else {
        return Ok(None);
    };
    let chain = certificates(certificate, "certfile", &certfile.display().to_string())?;
    let key = private_key(key, pkeyfile, options.password.as_deref())?;
    Ok(Some((chain, key)))
}

fn client_verifier(
    options: &Options,
    files: &Files,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
    let mode = options.verify();
    if mode == Verify::None {
        return Ok(None);
    }
    let mut authorities = Vec::new();
    for (option, path, text) in [
        (
            "verify_cafile",
            &options.verify_cafile,
            &files.verify_cafile,
        ),
        (
            "verify_capath",
            &options.verify_capath,
            &files.verify_capath,
        ),
    ] {
        if let (Some(path), Some(text)) = (path, text) {
            authorities.extend(certificates(text, option, &path.display().to_string())?);
        }
    }
    if let Some(text) = &options.verify_cadata {
        authorities.extend(certificates(text, "verify_cadata", "given as it is")?);
    }
    verifier(mode, authorities, Arc::clone(provider)).map(Some)
}

/// ALPN protocols in order of preference.
const PROTOCOLS: [&[u8]; 3] = [b"h2", b"http/1.1", b"http/1.0"];

/// Adds the files and the reason to an error of a certificate from files.
fn blamed(error: Error, options: &Options, chain: &[CertificateDer<'static>]) -> Error {
    match (error, &options.certfile, &options.pkeyfile) {
        (Error::Certificate(source), Some(certfile), Some(pkeyfile)) => Error::Unusable {
            certfile: certfile.clone(),
            pkeyfile: pkeyfile.clone(),
            reason: reason(&source, chain),
            source: Box::new(source),
        },
        (error, _, _) => error,
    }
}

fn reason(error: &rustls::Error, chain: &[CertificateDer<'static>]) -> &'static str {
    let certificate = chain.first().map(|leaf| Certificate::from_der(leaf));
    match (error, certificate) {
        (rustls::Error::InconsistentKeys(_), _) => "the key does not match the certificate",
        (_, Some(Ok(certificate))) if certificate.tbs_certificate().version() != Version::V3 => {
            "the certificate has an old format, without names (subjectAltName); version 3 of X.509 is \
             needed"
        }
        (rustls::Error::InvalidCertificate(_), _) | (_, Some(Err(_))) => {
            "the certificate is malformed"
        }
        _ => {
            "the key is malformed or unsupported: must be RSA with 2048 to 8192 bits, ECDSA \
             with P-256 or P-384, Ed25519"
        }
    }
}

/// Returns the TLS configuration with this certificate.
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
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    // Tickets keep the sessions on the side of the clients, so that clients cannot evict those of
    // others.
    config.ticketer = ring::Ticketer::new().map_err(Error::Certificate)?;
    Ok(config)
}

#[cfg(test)]
impl Material {
    /// Returns the material with a generated certificate that is due for renewal.
    pub(super) fn overdue(mut self, names: &[String]) -> Self {
        let mut identity = Identity::new(names).unwrap();
        identity.due = Timestamp::now();
        self.identity = Some(Arc::new(identity));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_certificates_are_reported() {
        let made = "2026-11-15T01:02:03Z".parse().unwrap();
        let names = ["localhost".to_owned()];
        let identity = Identity::of(generate(&names, made).unwrap(), made);
        let (options, files) = (Options::default(), Files::default());
        let material = Material::new(&options, &files, &names, Some(Arc::new(identity))).unwrap();
        for (now, complaint) in [
            ("2026-11-13T23:59:59Z", Some("is not valid yet")),
            ("2026-11-14T00:00:00Z", None),
            ("2027-11-15T00:00:00Z", None),
            ("2027-11-15T00:00:01Z", Some("has expired")),
        ] {
            assert_eq!(material.complaint(now.parse().unwrap()), complaint, "{now}");
        }
    }

    /// Certificates of `openssl x509 -req` without extensions are of this version.
    #[test]
    fn v1_certificates_are_reported() {
        let old = include_str!("testdata/version1.pem");
        let old = certificates(old.as_bytes(), "certfile", "x").unwrap();
        let key = private_key(include_bytes!("testdata/plain.pem"), "x".as_ref(), None).unwrap();
        let provider = Arc::new(ring::default_provider());
        let Err(Error::Certificate(error)) = config(old.clone(), key, None, provider) else {
            panic!("it is accepted");
        };
        assert!(reason(&error, &old).contains("version 3"), "{error}");
    }
}
