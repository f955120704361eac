//! Log records about failing requests for Leases: once per cause, not once per attempt.

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

    /// Logs a failure of the API, unless it is the same as before.
    pub(super) fn add(&mut self, error: &kopf_client::Error) {
        let advice = if error.is_forbidden() {
            " Replicas need the verbs get, create and update on leases in the group \
             coordination.k8s.io; with shards, also list and delete."
        } else {
            ""
        };
        self.report(&error.to_string(), advice);
    }

    /// Logs that a request was not answered before the Lease ended.
    pub(super) fn add_timeout(&mut self) {
        self.report("no response in time", "");
    }

    fn report(&mut self, cause: &str, advice: &str) {
        let about = &self.about;
        if self.last.as_deref() == Some(cause) {
            debug!("Cannot access {about}: {cause}. Trying again.");
            return;
        }
        error!("Cannot access {about}: {cause}. Trying again.{advice}");
        self.last = Some(cause.to_owned());
    }

    /// Logs the end of a failure.
    pub(super) fn none(&mut self) {
        if self.last.take().is_some() {
            info!("Accessing {} succeeds again.", self.about);
        }
    }
}
