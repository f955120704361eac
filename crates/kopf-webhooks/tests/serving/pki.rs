//! Certificates for tests.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A CA.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Issues a server certificate with this name or address.
    pub(crate) fn server(&self, name: &str) -> Identity {
        self.sign(&[name], name, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a client certificate.
    pub(crate) fn client(&self, name: &str) -> Identity {
        self.sign(&[], name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, names: &[&str], name: &str, purpose: ExtendedKeyUsagePurpose) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        Identity {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Identity {
    /// Returns a self-signed CA certificate, as by `openssl req -x509`.
    pub(crate) fn self_signed(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            certificate: params.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        certificates(self.certificate.as_bytes())
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

/// Parses certificates in PEM.
pub(crate) fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.unwrap()
}

/// Writes a file into a folder, or replaces it.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let (path, new) = (folder.join(name), folder.join("new"));
    // Replaced by a rename, because partial writes are not tested here.
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, &path).unwrap();
    path
}
