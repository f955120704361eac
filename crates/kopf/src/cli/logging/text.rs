//! Records for people: the formats `plain` and `full`.

use std::fmt::{self, Write};

use jiff::Zoned;
use serde_json::Value;
use tracing::Level;

use super::record::Record;

/// `[2026-11-15 00:38:15,408] kopf.objects         [DEBUG   ] `
pub(super) fn heading(writer: &mut impl Write, record: &Record, now: &Zoned) -> fmt::Result {
    let level = match record.level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        _ => "DEBUG",
    };
    write!(
        writer,
        "[{:04}-{:02}-{:02} {:02}:{:02}:{:02},{:03}] {:20.20} [{level:8.8}] ",
        now.year(),
        now.month(),
        now.day(),
        now.hour(),
        now.minute(),
        now.second(),
        now.millisecond(),
        record.target,
    )
}

/// The message with its object, its fields and its error.
pub(super) fn message(writer: &mut impl Write, record: &Record, prefix: bool) -> fmt::Result {
    let mut writer = Harmless(writer);
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
    match &record.exc_info {
        Some(details) => write!(writer, "\n{}", details.trim_end()),
        None => Ok(()),
    }
}

/// Whether a value is clear without quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '='))
}

/// Whatever is in a message, it cannot control the terminal on which it is shown: objects and
/// answers of servers have their say in messages, too.
struct Harmless<'a, W>(&'a mut W);

impl<W: Write> Write for Harmless<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
            let (before, after) = rest.split_at(at);
            self.0.write_str(before)?;
            let mut after = after.chars();
            if let Some(control) = after.next() {
                write!(self.0, "\\x{:02x}", u32::from(control))?;
            }
            rest = after.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_safe() {
        let mut text = String::new();
        let writing = Harmless(&mut text).write_str("a\tb\nc\r\u{1b}[1m\u{9b}ü\u{7f}");
        writing.unwrap();
        assert_eq!(text, "a\tb\nc\\x0d\\x1b[1m\\x9bü\\x7f");
    }

    #[test]
    fn values_are_quoted_when_needed() {
        assert!(is_word("a-b"));
        for text in ["", "a b", "a=b", "\"a\""] {
            assert!(!is_word(text), "{text:?}");
        }
    }
}
