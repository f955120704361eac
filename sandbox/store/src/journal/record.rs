//! Encoding of store changes.

use bytes::Bytes;

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const CLOSE: u8 = 3;
const REVISION: u8 = 4;

/// A change to be appended.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// An object is created or replaced.
    Put {
        place: Place<'a>,
        revision: u64,
        born: u64,
        /// The offset in `raw` after `kind` and `apiVersion`.
        head: usize,
        raw: &'a [u8],
    },
    /// An object is removed.
    Remove { place: Place<'a>, revision: u64 },
    /// A collection is removed with all its objects.
    Close { collection: &'a str },
    /// The current revision.
    Revision(u64),
}

/// The place of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    pub collection: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// A decoded record. Bytes are slices of the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    Put {
        place: ReadPlace,
        revision: u64,
        born: u64,
        head: usize,
        raw: Bytes,
    },
    Remove {
        place: ReadPlace,
        revision: u64,
    },
    Close {
        collection: String,
    },
    Revision(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadPlace {
    pub(super) collection: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Record<'_> {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        match *self {
            Self::Put {
                place,
                revision,
                born,
                head,
                raw,
            } => {
                to.push(PUT);
                place.encode(to);
                number(to, revision);
                number(to, born);
                number(to, head as u64);
                field(to, raw);
            }
            Self::Remove { place, revision } => {
                to.push(REMOVE);
                place.encode(to);
                number(to, revision);
            }
            Self::Close { collection } => {
                to.push(CLOSE);
                field(to, collection.as_bytes());
            }
            Self::Revision(revision) => {
                to.push(REVISION);
                number(to, revision);
            }
        }
    }
}

impl Place<'_> {
    fn encode(self, to: &mut Vec<u8>) {
        field(to, self.collection.as_bytes());
        field(to, self.namespace.as_bytes());
        field(to, self.name.as_bytes());
    }
}

impl ReadPlace {
    pub(super) fn as_place(&self) -> Place<'_> {
        Place {
            collection: &self.collection,
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

fn number(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(&number.to_le_bytes());
}

fn field(to: &mut Vec<u8>, bytes: &[u8]) {
    number(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// The records of a frame.
#[derive(Debug)]
pub(super) struct Records {
    rest: Bytes,
}

impl Records {
    pub(super) fn of(payload: Bytes) -> Self {
        Self { rest: payload }
    }

    /// Returns the next record; `Ok(None)` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Read>, InvalidFrame> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.take(1)?;
        Ok(Some(match tag.first() {
            Some(&PUT) => Read::Put {
                place: self.place()?,
                revision: self.number()?,
                born: self.number()?,
                head: usize::try_from(self.number()?).map_err(|_| InvalidFrame)?,
                raw: self.field()?,
            },
            Some(&REMOVE) => Read::Remove {
                place: self.place()?,
                revision: self.number()?,
            },
            Some(&CLOSE) => Read::Close {
                collection: self.text()?,
            },
            Some(&REVISION) => Read::Revision(self.number()?),
            _ => return Err(InvalidFrame),
        }))
    }

    fn place(&mut self) -> Result<ReadPlace, InvalidFrame> {
        Ok(ReadPlace {
            collection: self.text()?,
            namespace: self.text()?,
            name: self.text()?,
        })
    }

    fn text(&mut self) -> Result<String, InvalidFrame> {
        String::from_utf8(self.field()?.to_vec()).map_err(|_| InvalidFrame)
    }

    fn field(&mut self) -> Result<Bytes, InvalidFrame> {
        let length = usize::try_from(self.number()?).map_err(|_| InvalidFrame)?;
        self.take(length)
    }

    fn number(&mut self) -> Result<u64, InvalidFrame> {
        let bytes = self.take(8)?;
        let bytes: [u8; 8] = bytes.as_ref().try_into().map_err(|_| InvalidFrame)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn take(&mut self, length: usize) -> Result<Bytes, InvalidFrame> {
        if length > self.rest.len() {
            return Err(InvalidFrame);
        }
        Ok(self.rest.split_to(length))
    }
}

/// The error of a frame with a valid checksum and invalid records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidFrame;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_a_round_trip() {
        let place = Place {
            collection: "/configmaps",
            namespace: "default",
            name: "a",
        };
        let mut bytes = Vec::new();
        let records = [
            Record::Put {
                place,
                revision: 7,
                born: 5,
                head: 3,
                raw: b"{\"a\":1}",
            },
            Record::Remove { place, revision: 8 },
            Record::Close { collection: "x/y" },
            Record::Revision(9),
        ];
        for record in &records {
            record.encode(&mut bytes);
        }
        let mut read = Records::of(Bytes::from(bytes.clone()));
        let Ok(Some(Read::Put {
            place,
            revision,
            born,
            head,
            raw,
        })) = read.next()
        else {
            panic!("the first record is a put");
        };
        assert_eq!((revision, born, head), (7, 5, 3));
        assert_eq!((place.name.as_str(), &raw[..]), ("a", &b"{\"a\":1}"[..]));
        assert!(matches!(
            read.next(),
            Ok(Some(Read::Remove { revision: 8, .. }))
        ));
        assert!(matches!(read.next(), Ok(Some(Read::Close { .. }))));
        assert_eq!(read.next(), Ok(Some(Read::Revision(9))));
        assert_eq!(read.next(), Ok(None));

        for length in 1..bytes.len() {
            let mut cut = Records::of(Bytes::copy_from_slice(&bytes[..length]));
            while let Ok(Some(_)) = cut.next() {}
        }
        assert_eq!(
            Records::of(Bytes::from_static(b"\xff")).next(),
            Err(InvalidFrame)
        );
    }
}
