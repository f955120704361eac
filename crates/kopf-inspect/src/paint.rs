//! Colours of text on terminals.

use std::fmt::Write as _;

/// The style of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Text without a style.
    Plain,
    /// Headings and names.
    Strong,
    /// Labels and details.
    Faint,
    /// Success.
    Good,
    /// A command to type.
    Command,
    /// A warning.
    Warning,
    /// An error.
    Bad,
    /// A new value.
    Added,
    /// A former value.
    Removed,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good | Self::Added => "32",
            Self::Warning => "33",
            Self::Command => "36",
            Self::Bad => "1;31",
            Self::Removed => "31",
        }
    }

    /// Returns the style of the state with this name.
    pub(crate) fn of_state(name: &str) -> Self {
        match name {
            "settled" => Self::Good,
            "failed" | "unreadable" => Self::Bad,
            "retrying" | "blocked" | "deleting" => Self::Warning,
            "not seen" => Self::Faint,
            _ => Self::Strong,
        }
    }

    /// Wraps the text in the codes of the style.
    pub(crate) fn paint(self, text: &str, colours: Colours) -> String {
        if colours == Colours::Off || self == Self::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", self.code())
    }
}

/// The use of colours in an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    On,
    Off,
}

/// Escapes control characters, line separators and controls of the text direction: text from objects
/// must change neither the terminal nor the order of the text around it.
pub(crate) fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_layout(character) {
            harmless.extend(character.escape_default());
        } else {
            harmless.push(character);
        }
    }
    harmless
}

/// Escapes the same characters in serialised JSON. Parsers restore them.
pub(crate) fn harmless_json(json: &str) -> String {
    let mut harmless = String::with_capacity(json.len());
    for character in json.chars() {
        // Those of ASCII are either escaped already or white space between values, except for DEL.
        if character >= '\u{7f}' && (character.is_control() || is_layout(character)) {
            // Writing to a string cannot fail.
            let _ = write!(harmless, "\\u{:04x}", u32::from(character));
        } else {
            harmless.push(character);
        }
    }
    harmless
}

/// Returns `true` for the line and paragraph separators, and for the bidirectional controls.
fn is_layout(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Cuts the text after this number of characters.
pub(crate) fn cut(mut text: String, limit: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(limit) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_can_be_disabled() {
        assert_eq!(
            Style::Good.paint("fine", Colours::On),
            "\u{1b}[32mfine\u{1b}[0m"
        );
        assert_eq!(Style::Good.paint("fine", Colours::Off), "fine");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(harmless("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(harmless("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(harmless("a\u{202e}b\u{2028}"), "a\\u{202e}b\\u{2028}");
        assert_eq!(harmless("日本語 é 👩\u{200d}🚀"), "日本語 é 👩\u{200d}🚀");
    }

    #[test]
    fn json_is_escaped_and_keeps_its_values() {
        let value =
            serde_json::json!({"k\u{9b}": "a\u{1b}\u{7f}\u{85}\u{202e}b\u{2028}é👩\u{200d}🚀\n"});
        for text in [value.to_string(), format!("{value:#}")] {
            let text = harmless_json(&text);
            let escaped = r#""k\u009b""#;
            assert!(text.contains(escaped), "{text}");
            assert!(
                text.contains(r"a\u001b\u007f\u0085\u202eb\u2028é👩"),
                "{text}"
            );
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, value);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("äöü".to_owned(), 2), "äö…");
        assert_eq!(cut("äöü".to_owned(), 3), "äöü");
    }
}
