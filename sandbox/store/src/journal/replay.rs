//! Replay of a log to the objects at its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

use bytes::Bytes;

use super::error::DataError;
use super::folder::FILE_HEADER;
use super::frame::{self, Next};
use super::record::{Place, Read, ReadPlace, Record, Records};

/// The content of a data folder.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The revision of the last change; 0 for a new folder.
    pub revision: u64,
    objects: BTreeMap<ReadPlace, RecoveredObject>,
}

/// A stored object.
#[derive(Debug, Clone)]
pub struct RecoveredObject {
    pub revision: u64,
    pub born: u64,
    pub head: usize,
    pub raw: Bytes,
}

impl Recovered {
    /// Returns the objects in the order of their places.
    pub fn objects(&self) -> impl Iterator<Item = (Place<'_>, &RecoveredObject)> {
        self.objects
            .iter()
            .map(|(place, object)| (place.as_place(), object))
    }

    fn follow(&mut self, record: Read) {
        match record {
            Read::Put {
                place,
                revision,
                born,
                head,
                raw,
            } => {
                self.revision = self.revision.max(revision);
                let object = RecoveredObject {
                    revision,
                    born,
                    head,
                    // A copy, so that the frame, which may be large, can be dropped.
                    raw: Bytes::copy_from_slice(&raw),
                };
                self.objects.insert(place, object);
            }
            Read::Remove { place, revision } => {
                self.revision = self.revision.max(revision);
                self.objects.remove(&place);
            }
            Read::Close { collection } => {
                self.objects
                    .retain(|place, _| place.collection != collection);
            }
            Read::Revision(revision) => self.revision = self.revision.max(revision),
        }
    }

    /// Encodes everything as records, in parts of a few megabytes.
    pub(super) fn encode(&self, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        const PART: usize = 4 << 20;
        let mut part = Vec::new();
        Record::Revision(self.revision).encode(&mut part);
        for (place, object) in self.objects() {
            let record = Record::Put {
                place,
                revision: object.revision,
                born: object.born,
                head: object.head,
                raw: &object.raw,
            };
            record.encode(&mut part);
            if part.len() >= PART {
                write(&part)?;
                part.clear();
            }
        }
        write(&part)
    }
}

/// The content of a log, and the offset after the last complete frame.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) recovered: Recovered,
    pub(super) end: u64,
}

/// Reads a log from its beginning.
pub(super) fn replay(path: &Path) -> Result<Replayed, DataError> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut log = BufReader::with_capacity(1 << 20, file);
    let damaged = |at: u64| DataError::Damaged {
        file: path.to_owned(),
        at,
    };
    let mut header = vec![0; FILE_HEADER.len()];
    if size < FILE_HEADER.len() as u64 {
        return Err(damaged(0));
    }
    log.read_exact(&mut header)?;
    if header != FILE_HEADER {
        return Err(damaged(0));
    }
    let mut end = FILE_HEADER.len() as u64;
    let mut recovered = Recovered::default();
    loop {
        match frame::next(&mut log, size - end)? {
            Next::End => return Ok(Replayed { recovered, end }),
            Next::Damaged => return Err(damaged(end)),
            Next::Frame(payload) => {
                let length = (frame::HEADER + payload.len()) as u64;
                let mut records = Records::of(payload);
                while let Some(record) = records.next().map_err(|_| damaged(end))? {
                    recovered.follow(record);
                }
                end += length;
            }
        }
    }
}
