//! Error messages with their causes.

use std::error::Error;

/// Returns an error with its causes in one line, for logs and events.
pub(crate) fn line(error: &(dyn Error + 'static)) -> String {
    texts(error).join(": ")
}

/// Returns the texts of an error and its causes. A cause that its parent's text already contains is
/// omitted: many libraries, such as kube, append causes to their own text.
pub(crate) fn texts(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(status) = api_status(error) {
            texts.push(status);
            // The cause is the same status.
            break;
        }
        let text = match error.to_string() {
            text if text.is_empty() => format!("{error:?}"),
            text => text,
        };
        if !texts.last().is_some_and(|last| last.ends_with(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts
}

/// Returns an API error as one line. The `Display` of kube contains the whole status.
fn api_status(error: &(dyn Error + 'static)) -> Option<String> {
    let kube::Error::Api(status) = error.downcast_ref::<kube::Error>()? else {
        return None;
    };
    let message = match status.message.as_str() {
        "" => "the API server sent no message",
        message => message,
    };
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = match status.reason.as_str() {
        "" => String::new(),
        reason => format!(" {reason}"),
    };
    Some(format!("{message} ({}{reason})", status.code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found() -> kube::Error {
        let status = serde_json::json!({
            "status": "Failure", "code": 404, "reason": "NotFound",
            "message": "pods \"web\"\nnot found", "details": {"name": "web", "kind": "pods"},
        });
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[derive(Debug, thiserror::Error)]
    #[error("cannot restart the pod")]
    struct Wrapped(#[source] kube::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {0}")]
    struct Repeating(#[source] std::num::ParseIntError);

    #[test]
    fn errors_of_the_api_are_one_line() {
        let text = "pods \"web\" not found (404 NotFound)";
        assert_eq!(texts(&not_found()), [text]);
        assert_eq!(
            texts(&Wrapped(not_found())),
            ["cannot restart the pod", text]
        );
        assert_eq!(
            line(&Wrapped(not_found())),
            format!("cannot restart the pod: {text}")
        );
    }

    #[test]
    fn repeated_causes_are_omitted() {
        let error = Repeating("x".parse::<u32>().unwrap_err());
        assert_eq!(texts(&error), ["outer: invalid digit found in string"]);
    }
}
