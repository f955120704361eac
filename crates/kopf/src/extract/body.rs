//! The whole object as JSON.

use kopf_core::body::Body;

use super::{Context, Declared, Extract, FilterExtract, Rejection};

impl Extract for Body {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.object("Body")?.clone())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Body")
    }
}

impl FilterExtract for Body {}
