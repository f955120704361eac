//! Why nobody is logged in.

use crate::connection;

/// There are no credentials, and there will not be any. It is the end of an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// Nobody has returned any credentials.
    #[error("no credentials were retrieved from the login handlers")]
    Nothing,
    /// There are credentials, but none of them can be used.
    #[error("no usable credentials were retrieved: {reasons}")]
    Unusable {
        /// What is wrong with each of them.
        reasons: String,
    },
    /// Retrieving them has failed.
    #[error("logging in has failed: {reason}")]
    Failed {
        /// The causes, the deepest one last.
        reason: String,
    },
    /// The login of this client was ended, and its last credentials are no longer valid.
    #[error("the credentials are no longer valid, and logging in is over")]
    Over,
}

impl LoginError {
    /// Retrieving the credentials has failed for good.
    pub fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Failed {
            reason: crate::error::chain(error),
        }
    }
}

impl From<connection::Error> for LoginError {
    fn from(error: connection::Error) -> Self {
        Self::failed(&error)
    }
}
