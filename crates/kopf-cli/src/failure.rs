//! Failures of commands: message, causes and advice.

pub(crate) use kopf_inspect::Failure;

/// Returns the failure of manifests that cannot be read or loaded.
#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
pub(crate) fn of_manifests(error: kopf_sandbox::manifests::Error) -> Failure {
    Failure::from_parts(error.what(), error.causes(), error.advice())
}
