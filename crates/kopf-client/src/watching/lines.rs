//! Lines of a stream that arrives in chunks of any size.

use bytes::{Buf as _, Bytes};
use memchr::memchr;

/// Upper bound for the length of one line, in bytes.
///
/// By default, etcd stores at most 1.5 MB per object, and its documentation discourages more than
/// 10 MB. The JSON of a watch event can be several times larger than the stored form.
pub(super) const LINE_LIMIT: usize = 32 << 20;

/// A line is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Splits chunks into lines. Lines within one chunk are not copied; a line that spans chunks is
/// assembled. At most one unfinished line is kept, of at most `limit` bytes.
#[derive(Debug)]
pub(super) struct LineBuffer {
    unfinished: Vec<u8>,
    chunk: Bytes,
    limit: usize,
}

impl LineBuffer {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            unfinished: Vec::new(),
            chunk: Bytes::new(),
            limit,
        }
    }

    /// Adds the next chunk. All lines of the previous one must have been taken.
    pub(super) fn add(&mut self, chunk: Bytes) {
        debug_assert!(
            self.chunk.is_empty(),
            "lines are left in the previous chunk"
        );
        self.chunk = chunk;
    }

    /// Takes the next complete line without its line feed; blank lines are skipped. `None` if more
    /// chunks are needed.
    pub(super) fn next_line(&mut self) -> Option<Result<Bytes, TooLong>> {
        while let Some(end) = memchr(b'\n', &self.chunk) {
            let tail = self.chunk.split_to(end);
            self.chunk.advance(1);
            if self.unfinished.len().saturating_add(tail.len()) > self.limit {
                return Some(Err(TooLong));
            }
            let line = if self.unfinished.is_empty() {
                tail
            } else {
                self.unfinished.extend_from_slice(&tail);
                Bytes::from(std::mem::take(&mut self.unfinished))
            };
            if !line.trim_ascii().is_empty() {
                return Some(Ok(line));
            }
        }
        if self.unfinished.len().saturating_add(self.chunk.len()) > self.limit {
            return Some(Err(TooLong));
        }
        self.unfinished.extend_from_slice(&self.chunk);
        self.chunk = Bytes::new();
        None
    }

    /// Takes the last line of an ended stream, complete or cut, if there is one.
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        let rest = std::mem::take(&mut self.unfinished);
        (!rest.trim_ascii().is_empty()).then(|| Bytes::from(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Split = (Vec<Result<Bytes, TooLong>>, Option<Bytes>);

    /// Splits a text that arrives in chunks of `size` bytes, until a line is too long.
    fn split(text: &[u8], size: usize, limit: usize) -> Split {
        let mut buffer = LineBuffer::new(limit);
        let mut found = Vec::new();
        for chunk in text.chunks(size) {
            buffer.add(Bytes::copy_from_slice(chunk));
            while let Some(line) = buffer.next_line() {
                found.push(line.clone());
                if line.is_err() {
                    return (found, None);
                }
            }
        }
        (found, buffer.rest())
    }

    fn lines(lines: &[&'static str]) -> Vec<Result<Bytes, TooLong>> {
        let lines = lines.iter().map(|line| Ok(Bytes::from(*line)));
        lines.collect()
    }

    #[test]
    fn chunks_of_any_size_give_the_same_lines() {
        let text = b"first\n\nsecond\r\n \n\nthird line\nrest";
        for size in 1..=text.len() {
            let (found, rest) = split(text, size, LINE_LIMIT);
            assert_eq!(
                found,
                lines(&["first", "second\r", "third line"]),
                "by {size}"
            );
            assert_eq!(rest.unwrap(), "rest", "by {size}");
        }
    }

    #[test]
    fn nothing_is_left_after_a_complete_line() {
        assert_eq!(split(b"one\n", 2, LINE_LIMIT), (lines(&["one"]), None));
        assert_eq!(split(b"one\n \n ", 3, LINE_LIMIT), (lines(&["one"]), None));
    }

    #[test]
    fn large_objects_fit() {
        let mut text = vec![b'x'; 15_000_000];
        text.extend_from_slice(b"\ny\n");
        let (found, rest) = split(&text, 16_384, LINE_LIMIT);
        let lengths: Vec<_> = found.iter().flatten().map(Bytes::len).collect();
        assert_eq!(lengths, [15_000_000, 1]);
        assert_eq!(rest, None);
    }

    #[test]
    fn lines_are_limited_for_any_chunk_size() {
        for size in 1..=20 {
            assert_eq!(
                split(b"12345678\nx\n", size, 8).0,
                lines(&["12345678", "x"])
            );
            for text in [&b"123456789\nx\n"[..], b"123456789"] {
                assert_eq!(split(text, size, 8).0, [Err(TooLong)], "by {size}");
            }
        }
    }

    #[test]
    fn complete_lines_are_not_copied() {
        let chunk = Bytes::from_static(b"one\ntwo\n");
        let mut buffer = LineBuffer::new(LINE_LIMIT);
        buffer.add(chunk.clone());
        assert_eq!(
            buffer.next_line().unwrap().unwrap().as_ptr(),
            chunk.as_ptr()
        );
    }
}
