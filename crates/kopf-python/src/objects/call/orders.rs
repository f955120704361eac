//! The order of the keys in the values of a change.

use std::sync::Arc;

use kopf_core::key_order::KeyOrder;
use serde_json::Value;

use super::PyCall;

impl PyCall {
    /// Returns the order of the keys of the old and the new state, from the root of the diff on.
    pub(super) fn orders(&self) -> (Option<Arc<KeyOrder>>, Option<Arc<KeyOrder>>) {
        if let Some(admission) = &self.admission {
            return admission.review.orders();
        }
        let change = self.change();
        let old = change.and_then(|change| change.old.as_deref());
        let new = change.and_then(|change| change.new.as_deref());
        (
            old.and_then(|old| self.old_order(old)),
            new.and_then(|new| self.new_order(new)),
        )
    }

    /// Returns the order of the keys of the diff-base: as stored, otherwise as in the body.
    pub(super) fn old_order(&self, old: &Value) -> Option<Arc<KeyOrder>> {
        let body = &self.cause.as_ref()?.body;
        let persistence = &self.operator.settings.persistence;
        let stored = persistence.diffbase_storage.key_order(body);
        self.order_in(old, stored.as_ref().or(body.order()))
    }

    /// Returns the order of the keys of the current essence: as in the body.
    pub(super) fn new_order(&self, new: &Value) -> Option<Arc<KeyOrder>> {
        self.order_in(new, self.cause.as_ref()?.body.order())
    }

    /// Returns the order of an essence, or of the field of it that the handler gets.
    fn order_in(&self, value: &Value, base: Option<&Arc<KeyOrder>>) -> Option<Arc<KeyOrder>> {
        let field = &self.change()?.field;
        if field.is_root() {
            return Some(KeyOrder::of_essence(value, base.map(Arc::as_ref)));
        }
        base?.at(field).cloned()
    }
}
