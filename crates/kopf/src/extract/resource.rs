//! The kind of the object.

use std::sync::Arc;

use kopf_core::resource::Resource;

use super::{Context, Extract, FilterExtract, Rejection};

impl Extract for Resource {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.resource().as_ref().clone())
    }
}

impl FilterExtract for Resource {}

impl Extract for Arc<Resource> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self::clone(context.resource()))
    }
}

impl FilterExtract for Arc<Resource> {}
