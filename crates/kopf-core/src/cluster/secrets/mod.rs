//! Values of Secrets: their digests in essences, and their redaction in logs.
//!
//! The diff-base of a Secret is an annotation of the Secret. With its values, everything that may
//! read the metadata of Secrets (backups, dashboards, `kubectl describe`) could read the values as
//! well, and a value that was replaced would stay readable. Digests detect changes without that.

mod digesting;
mod redaction;

use std::fmt;

pub use digesting::{digest_values, digest_values_like};
pub use redaction::{redact_body, redact_diff, redact_operations};

use crate::resource::Resource;

/// Fields of a Secret with values. `stringData` is write-only on real servers.
const FIELDS: [&str; 2] = ["data", "stringData"];

/// Returns `true` for the resource of Secrets.
pub fn is_secret(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "secrets"
}

/// Returns `true` if a field of a Secret contains values.
pub(crate) fn has_values(field: &str) -> bool {
    FIELDS.contains(&field)
}

/// The form in which the values of Secrets are stored in the diff-base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretValues {
    /// The values as they are, as in the original.
    #[default]
    Plain,
    /// Digests, keyed by the uid of the Secret.
    ///
    /// They survive restarts and are the same for all replicas. The uid is not secret: a value that
    /// can be guessed (a short password, a word) can be found by hashing guesses. Random tokens and
    /// keys cannot.
    Digests,
    /// Digests, keyed by a key of the operator and the uid of the Secret. Without the key, guesses
    /// cannot be verified. All replicas need the same key; another key causes one update of every
    /// Secret.
    KeyedDigests(DigestKey),
}

/// A secret key for digests. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct DigestKey(Vec<u8>);

impl DigestKey {
    /// Makes a key of these bytes, such as the content of a mounted file. At least 16 random bytes
    /// are recommended.
    ///
    /// ```
    /// use kopf_core::secrets::{DigestKey, SecretValues};
    ///
    /// let key = std::env::var("DIGEST_KEY").unwrap_or_else(|_| "0f3a98c1d27b64e5".to_owned());
    /// let values = SecretValues::KeyedDigests(DigestKey::new(key));
    /// # assert!(!format!("{values:?}").contains("0f3a"));
    /// ```
    pub fn new(key: impl Into<Vec<u8>>) -> Self {
        Self(key.into())
    }

    /// Returns `true` if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_core_secrets_are_secrets() {
        let resource = |group: &str, plural: &str| Resource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            ..Resource::default()
        };
        assert!(is_secret(&resource("", "secrets")));
        assert!(!is_secret(&resource("", "configmaps")));
        assert!(!is_secret(&resource("example.com", "secrets")));
    }
}
