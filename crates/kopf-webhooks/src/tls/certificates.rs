//! Parsing of certificates and keys in PEM.

use std::path::Path;

use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::encrypted_key;
use crate::Error;

/// Parses all certificates in PEM. At least one is required.
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

/// Parses the private key in PEM.
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
    use rcgen::{CertificateParams, KeyPair};

    use super::super::bundle::Bundle;
    use super::*;

    #[test]
    fn errors_name_the_option_and_the_file() {
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
    fn bundle_contains_no_keys() {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["x".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap().pem();
        let key = key.serialize_pem();
        let body: String = key.lines().skip(1).take(1).collect();
        for text in [
            format!("{key}# ours\n{certificate}\r\n"),
            format!("\u{feff}{key}{certificate}"),
            format!("{certificate}text before it {key}"),
            format!("{certificate}{key}").replace('\n', "\r"),
            format!("{certificate}{key}").replace('\n', "\r\n"),
            format!("{certificate}{}", key.replace("PRIVATE KEY", "ODD KEY")),
        ] {
            let certificates = certificates(text.as_bytes(), "cafile", "x.pem").unwrap();
            let told = Bundle::new(certificates).pem();
            assert!(!told.contains("KEY") && !told.contains(&body), "{told}");
            assert_eq!(told.matches("BEGIN CERTIFICATE").count(), 1, "{text:?}");
        }
    }

    #[test]
    fn keys_are_found_among_other_things() {
        let key = KeyPair::generate().unwrap().serialize_pem();
        let path = Path::new("key.pem");
        let text = format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{key}");
        let found = private_key(text.as_bytes(), path, None).unwrap();
        assert!(matches!(found, PrivateKeyDer::Pkcs8(_)));
        // As by OpenSSL: an unneeded password is not an error.
        private_key(key.as_bytes(), path, Some("unneeded")).unwrap();
        let error = private_key(b"nothing", path, None).unwrap_err().to_string();
        assert!(error.contains("no private key"), "{error}");
    }
}
