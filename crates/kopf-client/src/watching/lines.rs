//! Lines of a stream that comes in pieces of any size.

use bytes::{Buf as _, Bytes};
use memchr::memchr;

/// Cuts pieces into lines. Lines within one piece are not copied; a line that spans pieces is put
/// together, however long it is. Only one unfinished line is kept.
#[derive(Debug, Default)]
pub(super) struct Lines {
    unfinished: Vec<u8>,
    piece: Bytes,
}

impl Lines {
    /// Adds the next piece. The lines of the previous one must have been taken.
    pub(super) fn add(&mut self, piece: Bytes) {
        debug_assert!(
            self.piece.is_empty(),
            "lines are left in the previous piece"
        );
        self.piece = piece;
    }

    /// The next complete line without its end; empty ones are skipped.
    pub(super) fn next_line(&mut self) -> Option<Bytes> {
        while let Some(end) = memchr(b'\n', &self.piece) {
            let tail = self.piece.split_to(end);
            self.piece.advance(1);
            let line = if self.unfinished.is_empty() {
                tail
            } else {
                self.unfinished.extend_from_slice(&tail);
                Bytes::from(std::mem::take(&mut self.unfinished))
            };
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
        self.unfinished.extend_from_slice(&self.piece);
        self.piece = Bytes::new();
        None
    }

    /// What is left when the stream has ended: a line without its end, or a part of one.
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        let rest = std::mem::take(&mut self.unfinished);
        (!rest.trim_ascii().is_empty()).then(|| Bytes::from(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines of a text that is cut into pieces of a size.
    fn lines(text: &[u8], size: usize) -> (Vec<Bytes>, Option<Bytes>) {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in text.chunks(size) {
            lines.add(Bytes::copy_from_slice(piece));
            while let Some(line) = lines.next_line() {
                found.push(line);
            }
        }
        (found, lines.rest())
    }

    #[test]
    fn pieces_of_any_size_make_the_same_lines() {
        let text = b"first\n\nsecond\r\n \n\nthird line\nrest";
        for size in 1..=text.len() {
            let (found, rest) = lines(text, size);
            assert_eq!(found, ["first", "second\r", "third line"], "by {size}");
            assert_eq!(rest.unwrap(), "rest", "by {size}");
        }
    }

    #[test]
    fn nothing_is_left_after_a_whole_line() {
        assert_eq!(lines(b"one\n", 2), (vec![Bytes::from("one")], None));
        assert_eq!(lines(b"one\n \n ", 3), (vec![Bytes::from("one")], None));
    }

    #[test]
    fn lines_can_be_huge() {
        let mut text = vec![b'x'; 5_000_000];
        text.extend_from_slice(b"\ny\n");
        let (found, rest) = lines(&text, 16_384);
        assert_eq!(
            found.iter().map(Bytes::len).collect::<Vec<_>>(),
            [5_000_000, 1]
        );
        assert_eq!(rest, None);
    }

    #[test]
    fn whole_lines_are_not_copied() {
        let piece = Bytes::from_static(b"one\ntwo\n");
        let mut lines = Lines::default();
        lines.add(piece.clone());
        assert_eq!(lines.next_line().unwrap().as_ptr(), piece.as_ptr());
    }
}
