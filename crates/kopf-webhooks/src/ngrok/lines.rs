//! Lines of what a program says, whatever it says.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Longer lines are cut: what comes after this is of no interest.
const LONGEST: usize = 64 * 1024;

/// Lines of an output. Neither long ones nor those that are no texts end it: a program whose output
/// is not read any more is killed by the next word it says.
pub(super) struct Lines<R> {
    /// Gone when the output has ended.
    input: Option<BufReader<R>>,
    /// The beginning of the next line.
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: Option<R>) -> Self {
        Self {
            input: input.map(BufReader::new),
            line: Vec::new(),
        }
    }

    /// Whether the output has ended.
    pub(super) fn is_over(&self) -> bool {
        self.input.is_none()
    }

    /// The next line, until the output has ended.
    ///
    /// # Cancellation
    /// Can be dropped at any moment; nothing is lost.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            let input = self.input.as_mut()?;
            // If it cannot be read, it has ended as well.
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
    async fn no_line_is_the_end_but_the_last() {
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
