//! The diff of the change.

use kopf_core::diff::Diff;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};

impl Extract for Diff {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.difference("Diff")?.diff().clone())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.differences("Diff")
    }
}

impl OptionalExtract for Diff {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        Ok(Self::extract(context).ok())
    }
}

impl FilterExtract for Diff {}
