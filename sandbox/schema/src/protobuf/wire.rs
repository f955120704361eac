//! The wire format: numbered fields, without their types.
//!
//! Errors have the wording of the real server, because clients may print them.

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
    /// A deprecated form, which no kind uses; it is skipped.
    Group,
}

impl Payload<'_> {
    /// Returns the number of the wire type, for errors.
    pub(super) fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Group => 3,
            Self::Fixed32(_) => 5,
        }
    }
}

/// An iterator over the fields of a message.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// The type of the message, for errors.
    of: &'a str,
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8], of: &'a str) -> Self {
        Self { rest: message, of }
    }

    /// Returns the next field with its number, or `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = varint(&mut self.rest)?;
        if tag & 7 == 4 {
            let of = self.of;
            return Err(format!("proto: {of}: wiretype end group for non-group"));
        }
        let number = i32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else {
            return Err(format!(
                "proto: {}: illegal tag {} (wire type {tag})",
                self.of,
                tag >> 3
            ));
        };
        Ok(Some((number, payload(&mut self.rest, tag)?)))
    }
}

/// Reads the numbers of a list that are packed into one field.
pub(super) fn packed(
    mut rest: &[u8],
    fixed: bool,
) -> impl Iterator<Item = Result<Payload<'_>, String>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let one = payload(&mut rest, u64::from(fixed));
        if one.is_err() {
            rest = &[];
        }
        Some(one)
    })
}

fn payload<'a>(rest: &mut &'a [u8], tag: u64) -> Result<Payload<'a>, String> {
    Ok(match tag & 7 {
        0 => Payload::Varint(varint(rest)?),
        1 => Payload::Fixed64(u64::from_le_bytes(*chunk(rest)?)),
        2 => {
            let length = varint(rest)?;
            if i64::try_from(length).is_err() {
                return Err("proto: negative length found during unmarshaling".to_owned());
            }
            let length = usize::try_from(length).map_err(|_| cut_off())?;
            let (bytes, after) = rest.split_at_checked(length).ok_or_else(cut_off)?;
            *rest = after;
            Payload::Bytes(bytes)
        }
        3 => {
            skip_group(rest)?;
            Payload::Group
        }
        5 => Payload::Fixed32(u32::from_le_bytes(*chunk(rest)?)),
        other => return Err(format!("proto: illegal wireType {other}")),
    })
}

/// Skips the fields of a group up to its end. Nested groups are counted without recursion.
fn skip_group(rest: &mut &[u8]) -> Result<(), String> {
    let mut open = 1_usize;
    while open > 0 {
        let tag = varint(rest)?;
        match tag & 7 {
            3 => open += 1,
            4 => open -= 1,
            _ => {
                payload(rest, tag)?;
            }
        }
    }
    Ok(())
}

fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or_else(cut_off)?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("proto: integer overflow".to_owned())
}

fn chunk<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], String> {
    let (chunk, after) = rest.split_first_chunk().ok_or_else(cut_off)?;
    *rest = after;
    Ok(chunk)
}

fn cut_off() -> String {
    "unexpected EOF".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Payload<'_>)>, String> {
        let mut fields = Fields::new(message, "Pod");
        let mut all = Vec::new();
        while let Some(field) = fields.next()? {
            all.push(field);
        }
        Ok(all)
    }

    #[test]
    fn every_wire_type_is_decoded() {
        assert_eq!(all(b"").unwrap(), []);
        assert_eq!(
            all(b"\x08\xac\x02\x12\x02hi\x19\x01\0\0\0\0\0\0\0\x25\x02\0\0\0\xf8\x07\x01").unwrap(),
            [
                (1, Payload::Varint(300)),
                (2, Payload::Bytes(b"hi")),
                (3, Payload::Fixed64(1)),
                (4, Payload::Fixed32(2)),
                (127, Payload::Varint(1)),
            ]
        );
        let minus_one = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(all(minus_one).unwrap(), [(1, Payload::Varint(u64::MAX))]);
    }

    #[test]
    fn groups_are_skipped_with_their_content() {
        let message = b"\x0b\x10\x01\x1b\x22\x01x\x1c\x0c\x28\x07";
        assert_eq!(
            all(message).unwrap(),
            [(1, Payload::Group), (5, Payload::Varint(7))]
        );
        let open = vec![0x0b; 100_000];
        assert_eq!(all(&open).unwrap_err(), "unexpected EOF");
    }

    #[test]
    fn errors_have_the_wording_of_the_server() {
        for (message, expected) in [
            (&b"\x08"[..], "unexpected EOF"),
            (b"\x0a\x05abc", "unexpected EOF"),
            (b"\x09\x01", "unexpected EOF"),
            (b"\x0d\x01", "unexpected EOF"),
            (b"\x0b", "unexpected EOF"),
            (b"\x0c", "proto: Pod: wiretype end group for non-group"),
            (b"\0\0", "proto: Pod: illegal tag 0 (wire type 0)"),
            (b"\x0f", "proto: illegal wireType 7"),
            (&[0xff; 11], "proto: integer overflow"),
            (
                b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                "proto: negative length found during unmarshaling",
            ),
        ] {
            assert_eq!(all(message).unwrap_err(), expected, "{message:x?}");
        }
    }

    #[test]
    fn packed_numbers_are_unpacked() {
        let numbers: Result<Vec<_>, _> = packed(b"\x01\xac\x02", false).collect();
        assert_eq!(numbers.unwrap(), [Payload::Varint(1), Payload::Varint(300)]);
        assert!(packed(b"\x01\xac", false).any(|number| number.is_err()));
        assert_eq!(packed(&[0xff; 100], false).count(), 1);
        assert_eq!(packed(&[0; 16], true).count(), 2);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(message: Vec<u8>) {
            let _ = all(&message);
        }
    }
}
