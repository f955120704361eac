//! Names of annotations for the state of operators, ours and others'.
//!
//! A handler id is converted to a valid name, and shortened with a hash if it is too long. There
//! are two ways of shortening (V1 is the older, stricter one); both are written, so that any
//! version of the original can take over. The names must never change: they identify the state of
//! handled objects.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blake2::digest::consts::U4;
use blake2::{Blake2b, Digest};
use serde_json::{Map, Value};

use crate::body::Body;
use crate::patch::Patch;

/// The default prefix of annotations.
pub const DEFAULT_PREFIX: &str = "kopf.zalando.org";

/// The name of the annotation that marks a prefix as the state of a Kopf operator.
pub const MARKER: &str = "kopf-managed";

/// Maximum length of the name of an annotation (without its prefix) in Kubernetes.
const NAME_LIMIT: usize = 63;

/// Maximum length of a prefix with which the longest name is valid in Kubernetes.
const PREFIX_LIMIT: usize = 253 - 1 - NAME_LIMIT;

/// The reason why a prefix is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server rejects annotations with this prefix, and with them every patch of the operator.
    #[error(
        "invalid prefix of annotations {prefix:?}: must be a domain name such as \"example.com\", or \
         empty"
    )]
    Prefix {
        /// The given prefix.
        prefix: String,
    },
}

/// An id that Kubernetes would not accept as the name of an annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the id {id:?} cannot be kept in an annotation, which would be {name:?}: only Latin letters, \
     digits, '-', '_', '.' are allowed (and '/', '<', '>', which are replaced), the first and the \
     last of them a letter or a digit; use another id"
)]
#[non_exhaustive]
pub struct InvalidId {
    /// The full id.
    pub id: String,
    /// The name of the annotation, without its prefix.
    pub name: String,
}

/// Naming of annotations under one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyNaming {
    prefix: String,
    v1: bool,
    repairs: bool,
}

impl Default for KeyNaming {
    fn default() -> Self {
        Self {
            prefix: DEFAULT_PREFIX.to_owned(),
            v1: true,
            repairs: false,
        }
    }
}

impl KeyNaming {
    /// Returns the naming under the prefix; with `v1`, also in the older form.
    ///
    /// With an empty prefix, annotations have plain names. That is not recommended: other operators
    /// cannot recognise them, and treat their changes as changes of the object.
    pub fn new(prefix: impl Into<String>, v1: bool) -> Result<Self, Error> {
        let prefix = prefix.into();
        if prefix.is_empty() || is_valid_prefix(&prefix) {
            Ok(Self {
                prefix,
                v1,
                repairs: false,
            })
        } else {
            Err(Error::Prefix { prefix })
        }
    }

    /// Returns the same naming with or without the older form.
    #[must_use]
    pub fn with_v1(self, v1: bool) -> Self {
        Self { v1, ..self }
    }

    /// Returns the same naming, with names that the API server rejects replaced by valid ones.
    ///
    /// For ids that come from names of functions, such as `_private`. The replaced names differ
    /// from those of the original, which cannot store them.
    #[must_use]
    pub fn with_repairs(self, repairs: bool) -> Self {
        Self { repairs, ..self }
    }

    /// Returns the prefix, without a slash.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns `true` if the server may reject some names because of the long prefix, which is
    /// worth a warning.
    pub fn is_prefix_too_long(&self) -> bool {
        self.prefix.chars().count() > PREFIX_LIMIT
    }

    /// Returns `true` if an annotation is under this prefix. Without a prefix, there are none.
    pub fn owns(&self, annotation: &str) -> bool {
        let has_prefix = !self.prefix.is_empty();
        has_prefix
            && annotation
                .strip_prefix(&*self.prefix)
                .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns the annotations of the key on this object: V2 first, then V1 if it is enabled and
    /// different.
    pub fn keys(&self, key: &str, body: &Body) -> Vec<String> {
        if is_replica_set_of_deployment(body) {
            // Kubernetes copies the annotations of deployments to their replica sets.
            self.forms(&format!("{key}-ofDRS"))
        } else {
            self.forms(key)
        }
    }

    /// Rejects ids whose annotations the server would reject with the whole patch.
    pub fn check(&self, id: &str) -> Result<(), InvalidId> {
        let forms = self.forms(id);
        let names = forms.iter().map(|form| {
            form.rsplit_once('/')
                .map_or(form.as_str(), |(_, name)| name)
        });
        match names.into_iter().find(|name| !is_valid_name(name)) {
            None => Ok(()),
            Some(name) => Err(InvalidId {
                id: id.to_owned(),
                name: name.to_owned(),
            }),
        }
    }

    /// Returns `true` if other operators cannot recognise the prefix as Kopf's without a marker.
    pub fn needs_mark(&self) -> bool {
        !self.prefix.is_empty() && !self.prefix.starts_with("kopf.")
    }

    /// Marks the prefix as Kopf's in the patch, unless it is marked or well known.
    pub fn mark(&self, body: &Body, patch: &mut Patch) {
        if !self.needs_mark() {
            return;
        }
        let marker = format!("{}/{MARKER}", self.prefix);
        if !body.annotations().contains_key(&marker) {
            patch
                .annotations_mut()
                .entry(marker)
                .or_insert_with(|| Value::from("yes"));
        }
    }

    fn forms(&self, key: &str) -> Vec<String> {
        // Most keys need neither a hash nor a replacement, and this runs for every event.
        let is_plain = |byte: &u8| byte.is_ascii() && !matches!(byte, b'/' | b'<' | b'>');
        if self.prefix.len() + 1 + key.len() <= NAME_LIMIT && key.as_bytes().iter().all(is_plain) {
            return vec![self.full(key)];
        }
        let safe: String = key.chars().map(safe_char).collect();
        let length = safe.chars().count();
        let v2 = self.v2(key, &safe, length);
        let v1 = self
            .v1
            .then(|| self.v1(&safe, length))
            .filter(|v1| *v1 != v2);
        [v2].into_iter().chain(v1).collect()
    }

    /// Shortens the name only; the hash is of the raw key.
    fn v2(&self, key: &str, safe: &str, length: usize) -> String {
        if length > NAME_LIMIT {
            let suffix = suffix(key);
            let head = head(safe, NAME_LIMIT - suffix.len());
            self.full(&[head, &suffix].concat())
        } else {
            self.full(safe)
        }
    }

    /// Shortens the prefix and the name together; the hash is of the safe key.
    fn v1(&self, safe: &str, length: usize) -> String {
        let slash = usize::from(!self.prefix.is_empty());
        let prefix_length = self.prefix.chars().count() + slash;
        if prefix_length + length <= NAME_LIMIT {
            return self.full(safe);
        }
        let suffix = suffix(safe);
        // With a long prefix there is no room; the original then counts from the end of the key.
        let kept = match NAME_LIMIT.checked_sub(prefix_length + suffix.len()) {
            Some(room) => room,
            None => (length + NAME_LIMIT).saturating_sub(prefix_length + suffix.len()),
        };
        self.full(&[head(safe, kept), &suffix].concat())
    }

    /// Returns the name with the prefix.
    fn full(&self, name: &str) -> String {
        if self.repairs && !is_valid_name(name) {
            return self.full(&repaired(name));
        }
        if self.prefix.is_empty() {
            name.to_owned()
        } else {
            [&*self.prefix, "/", name].concat()
        }
    }
}

/// Returns `true` if the API server accepts it as the name of a finalizer or an annotation, with or
/// without a prefix.
pub(crate) fn is_qualified_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((prefix, name)) => is_valid_prefix(prefix) && is_valid_name(name),
        None => is_valid_name(name),
    }
}

/// Returns `true` if the API server accepts it before the slash: a domain name in any case.
fn is_valid_prefix(prefix: &str) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let is_part = |part: &str| {
        let part = part.as_bytes();
        let is_outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        is_outer(part.first()) && is_outer(part.last()) && part.iter().all(is_inner)
    };
    prefix.len() <= 253 && prefix.split('.').all(is_part)
}

/// Returns `true` if the API server accepts it after the slash.
fn is_valid_name(name: &str) -> bool {
    let name = name.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    name.len() <= NAME_LIMIT
        && is_outer(name.first())
        && is_outer(name.last())
        && name.iter().all(is_inner)
}

/// Returns a valid name with a hash of the invalid one.
fn repaired(name: &str) -> String {
    let suffix = suffix(name);
    let is_inner = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    let inner = name
        .chars()
        .map(|char| if is_inner(char) { char } else { '-' });
    let inner: String = inner.collect();
    let inner = inner.trim_start_matches(|char: char| !char.is_ascii_alphanumeric());
    let head = head(inner, NAME_LIMIT - suffix.len());
    if head.is_empty() {
        return format!("id{suffix}");
    }
    format!("{head}{suffix}")
}

/// Returns the prefixes under which Kopf operators keep state on this object.
pub fn marked_prefixes(annotations: &Map<String, Value>) -> BTreeSet<&str> {
    let parts = annotations.keys().filter_map(|key| key.split_once('/'));
    let marked = parts.filter(|(prefix, name)| *name == MARKER || is_well_known(prefix));
    marked.map(|(prefix, _)| prefix).collect()
}

/// Returns `true` for Kopf's own domain and its subdomains.
fn is_well_known(prefix: &str) -> bool {
    prefix
        .strip_suffix(DEFAULT_PREFIX)
        .is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
}

fn is_replica_set_of_deployment(body: &Body) -> bool {
    body.kind() == Some("ReplicaSet")
        && body
            .owner_references()
            .any(|owner| owner.get("kind").and_then(Value::as_str) == Some("Deployment"))
}

/// Replaces a character of an id that is not allowed in names of annotations.
pub(crate) fn safe_char(char: char) -> char {
    match char {
        '/' => '.',
        '<' | '>' => '_',
        other => other,
    }
}

/// Returns the first characters of a string.
fn head(text: &str, count: usize) -> &str {
    text.char_indices()
        .nth(count)
        .map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}

/// Returns a dash and a hash of six valid characters.
fn suffix(text: &str) -> String {
    let digest = Blake2b::<U4>::digest(text.as_bytes());
    let encoded = format!("-{}", STANDARD.encode(digest))
        .replace('+', "-")
        .replace('/', ".");
    encoded.trim_end_matches(['=', '-', '.']).to_owned()
}

#[cfg(test)]
mod tests;
