//! What the checks of one value have found.

use crate::field_error::FieldError;

/// Errors beyond this number are not collected: nobody reads them, and comparing them takes time.
const MOST_ERRORS: usize = 1000;

/// Errors, and how many checks went well.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) errors: Vec<FieldError>,
    pub(super) matches: usize,
}

impl Outcome {
    /// Adds an error unless the very same is there already.
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

    /// Returns `true` if no more errors are collected.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MOST_ERRORS
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}
