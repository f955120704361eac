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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Returns the naming of any prefix, including invalid ones.
    fn unchecked(prefix: &str) -> KeyNaming {
        KeyNaming {
            prefix: prefix.to_owned(),
            v1: true,
            repairs: false,
        }
    }

    fn names(prefix: &str, key: &str) -> Vec<String> {
        let keys = unchecked(prefix).keys(key, &Body::new(json!({})));
        let start = format!("{prefix}/");
        keys.iter()
            .map(|key| key.strip_prefix(&start).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn invalid_annotation_names_are_rejected() {
        let naming = KeyNaming::default();
        for id in [
            "create_fn",
            "create_fn/spec.field",
            "outer.<locals>.inner",
            "A-1",
            "7",
            "make/item1/x",
            &"a".repeat(200),
            // Characters beyond the limit are replaced by the hash.
            &format!("{}{}", "a".repeat(60), "ü".repeat(10)),
        ] {
            naming.check(id).unwrap_or_else(|error| panic!("{error}"));
        }
        for id in [
            "",
            "a b",
            "ü",
            "make/ü",
            "\"item1\"",
            "..",
            "_private",
            "<lambda>",
            "make/",
            "make/a:b",
            "make/a\nb",
            &"ü".repeat(100),
        ] {
            let error = naming.check(id).unwrap_err();
            assert!(error.to_string().contains(&format!("{id:?}")), "{error}");
        }
        // With such a prefix, the older names become too long.
        let long = KeyNaming::new("p".repeat(100), true).unwrap();
        assert!(long.check(&"a".repeat(150)).is_err());
        assert!(long.with_v1(false).check(&"a".repeat(150)).is_ok());
    }

    #[test]
    fn repaired_names_are_valid_and_distinct() {
        let naming = KeyNaming::default().with_repairs(true);
        let mut names = BTreeSet::new();
        let long = "_".repeat(100);
        let ids = [
            "", "_private", "private", "<lambda>", "a:b", "a;b", "ü", &long,
        ];
        for id in ids {
            naming.check(id).unwrap_or_else(|error| panic!("{error}"));
            names.extend(naming.forms(id));
        }
        assert!(names.len() >= ids.len());
        assert!(names.contains("kopf.zalando.org/private"));
    }

    #[test]
    fn known_names_under_the_default_prefix() {
        let a = |count| "a".repeat(count);
        let b = |count| "b".repeat(count);
        for (key, expected) in [
            ("create_fn".to_owned(), vec!["create_fn".to_owned()]),
            (
                "create_fn/spec.field".to_owned(),
                vec!["create_fn.spec.field".to_owned()],
            ),
            (
                "outer.<locals>.inner".to_owned(),
                vec!["outer._locals_.inner".to_owned()],
            ),
            (a(46), vec![a(46)]),
            (a(47), vec![a(47), a(39) + "-L2I79Q"]),
            (a(63), vec![a(63), a(39) + "-LcrRHA"]),
            (a(64), vec![a(56) + "-5Keq3A", a(39) + "-5Keq3A"]),
            (
                format!("create_fn/{}", b(60)),
                vec![
                    format!("create_fn.{}-HicFNw", b(46)),
                    format!("create_fn.{}-lUqu6A", b(29)),
                ],
            ),
        ] {
            assert_eq!(names(DEFAULT_PREFIX, &key), expected);
        }
    }

    #[test]
    fn known_names_under_a_custom_prefix() {
        let prefix = "my-operator.example.com";
        assert_eq!(
            names(prefix, &"x".repeat(40)),
            ["x".repeat(40), "x".repeat(32) + "-tEokcg"]
        );
        assert_eq!(
            names(prefix, &"x".repeat(64))[0],
            "x".repeat(56) + "-SItAqA"
        );
        assert_eq!(
            names(prefix, &"fn".repeat(323)),
            ["fn".repeat(28) + "-Az-r.g", "fn".repeat(16) + "-Az-r.g"]
        );
    }

    // From the recording s14 of the original.
    #[test]
    fn recorded_names() {
        assert_eq!(
            names(
                DEFAULT_PREFIX,
                "a-handler-name-of-exactly-fifty-characters-in-total"
            ),
            [
                "a-handler-name-of-exactly-fifty-characters-in-total",
                "a-handler-name-of-exactly-fifty-charact-d1EOZQ",
            ]
        );
    }

    #[test]
    fn long_prefixes_match_the_original() {
        // room = 63 - 61 = 2, minus 7 for the hash: five characters are cut from the end.
        let prefix = "p".repeat(60);
        assert_eq!(
            names(&prefix, "abcdefgh")[1],
            format!("abc{}", suffix("abcdefgh"))
        );
        let prefix = "p".repeat(300);
        assert_eq!(names(&prefix, "abcdefgh")[1], suffix("abcdefgh"));
        assert!(unchecked(&prefix).is_prefix_too_long());
        assert!(
            !KeyNaming::new("p".repeat(189), true)
                .unwrap()
                .is_prefix_too_long()
        );
    }

    #[test]
    fn v1_can_be_off_and_the_prefix_can_be_empty() {
        let naming = KeyNaming::default().with_v1(false);
        assert_eq!(naming.keys(&"a".repeat(64), &Body::new(json!({}))).len(), 1);
        for prefix in ["my op", "/", "a/b", ".x", "x.", "-x", "exämple"] {
            let error = Error::Prefix {
                prefix: prefix.to_owned(),
            };
            assert_eq!(KeyNaming::new(prefix, true), Err(error));
        }
        let naming = KeyNaming::new("", true).unwrap();
        let body = Body::new(json!({}));
        assert_eq!(naming.keys("fn/a", &body), ["fn.a"]);
        assert!(!naming.needs_mark() && !naming.owns("fn.a"));
        assert_eq!(naming.check("fn"), Ok(()));
        assert!(naming.check("f n").is_err());
        assert_eq!(naming.keys(&"x".repeat(63), &body), ["x".repeat(63)]);
        let long = naming.keys(&"x".repeat(64), &body);
        assert_eq!(long, ["x".repeat(56) + "-SItAqA"], "both forms are equal");
    }

    #[test]
    fn replica_sets_of_deployments_have_their_own_names() {
        let with = |kind: &str, owners: Value| {
            let body = json!({"kind": kind, "metadata": {"ownerReferences": owners}});
            KeyNaming::default().keys("create_fn", &Body::new(body))
        };
        let owned = json!([{"kind": "Other"}, {"kind": "Deployment"}]);
        assert_eq!(
            with("ReplicaSet", owned.clone()),
            ["kopf.zalando.org/create_fn-ofDRS"]
        );
        assert_eq!(with("Pod", owned), ["kopf.zalando.org/create_fn"]);
        for other in [
            json!([]),
            json!([{"kind": "Other"}]),
            json!([1, {}]),
            json!("x"),
        ] {
            assert_eq!(with("ReplicaSet", other), ["kopf.zalando.org/create_fn"]);
        }
    }

    #[test]
    fn prefixes_are_marked_by_the_marker_or_by_kopfs_domain() {
        let annotations = json!({
            "marked.example/kopf-managed": "whatever", "marked.example/x": "1",
            "kopf.zalando.org/x": "1", "sub.kopf.zalando.org/x": "1",
            "notkopf.zalando.org/x": "1", "kopf.dev/x": "1", "kopf-managed": "yes",
            "plain": "1", "foreign.example/x": "1",
        });
        let marked = marked_prefixes(annotations.as_object().unwrap());
        let expected = ["kopf.zalando.org", "marked.example", "sub.kopf.zalando.org"];
        assert_eq!(marked.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn marker_is_written_once_and_only_for_custom_prefixes() {
        let mark = |prefix: &str, annotations: Value, patch: Value| {
            let body = Body::new(json!({"metadata": {"annotations": annotations}}));
            let mut patch = Patch {
                merge: patch.as_object().unwrap().clone(),
                fns: vec![],
            };
            KeyNaming::new(prefix, true)
                .unwrap()
                .mark(&body, &mut patch);
            patch
                .get(&crate::field::FieldPath::from_iter([
                    "metadata",
                    "annotations",
                    "my-op.example.com/kopf-managed",
                ]))
                .cloned()
        };
        let prefix = "my-op.example.com";
        let marker = json!({"my-op.example.com/kopf-managed": "old"});
        assert_eq!(mark(prefix, json!({}), json!({})), Some(json!("yes")));
        assert_eq!(mark(prefix, marker.clone(), json!({})), None);
        let patched = json!({"metadata": {"annotations": marker}});
        assert_eq!(mark(prefix, json!({}), patched), Some(json!("old")));

        let mut patch = Patch::default();
        KeyNaming::new("kopf.dev", true)
            .unwrap()
            .mark(&Body::new(json!({})), &mut patch);
        assert!(patch.merge.is_empty());
    }

    #[test]
    fn ownership_requires_the_slash() {
        let naming = KeyNaming::default();
        assert!(naming.owns("kopf.zalando.org/x"));
        assert!(!naming.owns("kopf.zalando.org.x/y") && !naming.owns("kopf.zalando.org"));
    }

    proptest! {
        #[test]
        fn names_are_within_the_limit(key in ".{0,200}", prefix in "[a-z.]{1,80}") {
            let naming = unchecked(&prefix);
            let keys = naming.keys(&key, &Body::new(json!({})));
            let name = keys[0].strip_prefix(&format!("{prefix}/")).unwrap();
            prop_assert!(name.chars().count() <= 63);
            prop_assert!(!name.contains(['/', '<', '>']));
            prop_assert!(keys.len() <= 2 && keys.iter().all(|key| naming.owns(key)));
            if let Some(v1) = keys.get(1) {
                prop_assert!(prefix.len() > 55 || v1.chars().count() <= 63);
            }
        }

        #[test]
        fn suffixes_are_valid(text in any::<String>()) {
            let suffix = suffix(&text);
            prop_assert_eq!(suffix.len(), 7);
            prop_assert!(suffix.ends_with(|char: char| char.is_ascii_alphanumeric()));
        }
    }
}
