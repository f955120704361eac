//! Texts of errors.

/// Returns the message of an error with those of its causes.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        use std::fmt::Write as _;
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
