//! Responses to reviews.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Review;
use crate::outcome::{Outcome, Verdict};

/// Returns the response to a review: allowed, if none of the handlers has failed.
///
/// One error is reported: denials before permanent, temporary and other errors.
pub fn respond<'o>(
    review: &Review,
    outcomes: impl IntoIterator<Item = &'o Outcome>,
    warnings: &[String],
    json_patch: &[Value],
) -> Value {
    let failure = outcomes
        .into_iter()
        .filter_map(failure)
        .min_by_key(|failure| failure.priority);
    let mut response = Map::new();
    response.insert("uid".to_owned(), json!(review.uid));
    response.insert("allowed".to_owned(), json!(failure.is_none()));
    let warnings: Vec<String> = warnings
        .iter()
        .filter_map(|text| in_one_line(text))
        .collect();
    if !warnings.is_empty() {
        response.insert("warnings".to_owned(), json!(warnings));
    }
    if !json_patch.is_empty() {
        let text = Value::Array(json_patch.to_vec()).to_string();
        response.insert("patch".to_owned(), json!(STANDARD.encode(text)));
        response.insert("patchType".to_owned(), json!("JSONPatch"));
    }
    if let Some(Failure { message, code, .. }) = failure {
        let status = json!({"message": message, "code": code});
        response.insert("status".to_owned(), status);
    }
    let mut answer = Map::new();
    answer.insert("apiVersion".to_owned(), json!(review.api_version));
    answer.insert("kind".to_owned(), json!(review.kind));
    answer.insert("response".to_owned(), Value::Object(response));
    Value::Object(answer)
}

/// Replaces control characters by spaces: API servers drop warnings that contain them. `None` for blank
/// warnings.
fn in_one_line(warning: &str) -> Option<String> {
    let pieces = warning.split(char::is_control);
    let is_one = pieces.clone().nth(1).is_none();
    let pieces: Vec<&str> = pieces.filter(|piece| !piece.trim().is_empty()).collect();
    match pieces.as_slice() {
        [] => None,
        [only] if is_one => Some((*only).to_owned()),
        pieces => {
            let pieces: Vec<&str> = pieces.iter().map(|piece| piece.trim()).collect();
            Some(pieces.join(" "))
        }
    }
}

/// Valid status codes. API servers break the connection to the user for other ones.
const CODES: std::ops::RangeInclusive<u16> = 1..=999;

struct Failure<'o> {
    priority: u8,
    message: &'o str,
    code: u16,
}

fn failure(outcome: &Outcome) -> Option<Failure<'_>> {
    // Errors without a text are reported by their names in the original.
    let (priority, code, name) = match &outcome.verdict {
        Verdict::Succeeded | Verdict::Ignored(_) => return None,
        Verdict::Denied(code) => (0, *code, "AdmissionError('')"),
        Verdict::FailedPermanently | Verdict::Exhausted => (1, 500, "PermanentError('')"),
        Verdict::FailedTemporarily => (2, 500, "TemporaryError('')"),
        Verdict::Unfinished | Verdict::Retried(_) | Verdict::Stopped => (9, 500, "Exception('')"),
        Verdict::Cancelled => (9, 500, "the handler was cancelled"),
    };
    let message = outcome.error.as_deref().filter(|text| !text.is_empty());
    Some(Failure {
        priority,
        message: message.unwrap_or(name),
        code: if CODES.contains(&code) { code } else { 500 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_have_no_control_characters() {
        let plain = "two  spaces, ünï \"quoted\" \\ ";
        for (warning, told) in [
            (plain, Some(plain)),
            ("two\nlines\r\n", Some("two lines")),
            ("a\ttab, \u{1b}[31mred\u{7f}\u{85}", Some("a tab, [31mred")),
            ("\0", None),
            (" ", None),
            ("", None),
        ] {
            assert_eq!(in_one_line(warning).as_deref(), told, "{warning:?}");
        }
    }
}
