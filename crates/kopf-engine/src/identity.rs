//! By what objects are told apart.

use kopf_client::watching::Peek;

/// The identity of an object: its uid, which is nearly always a UUID and then takes 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Identity {
    /// Objects of one stream are all of one kind, so that without a uid their names will do.
    pub(crate) fn of(peek: &Peek) -> Self {
        Self::new(
            peek.uid.as_deref(),
            peek.namespace.as_deref(),
            peek.name.as_deref(),
        )
    }

    /// The same of what is known otherwise.
    pub(crate) fn new(uid: Option<&str>, namespace: Option<&str>, name: Option<&str>) -> Self {
        if let Some(uid) = uid {
            return parse_uuid(uid).map_or_else(|| Self::Text(uid.into()), Self::Uuid);
        }
        let namespace = namespace.unwrap_or("-");
        let name = name.unwrap_or("-");
        Self::Text(format!("{namespace}//{name}").into_boxed_str())
    }
}

/// Only the form that Kubernetes writes: what is written differently is a different identity.
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
