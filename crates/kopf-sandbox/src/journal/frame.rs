//! Frames of the log: what one fsync makes durable, with checksums.

use std::io::{self, Read};

use bytes::Bytes;

const MAGIC: [u8; 4] = *b"KOPF";
/// The magic, the length of the payload, its checksum, and the checksum of these three.
pub(super) const HEADER: usize = 16;

/// Returns the header of a payload.
pub(super) fn header(payload: &[u8]) -> io::Result<[u8; HEADER]> {
    let length = u32::try_from(payload.len())
        .map_err(|_| io::Error::other("more than 4 GiB are to be written at once"))?;
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8..12].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let own = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&own.to_le_bytes());
    Ok(header)
}

/// A valid header.
#[derive(Debug, Clone, Copy)]
struct Header {
    length: u32,
    checksum: u32,
}

fn parse(bytes: &[u8]) -> Option<Header> {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let valid = bytes.get(..4)? == MAGIC && number(12)? == crc32fast::hash(bytes.get(..12)?);
    valid.then_some(Header {
        length: number(4)?,
        checksum: number(8)?,
    })
}

/// What follows in a log.
#[derive(Debug)]
pub(super) enum Next {
    Frame(Bytes),
    /// The log ends, perhaps with a frame that was never completed.
    End,
    /// There is a frame behind one that cannot be read: it was complete once.
    Damaged,
}

/// Reads the next frame of a log of which `left` bytes are left.
pub(super) fn next(log: &mut impl Read, left: u64) -> io::Result<Next> {
    let mut header = [0; HEADER];
    if left < HEADER as u64 {
        return Ok(Next::End);
    }
    log.read_exact(&mut header)?;
    let left = left - HEADER as u64;
    let Some(Header { length, checksum }) = parse(&header) else {
        return unless_followed(log);
    };
    if u64::from(length) > left {
        return Ok(Next::End);
    }
    let mut payload = vec![0; length as usize];
    log.read_exact(&mut payload)?;
    if crc32fast::hash(&payload) == checksum {
        return Ok(Next::Frame(Bytes::from(payload)));
    }
    if u64::from(length) == left {
        return Ok(Next::End);
    }
    // A frame is begun only when the one before it is on disk.
    Ok(Next::Damaged)
}

/// A header that cannot be read is that of an incomplete frame, unless another frame follows.
fn unless_followed(log: &mut impl Read) -> io::Result<Next> {
    let mut rest = Vec::new();
    log.read_to_end(&mut rest)?;
    let followed = rest.windows(HEADER).any(|bytes| parse(bytes).is_some());
    Ok(if followed { Next::Damaged } else { Next::End })
}
