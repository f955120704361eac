//! The operator's client.

use kopf_core::handler::Activity;

use super::{Context, Declared, Extract, FilterExtract, Rejection};

/// The kube client, which shares the connection of the operator.
impl Extract for kube::Client {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.operator().client.kube())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        match declared.activity() {
            Some(Activity::Startup) => Err(Rejection::NoConnection {
                activity: "startup",
            }),
            Some(Activity::Authentication) => Err(Rejection::NoConnection { activity: "login" }),
            _ => Ok(()),
        }
    }
}

impl FilterExtract for kube::Client {}
