//! CA bundles for API servers.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, RootCertStore};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, SubjectKeyIdentifier};

/// Length of PEM lines.
const LINE: usize = 64;

/// Encodes data in PEM.
pub(super) fn pem(label: &str, data: &[u8]) -> String {
    let body = STANDARD.encode(data);
    // Base64 is ASCII, so that it can be split anywhere.
    let lines = body.as_bytes().chunks(LINE).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    let body = lines.join("\n");
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

/// A CA bundle for API servers.
///
/// It contains parsed certificates instead of the source files: some users keep the certificate and
/// its private key in one file, and the bundle is visible to the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bundle(Vec<CertificateDer<'static>>);

impl Bundle {
    pub(super) fn new(authorities: Vec<CertificateDer<'static>>) -> Self {
        Self(authorities)
    }

    /// Returns the bundle in PEM.
    pub(crate) fn pem(&self) -> String {
        let texts = self.0.iter().map(|authority| pem("CERTIFICATE", authority));
        texts.collect()
    }

    /// Returns `true` if all certificates are in the other bundle.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|authority| other.0.contains(authority))
    }

    /// Returns the union of both bundles.
    pub(super) fn joined(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        let others = other.0.iter();
        all.extend(others.filter(|other| !self.0.contains(other)).cloned());
        Self(all)
    }

    /// Returns `true` if one of the authorities has signed the certificate, or is the certificate.
    /// Validity and names are not checked: clients do that.
    pub(super) fn vouches_for(
        &self,
        chain: &[CertificateDer<'static>],
        provider: Arc<CryptoProvider>,
    ) -> bool {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return true;
        };
        if self.0.contains(leaf) {
            return true;
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.0.iter().cloned());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let (Ok(verifier), Ok(name)) = (verifier.build(), ServerName::try_from("localhost")) else {
            return false;
        };
        let verified =
            verifier.verify_server_cert(leaf, intermediates, &name, &[], UnixTime::now());
        match verified {
            Err(rustls::Error::InvalidCertificate(error)) => match error {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => false,
                // The server certificate may be a CA certificate itself, which is common, though
                // not intended. It is accepted without further checks.
                CertificateError::Other(_) => {
                    let mut others = self.0.iter().chain(intermediates);
                    others.any(|other| is_issuer(other, leaf))
                }
                _ => true,
            },
            _ => true,
        }
    }
}

/// Returns `true` if the name and the key of one certificate are those of the issuer of the other.
fn is_issuer(one: &[u8], other: &[u8]) -> bool {
    let (Ok(one), Ok(other)) = (Certificate::from_der(one), Certificate::from_der(other)) else {
        return false;
    };
    let (one, other) = (one.tbs_certificate(), other.tbs_certificate());
    let own = one.get_extension::<SubjectKeyIdentifier>().ok().flatten();
    let issuing = other.get_extension::<AuthorityKeyIdentifier>();
    let issuing = issuing.ok().flatten().and_then(|(_, id)| id.key_identifier);
    let is_same_key = match (own, issuing) {
        (Some((_, own)), Some(issuing)) => own.0 == issuing,
        _ => true,
    };
    one.subject() == other.issuer() && is_same_key
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::crypto::ring;

    use super::super::certificates::certificates;
    use super::super::generating::{Generated, generate};
    use super::*;

    fn made() -> Generated {
        // The name is not checked here.
        generate(&["operator.example".to_owned()], Timestamp::now()).unwrap()
    }

    fn bundle(made: &Generated) -> Bundle {
        Bundle::new(vec![made.authority.clone()])
    }

    #[test]
    fn bundle_survives_a_round_trip() {
        let (one, two) = (made(), made());
        let joined = bundle(&one).joined(&bundle(&two)).joined(&bundle(&one));
        assert_eq!(joined.0, [one.authority.clone(), two.authority]);
        let pem = joined.pem();
        assert_eq!(
            certificates(pem.as_bytes(), "cafile", "x").unwrap(),
            joined.0
        );
        assert!(pem.lines().all(|line| line.len() <= LINE));
        assert!(bundle(&one).is_within(&joined));
        assert!(!joined.is_within(&bundle(&one)));
    }

    #[test]
    fn authority_is_matched_by_its_signature() {
        let vouches = |bundle: &Bundle, chain: &[_]| {
            bundle.vouches_for(chain, Arc::new(ring::default_provider()))
        };
        let (one, two) = (made(), made());
        assert!(vouches(
            &bundle(&one),
            std::slice::from_ref(&one.certificate)
        ));
        assert!(!vouches(
            &bundle(&two),
            std::slice::from_ref(&one.certificate)
        ));
        // As by `openssl req -x509`: CA certificates with the same name.
        let [mine, yours] = [(); 2].map(|()| {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.use_authority_key_identifier_extension = true;
            let made = params.self_signed(&KeyPair::generate().unwrap());
            made.unwrap().der().clone()
        });
        let of = |one: &CertificateDer<'static>| Bundle::new(vec![one.clone()]);
        assert!(vouches(&of(&mine), std::slice::from_ref(&mine)));
        assert!(!vouches(&of(&yours), std::slice::from_ref(&mine)));
        assert!(!vouches(&bundle(&one), std::slice::from_ref(&mine)));
        let itself = Bundle::new(vec![one.certificate.clone()]);
        assert!(vouches(&itself, std::slice::from_ref(&one.certificate)));
    }
}
