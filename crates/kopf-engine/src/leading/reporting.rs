//! Log records about failing requests for Leases: once per cause, not once per attempt.

use std::fmt::Display;

use tracing::{debug, error, info};

/// The last failure.
#[derive(Debug)]
pub(super) struct Complaints {
    about: String,
    last: Option<String>,
}

impl Complaints {
    pub(super) fn new(about: String) -> Self {
        Self { about, last: None }
    }

    /// Logs a failure, unless it is the same as before.
    pub(super) fn add(&mut self, cause: &dyn Display) {
        let (about, cause) = (&self.about, cause.to_string());
        if self.last.as_ref() == Some(&cause) {
            debug!("Cannot access {about}: {cause}. Trying again.");
            return;
        }
        error!(
            "Cannot access {about}: {cause}. Trying again. Replicas need the verbs get, list, create, \
             update and delete on leases in the group coordination.k8s.io."
        );
        self.last = Some(cause);
    }

    /// Logs the end of a failure.
    pub(super) fn none(&mut self) {
        if self.last.take().is_some() {
            info!("Accessing {} succeeds again.", self.about);
        }
    }
}
