//! The settings of the operator.

use std::sync::Arc;

use kopf_core::settings::Settings;

use super::{Context, Extract, FilterExtract, Rejection};

impl Extract for Settings {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.settings().as_ref().clone())
    }
}

impl FilterExtract for Settings {}

impl Extract for Arc<Settings> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self::clone(context.settings()))
    }
}

impl FilterExtract for Arc<Settings> {}
