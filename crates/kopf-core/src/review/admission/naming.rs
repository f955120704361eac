//! Names and URL paths of webhooks, derived from handler ids.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use blake2::digest::consts::U4;
use blake2::{Blake2b, Digest};

/// Maximum length of a webhook name.
const LIMIT: usize = 253;

/// Length of hashes in characters.
const HASH: usize = 8;

/// Generator of valid and unique webhook names.
#[derive(Debug)]
pub(super) struct Names<'a> {
    suffix: &'a str,
    given: HashSet<String>,
}

impl<'a> Names<'a> {
    /// Creates a generator of names with this suffix.
    pub(super) fn new(suffix: &'a str) -> Self {
        Self {
            suffix,
            given: HashSet::new(),
        }
    }

    /// Returns the name for an id; with a hash if the plain name is taken or too long.
    pub(super) fn name(&mut self, id: &str) -> String {
        let plain = normalized(id);
        let suffix = self.suffix;
        let room = LIMIT.saturating_sub(suffix.len() + 1);
        let mut number = 0_usize;
        let mut name = format!("{plain}.{suffix}");
        while plain.is_empty() || plain.len() > room || self.given.contains(&name) {
            let hash = hash(id, number);
            let kept = plain.get(..room.saturating_sub(hash.len() + 1).min(plain.len()));
            let kept = kept.unwrap_or_default().trim_end_matches(['-', '.']);
            let dash = if kept.is_empty() { "" } else { "-" };
            name = format!("{kept}{dash}{hash}.{suffix}");
            if !self.given.contains(&name) {
                break;
            }
            number += 1;
        }
        self.given.insert(name.clone());
        name
    }
}

/// Converts an id to lower case, with dots for slashes and dashes for underscores. Other invalid
/// characters are written in hexadecimal; dashes and dots at the edges of segments are dropped.
fn normalized(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for character in id.chars() {
        match character {
            '/' => text.push('.'),
            '_' => text.push('-'),
            '.' | '-' | 'a'..='z' | 'A'..='Z' | '0'..='9' => {
                text.push(character.to_ascii_lowercase());
            }
            other => {
                for byte in other.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing into text cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
            }
        }
    }
    let parts = text.split('.').map(|part| part.trim_matches('-'));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(".")
}

/// Returns a hash of the id and its number among equal ids.
fn hash(id: &str, number: usize) -> String {
    let mut hasher = Blake2b::<U4>::new();
    hasher.update(id.as_bytes());
    if number > 0 {
        hasher.update(number.to_be_bytes());
    }
    let mut text = String::with_capacity(HASH);
    for byte in hasher.finalize() {
        // Writing into text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Percent-encodes an id for a URL. Slashes are kept: the rest of the path is the id.
pub(super) fn quoted(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            other => {
                // Writing into text cannot fail.
                let _ = write!(text, "%{other:02X}");
            }
        }
    }
    text
}

/// Maximum length of a segment of a service path without its hash.
const PART: usize = 200;

/// Converts an id for the path of a service. API servers accept only DNS names as segments there; other
/// ids, such as those with underscores or capitals, are normalised and get a hash.
pub(super) fn in_service(id: &str) -> Cow<'_, str> {
    if id.split('/').all(is_name) {
        return Cow::Borrowed(id);
    }
    let parts = id.split('/').map(|part| {
        let part = normalized(part);
        let part = part.get(..PART.min(part.len())).unwrap_or_default();
        part.trim_end_matches(['-', '.']).to_owned()
    });
    let mut text: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    let last = text.pop().map_or_else(String::new, |last| last + "-");
    text.push(last + &hash(id, 0));
    Cow::Owned(text.join("/"))
}

/// Returns `true` if the path names the handler with this id, in a URL or behind a service.
pub fn is_called(id: &str, called: &str) -> bool {
    let has_hash = || {
        let cut = called.len().checked_sub(HASH);
        let hash = cut.and_then(|cut| called.get(cut..));
        hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    // Hashing is avoided where possible: each request is compared with all handlers.
    id == called || (has_hash() && *in_service(id) == *called)
}

/// Returns `true` for RFC 1123 subdomains.
pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(is_inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= LIMIT && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: &str) -> String {
        Names::new("auto.kopf.dev").name(id)
    }

    #[test]
    fn names_are_derived_from_ids() {
        for (id, expected) in [
            ("check", "check.auto.kopf.dev"),
            ("status_check", "status-check.auto.kopf.dev"),
            (
                "some/id_with:odd chars/spec.field",
                "some.id-with3aodd20chars.spec.field.auto.kopf.dev",
            ),
            ("CamelCase", "camelcase.auto.kopf.dev"),
            ("ärger", "c3a4rger.auto.kopf.dev"),
            ("_private_/-x-/.", "private.x.auto.kopf.dev"),
        ] {
            assert_eq!(name(id), expected, "{id}");
        }
    }

    /// Validates a name as the API server does.
    fn is_valid(name: &str) -> bool {
        let is_valid_part = |part: &str| {
            let inner = part
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
            inner && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
        };
        name.len() <= 253 && name.split('.').count() >= 3 && name.split('.').all(is_valid_part)
    }

    #[test]
    fn names_of_any_id_are_valid() {
        let long = "x".repeat(500);
        let dotted = "a.".repeat(200);
        let odd = "é".repeat(300);
        for id in [
            "___", "/", "-", "...", "A", "\u{0}", "🦀", &long, &dotted, &odd,
        ] {
            let name = name(id);
            assert!(is_valid(&name), "{id:?}: {name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names = Names::new("auto.kopf.dev");
        let given: Vec<String> = ["a_b", "a-b", "A-B", "a_b", "a_b", "_", "-"]
            .iter()
            .map(|id| names.name(id))
            .collect();
        assert_eq!(given[0], "a-b.auto.kopf.dev");
        let unique: HashSet<&String> = given.iter().collect();
        assert_eq!(unique.len(), given.len(), "{given:?}");
        assert!(given.iter().all(|name| is_valid(name)), "{given:?}");
        assert!(given[1].starts_with("a-b-"), "{given:?}");
    }

    #[test]
    fn urls_are_percent_encoded() {
        assert_eq!(
            quoted("some/id_with:odd chars/spec.field"),
            "some/id_with%3Aodd%20chars/spec.field"
        );
        assert_eq!(quoted("a~b-c.ä?#%"), "a~b-c.%C3%A4%3F%23%25");
    }

    #[test]
    fn service_paths_of_any_id_are_valid() {
        for plain in ["check", "check/spec.field", "a-b.c/d1"] {
            assert_eq!(in_service(plain), plain);
        }
        let long = "X".repeat(500);
        let mut seen = HashSet::new();
        for id in [
            "a_b",
            "A-B",
            "a_B",
            "_",
            "ü/_",
            "_/ü",
            "a_b/spec.fieldName",
            "x:y z",
            ".a",
            "-",
            &long,
        ] {
            let path = in_service(id);
            assert!(path.split('/').all(is_name), "{id}: {path}");
            assert!(is_called(id, &path) && is_called(id, id), "{id}: {path}");
            assert!(!is_called("other", &path), "{path}");
            assert!(seen.insert(path.into_owned()), "{id}");
        }
        assert!(in_service("a_b/spec.fieldName").starts_with("a-b/spec.fieldname-"));
        assert!(!is_called("a_b", "a-b"));
        assert!(!is_called("ab", "ü") && !is_called("ab", ""));
    }
}
