//! Names of webhooks and the ends of their addresses, made of ids of handlers.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use blake2::digest::consts::U4;
use blake2::{Blake2b, Digest};

/// What the server accepts as a name.
const LIMIT: usize = 253;

/// How long hashes are, in letters.
const HASH: usize = 8;

/// Gives names to webhooks: those the server accepts, and each only once.
#[derive(Debug)]
pub(super) struct Names<'a> {
    suffix: &'a str,
    given: HashSet<String>,
}

impl<'a> Names<'a> {
    /// All names end with this.
    pub(super) fn new(suffix: &'a str) -> Self {
        Self {
            suffix,
            given: HashSet::new(),
        }
    }

    /// The name for an id; with a hash, if the plain one is taken or too long.
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

/// Slashes separate as dots do, underscores are dashes, and what else is not for names is spelled in
/// hex. In lower case, and without what cannot begin or end a part of a name.
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

/// Eight characters; they depend on the id and on which of equal ones it is.
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

/// The id as a part of an address. Slashes stay: ids have them, and servers take all that is left
/// of the path.
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

/// How long a part of the path of a service can be, without its hash.
const PART: usize = 200;

/// The id as a part of the path of a service. The server accepts only what could be a name between its
/// slashes, which ids are not that have underscores or capitals. Those are called otherwise there: by
/// something like the id, and a hash of it.
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

/// Whether this is how the handler with the id is called, by URL or by service.
pub fn is_called(id: &str, called: &str) -> bool {
    let has_hash = || {
        let cut = called.len().checked_sub(HASH);
        let hash = cut.and_then(|cut| called.get(cut..));
        hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    // Hashes are not made for nothing: each request is compared with all handlers.
    id == called || (has_hash() && *in_service(id) == *called)
}

/// Whether the server takes it for a name: an RFC 1123 subdomain.
fn is_name(text: &str) -> bool {
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
    fn names_are_made_of_ids() {
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

    /// As the server checks it.
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
    fn names_are_accepted_whatever_the_ids_are() {
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
    fn each_name_is_given_once() {
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
    fn addresses_keep_what_is_theirs() {
        assert_eq!(
            quoted("some/id_with:odd chars/spec.field"),
            "some/id_with%3Aodd%20chars/spec.field"
        );
        assert_eq!(quoted("a~b-c.ä?#%"), "a~b-c.%C3%A4%3F%23%25");
    }

    #[test]
    fn paths_of_services_are_accepted_whatever_the_ids_are() {
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
