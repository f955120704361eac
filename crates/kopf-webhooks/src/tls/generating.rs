//! Generated certificates: a temporary CA, and a server certificate signed by it.
//!
//! They pass strict verification: subject alternative names, key usages restricted to signing or
//! serving, and key identifiers. OpenSSL 3 with `X509_V_FLAG_X509_STRICT`, the default of Python
//! 3.13, requires that. The private key of the CA is dropped after signing.

use std::net::IpAddr;

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Validity of certificates, in days.
const DAYS: i32 = 365;

/// Age at which a server generates a new certificate, in days.
pub(super) const RENEWED_AFTER_DAYS: i32 = 240;

/// Maximum length of a common name in X.509.
const COMMON_NAME_LENGTH: usize = 64;

/// A generated certificate.
pub(super) struct Generated {
    /// The CA certificate.
    pub(super) authority: CertificateDer<'static>,
    /// The certificate of the server.
    pub(super) certificate: CertificateDer<'static>,
    /// The key of the server.
    pub(super) key: PrivateKeyDer<'static>,
}

/// Generates a certificate for a server with these names and addresses, the main one first.
pub(super) fn generate(names: &[String], now: Timestamp) -> Result<Generated, rcgen::Error> {
    let names = Names::sort(names);
    let mut authority = params("Kopf webhook authority", now);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let authority_certificate = authority.self_signed(&authority_key)?.der().clone();
    let issuer = Issuer::new(authority, authority_key);

    let mut leaf = params(names.common_name(), now);
    leaf.subject_alt_names = names.alternatives()?;
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let certificate = leaf.signed_by(&key, &issuer)?;
    Ok(Generated {
        authority: authority_certificate,
        certificate: certificate.der().clone(),
        key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
    })
}

/// Names and addresses, without duplicates.
pub(super) struct Names {
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Names {
    pub(super) fn sort(names: &[String]) -> Self {
        let (mut hosts, mut addresses) = (Vec::new(), Vec::new());
        for name in names {
            match name.parse::<IpAddr>() {
                // An unspecified address is not reachable.
                Ok(address) if address.is_unspecified() => {}
                Ok(address) if addresses.contains(&address) => {}
                Ok(address) => addresses.push(address),
                Err(_) if name.is_empty() || hosts.contains(name) => {}
                Err(_) => hosts.push(name.clone()),
            }
        }
        if hosts.is_empty() && addresses.is_empty() {
            hosts.push("localhost".to_owned());
        }
        Self { hosts, addresses }
    }

    /// Returns all names and addresses as text.
    pub(super) fn all(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        self.hosts.iter().cloned().chain(addresses).collect()
    }

    fn common_name(&self) -> String {
        let name = self
            .hosts
            .first()
            .cloned()
            .or_else(|| self.addresses.first().map(ToString::to_string))
            .unwrap_or_default();
        if name.len() <= COMMON_NAME_LENGTH {
            name
        } else {
            // Clients ignore the common name if there are alternative names, which can be longer.
            "Kopf webhook server".to_owned()
        }
    }

    fn alternatives(&self) -> Result<Vec<SanType>, rcgen::Error> {
        let hosts = self
            .hosts
            .iter()
            .map(|host| Ok(SanType::DnsName(host.as_str().try_into()?)));
        let addresses = self.addresses.iter().copied().map(SanType::IpAddress);
        hosts.chain(addresses.map(Ok)).collect()
    }
}

/// Returns the common parameters of both certificates. They are valid since yesterday, because
/// clocks differ.
fn params(common_name: impl Into<String>, now: Timestamp) -> CertificateParams {
    let today = now.to_zoned(TimeZone::UTC).date();
    let day = |days: i32| {
        let date = today.saturating_add(days.days());
        // Months are 1 to 12, days 1 to 31.
        rcgen::date_time_ymd(
            date.year().into(),
            u8::try_from(date.month()).unwrap_or(1),
            u8::try_from(date.day()).unwrap_or(1),
        )
    };
    let mut params = CertificateParams::default();
    params.not_before = day(-1);
    params.not_after = day(DAYS);
    params.use_authority_key_identifier_extension = true;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name.into());
    params.distinguished_name = name;
    params
}

#[cfg(test)]
mod tests {
    use x509_parser::extensions::{GeneralName, ParsedExtension};
    use x509_parser::prelude::{FromDer, X509Certificate};
    use x509_parser::public_key::PublicKey;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T01:02:03Z".parse().unwrap()
    }

    fn names_of(names: &[&str]) -> (String, Vec<String>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = generate(&names, now()).unwrap();
        let (_, parsed) = X509Certificate::from_der(&made.certificate).unwrap();
        let common_name = parsed.subject().iter_common_name().next().unwrap();
        let alternatives = parsed.subject_alternative_name().unwrap().unwrap().value;
        let alternatives = alternatives.general_names.iter().map(|name| match name {
            GeneralName::DNSName(name) => format!("DNS:{name}"),
            GeneralName::IPAddress(bytes) => format!("IP:{bytes:?}"),
            other => panic!("unexpected: {other:?}"),
        });
        (
            common_name.as_str().unwrap().to_owned(),
            alternatives.collect(),
        )
    }

    #[test]
    fn names_are_subject_alternative_names() {
        let v4 = "IP:[127, 0, 0, 1]";
        let v6 = "IP:[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]";
        let long = format!("{}.example.com", "x".repeat(60));
        for (names, common_name, alternatives) in [
            (vec!["localhost"], "localhost", vec!["DNS:localhost"]),
            (vec!["127.0.0.1"], "127.0.0.1", vec![v4]),
            (
                vec!["127.0.0.1", "a.b", "0:0::1", "::1"],
                "a.b",
                vec!["DNS:a.b", v4, v6],
            ),
            (
                vec!["host.k3d.internal", "localhost", "localhost", "*.x.y"],
                "host.k3d.internal",
                vec!["DNS:host.k3d.internal", "DNS:localhost", "DNS:*.x.y"],
            ),
            (
                vec!["0.0.0.0", "::", ""],
                "localhost",
                vec!["DNS:localhost"],
            ),
            (
                vec![&*long],
                "Kopf webhook server",
                vec![&*format!("DNS:{long}")],
            ),
        ] {
            let (seen, all) = names_of(&names);
            assert_eq!(seen, common_name, "{names:?}");
            assert_eq!(all, alternatives, "{names:?}");
        }
    }

    #[test]
    fn names_that_cannot_be_in_certificates_are_errors() {
        assert!(generate(&["bücher.example".to_owned()], now()).is_err());
    }

    #[test]
    fn every_certificate_has_its_own_key() {
        let [one, two] = [(); 2].map(|()| generate(&["x".to_owned()], now()).unwrap());
        assert_ne!(one.key.secret_der(), two.key.secret_der());
        let all = [
            one.authority,
            one.certificate,
            two.authority,
            two.certificate,
        ];
        let parsed = all
            .each_ref()
            .map(|der| X509Certificate::from_der(der).unwrap().1);
        for (index, certificate) in parsed.iter().enumerate() {
            for other in parsed.iter().skip(index + 1) {
                assert_ne!(certificate.public_key().raw, other.public_key().raw);
                assert_ne!(certificate.raw_serial(), other.raw_serial());
            }
        }
    }

    #[test]
    fn generated_certificates_pass_strict_verification() {
        let made = generate(&["localhost".to_owned()], now()).unwrap();
        let (_, authority) = X509Certificate::from_der(&made.authority).unwrap();
        let (_, leaf) = X509Certificate::from_der(&made.certificate).unwrap();
        assert_eq!(leaf.issuer(), authority.subject());

        let subject_key = |certificate: &X509Certificate<'_>| {
            let extensions = certificate.extensions().iter();
            let mut ids = extensions.filter_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                _ => None,
            });
            ids.next().expect("there is a subject key identifier")
        };
        let authority_key = |certificate: &X509Certificate<'_>| {
            let extensions = certificate.extensions().iter();
            let mut ids = extensions.filter_map(|extension| match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    Some(id.key_identifier.as_ref()?.0.to_vec())
                }
                _ => None,
            });
            ids.next().expect("there is an authority key identifier")
        };
        assert_eq!(authority_key(&leaf), subject_key(&authority));
        assert_ne!(subject_key(&leaf), subject_key(&authority));

        let constraints = authority.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca);
        assert_eq!(constraints.value.path_len_constraint, Some(0));
        assert!(authority.key_usage().unwrap().unwrap().critical);
        assert!(
            authority
                .key_usage()
                .unwrap()
                .unwrap()
                .value
                .key_cert_sign()
        );
        assert!(!leaf.is_ca());
        assert!(leaf.key_usage().unwrap().unwrap().value.digital_signature());
        assert!(
            leaf.extended_key_usage()
                .unwrap()
                .unwrap()
                .value
                .server_auth
        );
        let usage = |certificate: &X509Certificate<'_>| {
            let usage = certificate.key_usage().unwrap().unwrap();
            (usage.critical, usage.value.flags)
        };
        // Bits of RFC 5280: digital signature; certificates (5) and revocation lists (6).
        assert_eq!(usage(&leaf), (true, 1));
        assert_eq!(usage(&authority), (true, 1 << 5 | 1 << 6));
        let purposes = leaf.extended_key_usage().unwrap().unwrap().value;
        assert!(!purposes.any && !purposes.client_auth && purposes.other.is_empty());
        assert!(authority.extended_key_usage().unwrap().is_none());
        for certificate in [&authority, &leaf] {
            let key = certificate.public_key().parsed().unwrap();
            let PublicKey::EC(key) = key else {
                panic!("not an ECDSA key: {key:?}");
            };
            assert_eq!(key.key_size(), 256);
            let validity = certificate.validity();
            assert_eq!(validity.not_before.timestamp(), 1_794_614_400);
            let days = (validity.not_after.timestamp() - validity.not_before.timestamp()) / 86_400;
            assert_eq!(days, 366);
        }
    }
}
