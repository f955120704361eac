//! The style of log messages, chosen by the frontend.

use std::fmt::{Display, Formatter};

use serde_json::Value;

use super::time::Lazy;
use crate::diff::Diff;
use crate::literal::Literal;

/// The style of log messages: notation of values, and levels of expected failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As in the original: values are Python literals, and every failed attempt is an error.
    #[default]
    Original,
    /// Values are JSON. Temporary errors are warnings, denials are infos.
    Native,
}

impl Style {
    /// Displays a value.
    pub(super) fn value(self, value: &Value) -> impl Display {
        Lazy(move |f: &mut Formatter<'_>| match self {
            Self::Original => Literal(value).fmt(f),
            Self::Native => write!(f, "{value}"),
        })
    }

    /// Displays a diff.
    pub(super) fn diff(self, diff: &Diff) -> impl Display {
        Lazy(move |f: &mut Formatter<'_>| match self {
            Self::Original => diff.fmt(f),
            Self::Native => match serde_json::to_string(diff) {
                Ok(text) => f.write_str(&text),
                Err(_) => Err(std::fmt::Error),
            },
        })
    }
}
