//! Failures of requests, with the advice for frequent causes.

pub use kopf_core::failure::Failure;

/// Creates a failure of a request.
pub(crate) fn request_failure(what: impl Into<String>, cause: &kopf_client::Error) -> Failure {
    let failure = Failure::new(what, cause);
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
