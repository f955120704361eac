//! Human-readable records: the formats `plain` and `full`.

use std::fmt::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kopf_core::sync::Mutex;
use serde_json::Value;
use tracing::Level;

use super::names::logger_name;
use super::record::Record;

/// Minimal width of the logger's name.
const NAME_WIDTH: usize = 20;

/// Writes headings such as `[2026-11-15 00:38:15,408] kopf::objects        [DEBUG   ] `.
pub(super) struct Heading {
    timezone: TimeZone,
    /// The last formatted second. Formatting local time costs as much as the rest of a line.
    last: Mutex<(i64, String)>,
}

impl Heading {
    /// Creates headings with times in this time zone.
    pub(super) fn new(timezone: TimeZone) -> Self {
        Self {
            timezone,
            last: Mutex::new((i64::MIN, String::new())),
        }
    }

    pub(super) fn write(
        &self,
        writer: &mut impl Write,
        record: &Record,
        now: Timestamp,
    ) -> fmt::Result {
        let level = match record.level {
            Level::ERROR => "ERROR   ",
            Level::WARN => "WARNING ",
            Level::INFO => "INFO    ",
            _ => "DEBUG   ",
        };
        let name = logger_name(record.target);
        self.write_second(writer, now)?;
        // Milliseconds are negative before 1970.
        let milliseconds = now.as_millisecond().rem_euclid(1000);
        write!(writer, ",{milliseconds:03}] ")?;
        writer.write_str(&name)?;
        for _ in name.len()..NAME_WIDTH {
            writer.write_char(' ')?;
        }
        writer.write_str(" [")?;
        writer.write_str(level)?;
        writer.write_str("] ")
    }

    /// Writes `[2026-11-15 00:38:15`.
    fn write_second(&self, writer: &mut impl Write, now: Timestamp) -> fmt::Result {
        let second = now.as_millisecond().div_euclid(1000);
        let mut last = self.last.lock();
        if last.0 != second {
            let now = now.to_zoned(self.timezone.clone());
            last.1.clear();
            write!(
                last.1,
                "[{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
                now.year(),
                now.month(),
                now.day(),
                now.hour(),
                now.minute(),
                now.second(),
            )?;
            last.0 = second;
        }
        writer.write_str(&last.1)
    }
}

/// Writes the message with its object, its fields and its error.
///
/// The message is one line, and the lines of the error are indented, so that content of objects and
/// servers cannot look like other records.
pub(super) fn message(writer: &mut impl Write, record: &Record, prefix: bool) -> fmt::Result {
    let mut writer = Escaping {
        writer,
        newline: "\\n",
    };
    if prefix {
        write!(writer, "{}", record.object)?;
    }
    writer.write_str(&record.message)?;
    for (index, (name, value)) in record.extras.iter().enumerate() {
        if index > 0 || !record.message.is_empty() {
            writer.write_char(' ')?;
        }
        match value {
            Value::String(text) if is_word(text) => write!(writer, "{name}={text}")?,
            value => write!(writer, "{name}={value}")?,
        }
    }
    if let Some(details) = &record.exc_info {
        writer.newline = "\n    ";
        write!(writer, "\n{}", details.trim_end())?;
    }
    Ok(())
}

/// Returns `true` if a value needs no quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '='))
}

/// Returns `true` for control characters except tabs, for the line and paragraph separators, and for
/// the bidirectional controls.
fn is_escaped(character: char) -> bool {
    let is_separator_or_direction = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (character.is_control() && character != '\t') || is_separator_or_direction
}

/// Escapes control characters, so that content of objects and servers cannot control the terminal.
struct Escaping<'a, W> {
    writer: &'a mut W,
    /// Replaces newlines.
    newline: &'static str,
}

impl<W: Write> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
        if text.bytes().all(is_plain) {
            return self.writer.write_str(text);
        }
        let mut rest = text;
        while let Some(at) = rest.find(is_escaped) {
            let (before, after) = rest.split_at(at);
            self.writer.write_str(before)?;
            let mut after = after.chars();
            match after.next() {
                Some('\n') => self.writer.write_str(self.newline)?,
                Some(control) if u32::from(control) < 0x100 => {
                    write!(self.writer, "\\x{:02x}", u32::from(control))?;
                }
                Some(control) => write!(self.writer, "\\u{:04x}", u32::from(control))?,
                None => {}
            }
            rest = after.as_str();
        }
        self.writer.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let mut text = String::new();
        let mut escaping = Escaping {
            writer: &mut text,
            newline: "|",
        };
        let writing = escaping.write_str("a\tb\nc\r\u{1b}[1m\u{9b}ü\u{7f}\u{2028}\u{85}\u{202e}");
        writing.unwrap();
        assert_eq!(text, "a\tb|c\\x0d\\x1b[1m\\x9bü\\x7f\\u2028\\x85\\u202e");
    }

    #[test]
    fn headings_contain_the_current_time() {
        let heading = Heading::new(TimeZone::UTC);
        let mut text = String::new();
        for (millisecond, expected) in [
            (999, "[1970-01-01 00:00:00"),
            (1_000, "[1970-01-01 00:00:01"),
            (1_999, "[1970-01-01 00:00:01"),
            (999, "[1970-01-01 00:00:00"),
            (-1, "[1969-12-31 23:59:59"),
        ] {
            text.clear();
            let now = Timestamp::from_millisecond(millisecond).unwrap();
            heading.write_second(&mut text, now).unwrap();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn values_are_quoted_when_needed() {
        assert!(is_word("a-b"));
        for text in ["", "a b", "a=b", "\"a\""] {
            assert!(!is_word(text), "{text:?}");
        }
    }
}
