//! What went wrong, in the three parts that a user needs: the name, the causes, the next step.

use std::error::Error;

/// Ends the command with exit code 1.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    causes: Vec<String>,
    advice: Option<String>,
}

impl From<kopf_sandbox::manifests::Error> for Failure {
    fn from(error: kopf_sandbox::manifests::Error) -> Self {
        Self {
            what: error.what().to_owned(),
            causes: error.causes().to_vec(),
            advice: error.advice().map(str::to_owned),
        }
    }
}

impl Failure {
    /// A failure with an error that caused it, and whatever caused that.
    pub(crate) fn new(what: impl Into<String>, cause: impl Error) -> Self {
        let mut failure = Self::plain(what);
        let mut next: Option<&dyn Error> = Some(&cause);
        while let Some(error) = next {
            failure = failure.because(error.to_string());
            next = error.source();
        }
        failure
    }

    /// A failure whose name says it all.
    pub(crate) fn plain(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            causes: Vec::new(),
            advice: None,
        }
    }

    /// Adds a cause. Errors of libraries often repeat their source in their text: once is enough.
    #[must_use]
    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        let cause = cause.into();
        if !self.causes.iter().any(|known| known.contains(&cause)) {
            self.causes.push(cause);
        }
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn causes_are_listed_once() {
        let inner = io::Error::other("the disk is full");
        let outer = io::Error::other(inner);
        let failure = Failure::new("cannot write", outer);
        assert_eq!(failure.causes(), ["the disk is full"]);
    }
}
