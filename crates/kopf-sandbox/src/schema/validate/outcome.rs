//! What the checks of one value have found.

use crate::field_error::FieldError;

/// Errors, and how many checks went well.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) errors: Vec<FieldError>,
    pub(super) matches: usize,
}

impl Outcome {
    /// Adds an error unless the very same is there already.
    pub(super) fn add(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    pub(super) fn count(&mut self, matches: usize) {
        self.matches = self.matches.saturating_add(matches);
    }

    pub(super) fn merge(&mut self, other: Self) {
        for error in other.errors {
            self.add(error);
        }
        self.count(other.matches);
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}
