//! The operator's connection to Kubernetes.

use super::{Context, Extract, FilterExtract, Rejection};

/// The client of kube, on the connection of the operator.
impl Extract for kube::Client {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.operator().client.kube())
    }
}

impl FilterExtract for kube::Client {}
