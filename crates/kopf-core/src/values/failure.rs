//! Failures of commands: the name, the causes, the next step; and texts of errors with their causes.

use std::error::Error;
use std::fmt;

/// Returns the message of an error with those of its causes, in one line. Causes that the text contains
/// already are left out: errors of libraries often repeat their source.
pub fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in sources(error).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Returns the causes of an error, the nearest one first, without the error itself.
pub fn sources<'a>(
    error: &'a dyn Error,
) -> impl Iterator<Item = &'a (dyn Error + 'static)> + use<'a> {
    std::iter::successors(error.source(), |error| (**error).source())
}

/// A failure that ends a command with exit code 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    what: String,
    causes: Vec<String>,
    advice: Option<String>,
}

impl Failure {
    /// Creates a failure with an error and the causes of that.
    pub fn new(what: impl Into<String>, cause: &dyn Error) -> Self {
        let failure = Self::plain(what).because(cause.to_string());
        sources(cause).fold(failure, |failure, cause| failure.because(cause.to_string()))
    }

    /// Creates a failure without causes.
    pub fn plain(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            causes: Vec::new(),
            advice: None,
        }
    }

    /// Creates a failure of the parts of another one.
    pub fn from_parts(what: &str, causes: &[String], advice: Option<&str>) -> Self {
        Self {
            what: what.to_owned(),
            causes: causes.to_vec(),
            advice: advice.map(str::to_owned),
        }
    }

    /// Adds a cause, unless the causes contain its text already.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        let cause = cause.into();
        if !self.causes.iter().any(|known| known.contains(&cause)) {
            self.causes.push(cause);
        }
        self
    }

    /// Sets the next step.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Returns the name of the failure.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the causes, the nearest one first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// Returns the next step.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open {path}")]
    struct Unopened {
        path: &'static str,
        source: io::Error,
    }

    #[test]
    fn causes_follow_in_one_line() {
        let source = io::Error::other("the disk is full");
        let error = Unopened { path: "a", source };
        assert_eq!(describe(&error), "cannot open a: the disk is full");
        let failure = Failure::new("cannot read", &error);
        assert_eq!(failure.causes(), ["cannot open a", "the disk is full"]);
    }

    #[test]
    fn repeated_causes_are_listed_once() {
        let error = io::Error::other(io::Error::other("full"));
        assert_eq!(describe(&error), "full");
        let failure = Failure::new("cannot read", &error).because("ful");
        assert_eq!(failure.causes(), ["full"]);
        assert_eq!(failure.to_string(), "cannot read: full");
    }
}
