//! Words for people: colours on a terminal, plain text in a pipe.
//!
//! A reader who went away (`kopf sandbox | head -1`) is no reason to stop: what cannot be written
//! is dropped.

use std::io::{self, IsTerminal as _, Write};

/// How a piece of text is shown on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// What to look at.
    Strong,
    /// What can be passed over.
    Faint,
    /// What went well.
    Good,
    /// What is to be typed.
    Command,
    Warning,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Command => "36",
            Self::Warning => "33",
        }
    }

    /// The text with the codes of the colour around it, if there are to be colours.
    fn paint(self, text: &str, colours: bool) -> String {
        if !colours || self == Self::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", self.code())
    }
}

/// Where the words go.
#[derive(Debug, Clone)]
pub(crate) struct Terminal {
    stdout_colours: bool,
    stderr_colours: bool,
}

impl Terminal {
    pub(crate) fn detect() -> Self {
        // https://no-color.org: any value but an empty one switches colours off.
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|value| value != "dumb");
        Self {
            stdout_colours: wanted && io::stdout().is_terminal(),
            stderr_colours: wanted && io::stderr().is_terminal(),
        }
    }

    /// A line of pieces to stdout.
    pub(crate) fn line(&self, pieces: &[(Style, &str)]) {
        let mut line: String = pieces
            .iter()
            .map(|(style, text)| style.paint(text, self.stdout_colours))
            .collect();
        line.push('\n');
        write(io::stdout().lock(), &line);
    }

    pub(crate) fn plain(&self, text: &str) {
        self.line(&[(Style::Plain, text)]);
    }

    pub(crate) fn warning(&self, text: &str) {
        let label = Style::Warning.paint("warning:", self.stderr_colours);
        write(
            io::stderr().lock(),
            &format!("{label} {}\n", harmless(text)),
        );
    }
}

/// Escapes control characters: text from files must not change the terminal.
fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && !matches!(character, '\n' | '\t') {
            harmless.extend(character.escape_default());
        } else {
            harmless.push(character);
        }
    }
    harmless
}

fn write(mut target: impl Write, text: &str) {
    // See the module's documentation for why the result is dropped.
    let _ = target
        .write_all(text.as_bytes())
        .and_then(|()| target.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            harmless("a\u{1b}[31mb\u{9b}c\r\n\td"),
            "a\\u{1b}[31mb\\u{9b}c\\r\n\td"
        );
    }

    #[test]
    fn colours_are_only_where_wanted() {
        assert_eq!(Style::Good.paint("fine", true), "\u{1b}[32mfine\u{1b}[0m");
        assert_eq!(Style::Good.paint("fine", false), "fine");
        assert_eq!(Style::Plain.paint("fine", true), "fine");
    }
}
