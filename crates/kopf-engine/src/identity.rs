//! The identity of objects.

use kopf_client::watching::Peek;
use kopf_core::sharding;

/// The identity of an object: its uid. UUIDs take 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Identity {
    /// Returns the identity of a peeked object. All objects of a stream have the same resource, so
    /// the name identifies objects without a uid.
    pub(crate) fn of(peek: &Peek) -> Self {
        Self::new(
            peek.uid.as_deref(),
            peek.namespace.as_deref(),
            peek.name.as_deref(),
        )
    }

    /// Returns the identity of an object with this uid, or with this name if the uid is `None`.
    pub(crate) fn new(uid: Option<&str>, namespace: Option<&str>, name: Option<&str>) -> Self {
        if let Some(uid) = uid {
            return parse_uuid(uid).map_or_else(|| Self::Text(uid.into()), Self::Uuid);
        }
        let namespace = namespace.unwrap_or("-");
        let name = name.unwrap_or("-");
        Self::Text(format!("{namespace}//{name}").into_boxed_str())
    }

    /// Returns the hash of the uid that determines the shard.
    pub(crate) fn hash(&self) -> u64 {
        match self {
            Self::Uuid(bytes) => sharding::hash(&unparse_uuid(bytes)),
            Self::Text(text) => sharding::hash(text.as_bytes()),
        }
    }
}

/// Formats a UUID as Kubernetes does.
fn unparse_uuid(bytes: &[u8; 16]) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut places = text
        .iter_mut()
        .enumerate()
        .filter_map(|(position, place)| (!matches!(position, 8 | 13 | 18 | 23)).then_some(place));
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            if let (Some(place), Some(digit)) = (places.next(), DIGITS.get(usize::from(digit))) {
                *place = *digit;
            }
        }
    }
    text
}

/// Parses only the format of Kubernetes: any other spelling is another identity.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (position, &character) in text.iter().enumerate() {
        if matches!(position, 8 | 13 | 18 | 23) {
            if character != b'-' {
                return None;
            }
            continue;
        }
        let digit = match character {
            b'0'..=b'9' => character - b'0',
            b'a'..=b'f' => character - b'a' + 10,
            _ => return None,
        };
        let byte = bytes.get_mut(digits / 2)?;
        *byte = (*byte << 4) | digit;
        digits += 1;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_texts() {
        for uid in ["4fd8016e-c6c0-4710-8941-c0b91baaa581", "uid1"] {
            let identity = Identity::new(Some(uid), None, None);
            assert_eq!(identity.hash(), sharding::hash(uid.as_bytes()));
        }
    }

    #[test]
    fn uuids_are_packed_and_nothing_else_is() {
        let uuid = "4fd8016e-c6c0-4710-8941-c0b91baaa581";
        assert_eq!(
            parse_uuid(uuid).map(|bytes| (bytes[0], bytes[15])),
            Some((0x4f, 0x81))
        );
        for other in [
            "",
            "uid1",
            "4FD8016E-c6c0-4710-8941-c0b91baaa581",
            "4fd8016e+c6c0-4710-8941-c0b91baaa581",
            "4fd8016e-c6c0-4710-8941-c0b91baaa58-",
            "4fd8016e-c6c0-4710-8941-c0b91baaa5812",
        ] {
            assert_eq!(parse_uuid(other), None, "{other}");
        }
    }
}
