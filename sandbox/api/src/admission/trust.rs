//! TLS verification of webhook servers.
//!
//! Only the certificates of the configuration's `caBundle` are trusted; those of the system are
//! not. As on a real server, and unlike rustls by default, a server may present a certificate that
//! is itself in the bundle, even a CA certificate: self-signed certificates are often made that
//! way. The name, the validity period and the handshake signature are always verified.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Returns the TLS configuration for a webhook. The error has the wording of the message to clients.
pub(super) fn client_config(bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let listed: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(bundle)
        .filter_map(Result::ok)
        .collect();
    if listed.is_empty() && !bundle.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".into());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(listed.iter().cloned());
    let chains = if roots.is_empty() {
        None
    } else {
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        Some(builder.build().map_err(|error| error.to_string())?)
    };
    let verifier = Verifier {
        chains,
        listed,
        provider: Arc::clone(&provider),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Verifier {
    /// `None` if the bundle contains no CA certificate.
    chains: Option<Arc<WebPkiServerVerifier>>,
    listed: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

/// The reason of a rejected certificate, worded for clients.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Rejection(String);

impl Verifier {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), String> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|_| "x509: malformed certificate".to_owned())?;
        ParsedCertificate::try_from(certificate)
            .and_then(|end_entity| verify_server_name(&end_entity, name))
            .map_err(|_| wrong_name(&parsed, name))?;
        if self.listed.iter().any(|listed| listed == certificate) {
            return check_validity(&parsed, now).and_then(|()| check_usage(&parsed));
        }
        let Some(chains) = &self.chains else {
            return Err(
                "x509: certificate signed by unknown authority (no caBundle, \
                        and system roots are not used)"
                    .to_owned(),
            );
        };
        match chains.verify_server_cert(certificate, intermediates, name, &[], now) {
            Ok(_) => Ok(()),
            Err(Error::InvalidCertificate(error)) => Err(match error {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    "x509: certificate signed by unknown authority".to_owned()
                }
                other => {
                    check_validity(&parsed, now)?;
                    format!("x509: {other}")
                }
            }),
            Err(error) => Err(format!("x509: {error}")),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.verify(end_entity, intermediates, server_name, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(why) => Err(Error::InvalidCertificate(CertificateError::Other(
                OtherError(Arc::new(Rejection(why))),
            ))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn check_validity(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), String> {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    let (relation, limit) = if seconds < validity.not_before.timestamp() {
        ("before", validity.not_before.timestamp())
    } else if seconds > validity.not_after.timestamp() {
        ("after", validity.not_after.timestamp())
    } else {
        return Ok(());
    };
    let shown = |seconds: i64| {
        jiff::Timestamp::from_second(seconds)
            .map_or_else(|_| "?".to_owned(), |time| time.to_string())
    };
    Err(format!(
        "x509: certificate has expired or is not yet valid: current time {} is {relation} {}",
        shown(seconds),
        shown(limit)
    ))
}

/// Rejects a certificate whose extended key usage excludes server authentication.
fn check_usage(certificate: &X509Certificate<'_>) -> Result<(), String> {
    match certificate.extended_key_usage() {
        Ok(Some(usage)) if !usage.value.server_auth && !usage.value.any => {
            Err("x509: certificate specifies an incompatible key usage".to_owned())
        }
        _ => Ok(()),
    }
}

fn wrong_name(certificate: &X509Certificate<'_>, name: &ServerName<'_>) -> String {
    let (mut dns, mut addresses) = (Vec::new(), Vec::new());
    if let Ok(Some(names)) = certificate.subject_alternative_name() {
        for name in &names.value.general_names {
            match name {
                GeneralName::DNSName(name) => dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => {}
            }
        }
    }
    let wanted = name.to_str();
    let valid = if matches!(name, ServerName::IpAddress(_)) {
        if addresses.is_empty() {
            return format!(
                "x509: cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
            );
        }
        addresses
    } else {
        dns
    };
    if valid.is_empty() {
        return format!(
            "x509: certificate is not valid for any names, but wanted to match {wanted}"
        );
    }
    format!(
        "x509: certificate is valid for {}, not {wanted}",
        valid.join(", ")
    )
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let any = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    any.ok().map(|address| address.to_string())
}
