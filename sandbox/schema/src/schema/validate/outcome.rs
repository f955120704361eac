//! The results of the checks of one value.

use crate::field_error::FieldError;

/// Maximum number of collected errors. Deduplication compares all of them.
const MOST_ERRORS: usize = 1000;

/// Errors, and the number of passed checks.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) errors: Vec<FieldError>,
    pub(super) matches: usize,
}

impl Outcome {
    /// Adds an error unless the same one exists.
    pub(super) fn add(&mut self, error: FieldError) {
        if !self.is_full() && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    pub(super) fn count(&mut self, matches: usize) {
        self.matches = self.matches.saturating_add(matches);
    }

    pub(super) fn merge(&mut self, other: Self) {
        if self.errors.is_empty() {
            self.errors = other.errors;
        } else {
            for error in other.errors {
                self.add(error);
            }
        }
        self.count(other.matches);
    }

    /// Returns `true` if the maximum number of errors is reached.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MOST_ERRORS
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}
