//! Operations and types of webhooks.

use std::fmt;
use std::str::FromStr;

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// Creation.
    Create,
    /// Change of an object or its subresource.
    Update,
    /// Deletion.
    Delete,
    /// Connection, as by `kubectl exec`.
    Connect,
}

impl Operation {
    /// Returns the name in reviews and configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Error for an unknown operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown operation {0:?}: must be one of CREATE, UPDATE, DELETE, CONNECT")]
#[non_exhaustive]
pub struct UnknownOperation(pub String);

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Self, UnknownOperation> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|operation| operation.as_str() == name)
            .ok_or_else(|| UnknownOperation(name.to_owned()))
    }
}

/// Type of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WebhookType {
    /// Accepts or denies requests.
    Validating,
    /// Also changes objects.
    Mutating,
}

impl WebhookType {
    /// Returns the name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::Mutating => "mutating",
        }
    }
}

impl fmt::Display for WebhookType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
