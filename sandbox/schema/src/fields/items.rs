//! Items of lists and the elements that name them.

use serde_json::{Map, Value};

use super::Element;
use super::schema::{List, ListKind, Schema};

/// Returns the element of an item of a list that is not atomic.
///
/// # Errors
///
/// The item cannot be identified: it lacks the keys, or it is not a scalar.
pub(super) fn element(schema: &Schema, list: &List, item: &Value) -> Result<Element, String> {
    match &list.kind {
        ListKind::Keyed(keys) => keyed(schema, list, keys, item),
        ListKind::Set | ListKind::Atomic => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("associative list with keys has an element that's a list type, this is not supported".to_owned()),
            Value::Null => Err("associative list with keys may not have a null element".to_owned()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Element::value(item)),
        },
    }
}

fn keyed(schema: &Schema, list: &List, keys: &[String], item: &Value) -> Result<Element, String> {
    let Value::Object(fields) = item else {
        return Err(match item {
            Value::Null => "associative list with keys may not have a null element".to_owned(),
            _ => "associative list with keys may not have non-map elements".to_owned(),
        });
    };
    let declared = schema.get(list.element).map.as_ref();
    let mut found = Map::new();
    for key in keys {
        let default = || declared?.fields.get(key)?.default.clone();
        if let Some(value) = fields.get(key).cloned().or_else(default) {
            found.insert(key.clone(), value);
        }
    }
    if found.is_empty() {
        let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(Element::keys(found))
}

/// Returns the items of a list with their elements. Items without one are omitted.
pub(super) fn named<'a>(
    schema: &Schema,
    list: &List,
    items: &'a [Value],
) -> Vec<(Element, &'a Value)> {
    items
        .iter()
        .filter_map(|item| Some((element(schema, list, item).ok()?, item)))
        .collect()
}
