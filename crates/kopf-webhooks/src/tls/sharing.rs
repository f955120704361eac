//! The generated certificate of several replicas: loaded from their store, or generated and stored.
//!
//! ```text
//! load ─┬─ absent ──────────────────► generate, or restore the known one ─► save (create)
//!       ├─ valid ───────────────────► use it                                   │ conflict
//!       └─ due, or without a name ──► generate a successor ─► save (replace) ──┴─► load again
//! ```
//!
//! A successor keeps the CAs of its predecessors in the bundle: replicas notice it at different times, and
//! the CA bundle of the webhook configurations has to fit them all. The private keys of these CAs do not
//! exist any longer, so that nothing else can be signed by them.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kopf_core::admission::{Certificate, CertificateStore, StoredCertificate};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tracing::{debug, info};
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::time::Time;

use super::bundle::{Bundle, pem};
use super::generating::Names;
use super::material::Identity;
use crate::Error;

/// Upper bound for the attempts to agree with other replicas.
const ATTEMPTS: usize = 10;

/// Upper bound for the CAs in the bundle. Certificates are replaced after months, so that two are usual.
const MAX_AUTHORITIES: usize = 4;

/// Upper bound for the names that are taken over from the predecessor.
const MAX_NAMES: usize = 32;

/// The certificate of several replicas.
pub(super) struct Sharing {
    store: Arc<dyn CertificateStore>,
    names: Vec<String>,
}

impl Sharing {
    pub(super) fn new(store: Arc<dyn CertificateStore>, names: Vec<String>) -> Self {
        Self { store, names }
    }

    /// Returns the certificate of all replicas: the known one if it is still current.
    ///
    /// # Errors
    ///
    /// The store fails, or has something else.
    ///
    /// # Cancellation
    ///
    /// If dropped, a new certificate may have been stored. It is loaded the next time.
    pub(super) async fn identity(
        &self,
        known: Option<&Arc<Identity>>,
    ) -> Result<Arc<Identity>, Error> {
        for _ in 0..ATTEMPTS {
            let stored = self.store.load().await.map_err(Error::Store)?;
            let now = Timestamp::now();
            let (identity, replaced) = match stored {
                None => (self.first(known, now)?, None),
                Some(stored) => {
                    let current = parse(&stored)?;
                    if now < current.due && self.is_covered_by(&current) {
                        let is_known =
                            |known: &&Arc<Identity>| known.certificate == current.certificate;
                        let known = known.filter(is_known).cloned();
                        return Ok(known.unwrap_or_else(|| Arc::new(current)));
                    }
                    let origin = &stored.origin;
                    info!("Replacing the certificate of the webhook servers in the {origin}.");
                    (self.successor(&current, now)?, Some(stored.version))
                }
            };
            let saving = self.store.save(encode(&identity), replaced);
            if saving.await.map_err(Error::Store)?.is_some() {
                return Ok(identity);
            }
            debug!("Another replica has stored a certificate for the webhook servers.");
        }
        Err(Error::Contended)
    }

    /// Returns the certificate for an empty store. The known one is restored if it was deleted.
    fn first(&self, known: Option<&Arc<Identity>>, now: Timestamp) -> Result<Arc<Identity>, Error> {
        match known.filter(|known| now < known.due) {
            Some(known) => Ok(Arc::clone(known)),
            None => Ok(Arc::new(Identity::new(&self.names)?)),
        }
    }

    /// Returns a new certificate that follows this one. Names of a certificate that is not due are those of
    /// other replicas, and are kept: otherwise, replicas with different names would replace it forever.
    fn successor(&self, current: &Identity, now: Timestamp) -> Result<Arc<Identity>, Error> {
        let mut names = self.names.clone();
        if now < current.due {
            let others = names_of(&current.certificate).into_iter();
            names.extend(others.take(MAX_NAMES));
        }
        let mut identity = Identity::new(&names)?;
        let is_valid = |authority: &&CertificateDer<'static>| {
            validity(authority).is_some_and(|(_, end)| now.as_second() < end)
        };
        let earlier = current.authorities.iter().filter(is_valid).cloned();
        identity.authorities.extend(earlier);
        identity.authorities.truncate(MAX_AUTHORITIES);
        Ok(Arc::new(identity))
    }

    fn is_covered_by(&self, identity: &Identity) -> bool {
        let names = names_of(&identity.certificate);
        let own = Names::sort(&self.names).all();
        own.iter().all(|name| names.contains(name))
    }
}

/// Parses and verifies a stored certificate, except for its dates and names.
fn parse(stored: &StoredCertificate) -> Result<Identity, Error> {
    let invalid = |reason| Error::Shared {
        origin: stored.origin.clone(),
        reason,
    };
    let Certificate {
        chain,
        key,
        authorities,
    } = &stored.certificate;
    let certificate = CertificateDer::from_pem_slice(chain.as_bytes());
    let certificate = certificate.map_err(|_| invalid("tls.crt has no certificate in PEM"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    let key = key.map_err(|_| invalid("tls.key has no private key in PEM"))?;
    let authorities: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(authorities.as_bytes()).collect();
    let authorities = authorities.map_err(|_| invalid("ca.crt is not valid PEM"))?;
    let chain = vec![certificate.clone()];
    let provider = Arc::new(ring::default_provider());
    CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider)
        .map_err(|_| invalid("tls.key is not the private key of tls.crt"))?;
    if !Bundle::new(authorities.clone()).vouches_for(&chain, provider) {
        return Err(invalid("tls.crt is not signed by a CA in ca.crt"));
    }
    let (begin, end) = validity(&certificate).ok_or_else(|| invalid("tls.crt is malformed"))?;
    // As for certificates that are not shared, which are replaced after 240 of 365 days.
    let due = begin.saturating_add(end.saturating_sub(begin) / 3 * 2);
    Ok(Identity {
        authorities,
        certificate,
        key,
        due: Timestamp::from_second(due).unwrap_or(Timestamp::MIN),
    })
}

fn encode(identity: &Identity) -> Certificate {
    let label = match &identity.key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    Certificate {
        chain: pem("CERTIFICATE", &identity.certificate),
        key: pem(label, identity.key.secret_der()),
        authorities: Bundle::new(identity.authorities.clone()).pem(),
    }
}

/// Returns the dates of a certificate, in seconds of the Unix time.
fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let parsed = x509_cert::Certificate::from_der(certificate).ok()?;
    let validity = parsed.tbs_certificate().validity();
    let seconds = |time: Time| i64::try_from(time.to_unix_duration().as_secs()).ok();
    Some((seconds(validity.not_before)?, seconds(validity.not_after)?))
}

/// Returns the alternative names and addresses of a certificate.
fn names_of(certificate: &[u8]) -> Vec<String> {
    let Ok(parsed) = x509_cert::Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let Ok(Some((_, names))) = parsed.tbs_certificate().get_extension::<SubjectAltName>() else {
        return Vec::new();
    };
    let names = names.0.iter().filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => address(bytes.as_bytes()),
        _ => None,
    });
    names.collect()
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or(v6).ok().map(|address| address.to_string())
}

#[cfg(test)]
mod tests;
