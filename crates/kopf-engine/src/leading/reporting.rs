//! Logs of failed requests for Leases: once per cause, not once per attempt.

use tracing::{debug, error, info};

/// The last logged failure.
#[derive(Debug)]
pub(super) struct FailureLog {
    about: String,
    last: Option<String>,
}

impl FailureLog {
    pub(super) fn new(about: String) -> Self {
        Self { about, last: None }
    }

    /// Logs an API error, unless it equals the last one.
    pub(super) fn add(&mut self, error: &kopf_client::Error) {
        let advice = if error.is_forbidden() {
            " Replicas need the verbs get, create and update on leases in the group \
             coordination.k8s.io; with shards, also list and delete."
        } else if error.is_not_found() {
            " Create the namespace of the Leases, or set another one in settings.leading.namespace."
        } else {
            ""
        };
        self.report(&error.to_string(), advice);
    }

    /// Returns the name of the Leases.
    pub(super) fn about(&self) -> &str {
        &self.about
    }

    /// Returns the last failure since the last success.
    pub(super) fn cause(&self) -> &str {
        self.last.as_deref().unwrap_or("no response yet")
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

    /// Logs the recovery after a failure.
    pub(super) fn none(&mut self) {
        if self.last.take().is_some() {
            info!("Access to {} is restored.", self.about);
        }
    }
}
