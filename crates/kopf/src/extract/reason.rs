//! The reason of the call.

use kopf_core::cause::Reason;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};

impl Extract for Reason {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.changed("Reason")?.reason)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.changes("Reason")
    }
}

impl OptionalExtract for Reason {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        Ok(context.change().map(|change| change.reason))
    }
}

impl FilterExtract for Reason {}
