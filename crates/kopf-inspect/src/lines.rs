//! One line per change and per handler, for terminals, JSON output and the page.

use std::fmt::Write as _;

use jiff::Timestamp;
use kopf_core::diff::{Diff, DiffItem, DiffOperation};
use serde_json::Value;

use crate::paint::{Style, cut, harmless};
use crate::records::HandlerProgress;
use crate::time::{ago, remaining};

/// The longest value in a diff, in characters.
const VALUE: usize = 400;

/// Returns the lines of a diff: removed values before added ones.
pub(crate) fn diff_lines(diff: &Diff) -> Vec<(Style, String)> {
    let mut lines = Vec::new();
    for item in diff {
        let DiffItem {
            operation,
            field,
            old,
            new,
            ..
        } = item;
        let steps: Vec<String> = field.steps().iter().map(|step| harmless(step)).collect();
        let path = if steps.is_empty() {
            "(all)".to_owned()
        } else {
            steps.join(".")
        };
        if matches!(operation, DiffOperation::Remove | DiffOperation::Change) {
            lines.push((Style::Removed, format!("- {path}: {}", shortened(old))));
        }
        if matches!(operation, DiffOperation::Add | DiffOperation::Change) {
            lines.push((Style::Added, format!("+ {path}: {}", shortened(new))));
        }
    }
    lines
}

/// JSON leaves some control characters as they are, such as those from U+0080 to U+009F.
fn shortened(value: &Value) -> String {
    harmless(&cut(value.to_string(), VALUE))
}

/// The time since the start of unfinished handlers, which a live page updates itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Shown,
    Omitted,
}

/// Returns the progress of a handler in one line.
pub(crate) fn progress_line(
    handler: &HandlerProgress,
    now: Timestamp,
    start: Start,
) -> (Style, String) {
    let record = &handler.record;
    let mut text = String::new();
    let style = if record.success {
        text.push_str("succeeded");
        Style::Good
    } else if record.failure {
        text.push_str("failed permanently");
        Style::Bad
    } else if let Some(at) = record.delayed {
        match remaining(now, at) {
            Some(delay) => text = format!("next attempt in {delay}"),
            None => text = format!("next attempt was due {}", ago(now, at)),
        }
        Style::Warning
    } else {
        text.push_str("not finished");
        Style::Strong
    };
    let attempts = match record.retries {
        1 => "1 attempt".to_owned(),
        retries => format!("{retries} attempts"),
    };
    let purpose = record.purpose.as_deref().unwrap_or("any reason");
    // Writing to a string does not fail.
    let _ = write!(text, " ({purpose}, {attempts}");
    match (handler.elapsed(now), record.started) {
        (Some(elapsed), _) if handler.is_finished() => {
            let _ = write!(text, ", {:.1} s", elapsed.as_secs_f64());
        }
        (Some(_), Some(started)) if start == Start::Shown => {
            let _ = write!(text, ", started {}", ago(now, started));
        }
        _ => {}
    }
    text.push(')');
    if let Some(message) = handler.message() {
        let _ = write!(text, ": {message}");
    }
    (style, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut() {
        let text = shortened(&Value::from("x".repeat(1_000)));
        assert_eq!(text.chars().count(), VALUE + 1);
    }

    #[test]
    fn control_characters_of_values_are_escaped() {
        let text = shortened(&Value::from("\u{1b}[1m\u{9b}1m\u{7f}"));
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
