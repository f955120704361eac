//! Failures of commands: message, causes and advice.

use kopf_sandbox::manifests;

pub(crate) use kopf_inspect::Failure;

/// Returns the failure of a manifest that cannot be read or loaded.
#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
pub(crate) fn of_manifests(error: manifests::Error) -> Failure {
    let mut failure = Failure::plain(error.what());
    for cause in error.causes() {
        failure = failure.because(cause);
    }
    match error.advice() {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}
