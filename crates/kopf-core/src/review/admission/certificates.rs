//! Certificates that the replicas of an operator share, and the Secrets that hold them.

use std::fmt;
use std::pin::Pin;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::ServerError;
use crate::leading::{GROUP_LABEL, ROLE_LABEL};

/// Value of the role label of Secrets with certificates.
const ROLE: &str = "webhook-certificate";

/// Keys of the Secret, as of all Secrets of the type `kubernetes.io/tls`.
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";

/// A server certificate with its private key and its CA bundle, all in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, followed by those of intermediate CAs.
    pub chain: String,
    /// The private key of the certificate.
    pub key: String,
    /// The CA bundle: the CA of the certificate, followed by those of earlier certificates.
    pub authorities: String,
}

// Without the key, which does not belong in logs.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// A certificate as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCertificate {
    /// The certificate.
    pub certificate: Certificate,
    /// Version of the stored object, for its replacement.
    pub version: String,
    /// Name of the stored object for error messages.
    pub origin: String,
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Store of the certificate that the replicas of an operator share.
pub trait CertificateStore: Send + Sync {
    /// Returns the stored certificate; `None` if there is none yet.
    fn load(&self) -> BoxFuture<'_, Result<Option<StoredCertificate>, ServerError>>;

    /// Stores a certificate. It replaces the one of this version; without a version, there must be
    /// none. Returns `None` if another replica was faster: then its certificate is to be loaded.
    fn save(
        &self,
        certificate: Certificate,
        replaced: Option<String>,
    ) -> BoxFuture<'_, Result<Option<StoredCertificate>, ServerError>>;
}

/// Names of a Secret and of the group of replicas that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSecret {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// Name of the group of replicas (`settings.leading.name`).
    pub group: String,
}

/// Error for a Secret that does not hold the certificate of these replicas.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnusableSecret {
    /// The Secret is not labelled for this group.
    #[error("it is not labelled {label}={group}, so it belongs to something else")]
    Foreign {
        /// The label.
        label: &'static str,
        /// The expected value.
        group: String,
    },
    /// The Secret lacks some data.
    #[error("it has no data {key:?}")]
    Missing {
        /// The key of the data.
        key: &'static str,
    },
    /// Some data are not PEM.
    #[error("its data {key:?} are not text in base64")]
    Malformed {
        /// The key of the data.
        key: &'static str,
    },
}

impl CertificateSecret {
    /// Returns the Secret with a certificate; with a version, as a replacement.
    ///
    /// ```
    /// use kopf_core::admission::{Certificate, CertificateSecret};
    ///
    /// let text = |text: &str| text.to_owned();
    /// let secret = CertificateSecret { namespace: text("ns"), name: text("x"), group: text("op") };
    /// let certificate = Certificate { chain: text("A"), key: text("B"), authorities: text("C") };
    /// let object = secret.object(&certificate, None);
    /// assert_eq!(object["type"], "kubernetes.io/tls");
    /// assert_eq!(object["data"]["tls.crt"], "QQ==");
    /// assert_eq!(secret.parse(&object)?.certificate, certificate);
    /// # Ok::<(), kopf_core::admission::UnusableSecret>(())
    /// ```
    pub fn object(&self, certificate: &Certificate, replaced: Option<&str>) -> Value {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {GROUP_LABEL: self.group, ROLE_LABEL: ROLE},
            },
            "type": "kubernetes.io/tls",
            "data": {
                CHAIN: STANDARD.encode(&certificate.chain),
                KEY: STANDARD.encode(&certificate.key),
                AUTHORITIES: STANDARD.encode(&certificate.authorities),
            },
        });
        if let Some(version) = replaced {
            object["metadata"]["resourceVersion"] = json!(version);
        }
        object
    }

    /// Parses the Secret. The PEM itself is not checked.
    ///
    /// # Errors
    ///
    /// The Secret has not the labels of this group, or lacks a part of the certificate.
    pub fn parse(&self, object: &Value) -> Result<StoredCertificate, UnusableSecret> {
        let metadata = &object["metadata"];
        for (label, value) in [(GROUP_LABEL, self.group.as_str()), (ROLE_LABEL, ROLE)] {
            if metadata["labels"][label] != value {
                return Err(UnusableSecret::Foreign {
                    label,
                    group: value.to_owned(),
                });
            }
        }
        let text = |key: &'static str| {
            let encoded = object["data"][key].as_str();
            let encoded = encoded.ok_or(UnusableSecret::Missing { key })?;
            let decoded = STANDARD.decode(encoded).ok();
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            decoded.ok_or(UnusableSecret::Malformed { key })
        };
        Ok(StoredCertificate {
            certificate: Certificate {
                chain: text(CHAIN)?,
                key: text(KEY)?,
                authorities: text(AUTHORITIES)?,
            },
            version: metadata["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            origin: self.to_string(),
        })
    }
}

/// `Secret ns/name`
impl fmt::Display for CertificateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> CertificateSecret {
        CertificateSecret {
            namespace: "ns".to_owned(),
            name: "op-webhook-certificate".to_owned(),
            group: "op".to_owned(),
        }
    }

    fn object() -> Value {
        let certificate = Certificate {
            chain: "chain".to_owned(),
            key: "key".to_owned(),
            authorities: "ca".to_owned(),
        };
        secret().object(&certificate, Some("7"))
    }

    #[test]
    fn versions_are_kept_for_replacements() {
        let stored = secret().parse(&object()).unwrap();
        assert_eq!(stored.version, "7");
        assert_eq!(stored.origin, "Secret ns/op-webhook-certificate");
        let created = secret().object(&stored.certificate, None);
        assert_eq!(created["metadata"].get("resourceVersion"), None);
    }

    #[test]
    fn other_secrets_are_errors() {
        let error = |change: fn(&mut Value)| {
            let mut object = object();
            change(&mut object);
            secret().parse(&object).unwrap_err().to_string()
        };
        let foreign = error(|object| object["metadata"]["labels"] = json!(null));
        assert!(foreign.contains("kopf.dev/replicas=op"), "{foreign}");
        let other = error(|object| object["metadata"]["labels"][GROUP_LABEL] = json!("other"));
        assert_eq!(foreign, other);
        let absent = error(|object| object["data"] = json!({}));
        assert!(absent.contains("\"tls.crt\""), "{absent}");
        for wrong in ["!", "/w==", ""] {
            let mut object = object();
            object["data"][KEY] = json!(wrong);
            let parsed = secret().parse(&object);
            assert_eq!(
                parsed.is_err(),
                !wrong.is_empty(),
                "empty text is rejected as PEM"
            );
        }
    }

    #[test]
    fn keys_do_not_appear_in_debug_output() {
        let stored = secret().parse(&object()).unwrap();
        let shown = format!("{stored:?}");
        assert!(shown.contains("chain") && !shown.contains("key"), "{shown}");
    }
}
