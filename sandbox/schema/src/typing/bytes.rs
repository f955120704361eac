//! Binary data in JSON: Base64 as in Go's decoder, including line breaks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns the canonical encoding of the same bytes. The error is that of Go's decoder.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    if STANDARD.decode(text).is_ok() {
        return Ok(text.to_owned());
    }
    let bytes = decode(text.as_bytes());
    bytes
        .map(|bytes| STANDARD.encode(bytes))
        .map_err(|offset| format!("illegal base64 data at input byte {offset}"))
}

/// Decodes slowly, and returns the position of the first error.
fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = 0_u32;
    let mut filled = 0_usize;
    let is_break = |at: usize| matches!(text.get(at), Some(b'\n' | b'\r'));
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if let Some(bits) = sextet(byte) {
            group = group << 6 | bits;
            filled += 1;
            if filled == 4 {
                bytes.extend_from_slice(group.to_be_bytes().get(1..).unwrap_or_default());
                (group, filled) = (0, 0);
            }
            continue;
        }
        if is_break(at - 1) {
            continue;
        }
        if byte != b'=' || filled < 2 {
            return Err(at - 1);
        }
        if filled == 2 {
            while is_break(at) {
                at += 1;
            }
            match text.get(at) {
                None => return Err(text.len()),
                Some(b'=') => at += 1,
                Some(_) => return Err(at - 1),
            }
        }
        while is_break(at) {
            at += 1;
        }
        if at < text.len() {
            return Err(at);
        }
        group <<= 6 * (4 - filled);
        bytes.extend_from_slice(group.to_be_bytes().get(1..filled).unwrap_or_default());
        return Ok(bytes);
    }
    if filled == 0 {
        Ok(bytes)
    } else {
        Err(at - filled)
    }
}

fn sextet(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base64_is_canonicalised() {
        for (given, expected) in [
            ("", ""),
            ("aGVsbG8=", "aGVsbG8="),
            ("aGVs\nbG8=", "aGVsbG8="),
            ("aGVsbG9=", "aGVsbG8="),
            ("aA==\n", "aA=="),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(expected), "{given:?}");
        }
    }

    #[test]
    fn errors_have_the_offset_of_the_fault() {
        for (given, offset) in [
            ("plain text", 5),
            ("a", 0),
            ("aGVsbG8", 4),
            ("aA=", 3),
            ("aA=x", 2),
            ("aA==aA==", 4),
            ("=", 0),
        ] {
            let expected = format!("illegal base64 data at input byte {offset}");
            assert_eq!(canonical(given), Err(expected), "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn fast_and_slow_decoders_agree(bytes: Vec<u8>) {
            prop_assert_eq!(decode(STANDARD.encode(&bytes).as_bytes()), Ok(bytes));
        }

        #[test]
        fn random_strings_never_panic(text in "[A-Za-z0-9+/=\\n]{0,12}|.{0,12}") {
            if let Ok(once) = canonical(&text) {
                prop_assert_eq!(canonical(&once), Ok(once.clone()));
            }
        }
    }
}
