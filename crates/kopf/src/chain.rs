//! Error messages with their causes.

use std::error::Error;

use kopf_core::outcome::HandlerError;

/// Converts an error of any type. The message is its own text, the details are the whole chain.
pub(crate) fn arbitrary(error: &(dyn Error + 'static)) -> HandlerError {
    let texts = texts(error);
    let details = (texts.len() > 1).then(|| texts.join("\ncaused by: "));
    HandlerError::Arbitrary {
        message: texts.into_iter().next().unwrap_or_default(),
        details,
        attachment: None,
    }
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
        let HandlerError::Arbitrary {
            message, details, ..
        } = arbitrary(&not_found())
        else {
            panic!("not arbitrary");
        };
        assert_eq!((message.as_str(), details), (text, None));
    }

    #[test]
    fn repeated_causes_are_omitted() {
        let error = Repeating("x".parse::<u32>().unwrap_err());
        assert_eq!(texts(&error), ["outer: invalid digit found in string"]);
    }
}
