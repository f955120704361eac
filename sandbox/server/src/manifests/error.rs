//! Errors of manifests in three parts: the subject, the causes, the next step.

use std::fmt;

/// The reason why manifests cannot be read or loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    what: String,
    causes: Vec<String>,
    advice: Option<String>,
}

impl Error {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            causes: Vec::new(),
            advice: None,
        }
    }

    #[must_use]
    pub(super) fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    #[must_use]
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Returns the manifest or object, and the failed operation.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the causes: one per object; a cause can have several lines.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// Returns the next step.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for (index, cause) in self.causes.iter().enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(f, "{separator}{}", cause.replace('\n', ", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_contains_all_causes() {
        let error = Error::new("duplicate a");
        assert_eq!(error.to_string(), "duplicate a");
        let error = error.because("f\ng").because("h").advise("remove one");
        assert_eq!(error.to_string(), "duplicate a: f, g; h");
        assert_eq!(error.advice(), Some("remove one"));
    }
}
