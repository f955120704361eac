//! YAML parsing with limits that depend on the size of the input. They prevent inputs that expand
//! to a multiple of their size, and do not restrict long lists.

use kopf_sandbox_schema::stack::on_large_stack;
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Budget, Error, Options};

use super::sections;

/// The number of a document, from one, with its value.
type Numbered = (usize, Value);

/// Returns all non-empty documents. The error is the number of the malformed document, with the
/// reason.
pub(super) fn read(text: &str) -> Result<Vec<Numbered>, (usize, String)> {
    let read = on_large_stack(|| Ok(read_all(text)));
    read.unwrap_or_else(|why| Err((1, why)))
}

fn read_all(text: &str) -> Result<Vec<Numbered>, (usize, String)> {
    let numbers = sections::numbers(text);
    let mut values = Vec::new();
    let mut reader = text.as_bytes();
    for value in serde_saphyr::read_with_options(&mut reader, options(text.len())) {
        let index = values.len();
        let number = numbers.get(index).copied().unwrap_or(index + 1);
        match value {
            Ok(value) => values.push((number, value)),
            Err(error) => return Err((number, explain(&error))),
        }
    }
    Ok(values)
}

fn options(size: usize) -> Options {
    // The number of nodes is bounded by the number of characters, plus end events.
    let plenty = size.saturating_mul(2).saturating_add(1000);
    // Small documents may expand their aliases to much more than their size.
    let usual = Budget::default();
    serde_saphyr::options! {
        // `defaultMode: 0644` is octal for kubectl, and common in manifests.
        legacy_octal_numbers: true,
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::Reject,
        // The limits of aliases do not depend on the size.
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(plenty),
            max_depth: kopf_sandbox_api::request::decode::MOST_LEVELS,
            max_events: usual.max_events.max(plenty),
            max_nodes: usual.max_nodes.max(plenty),
            max_total_scalar_bytes: usual.max_total_scalar_bytes.max(plenty),
        },
    }
}

/// Rewords an error for authors of manifests.
fn explain(error: &Error) -> String {
    let mut inner = error.without_snippet();
    while let Error::AliasError { error, .. } = inner {
        inner = error.without_snippet();
    }
    let reason = match inner {
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => "nested too deeply",
            // Without aliases, all counts are bounded by the number of characters.
            _ => ALIASES,
        },
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => ALIASES,
        _ => return error.to_string(),
    };
    match error.location() {
        Some(location) => format!("line {}: {reason}", location.line()),
        None => reason.to_owned(),
    }
}

const ALIASES: &str = "too large after the expansion of aliases (*name)";

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn long_lists_are_within_the_limits() {
        let mut text = "kind: List\nitems:\n".to_owned();
        for index in 0..90_000 {
            writeln!(text, "- {{a: {index}}}").unwrap();
        }
        let values = read(&text).unwrap();
        assert_eq!(values[0].1["items"].as_array().unwrap().len(), 90_000);
    }

    #[test]
    fn excessive_alias_expansion_is_rejected_for_any_length() {
        let mut text = format!("# {}\n", "long ".repeat(200_000));
        text.push_str("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = format!("*a{}", level - 1);
            let all = vec![below; 10].join(", ");
            writeln!(text, "a{level}: &a{level} [{all}]").unwrap();
        }
        let (number, reason) = read(&text).unwrap_err();
        assert_eq!(number, 1);
        assert!(reason.ends_with(ALIASES), "{reason}");
    }

    #[test]
    fn long_strings_in_many_aliases_are_rejected() {
        let aliases = vec!["*a"; 2000].join(", ");
        let text = format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(200_000));
        let (_, reason) = read(&text).unwrap_err();
        assert!(reason.ends_with(ALIASES), "{reason}");
    }

    #[test]
    fn errors_contain_no_parser_jargon() {
        let (_, reason) = read(&format!("{}{}", "[".repeat(200), "]".repeat(200))).unwrap_err();
        assert_eq!(reason, "line 1: nested too deeply");
    }
}
