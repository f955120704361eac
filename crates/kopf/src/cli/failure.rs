//! Fatal errors of the program: the failure, its causes and an advice.

use std::error::Error;

/// A fatal error. The exit code is 1.
#[derive(Debug)]
pub(super) struct Failure {
    what: String,
    causes: Vec<String>,
    advice: Option<String>,
}

impl Failure {
    /// Creates a failure with the chain of its causes.
    pub(super) fn new(what: impl Into<String>, cause: &dyn Error) -> Self {
        let mut causes = Vec::new();
        let mut next = Some(cause);
        while let Some(error) = next {
            causes.push(error.to_string());
            next = error.source();
        }
        Self {
            causes,
            ..Self::plain(what)
        }
    }

    /// Creates a failure without causes.
    pub(super) fn plain(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            causes: Vec::new(),
            advice: None,
        }
    }

    /// Adds an advice.
    #[must_use]
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Logs the failure in the configured format.
    pub(super) fn log(&self) {
        let details = self.details();
        tracing::error!(target: "kopf.cli", exc_info = details, "{}", self.what);
    }

    fn details(&self) -> Option<String> {
        let mut lines: Vec<_> = self
            .causes
            .iter()
            .flat_map(|cause| cause.lines())
            .map(|line| format!("  {}", line.trim_end()))
            .collect();
        lines.extend(
            self.advice
                .iter()
                .map(|advice| format!("What to do: {advice}")),
        );
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

#[cfg(feature = "sandbox")]
impl From<kopf_sandbox::manifests::Error> for Failure {
    fn from(error: kopf_sandbox::manifests::Error) -> Self {
        Self {
            what: error.what().to_owned(),
            causes: error.causes().to_vec(),
            advice: error.advice().map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn details_have_a_line_per_cause() {
        let failure = Failure::new("it cannot be", &io::Error::other("the disk\nis full"));
        assert_eq!(failure.details().unwrap(), "  the disk\n  is full");
        let failure = failure.advise("buy another one");
        assert_eq!(
            failure.details().unwrap(),
            "  the disk\n  is full\nWhat to do: buy another one"
        );
        assert_eq!(Failure::plain("it cannot be").details(), None);
    }
}
