//! Certificates and keys from PEM.

use std::path::Path;

use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::encrypted_key;
use crate::Error;

/// All certificates of a text, at least one.
pub(super) fn certificates(
    text: &[u8],
    option: &'static str,
    from: &str,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let certificates = certificates.map_err(|source| Error::Pem {
        option,
        from: from.to_owned(),
        source,
    })?;
    if certificates.is_empty() {
        return Err(Error::Empty {
            option,
            from: from.to_owned(),
            what: "certificates in PEM",
        });
    }
    Ok(certificates)
}

/// A text without the private keys in it. It is told to the whole cluster, and some people keep the
/// certificate and its key in one file.
pub(super) fn without_keys(text: &[u8]) -> Vec<u8> {
    let mut is_key = false;
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let kept = lines.filter(|line| {
        let line = line.trim_ascii();
        let is_end = is_key && line.starts_with(b"-----END ");
        is_key |= line.starts_with(b"-----BEGIN ") && line.ends_with(b"PRIVATE KEY-----");
        let is_kept = !is_key;
        is_key &= !is_end;
        is_kept
    });
    kept.collect::<Vec<_>>().concat()
}

/// The private key of a text.
pub(super) fn private_key(
    text: &[u8],
    path: &Path,
    password: Option<&str>,
) -> Result<PrivateKeyDer<'static>, Error> {
    if let Some(encrypted) = encrypted_key::find(text) {
        return encrypted_key::decrypt(&encrypted, password).map_err(|reason| {
            Error::EncryptedKey {
                path: path.to_owned(),
                reason,
            }
        });
    }
    let from = || path.display().to_string();
    // Certificates in the same file are not an error.
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let (kind, der) = section.map_err(|source| Error::Pem {
            option: "pkeyfile",
            from: from(),
            source,
        })?;
        match kind {
            SectionKind::PrivateKey => return Ok(PrivateKeyDer::Pkcs8(der.into())),
            SectionKind::RsaPrivateKey => return Ok(PrivateKeyDer::Pkcs1(der.into())),
            SectionKind::EcPrivateKey => return Ok(PrivateKeyDer::Sec1(der.into())),
            _ => {}
        }
    }
    Err(Error::Empty {
        option: "pkeyfile",
        from: from(),
        what: "private key in PEM",
    })
}

#[cfg(test)]
mod tests {
    use rcgen::KeyPair;

    use super::*;

    #[test]
    fn what_is_no_certificate_is_named() {
        for (text, problem) in [
            ("", "contains no certificates"),
            ("nonsense", "contains no certificates"),
            (
                "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
                "not valid PEM",
            ),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "not valid PEM"),
        ] {
            let error = certificates(text.as_bytes(), "certfile", "x.pem").unwrap_err();
            let error = error.to_string();
            assert!(error.contains(problem), "{text}: {error}");
            assert!(
                error.contains("certfile") && error.contains("x.pem"),
                "{error}"
            );
        }
    }

    #[test]
    fn keys_are_taken_out() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let key = KeyPair::generate().unwrap().serialize_pem();
        let rsa = "-----BEGIN RSA PRIVATE KEY-----\nBBBB\n-----END RSA PRIVATE KEY-----\n";
        let text = format!("{key}# ours\n{certificate}{rsa}\r\n{certificate}");
        let kept = String::from_utf8(without_keys(text.as_bytes())).unwrap();
        assert_eq!(kept, format!("# ours\n{certificate}\r\n{certificate}"));
        let cut = &text[..text.find("-----END").unwrap()];
        assert_eq!(without_keys(cut.as_bytes()), b"");
        assert_eq!(without_keys(certificate.as_bytes()), certificate.as_bytes());
    }

    #[test]
    fn keys_are_found_among_other_things() {
        let key = KeyPair::generate().unwrap().serialize_pem();
        let path = Path::new("key.pem");
        let text = format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{key}");
        let found = private_key(text.as_bytes(), path, None).unwrap();
        assert!(matches!(found, PrivateKeyDer::Pkcs8(_)));
        // As OpenSSL does: a password that is not needed is not an error.
        private_key(key.as_bytes(), path, Some("unneeded")).unwrap();
        let error = private_key(b"nothing", path, None).unwrap_err().to_string();
        assert!(error.contains("no private key"), "{error}");
    }
}
