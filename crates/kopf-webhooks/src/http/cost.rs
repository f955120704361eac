//! Estimates of the memory that parsed JSON takes.
//!
//! It depends on the structure rather than on the size: in `[{"":0},{"":0}]`, eight bytes become a map
//! with a node for eleven entries.

/// Bytes for an element of an array or an entry of an object, including the key and unused capacity.
const ELEMENT: usize = 128;

/// Bytes for a non-empty array.
const ARRAY: usize = 128;

/// Bytes for a non-empty object: a node with capacity for eleven entries.
const OBJECT: usize = 640;

/// Returns an upper bound for the memory of the values. It also counts commas and brackets in strings, but
/// takes a fraction of the time of parsing.
pub(super) fn upper_bound(text: &[u8]) -> usize {
    let count = |wanted| count(text, wanted);
    text.len() + count(b',') * ELEMENT + count(b'[') * ARRAY + count(b'{') * OBJECT
}

/// Returns the estimated memory of the values.
pub(super) fn cost(text: &[u8]) -> usize {
    text.len() + structure(text)
}

/// Counts a byte. Counts of chunks fit into bytes, so that the loop is vectorised.
fn count(text: &[u8], wanted: u8) -> usize {
    let pieces = text.chunks(usize::from(u8::MAX));
    let counts = pieces.map(|piece| {
        piece
            .iter()
            .map(|byte| u8::from(*byte == wanted))
            .sum::<u8>()
    });
    counts.map(usize::from).sum()
}

/// Returns the cost of arrays, objects and elements.
fn structure(text: &[u8]) -> usize {
    let mut cost = 0;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b',' => cost += ELEMENT,
            // Empty ones allocate nothing.
            b'[' if bytes.as_slice().first() != Some(&b']') => cost += ARRAY,
            b'{' if bytes.as_slice().first() != Some(&b'}') => cost += OBJECT,
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_not_structures() {
        for (text, expected) in [
            ("", 0),
            (r#""a,b[{\",[{""#, 0),
            (r#""a\\",1"#, ELEMENT),
            (
                r#"{"a,":[1,2],"b":{},"c":[]}"#,
                OBJECT + ARRAY + 3 * ELEMENT,
            ),
            (r#""not ended, \"#, 0),
        ] {
            assert_eq!(structure(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn all_bytes_are_counted() {
        for length in [0, 1, 254, 255, 256, 1000] {
            assert_eq!(count(&vec![b','; length], b','), length);
            assert_eq!(count(&vec![b'x'; length], b','), 0);
        }
    }

    #[test]
    fn estimates_are_not_too_low() {
        let commas = format!("\"{}\"", ",".repeat(100_000));
        assert_eq!(cost(commas.as_bytes()), commas.len());
        let dense = format!("[{}0]", "{\"\":0},".repeat(10_000));
        assert!(cost(dense.as_bytes()) > 90 * dense.len());
        for text in [&commas, &dense, r#"{"a":[1,2],"b":{}}"#] {
            assert!(upper_bound(text.as_bytes()) >= cost(text.as_bytes()));
        }
    }
}
