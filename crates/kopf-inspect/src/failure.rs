//! Failures of commands: message, causes and advice.

use std::error::Error;
use std::fmt;

use crate::screen::Screen;

/// A failure that ends a command with exit code 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    what: String,
    causes: Vec<String>,
    advice: Option<String>,
}

impl Failure {
    /// Creates a failure with the chain of its causes.
    pub fn new(what: impl Into<String>, cause: impl Error) -> Self {
        let mut failure = Self::plain(what);
        let mut next: Option<&dyn Error> = Some(&cause);
        while let Some(error) = next {
            failure = failure.because(error.to_string());
            next = error.source();
        }
        failure
    }

    /// Adds a cause, unless an earlier one contains it: errors of libraries often repeat their
    /// source.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        let cause = cause.into();
        if !self.causes.iter().any(|known| known.contains(&cause)) {
            self.causes.push(cause);
        }
        self
    }

    /// Writes the message, the causes and the advice to stderr.
    pub fn report(&self) {
        Screen::detect().failure(self);
    }

    /// Creates a failure of a request, with the advice for frequent causes.
    pub(crate) fn request(what: impl Into<String>, cause: &kopf_client::Error) -> Self {
        let failure = Self::new(what, cause);
        match cause.code() {
            Some(401) => failure.advise("log in to the cluster again, or choose another --context"),
            Some(403) => {
                failure.advise("request the missing permission from the cluster's administrator")
            }
            Some(_) => failure,
            None => failure.advise(
                "check that the API server runs, and that KUBECONFIG or --kubeconfig is its kubeconfig",
            ),
        }
    }

    /// Creates a failure without causes.
    pub fn plain(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            causes: Vec::new(),
            advice: None,
        }
    }

    /// Sets the advice: the next step for the user.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn causes(&self) -> &[String] {
        &self.causes
    }

    pub(crate) fn advice(&self) -> Option<&str> {
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

    #[test]
    fn repeated_causes_are_listed_once() {
        let failure = Failure::new("cannot read", io::Error::other(io::Error::other("full")));
        assert_eq!(failure.causes(), ["full"]);
        assert_eq!(failure.to_string(), "cannot read: full");
    }
}
