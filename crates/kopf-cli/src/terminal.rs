//! Output for users: colours on a terminal, plain text in a pipe.
//!
//! Write errors are ignored, so that a closed pipe (`kopf sandbox | head -1`) does not stop the
//! command.

use std::io::{self, IsTerminal as _, Write};

/// The appearance of text on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Strong,
    Faint,
    Good,
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

    /// Adds colour codes to the text if `colours` is set.
    fn paint(self, text: &str, colours: bool) -> String {
        if !colours || self == Self::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", self.code())
    }
}

/// Stdout and stderr, with or without colours.
#[derive(Debug, Clone)]
pub(crate) struct Terminal {
    stdout_colours: bool,
    stderr_colours: bool,
}

impl Terminal {
    pub(crate) fn detect() -> Self {
        // https://no-color.org: any non-empty value disables colours.
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|value| value != "dumb");
        Self {
            stdout_colours: wanted && io::stdout().is_terminal(),
            stderr_colours: wanted && io::stderr().is_terminal(),
        }
    }

    /// Prints a line to stdout.
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
    // See the module's documentation.
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
    fn colours_can_be_disabled() {
        assert_eq!(Style::Good.paint("fine", true), "\u{1b}[32mfine\u{1b}[0m");
        assert_eq!(Style::Good.paint("fine", false), "fine");
        assert_eq!(Style::Plain.paint("fine", true), "fine");
    }
}
