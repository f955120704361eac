//! Verification of client certificates.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::ExtendedKeyUsage;

use crate::Error;

/// The requirement for client certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verify {
    /// Not requested, unless a CA for clients is set.
    #[default]
    None,
    /// Requested; clients without a certificate are accepted.
    Optional,
    /// Required; clients without a certificate are rejected.
    Required,
}

/// Returns a verifier of client certificates with these CA certificates.
pub(super) fn verifier(
    mode: Verify,
    authorities: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for authority in &authorities {
        roots
            .add(authority.clone())
            .map_err(|error| Error::Authorities(Box::new(error)))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match mode {
        Verify::Required => builder,
        Verify::None | Verify::Optional => builder.allow_unauthenticated(),
    };
    let inner = builder
        .build()
        .map_err(|error| Error::Authorities(Box::new(error)))?;
    Ok(Arc::new(Verifier { authorities, inner }))
}

/// The verifier of webpki, extended by one rule: a certificate that is itself in the CA bundle is
/// accepted.
///
/// `openssl req -x509` creates such certificates: self-signed, and allowed to sign others. OpenSSL
/// and Go accept them; webpki does not.
#[derive(Debug)]
struct Verifier {
    authorities: Vec<CertificateDer<'static>>,
    inner: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if self.authorities.iter().any(|known| known == end_entity) {
            check_usable(end_entity, now)?;
            return Ok(ClientCertVerified::assertion());
        }
        self.inner
            .verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Extended key usages of client certificates: any, and client authentication.
const CLIENT_USAGES: [ObjectIdentifier; 2] = [
    ObjectIdentifier::new_unwrap("2.5.29.37.0"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2"),
];

/// Checks the validity and the purpose, which webpki would have checked.
fn check_usable(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let parsed = Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let parsed = parsed.tbs_certificate();
    if now.as_secs() < parsed.validity().not_before.to_unix_duration().as_secs() {
        return Err(CertificateError::NotValidYet);
    }
    if now.as_secs() > parsed.validity().not_after.to_unix_duration().as_secs() {
        return Err(CertificateError::Expired);
    }
    match parsed.get_extension::<ExtendedKeyUsage>() {
        Ok(None) => Ok(()),
        Ok(Some((_, usage))) if usage.0.iter().any(|one| CLIENT_USAGES.contains(one)) => Ok(()),
        Ok(Some(_)) => Err(CertificateError::InvalidPurpose),
        Err(_) => Err(CertificateError::BadEncoding),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
    };

    use super::*;

    const WITHIN: u64 = 1_800_000_000; // 2027

    fn self_signed(purposes: &[ExtendedKeyUsagePurpose]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2028, 1, 1);
        params.extended_key_usages = purposes.to_vec();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        certificate.der().clone()
    }

    fn verify(
        authority: &CertificateDer<'static>,
        shown: &CertificateDer<'static>,
        at: u64,
    ) -> Result<(), rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = verifier(Verify::Optional, vec![authority.clone()], provider).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(at));
        verifier.verify_client_cert(shown, &[], now).map(|_| ())
    }

    #[test]
    fn listed_self_signed_certificate_is_accepted() {
        let listed = self_signed(&[]);
        verify(&listed, &listed, WITHIN).unwrap();
        verify(&listed, &self_signed(&[]), WITHIN).unwrap_err();
    }

    #[test]
    fn listed_certificate_is_checked_for_validity_and_purpose() {
        let listed = self_signed(&[]);
        assert_eq!(
            verify(&listed, &listed, 1_600_000_000),
            Err(CertificateError::NotValidYet.into())
        );
        assert_eq!(
            verify(&listed, &listed, 1_900_000_000),
            Err(CertificateError::Expired.into())
        );
        let server = self_signed(&[ExtendedKeyUsagePurpose::ServerAuth]);
        assert_eq!(
            verify(&server, &server, WITHIN),
            Err(CertificateError::InvalidPurpose.into())
        );
        let client = self_signed(&[ExtendedKeyUsagePurpose::ClientAuth]);
        verify(&client, &client, WITHIN).unwrap();
    }
}
