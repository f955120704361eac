//! The order of keys in JSON documents, for frontends that show it to users.
//!
//! The keys of values are sorted. Servers send custom resources with sorted keys as well, but
//! built-in resources with the keys in the order of their Go types. Python keeps that order, and
//! operators hash and dump parts of objects. So the order is read together with the value, but only
//! where it is not sorted: for custom resources, nothing is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Map, Value};

use crate::field::FieldPath;

/// A value with the order of its keys; `None` if all keys are sorted.
pub type Ordered = (Value, Option<Arc<KeyOrder>>);

/// The order of the keys of an object, and of all objects inside of it.
///
/// It can be used for other values than the one it was read with: keys that are not in it follow
/// in sorted order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOrder {
    /// The keys of this object; empty if they are sorted.
    keys: Vec<String>,
    /// The orders inside of its members.
    members: BTreeMap<String, Arc<Self>>,
    /// The orders inside of its items, if it is a list.
    items: BTreeMap<usize, Arc<Self>>,
}

impl KeyOrder {
    /// Parses the order of a JSON document. `None` if all keys are sorted, or if it is not JSON.
    ///
    /// ```
    /// use kopf_core::key_order::{InOrder, KeyOrder};
    /// use serde_json::json;
    ///
    /// let order = KeyOrder::parse(r#"{"spec": {"b": 1, "a": 2}, "kind": "K"}"#).unwrap();
    /// let value = json!({"kind": "K", "more": 1, "spec": {"a": 5, "b": 6}});
    /// let text = serde_json::to_string(&InOrder(&value, Some(&order)))?;
    /// assert_eq!(text, r#"{"spec":{"b":6,"a":5},"kind":"K","more":1}"#);
    /// assert_eq!(KeyOrder::parse(r#"{"a": {"b": 1}}"#), None);
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    pub fn parse(text: &str) -> Option<Arc<Self>> {
        parse(text.as_bytes()).ok()?.1
    }

    /// Returns the order inside of a member.
    pub fn member(&self, key: &str) -> Option<&Arc<Self>> {
        self.members.get(key)
    }

    /// Returns the order inside of an item of a list.
    pub fn item(&self, index: usize) -> Option<&Arc<Self>> {
        self.items.get(&index)
    }

    /// Returns the order inside of the value at this path.
    pub fn at(self: &Arc<Self>, path: &FieldPath) -> Option<&Arc<Self>> {
        let mut steps = path.steps().iter();
        steps.try_fold(self, |order, step| order.member(step))
    }

    /// Returns the order of an essence as the original builds it: the tracked fields as in the body,
    /// then `metadata` with labels before annotations, then the extra fields of `status`.
    ///
    /// - `base`: the order of the body, or of the stored essence.
    #[must_use]
    pub fn of_essence(essence: &Value, base: Option<&Self>) -> Arc<Self> {
        let mut order = base.cloned().unwrap_or_default();
        let Value::Object(fields) = essence else {
            return Arc::new(order);
        };
        let metadata = order.members.get("metadata").map(Arc::as_ref);
        if let Some(Value::Object(tracked)) = fields.get("metadata") {
            let metadata = Self {
                keys: reordered(tracked, metadata, &["labels", "annotations"], &[]),
                ..metadata.cloned().unwrap_or_default()
            };
            order.members.insert("metadata".to_owned(), metadata.into());
        }
        order.keys = reordered(fields, base, &[], &["metadata", "status"]);
        Arc::new(order)
    }

    fn shared(self) -> Option<Arc<Self>> {
        let is_sorted = self.keys.is_empty() && self.members.is_empty() && self.items.is_empty();
        (!is_sorted).then(|| Arc::new(self))
    }
}

/// Returns the keys of a map in order, with some of them first and some last.
fn reordered(
    map: &Map<String, Value>,
    order: Option<&KeyOrder>,
    first: &[&str],
    last: &[&str],
) -> Vec<String> {
    let rank = |key: &str| {
        let first_position = first.iter().position(|name| *name == key);
        first_position.unwrap_or_else(|| {
            let position = last.iter().position(|name| *name == key);
            first.len() + position.map_or(0, |position| position + 1)
        })
    };
    let mut keys: Vec<String> = match order {
        Some(order) => entries(map, order).map(|(key, _)| key.clone()).collect(),
        None => map.keys().cloned().collect(),
    };
    keys.sort_by_key(|key| rank(key)); // stable
    keys
}

/// Returns the entries of a map in this order.
pub fn entries<'a>(
    map: &'a Map<String, Value>,
    order: &KeyOrder,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let keys = order.keys.iter();
    let mut entries: Vec<_> = keys.filter_map(|key| map.get_key_value(key)).collect();
    if entries.len() < map.len() {
        let known: BTreeSet<&String> = order.keys.iter().collect();
        entries.extend(map.iter().filter(|(key, _)| !known.contains(key)));
    }
    entries.into_iter()
}

/// A value that is serialised with its keys in this order.
#[derive(Clone, Copy, Debug)]
pub struct InOrder<'a>(pub &'a Value, pub Option<&'a KeyOrder>);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self(Value::Object(map), Some(order)) => {
                let mut object = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in entries(map, order) {
                    let inner = order.member(key).map(Arc::as_ref);
                    object.serialize_entry(key, &InOrder(value, inner))?;
                }
                object.end()
            }
            Self(Value::Array(items), Some(order)) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for (index, item) in items.iter().enumerate() {
                    let inner = order.item(index).map(Arc::as_ref);
                    list.serialize_element(&InOrder(item, inner))?;
                }
                list.end()
            }
            Self(value, _) => value.serialize(serializer),
        }
    }
}

/// Parses a JSON document with the order of its keys.
pub fn parse(bytes: &[u8]) -> Result<Ordered, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = AnyValue.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

/// A value of any type, read with the order of its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyValue;

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Ordered;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Ordered, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Ordered, A::Error> {
        let mut reading = Reading::default();
        while let Some(key) = access.next_key::<String>()? {
            let (value, order) = access.next_value_seed(self)?;
            reading.insert(key, value, order);
        }
        Ok(reading.end())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Ordered, A::Error> {
        let mut reading = ListReading::default();
        while let Some((value, order)) = access.next_element_seed(self)? {
            reading.push(value, order);
        }
        Ok(reading.end())
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok((Value::Null, None))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok((Value::from(value), None))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok((Value::from(value), None))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
        Ok((Value::from(value), None))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
        Ok((Value::from(value), None))
    }

    fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
        Ok((Value::from(value), None))
    }

    fn visit_string<E>(self, value: String) -> Result<Ordered, E> {
        Ok((Value::from(value), None))
    }
}

/// An object that is being read or built, member by member.
#[derive(Debug, Default)]
pub struct Reading {
    map: Map<String, Value>,
    order: KeyOrder,
}

impl Reading {
    /// Adds a member. As in Python, a repeated key keeps its first position and gets the last value.
    pub fn insert(&mut self, key: String, value: Value, inner: Option<Arc<KeyOrder>>) {
        if inner.is_some() || !self.order.members.is_empty() {
            self.order.members.remove(&key);
            if let Some(inner) = inner {
                self.order.members.insert(key.clone(), inner);
            }
        }
        let keys = &mut self.order.keys;
        if keys.is_empty() && self.map.keys().next_back().is_some_and(|last| key < *last) {
            keys.extend(self.map.keys().cloned());
        }
        if keys.is_empty() {
            self.map.insert(key, value);
        } else if self.map.insert(key.clone(), value).is_none() {
            keys.push(key);
        }
    }

    /// Returns the whole object.
    pub fn end(self) -> Ordered {
        (Value::Object(self.map), self.order.shared())
    }
}

/// A list that is being read or built, item by item.
#[derive(Debug, Default)]
pub struct ListReading {
    items: Vec<Value>,
    order: KeyOrder,
}

impl ListReading {
    /// Returns an empty list with memory for this number of items.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            items: Vec::with_capacity(capacity),
            order: KeyOrder::default(),
        }
    }

    /// Adds an item.
    pub fn push(&mut self, item: Value, order: Option<Arc<KeyOrder>>) {
        if let Some(order) = order {
            self.order.items.insert(self.items.len(), order);
        }
        self.items.push(item);
    }

    /// Returns the whole list.
    pub fn end(self) -> Ordered {
        (Value::Array(self.items), self.order.shared())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn ordered(value: &Value, order: Option<&KeyOrder>) -> String {
        serde_json::to_string(&InOrder(value, order)).unwrap()
    }

    #[test]
    fn documents_keep_their_order() {
        for text in [
            r#"{"kind":"Pod","apiVersion":"v1","spec":{"z":[{"b":1,"a":[]},{"a":1}],"y":null}}"#,
            r#"{"a":{"c":1,"b":2},"b":{"c":1,"d":2}}"#,
            r#"[[{"b":{"a":1}}],[{"b":0,"a":{"y":0,"x":0}}]]"#,
            r#"{"b":1.5,"a":-1,"":true,"ü":"\n"}"#,
            "{}",
            "5",
        ] {
            let (value, order) = parse(text.as_bytes()).unwrap();
            assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
            assert_eq!(ordered(&value, order.as_deref()), text);
        }
    }

    #[test]
    fn sorted_documents_need_no_memory() {
        for text in [
            r#"{"a":{"b":[{"c":1,"d":2}]},"b":[],"c":{"a":1}}"#,
            r#"{"a":1,"a":2}"#,
            "[]",
        ] {
            assert_eq!(KeyOrder::parse(text), None, "{text}");
        }
        for text in ["", "{", "{} {}", "x"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn repeated_keys_keep_their_first_place_and_last_value() {
        let text = r#"{"b":{"z":1,"y":2},"a":1,"b":{"x":1},"c":1,"a":2}"#;
        let (value, order) = parse(text.as_bytes()).unwrap();
        assert_eq!(
            ordered(&value, order.as_deref()),
            r#"{"b":{"x":1},"a":2,"c":1}"#
        );
    }

    #[test]
    fn other_values_follow_the_order_as_far_as_possible() {
        let order = KeyOrder::parse(r#"{"c":1,"b":{"y":1,"x":2},"a":1}"#);
        let order = order.as_deref();
        let value = json!({"a": 1, "b": {"w": 0, "x": 1, "y": 2}, "c": [], "d": 1, "aa": 1});
        let expected = r#"{"c":[],"b":{"y":2,"x":1,"w":0},"a":1,"aa":1,"d":1}"#;
        assert_eq!(ordered(&value, order), expected);
        assert_eq!(ordered(&json!({"b": 1}), order), r#"{"b":1}"#);
        assert_eq!(ordered(&json!([1]), order), "[1]");
    }

    #[test]
    fn orders_are_found_by_path() {
        let order = KeyOrder::parse(r#"{"spec":{"inner":{"b":1,"a":2}},"kind":"K"}"#).unwrap();
        let inner = order.at(&"spec.inner".into()).map(Arc::as_ref);
        assert_eq!(ordered(&json!({"a": 0, "b": 0}), inner), r#"{"b":0,"a":0}"#);
        assert_eq!(order.at(&FieldPath::root()), Some(&order));
        assert_eq!(order.at(&"spec.inner.b".into()), None);
        assert_eq!(order.at(&"nowhere".into()), None);
    }

    // As in `json.dumps(storage.build(body=body))` of the original.
    #[test]
    fn essences_end_with_metadata_and_status() {
        let body = KeyOrder::parse(
            r#"{"kind":"K","metadata":{"name":"n","labels":{"y":1,"x":2}},"spec":{"b":1,"a":1},"data":1}"#,
        );
        let essence = json!({
            "data": 1, "spec": {"a": 1, "b": 1}, "status": {"x": 1},
            "metadata": {"annotations": {"a": "b"}, "labels": {"x": 1, "y": 1}},
        });
        let order = KeyOrder::of_essence(&essence, body.as_deref());
        assert_eq!(
            ordered(&essence, Some(&order)),
            r#"{"spec":{"b":1,"a":1},"data":1,"metadata":{"labels":{"y":1,"x":1},"annotations":{"a":"b"}},"status":{"x":1}}"#
        );
        let order = KeyOrder::of_essence(&essence, None);
        assert_eq!(
            ordered(&essence, Some(&order)),
            r#"{"data":1,"spec":{"a":1,"b":1},"metadata":{"labels":{"x":1,"y":1},"annotations":{"a":"b"}},"status":{"x":1}}"#
        );
        let order = KeyOrder::of_essence(&json!(1), None);
        assert_eq!(ordered(&json!(1), Some(&order)), "1");
    }

    fn documents() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|value| value.to_string()),
            any::<i64>().prop_map(|value| value.to_string()),
            any::<String>().prop_map(|value| Value::from(value).to_string()),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let members = prop::collection::hash_map("[a-c\"]{0,2}", inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4)
                    .prop_map(|items| format!("[{}]", items.join(","))),
                members.prop_map(|members| {
                    let members = members.into_iter();
                    let members =
                        members.map(|(key, value)| format!("{}:{value}", Value::from(key)));
                    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_document_keeps_its_order(text in documents()) {
            let (value, order) = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(&value, &serde_json::from_str::<Value>(&text).unwrap());
            prop_assert_eq!(ordered(&value, order.as_deref()), text);
        }
    }
}
