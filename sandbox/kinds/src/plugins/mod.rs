//! Admission plugins that are compiled into a real server and depend on other objects.
//!
//! The functions are pure. The layer above reads the required objects, runs
//! mutating plugins before the mutating webhooks, and validating ones before the validating
//! webhooks. An error is the reason of a 403.

pub mod default_classes;
pub mod limit_ranges;
pub mod priorities;
pub mod quotas;
pub mod resizing;
pub mod runtime_classes;
mod scopes;
mod usage;

use serde_json::{Map, Value, json};

/// The reason why an object is rejected.
pub type Rejected = String;

/// Returns the object in a field, created if it is absent. `None` if the value is not an object.
fn child<'a>(map: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let map = map.as_object_mut()?;
    let slot = map.entry(field).or_insert_with(|| json!({}));
    if slot.is_null() {
        *slot = json!({});
    }
    slot.as_object_mut()
}

/// Returns the items of a list of a specification.
fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}
