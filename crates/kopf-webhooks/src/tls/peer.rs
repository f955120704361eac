//! Client certificates for handlers, in the form of Python's `SSLSocket.getpeercert()`.

use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value, json};
use x509_cert::Certificate;
use x509_cert::der::asn1::{Any, ObjectIdentifier};
use x509_cert::der::{Decode as _, Tag, Tagged as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;
use x509_cert::time::Time;

/// Returns the content of a certificate; an empty object if it is malformed, as without a
/// certificate.
pub(crate) fn describe(certificate: &[u8]) -> Value {
    let Ok(certificate) = Certificate::from_der(certificate) else {
        return Value::Object(Map::new());
    };
    let certificate = certificate.tbs_certificate();
    let mut peer = json!({
        "subject": name(certificate.subject()),
        "issuer": name(certificate.issuer()),
        "version": certificate.version() as u8 + 1,
        "serialNumber": serial(certificate.serial_number().as_bytes()),
        "notBefore": time(certificate.validity().not_before),
        "notAfter": time(certificate.validity().not_after),
    });
    if let Ok(Some((_, names))) = certificate.get_extension::<SubjectAltName>() {
        peer["subjectAltName"] = names.0.iter().filter_map(alternative).collect();
    }
    peer
}

/// Returns a name as a list of its parts, each a list of pairs of type and value.
fn name(name: &Name) -> Value {
    let parts = name.iter_rdn().map(|part| {
        let pairs = part
            .iter()
            .map(|attribute| json!([label(attribute.oid), text(&attribute.value)]));
        Value::Array(pairs.collect())
    });
    Value::Array(parts.collect())
}

/// Returns OpenSSL's long name of an attribute.
fn label(oid: ObjectIdentifier) -> String {
    let oid = oid.to_string();
    let label = match oid.as_str() {
        "2.5.4.3" => "commonName",
        "2.5.4.4" => "surname",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "countryName",
        "2.5.4.7" => "localityName",
        "2.5.4.8" => "stateOrProvinceName",
        "2.5.4.9" => "streetAddress",
        "2.5.4.10" => "organizationName",
        "2.5.4.11" => "organizationalUnitName",
        "2.5.4.12" => "title",
        "2.5.4.13" => "description",
        "2.5.4.15" => "businessCategory",
        "2.5.4.17" => "postalCode",
        "2.5.4.41" => "name",
        "2.5.4.42" => "givenName",
        "2.5.4.43" => "initials",
        "2.5.4.44" => "generationQualifier",
        "2.5.4.46" => "dnQualifier",
        "2.5.4.65" => "pseudonym",
        "2.5.4.97" => "organizationIdentifier",
        "0.9.2342.19200300.100.1.1" => "userId",
        "0.9.2342.19200300.100.1.25" => "domainComponent",
        "1.2.840.113549.1.9.1" => "emailAddress",
        "1.2.840.113549.1.9.2" => "unstructuredName",
        _ => return oid,
    };
    label.to_owned()
}

fn text(value: &Any) -> String {
    if value.tag() == Tag::BmpString {
        let units = value.value().chunks_exact(2).map(|pair| match pair {
            [high, low] => u16::from_be_bytes([*high, *low]),
            _ => 0,
        });
        return char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
    }
    String::from_utf8_lossy(value.value()).into_owned()
}

fn serial(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    // A leading zero marks the number as positive.
    let digits = match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    digits.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

fn time(time: Time) -> String {
    let since_epoch = time.to_unix_duration().as_secs();
    let time = i64::try_from(since_epoch).map(Timestamp::from_second);
    let Ok(Ok(time)) = time else {
        return String::new();
    };
    let time = time.to_zoned(TimeZone::UTC);
    time.strftime("%b %e %H:%M:%S %Y GMT").to_string()
}

fn alternative(name: &GeneralName) -> Option<Value> {
    Some(match name {
        GeneralName::DnsName(name) => json!(["DNS", name.to_string()]),
        GeneralName::Rfc822Name(name) => json!(["email", name.to_string()]),
        GeneralName::UniformResourceIdentifier(uri) => json!(["URI", uri.to_string()]),
        GeneralName::IpAddress(bytes) => json!(["IP Address", address(bytes.as_bytes())]),
        GeneralName::DirectoryName(directory) => json!(["DirName", self::name(directory)]),
        GeneralName::RegisteredId(oid) => json!(["Registered ID", oid.to_string()]),
        _ => return None,
    })
}

fn address(bytes: &[u8]) -> String {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ipv4Addr::from(four).to_string();
    }
    let Ok(sixteen) = <[u8; 16]>::try_from(bytes) else {
        return "<invalid>".to_owned();
    };
    // Unabbreviated and in upper case, as in Python.
    let groups = Ipv6Addr::from(sixteen)
        .segments()
        .map(|group| format!("{group:X}"));
    groups.join(":")
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, CustomExtension, DnType, DnValue, Issuer, KeyPair, SanType,
        SerialNumber, date_time_ymd,
    };

    use super::*;

    #[test]
    fn certificates_match_the_format_of_python() {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = rcgen::DistinguishedName::new();
        authority.distinguished_name.push(DnType::CountryName, "DE");
        authority
            .distinguished_name
            .push(DnType::OrganizationName, "Zoo");
        let issuer = Issuer::new(authority, KeyPair::generate().unwrap());

        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "Example Common Name");
        let email = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        params.distinguished_name.push(
            email,
            DnValue::Ia5String("example@kopf.dev".try_into().unwrap()),
        );
        params
            .distinguished_name
            .push(DnType::CustomDnType(vec![1, 2, 3]), "odd");
        params.serial_number = Some(SerialNumber::from_slice(&[0xAB, 0x0C]));
        params.not_before = date_time_ymd(2026, 1, 5);
        params.not_after = date_time_ymd(2027, 11, 15);
        params.subject_alt_names = vec![
            SanType::DnsName("a.example".try_into().unwrap()),
            SanType::IpAddress("127.0.0.1".parse().unwrap()),
            SanType::IpAddress("fe80::a".parse().unwrap()),
            SanType::Rfc822Name("a@example".try_into().unwrap()),
            SanType::URI("spiffe://x/y".try_into().unwrap()),
        ];
        let certificate = params
            .signed_by(&KeyPair::generate().unwrap(), &issuer)
            .unwrap();
        assert_eq!(
            describe(certificate.der()),
            json!({
                "subject": [
                    [["commonName", "Example Common Name"]],
                    [["emailAddress", "example@kopf.dev"]],
                    [["1.2.3", "odd"]],
                ],
                "issuer": [[["countryName", "DE"]], [["organizationName", "Zoo"]]],
                "version": 3,
                "serialNumber": "AB0C",
                "notBefore": "Jan  5 00:00:00 2026 GMT",
                "notAfter": "Nov 15 00:00:00 2027 GMT",
                "subjectAltName": [
                    ["DNS", "a.example"],
                    ["IP Address", "127.0.0.1"],
                    ["IP Address", "FE80:0:0:0:0:0:0:A"],
                    ["email", "a@example"],
                    ["URI", "spiffe://x/y"],
                ],
            })
        );
    }

    #[test]
    fn other_encodings_than_utf8_are_decoded() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(
            DnType::CommonName,
            DnValue::BmpString("Zoé".try_into().unwrap()),
        );
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2], vec![5, 0])];
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let peer = describe(certificate.der());
        assert_eq!(peer["subject"], json!([[["commonName", "Zoé"]]]));
        assert_eq!(peer.get("subjectAltName"), None);
    }

    #[test]
    fn malformed_certificates_are_empty() {
        for garbage in [&b""[..], b"garbage", &[0x30, 0x82, 0xFF, 0xFF]] {
            assert_eq!(describe(garbage), json!({}));
        }
    }
}
