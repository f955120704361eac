//! Frames of the log: the unit of one fsync, with checksums.

use std::io::{self, Read};

use bytes::Bytes;

const MAGIC: [u8; 4] = *b"KOPF";
/// The size of a header: the magic, the length of the payload, its checksum, and the checksum of
/// these three.
pub(super) const HEADER: usize = 16;

/// Returns the header of a payload.
pub(super) fn header(payload: &[u8]) -> io::Result<[u8; HEADER]> {
    let length =
        u32::try_from(payload.len()).map_err(|_| io::Error::other("a frame exceeds 4 GiB"))?;
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

/// The next item of a log.
#[derive(Debug)]
pub(super) enum Next {
    Frame(Bytes),
    /// The end of the log, possibly after an incomplete frame.
    End,
    /// A valid frame follows an invalid one, which must have been complete once.
    Damaged,
}

/// Reads the next frame of a log with `left` remaining bytes.
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
    // A frame is started only after the previous one is durable.
    Ok(Next::Damaged)
}

/// Treats an invalid header as an incomplete frame, unless another frame follows.
fn unless_followed(log: &mut impl Read) -> io::Result<Next> {
    let mut rest = Vec::new();
    log.read_to_end(&mut rest)?;
    let followed = rest.windows(HEADER).any(|bytes| parse(bytes).is_some());
    Ok(if followed { Next::Damaged } else { Next::End })
}
