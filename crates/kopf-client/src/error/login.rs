//! Login failures.

use kopf_core::failure::describe;

/// A permanent lack of credentials. It ends an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The login returned no credentials.
    #[error("no credentials were retrieved from the login handlers")]
    Nothing,
    /// The login returned credentials, but none of them works.
    #[error("no usable credentials were retrieved: {reasons}")]
    Unusable {
        /// The problem of each of them.
        reasons: String,
    },
    /// The login failed.
    #[error("logging in has failed: {reason}")]
    Failed {
        /// The causes, the deepest one last.
        reason: String,
    },
    /// The vault is no longer served, and its last credentials are no longer valid.
    #[error("the credentials are no longer valid, and logging in is over")]
    Over,
}

impl LoginError {
    /// Converts a permanent failure of a login.
    pub fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Failed {
            reason: describe(error),
        }
    }
}
