//! Detection of local clusters, which have names for the machine they run on.
//!
//! Most are recognised by the certificate of the API server, which needs no permissions.

use kopf_core::admission::Serving;
use serde_json::Value;
use x509_cert::Certificate;
use x509_cert::der::{self, Decode as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::{DirectoryString, GeneralName};

/// Name of the machine in K3d.
pub(crate) const K3D: &str = "host.k3d.internal";

/// Name of the machine in Minikube.
pub(crate) const MINIKUBE: &str = "host.minikube.internal";

/// Name of the machine in Docker Desktop.
pub(crate) const DOCKER_DESKTOP: &str = "host.docker.internal";

/// Returns the name of this machine in the cluster, if the cluster is recognised.
pub async fn guess_host(operator: &dyn Serving) -> Option<&'static str> {
    let certificate = operator.api_certificate().await;
    if let Some(host) = certificate.as_deref().and_then(by_certificate) {
        return Some(host);
    }
    by_version(&operator.api_version().await?)
}

fn by_certificate(certificate: &[u8]) -> Option<&'static str> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let certificate = certificate.tbs_certificate();
    let issuer = text(certificate.issuer().common_name());
    let subject = text(certificate.subject().common_name());
    let organization = text(certificate.subject().organization());
    if subject == "k3s" || organization == "k3s" || issuer.starts_with("k3s-") {
        return Some(K3D);
    }
    if subject == "minikube" || issuer == "minikubeCA" {
        return Some(MINIKUBE);
    }
    let (_, names) = certificate.get_extension::<SubjectAltName>().ok()??;
    let is_docker = |name: &GeneralName| match name {
        GeneralName::DnsName(name) => name.to_string() == "docker-for-desktop",
        _ => false,
    };
    names.0.iter().any(is_docker).then_some(DOCKER_DESKTOP)
}

fn by_version(version: &Value) -> Option<&'static str> {
    let version = version.get("gitVersion")?.as_str()?;
    version.contains("+k3s").then_some(K3D)
}

fn text(value: der::Result<Option<DirectoryString>>) -> String {
    let value = value.ok().flatten();
    value.map_or_else(String::new, |value| value.value().into_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, Issuer, KeyPair};
    use serde_json::json;

    use super::*;

    fn named(common_name: &str, organization: &str) -> DistinguishedName {
        let mut name = DistinguishedName::new();
        if !common_name.is_empty() {
            name.push(DnType::CommonName, common_name);
        }
        if !organization.is_empty() {
            name.push(DnType::OrganizationName, organization);
        }
        name
    }

    fn certificate(issuer: &str, common_name: &str, organization: &str, names: &[&str]) -> Vec<u8> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = named(issuer, "");
        let issuer = Issuer::new(authority, KeyPair::generate().unwrap());
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = named(common_name, organization);
        let made = params.signed_by(&KeyPair::generate().unwrap(), &issuer);
        made.unwrap().der().to_vec()
    }

    #[test]
    fn clusters_are_recognised_by_certificates() {
        let docker = ["kubernetes", "docker-for-desktop", "localhost"];
        for (issuer, common_name, organization, names, expected) in [
            ("x", "k3s", "", &[][..], Some(K3D)),
            ("x", "x", "k3s", &[], Some(K3D)),
            ("k3s-server-ca@1700000000", "x", "x", &[], Some(K3D)),
            ("k3s", "x", "x", &[], None),
            ("x", "minikube", "system:masters", &[], Some(MINIKUBE)),
            ("minikubeCA", "x", "", &[], Some(MINIKUBE)),
            ("minikubeCA2", "x", "", &["minikube"], None),
            (
                "kubernetes",
                "kube-apiserver",
                "",
                &docker,
                Some(DOCKER_DESKTOP),
            ),
            ("kubernetes", "kube-apiserver", "", &["kubernetes"], None),
            // The first matching rule wins.
            ("minikubeCA", "k3s", "", &docker, Some(K3D)),
            ("", "", "", &[], None),
        ] {
            let certificate = certificate(issuer, common_name, organization, names);
            let seen = by_certificate(&certificate);
            assert_eq!(
                seen, expected,
                "{issuer} {common_name} {organization} {names:?}"
            );
        }
        assert_eq!(by_certificate(b"garbage"), None);
    }

    #[test]
    fn k3s_is_recognised_by_its_version() {
        for (version, expected) in [
            (json!({"gitVersion": "v1.36.4+k3s1"}), Some(K3D)),
            (json!({"gitVersion": "v1.36.4"}), None),
            (json!({"gitVersion": 1}), None),
            (json!({}), None),
            (json!("v1.36.4+k3s1"), None),
        ] {
            assert_eq!(by_version(&version), expected, "{version}");
        }
    }
}
