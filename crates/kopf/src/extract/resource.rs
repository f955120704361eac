//! The resource of the object.

use std::sync::Arc;

use kopf_core::resource::Resource;

use super::{Context, Declared, Extract, FilterExtract, Rejection};

impl Extract for Resource {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Arc::extract(context).map(|resource: Arc<Self>| Self::clone(&resource))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Resource")
    }
}

impl FilterExtract for Resource {}

impl Extract for Arc<Resource> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let resource = context.resource().cloned();
        resource.ok_or(Rejection::NoObject {
            argument: "Resource",
        })
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Resource")
    }
}

impl FilterExtract for Arc<Resource> {}
