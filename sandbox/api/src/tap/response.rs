//! Responses as a tap sees them.

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

/// The content of a response; an extension of responses of tapped sandboxes.
#[derive(Clone)]
#[doc(hidden)]
#[expect(
    missing_debug_implementations,
    reason = "it contains whole objects, which may be secrets"
)]
pub enum Told {
    /// A document in JSON.
    Document(Bytes),
    /// A list of this many items.
    List { items: usize, revision: u64 },
}

/// The response to a request.
#[non_exhaustive]
pub struct TapResponse {
    /// The HTTP status.
    pub code: u16,
    told: Option<Told>,
    parsed: OnceLock<Option<Value>>,
}

impl fmt::Debug for TapResponse {
    /// Omits the body: it may be a secret, and `Debug` output is logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapResponse")
            .field("code", &self.code)
            .field("items", &self.items())
            .finish_non_exhaustive()
    }
}

impl TapResponse {
    pub(crate) fn new(code: u16, told: Option<Told>) -> Self {
        Self {
            code,
            told,
            parsed: OnceLock::new(),
        }
    }

    /// Returns the object or `Status`, whatever the encoding of the response. `None` for lists,
    /// watches and responses in plain text. It is parsed when it is read for the first time.
    pub fn body(&self) -> Option<&Value> {
        let parse = || match &self.told {
            Some(Told::Document(bytes)) => serde_json::from_slice(bytes).ok(),
            _ => None,
        };
        self.parsed.get_or_init(parse).as_ref()
    }

    /// Returns the number of items of a list.
    pub fn items(&self) -> Option<usize> {
        match &self.told {
            Some(Told::List { items, .. }) => Some(*items),
            _ => None,
        }
    }

    /// Returns the resource version of the object or list.
    pub fn resource_version(&self) -> Option<u64> {
        if let Some(Told::List { revision, .. }) = &self.told {
            return Some(*revision);
        }
        let version = self.body()?.pointer("/metadata/resourceVersion")?;
        version.as_str()?.parse().ok()
    }

    /// Returns `true` for a status from 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }
}
