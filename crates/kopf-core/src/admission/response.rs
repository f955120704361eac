//! From what has come out of handlers to the answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Review;
use crate::outcome::{Outcome, Verdict};

/// The answer to a request: allowed, if none of the handlers has failed.
///
/// One error is told, the most telling one: what a handler denies goes before what it fails at.
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
    json!({"apiVersion": review.api_version, "kind": review.kind, "response": response})
}

struct Failure<'o> {
    priority: u8,
    message: &'o str,
    code: u16,
}

fn failure(outcome: &Outcome) -> Option<Failure<'_>> {
    // Without a text, errors are told by what they are.
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
        code: if code == 0 { 500 } else { code },
    })
}
