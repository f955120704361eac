//! What is to be done to objects, and what is asked about it: the words of the API.

use std::fmt;
use std::str::FromStr;

/// What somebody wants to do to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// To create it.
    Create,
    /// To change it, or its subresource.
    Update,
    /// To delete it.
    Delete,
    /// To connect to it, as `kubectl exec` does.
    Connect,
}

impl Operation {
    /// The name in reviews and configurations.
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

/// There is no such operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no operation {0:?}: it is one of CREATE, UPDATE, DELETE, CONNECT")]
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

/// What is asked of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WebhookType {
    /// Whether it may be done.
    Validating,
    /// What is to be changed before.
    Mutating,
}

impl WebhookType {
    /// The name in logs.
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
