//! Rejected requests and their HTTP responses.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use kopf_core::admission::{ParseError, Refusal, ReviewHead, Unreadable};

/// Reason for the rejection of a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejection {
    #[error("no webhooks at this path")]
    NotFound,
    #[error("the path is not valid UTF-8")]
    Path,
    #[error("method not allowed: webhooks are called by POST")]
    Method,
    #[error("unsupported content encoding {0:?}: reviews must not be compressed")]
    ContentEncoding(String),
    #[error("{reason}")]
    Unreadable {
        reason: Unreadable,
        /// Found in the body: the review is denied instead of failing by an HTTP error.
        head: Option<ReviewHead>,
    },
    #[error("the body was not received within {0:?}")]
    TooSlow(Duration),
    #[error("the body is incomplete")]
    Broken,
    #[error(transparent)]
    Json(ParseError),
    #[error("too many concurrent reviews")]
    Busy,
    #[error("the review took longer than {0:?}")]
    Overdue(Duration),
    #[error("the review panicked")]
    Panic,
    #[error("cannot serialize the response: {0}")]
    Serialization(#[source] serde_json::Error),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Rejection {
    /// Returns the rejection of a review that cannot be read, which begins like this.
    pub(super) fn unreadable(reason: Unreadable, beginning: &[u8]) -> Self {
        let head = ReviewHead::scan(beginning);
        Self::Unreadable { reason, head }
    }

    /// Returns the status code of the HTTP response. It is 200 for reviews that are denied.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Unreadable { head: Some(_), .. } => StatusCode::OK,
            Self::Unreadable { reason, head: None } => {
                StatusCode::from_u16(reason.code()).unwrap_or(StatusCode::BAD_REQUEST)
            }
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Path | Self::Broken | Self::Json(_) => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentEncoding(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Overdue(_) | Self::Panic | Self::Serialization(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Self::Refused(refusal) => {
                StatusCode::from_u16(refusal.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// Returns `true` if the client may still be sending, and would not read the response.
    pub(super) fn is_early(&self) -> bool {
        matches!(
            self,
            Self::NotFound
                | Self::Path
                | Self::Method
                | Self::ContentEncoding(_)
                | Self::Unreadable { .. }
        )
    }

    /// Returns the response: a denial, or the code and the reason as plain text, which API servers
    /// repeat to users.
    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        if let Self::Unreadable {
            reason,
            head: Some(head),
        } = self
        {
            return json(reason.deny(head).to_string().into_bytes());
        }
        let status = self.status();
        let text = format!("{}: {self}", status.as_u16());
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        if matches!(self, Self::Method) {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}

/// Returns a response with a review.
pub(super) fn json(text: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/json; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_have_the_codes_of_the_original() {
        for (refusal, code) in [
            (Refusal::Ambiguous("x".to_owned()), 409),
            (Refusal::Unknown("x".to_owned()), 404),
            (Refusal::Missing("x".to_owned()), 400),
            (Refusal::Internal("x".to_owned()), 500),
        ] {
            assert_eq!(Rejection::from(refusal).status().as_u16(), code);
        }
    }
}
