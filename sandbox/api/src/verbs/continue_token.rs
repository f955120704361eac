//! Continue tokens of paged lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::store::Key;

/// The start of the next page, and the revision of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueToken {
    v: String,
    rv: i64,
    start: String,
    /// The number of objects from there on, if no selectors limit them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
}

impl ContinueToken {
    /// Returns the token of the page after `last` of a list at `revision`.
    pub fn after(last: &Key, revision: u64, left: Option<usize>) -> Self {
        Self {
            v: "meta.k8s.io/v1".to_owned(),
            rv: i64::try_from(revision).unwrap_or(i64::MAX),
            start: format!("{}/{}", last.namespace, last.name),
            left,
        }
    }

    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub fn decode(token: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let token: Self = serde_json::from_slice(&bytes).ok()?;
        (token.v == "meta.k8s.io/v1" && token.start.contains('/')).then_some(token)
    }

    /// Returns the token of the same position in the current list, for clients whose revision has
    /// expired.
    pub(crate) fn of_the_present(&self) -> Self {
        Self {
            rv: -1,
            left: None,
            ..self.clone()
        }
    }

    /// Returns the revision to read at; `None` for the current one.
    pub fn revision(&self) -> Option<u64> {
        u64::try_from(self.rv).ok().filter(|revision| *revision > 0)
    }

    /// Returns the last object of the previous page.
    pub(crate) fn last(&self) -> Key {
        let (namespace, name) = self.start.split_once('/').unwrap_or_default();
        Key::new(Some(namespace), name)
    }

    /// Returns the number of objects from here on, if it is known.
    pub(crate) fn left(&self) -> Option<usize> {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_survive_a_round_trip() {
        let last = Key::new(Some("a"), "b");
        let token = ContinueToken::after(&last, 7, Some(3));
        let read = ContinueToken::decode(&token.encode()).unwrap();
        assert_eq!(read, token);
        assert_eq!(read.revision(), Some(7));
        assert_eq!((read.last(), read.left()), (last, Some(3)));
        let present = read.of_the_present();
        assert_eq!((present.revision(), present.left()), (None, None));
    }

    proptest! {
        #[test]
        fn malformed_tokens_are_rejected(text in ".{0,40}") {
            prop_assert_eq!(ContinueToken::decode(&text), None);
        }
    }
}
