//! The whole object, as it is.

use kopf_core::body::Body;

use super::{Context, Extract, FilterExtract, Rejection};

impl Extract for Body {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.body().clone())
    }
}

impl FilterExtract for Body {}
