//! The identity of a client in its certificate, verified by the handshake.

use std::fmt::Write as _;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The verified client certificate of a connection; an extension of each of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The subject's common name: the user.
    pub common_name: String,
    /// The subject's organizations: the user's groups.
    pub organizations: Vec<String>,
    /// SHA-256 of the certificate in lower-case hexadecimal digits.
    pub(crate) fingerprint: String,
}

impl PeerCertificate {
    /// Returns `None` if the certificate has no common name.
    pub fn parse(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let subject = parsed.subject();
        let common_name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        if common_name.is_empty() {
            return None;
        }
        let organizations = subject
            .iter_organization()
            .filter_map(|organization| organization.as_str().ok())
            .map(str::to_owned)
            .collect();
        Some(Self {
            common_name,
            organizations,
            fingerprint: fingerprint(certificate),
        })
    }
}

/// Returns SHA-256 in hexadecimal digits, computed by the TLS library.
fn fingerprint(bytes: &[u8]) -> String {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let Some(suite) = suite.tls13() else {
        return String::new();
    };
    let hash = suite.common.hash_provider.hash(bytes);
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_sha_256() {
        assert_eq!(
            fingerprint(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn malformed_certificate_has_no_user() {
        assert_eq!(
            PeerCertificate::parse(&CertificateDer::from(vec![1, 2, 3])),
            None
        );
    }
}
