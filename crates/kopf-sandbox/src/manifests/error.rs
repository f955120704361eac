//! What is wrong with manifests, in the three parts that people need: the name, the causes, the next
//! step.

use std::fmt;

/// Why manifests are not read or not loaded.
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

    /// Which manifest or object it is about, and that it failed.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Why; there can be many reasons, one for every object, and a reason can have several lines.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// What to do about it.
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
    fn in_one_line_it_has_all_causes() {
        let error = Error::new("a is there twice");
        assert_eq!(error.to_string(), "a is there twice");
        let error = error.because("f\ng").because("h").advise("remove one");
        assert_eq!(error.to_string(), "a is there twice: f, g; h");
        assert_eq!(error.advice(), Some("remove one"));
    }
}
