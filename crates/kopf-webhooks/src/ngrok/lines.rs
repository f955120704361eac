//! Lines of the output of a program, with arbitrary content.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Maximum length of a line, in bytes. The rest is dropped.
const LONGEST: usize = 64 * 1024;

/// A reader of lines. Neither long lines nor invalid UTF-8 end it: a program is killed by SIGPIPE
/// if its output is not read.
pub(super) struct Lines<R> {
    /// `None` after the end of the output.
    input: Option<BufReader<R>>,
    /// The incomplete line.
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: Option<R>) -> Self {
        Self {
            input: input.map(BufReader::new),
            line: Vec::new(),
        }
    }

    /// Returns `true` after the end of the output.
    pub(super) fn is_over(&self) -> bool {
        self.input.is_none()
    }

    /// Returns the next line, or `None` at the end of the output.
    ///
    /// # Cancellation
    /// Cancel-safe: a partial line is kept.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            let input = self.input.as_mut()?;
            // A read error counts as the end of the output.
            let heard = input.fill_buf().await.unwrap_or_default();
            if heard.is_empty() {
                self.input = None;
                return (!self.line.is_empty()).then(|| self.take());
            }
            let end = heard.iter().position(|byte| *byte == b'\n');
            let piece = heard.get(..end.unwrap_or(heard.len())).unwrap_or_default();
            let room = LONGEST.saturating_sub(self.line.len());
            self.line
                .extend_from_slice(piece.get(..room).unwrap_or(piece));
            let used = end.map_or(heard.len(), |end| end + 1);
            input.consume(used);
            if end.is_some() {
                return Some(self.take());
            }
        }
    }

    fn take(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        line.trim_end_matches('\r').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_and_invalid_lines_do_not_end_the_output() {
        let mut input = b"one\r\n\nt\xffwo\n".to_vec();
        input.extend(vec![b'x'; 3 * LONGEST]);
        input.extend(b"\nthree\nfour");
        let mut lines = Lines::new(Some(&input[..]));
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await {
            seen.push(line);
        }
        let long = "x".repeat(LONGEST);
        assert_eq!(seen, ["one", "", "t\u{fffd}wo", &long, "three", "four"]);
        assert_eq!(Lines::<&[u8]>::new(None).next().await, None);
    }
}
