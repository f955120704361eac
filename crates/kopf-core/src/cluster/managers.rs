//! Field managers of objects.

use serde_json::Value;

use crate::field::FieldPath;

/// Returns the manager of a field, according to `metadata.managedFields`: the one that has changed
/// it last, if there are several.
///
/// ```
/// use kopf_core::managers::manager_of;
/// use serde_json::json;
///
/// let managed = json!([
///     {"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:a": {}}}},
///     {"manager": "stamper", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {}}},
/// ]);
/// assert_eq!(manager_of(&managed, &"spec.a".into()), Some("kubectl"));
/// assert_eq!(manager_of(&managed, &"spec.b".into()), None);
/// ```
pub fn manager_of<'a>(managed: &'a Value, field: &FieldPath) -> Option<&'a str> {
    let entries = managed.as_array()?.iter();
    let owning = entries.filter(|entry| is_owned(entry.get("fieldsV1"), field));
    let newest = owning.max_by_key(|entry| entry.get("time").and_then(Value::as_str));
    newest?.get("manager")?.as_str()
}

fn is_owned(fields: Option<&Value>, field: &FieldPath) -> bool {
    let mut at = fields;
    for step in field.steps() {
        at = at.and_then(|fields| fields.get(format!("f:{step}")));
    }
    at.is_some()
}
