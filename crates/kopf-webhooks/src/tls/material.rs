//! What a server is run with, made of its options and files.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;

use super::bundle::Bundle;
use super::certificates::{certificates, private_key};
use super::files::Files;
use super::generating::{Generated, RENEWED_AFTER_DAYS, generate};
use super::verifying::verifier;
use super::{Options, Verify};
use crate::Error;

/// What a server is run with.
#[derive(Clone)]
pub(crate) struct Material {
    /// How it talks; in plain text if there is none.
    pub(crate) config: Option<Arc<ServerConfig>>,
    /// Who vouches for it.
    pub(crate) bundle: Option<Bundle>,
    /// The certificate that is shown, as far as it is known.
    chain: Vec<CertificateDer<'static>>,
    /// Whether those who should vouch for the certificate do.
    pub(super) is_vouched: bool,
    /// The fingerprint of all the files.
    pub(super) digest: [u8; 32],
    /// The certificate that was made up, if it was.
    pub(super) identity: Option<Arc<Identity>>,
}

/// A certificate that was made up.
pub(super) struct Identity {
    made: Generated,
    /// When it is to be made anew.
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
        Ok(Self {
            made,
            due: due.unwrap_or(Timestamp::MAX),
        })
    }
}

impl Material {
    /// Makes it. This can take long: passwords of keys are stirred.
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
            material.bundle = Some(Bundle::new(vec![identity.made.authority.clone()]));
            material.chain = vec![identity.made.certificate.clone()];
            let key = identity.made.key.clone_key();
            material.identity = Some(identity);
            key
        };
        let provider = Arc::new(ring::default_provider());
        if let Some(bundle) = &material.bundle {
            material.is_vouched = bundle.vouches_for(&material.chain, Arc::clone(&provider));
        }
        let verifier = client_verifier(options, files, &provider)?;
        let config = config(material.chain.clone(), key, verifier, provider)?;
        material.config = Some(Arc::new(config));
        Ok(material)
    }

    /// Who has to be trusted before this material can follow the other, if they are not already:
    /// the authorities of both. Those who connect are not told by the server, but by the cluster,
    /// and that takes a while.
    pub(crate) fn bridge_from(&self, current: &Self) -> Option<Bundle> {
        let (old, new) = (current.bundle.as_ref()?, self.bundle.as_ref()?);
        let is_needed = self.chain != current.chain && !new.is_within(old);
        is_needed.then(|| old.joined(new))
    }
}

/// The authorities that are given, if they are.
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

type Given = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The certificate and the key that are given, if they are.
fn given(options: &Options, files: &Files) -> Result<Option<Given>, Error> {
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

#[cfg(test)]
impl Material {
    /// The same, but for a generated certificate that is to be made anew at once.
    pub(super) fn overdue(mut self, names: &[String]) -> Self {
        let mut identity = Identity::new(names).unwrap();
        identity.due = Timestamp::now();
        self.identity = Some(Arc::new(identity));
        self
    }
}
