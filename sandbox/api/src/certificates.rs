//! The certificate authority of a sandbox, kept in memory.
//!
//! Private keys leave this module only in the TLS configuration and in a kubeconfig. They never
//! appear in `Debug` output.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use x509_parser::der_parser::parse_der;

/// Errors of certificates.
#[derive(Debug, thiserror::Error)]
#[doc(hidden)]
pub enum Error {
    #[error("cannot generate a certificate")]
    Generation(#[from] rcgen::Error),
    #[error("invalid TLS settings")]
    Tls(#[from] rustls::Error),
    #[error("cannot build the verifier of client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("the time of the clock is out of the range of certificates")]
    Time(#[from] jiff::Error),
}

/// Names in every server certificate, besides the bound addresses.
const SERVER_NAMES: [&str; 4] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// A certificate and its private key, both as PEM.
#[derive(Clone)]
pub struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// Returns the private key. It must not be logged.
    pub fn key_pem(&self) -> &str {
        &self.key
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The authority that signs the certificates of one sandbox.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    now: Timestamp,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Generates an authority. Certificates are valid from a day before `now` (clocks differ) for
    /// ten years.
    pub fn generate(now: Timestamp) -> Result<Self, Error> {
        let mut params = params("kopf-sandbox-ca", now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.self_signed(&key)?;
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate: der,
            pem,
            now,
        })
    }

    /// Returns the authority's certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the TLS configuration of a server: a new certificate for the usual names, the
    /// loopback addresses and the given names. Client certificates of this authority are optional.
    pub fn server_config(
        &self,
        addresses: &[IpAddr],
        names: &[String],
    ) -> Result<Arc<ServerConfig>, Error> {
        let (certificate, key) = self.server_certificate(addresses, names)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()?;
        let chain = vec![certificate, self.certificate.clone()];
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn server_certificate(
        &self,
        addresses: &[IpAddr],
        names: &[String],
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), Error> {
        let mut params = params("kopf-sandbox", self.now)?;
        let loopback = [
            IpAddr::from([127, 0, 0, 1]),
            IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ];
        let mut alternatives: Vec<SanType> = loopback
            .iter()
            .chain(addresses)
            .copied()
            .map(SanType::IpAddress)
            .collect();
        for name in SERVER_NAMES
            .into_iter()
            .chain(names.iter().map(String::as_str))
        {
            alternatives.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.try_into()?),
            });
        }
        for alternative in alternatives {
            if !params.subject_alt_names.contains(&alternative) {
                params.subject_alt_names.push(alternative);
            }
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok((certificate.der().clone(), key))
    }

    /// Issues a client certificate for a user in a group.
    pub fn client(&self, user: &str, group: &str) -> Result<Identity, Error> {
        let mut params = params(user, self.now)?;
        if !group.is_empty() {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: sec1_pem(&key)?,
        })
    }

    /// Issues the certificate of the administrator, who has all rights.
    pub fn admin(&self) -> Result<Identity, Error> {
        self.client("kubernetes-admin", "system:masters")
    }
}

/// Returns a P-256 key as PEM in the format of RFC 5915. Java clients take a PKCS#8 key for an RSA
/// key.
fn sec1_pem(key: &KeyPair) -> Result<String, Error> {
    // A version and a scalar of 32 bytes; the name of the curve; a bit string of 65 bytes.
    const SCALAR: &[u8] = b"\x30\x77\x02\x01\x01\x04\x20";
    const CURVE: &[u8] = b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
    const POINT: &[u8] = b"\xa1\x44\x03\x42\x00";

    let pkcs8 = key.serialize_der();
    let scalar = p256_scalar(&pkcs8).ok_or(rcgen::Error::CouldNotParseKeyPair)?;
    let der = [SCALAR, &scalar, CURVE, POINT, key.public_key_raw()].concat();
    let base64 = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN EC PRIVATE KEY-----\n");
    for line in base64.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END EC PRIVATE KEY-----\n");
    Ok(pem)
}

/// Returns the private scalar of a PKCS#8 key: the second item of the nested structure.
fn p256_scalar(pkcs8: &[u8]) -> Option<[u8; 32]> {
    let (_, outer) = parse_der(pkcs8).ok()?;
    let (_, inner) = parse_der(outer.as_sequence().ok()?.get(2)?.as_slice().ok()?).ok()?;
    let scalar = inner.as_sequence().ok()?.get(1)?.as_slice().ok()?;
    scalar.try_into().ok()
}

/// The seconds by which certificates are valid earlier than signed.
const BACKDATED: i64 = 5 * 60;
/// The validity below which certificates are not backdated, in seconds.
const SHORT: i64 = 8 * 3600;

/// An approved certificate signing request.
#[derive(Debug)]
pub struct SigningRequest<'a> {
    pub pem: &'a str,
    /// The validity from now on, in seconds.
    pub seconds: i64,
    /// The key usages by their names in Kubernetes, such as `client auth`.
    pub usages: Vec<&'a str>,
}

impl SigningRequest<'_> {
    /// Returns `true` if a string is a request that can be signed.
    pub(crate) fn is_readable(pem: &str) -> bool {
        CertificateSigningRequestParams::from_pem(pem).is_ok()
    }
}

impl Authority {
    /// Signs a request. Returns the certificate as PEM, with the key, the subject and the names of
    /// the request.
    pub(crate) fn sign(
        &self,
        signing: &SigningRequest<'_>,
        now: Timestamp,
    ) -> Result<String, Error> {
        let mut request = CertificateSigningRequestParams::from_pem(signing.pem)?;
        let params = &mut request.params;
        // The clocks of clients may be slow. Short validities are exact, as on a real server.
        let earlier = if signing.seconds < SHORT {
            0
        } else {
            BACKDATED
        };
        for (time, seconds) in [
            (&mut params.not_before, -earlier),
            (&mut params.not_after, signing.seconds),
        ] {
            let at = now.checked_add(seconds.seconds())?.to_zoned(TimeZone::UTC);
            let (year, month, day) = parts(at.date());
            let midnight = at.start_of_day()?.timestamp().as_second();
            let seconds = u64::try_from(at.timestamp().as_second() - midnight).unwrap_or_default();
            *time = rcgen::date_time_ymd(year, month, day) + Duration::from_secs(seconds);
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages.clear();
        params.extended_key_usages.clear();
        for usage in &signing.usages {
            match *usage {
                "digital signature" | "signing" => {
                    params.key_usages.push(KeyUsagePurpose::DigitalSignature);
                }
                "key encipherment" => params.key_usages.push(KeyUsagePurpose::KeyEncipherment),
                "client auth" => {
                    let usage = ExtendedKeyUsagePurpose::ClientAuth;
                    params.extended_key_usages.push(usage);
                }
                "server auth" => {
                    let usage = ExtendedKeyUsagePurpose::ServerAuth;
                    params.extended_key_usages.push(usage);
                }
                _ => {}
            }
        }
        Ok(request.signed_by(&self.issuer)?.pem())
    }
}

/// Returns year, month (1–12) and day (1–31) for rcgen.
fn parts(date: jiff::civil::Date) -> (i32, u8, u8) {
    let small = |number: i8| u8::try_from(number).unwrap_or(1);
    (date.year().into(), small(date.month()), small(date.day()))
}

/// Returns the common parameters of all certificates.
fn params(common_name: &str, now: Timestamp) -> Result<CertificateParams, Error> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let mut params = CertificateParams::default();
    let (year, month, day) = parts(today.checked_sub(1.day())?);
    params.not_before = rcgen::date_time_ymd(year, month, day);
    let (year, month, day) = parts(today.checked_add(10.years())?);
    params.not_after = rcgen::date_time_ymd(year, month, day);
    params.use_authority_key_identifier_extension = true;
    let mut name = rcgen::DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;
    use crate::access::PeerCertificate;

    fn now() -> Timestamp {
        "2026-11-15T01:02:03Z".parse().unwrap()
    }

    #[test]
    fn admin_is_in_the_masters_group() {
        let identity = Authority::generate(now()).unwrap().admin().unwrap();
        let der = CertificateDer::from_pem_slice(identity.certificate_pem().as_bytes()).unwrap();
        let peer = PeerCertificate::parse(&der).unwrap();
        assert_eq!(peer.common_name, "kubernetes-admin");
        assert_eq!(peer.organizations, ["system:masters"]);
        assert_eq!(peer.fingerprint.len(), 64);
    }

    #[test]
    fn client_keys_name_their_curve() {
        let authority = Authority::generate(now()).unwrap();
        let pem = authority.admin().unwrap().key_pem().to_owned();
        let PrivateKeyDer::Sec1(key) = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()
        else {
            panic!("{pem}");
        };
        assert_eq!(key.secret_sec1_der().len(), 121);
        let (rest, fields) = parse_der(key.secret_sec1_der()).unwrap();
        assert!(rest.is_empty());
        assert_eq!(fields.as_sequence().unwrap().len(), 4);
        rustls::crypto::ring::sign::any_ecdsa_type(&PrivateKeyDer::Sec1(key)).unwrap();
    }

    #[test]
    fn certificates_are_v3_and_valid_since_yesterday() {
        let authority = Authority::generate(now()).unwrap();
        let (der, _) = authority
            .server_certificate(&["10.1.2.3".parse().unwrap()], &["extra".into()])
            .unwrap();
        let (_, parsed) = X509Certificate::from_der(&der).unwrap();
        assert_eq!(parsed.version().0, 2, "v3 is written as 2");
        assert_eq!(parsed.validity().not_before.timestamp(), 1_794_614_400);
        assert!(!parsed.is_ca());
        let names = parsed.subject_alternative_name().unwrap().unwrap().value;
        let text = format!("{:?}", names.general_names);
        for name in [
            "localhost",
            "kubernetes.default.svc",
            "extra",
            "[10, 1, 2, 3]",
        ] {
            assert!(text.contains(name), "{name} is not in {text}");
        }
    }

    #[test]
    fn keys_are_absent_from_debug_output() {
        let authority = Authority::generate(now()).unwrap();
        let identity = authority.admin().unwrap();
        assert!(identity.key_pem().contains("PRIVATE KEY"));
        assert_eq!(format!("{identity:?}"), "Identity { .. }");
        assert_eq!(format!("{authority:?}"), "Authority { .. }");
    }
}
