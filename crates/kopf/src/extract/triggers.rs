//! The reasons of the call of a reconcile handler.

use kopf_core::trigger::Triggers;

use super::{Context, Declared, Extract, Rejection};

impl Extract for Triggers {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.call("Triggers")?.triggers)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        if declared.kind.reconciliation().is_some() {
            Ok(())
        } else {
            Err(Rejection::NoReconciliation)
        }
    }
}
