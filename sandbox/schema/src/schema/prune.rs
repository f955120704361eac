//! Removal of unknown fields.

use serde_json::Value;

use super::embedded;
use super::node::{Additional, Node};
use super::path::Path;

/// Drops unknown fields. Returns their paths in alphabetical order.
///
/// At the root, `apiVersion`, `kind` and `metadata` are always kept.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut pruned = Vec::new();
    let root = Place {
        is_resource: true,
        ..Place::of(Some(root))
    };
    Walk {
        pruned: &mut pruned,
    }
    .value(root, object, &Path::Root);
    pruned.sort();
    pruned
}

/// Prunes a part of an object, which has an identity only if its schema declares one.
pub(super) fn prune_part(node: &Node, value: &mut Value) {
    let mut pruned = Vec::new();
    Walk {
        pruned: &mut pruned,
    }
    .value(Place::of(Some(node)), value, &Path::Root);
}

struct Walk<'a> {
    pruned: &'a mut Vec<String>,
}

/// The schema of the keys of one value.
#[derive(Clone, Copy)]
struct Place<'a> {
    node: Option<&'a Node>,
    /// Unknown keys are kept. Items of a list inherit this from the list.
    preserve: bool,
    /// `apiVersion`, `kind` and `metadata` are kept in any case.
    is_resource: bool,
}

impl<'a> Place<'a> {
    fn of(node: Option<&'a Node>) -> Self {
        Self {
            node,
            preserve: node.is_some_and(|node| node.preserve_unknown),
            is_resource: node.is_some_and(|node| node.embedded),
        }
    }
}

impl Walk<'_> {
    fn value(&mut self, place: Place<'_>, value: &mut Value, path: &Path<'_>) {
        match value {
            Value::Object(_) if place.is_resource && !path.is_root() => {
                embedded::prune_metadata(value, path, self.pruned);
                self.members(place, value, path);
            }
            Value::Object(_) => self.members(place, value, path),
            Value::Array(list) => {
                let items = place.node.and_then(|node| node.items.as_deref());
                if place.preserve && items.is_none() {
                    return;
                }
                let mut inner = Place::of(items);
                inner.preserve |= place.preserve;
                for (index, value) in list.iter_mut().enumerate() {
                    self.value(inner, value, &path.index(index));
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, place: Place<'_>, value: &mut Value, path: &Path<'_>) {
        let Value::Object(map) = value else { return };
        map.retain(|key, value| {
            if place.is_resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            if let Some(node) = place.node {
                if let Some(property) = node.properties.get(key) {
                    self.value(Place::of(Some(property)), value, &path.field(key));
                    return true;
                }
                match &node.additional {
                    Additional::Schema(schema) => {
                        self.value(Place::of(Some(schema)), value, &path.field(key));
                        return true;
                    }
                    // The key is known, but its value has no schema.
                    Additional::Flag(_) => {
                        self.value(Place::of(None), value, &path.field(key));
                        return true;
                    }
                    Additional::Unspecified if place.preserve => return true,
                    Additional::Unspecified => {}
                }
            }
            self.pruned.push(path.field(key).dotted());
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::node::compile;
    use super::*;

    fn pruned(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
        let node = compile(schema).unwrap();
        let paths = prune(&node, &mut object);
        (object, paths)
    }

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }}}});
        let object = json!({
            "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x", "anything": 1},
            "other": 1,
            "spec": {"list": [{"a": "1", "b": 2}], "map": {"k": {"a": "1", "c": 2}}, "d": null},
        });
        let (object, paths) = pruned(&schema, object);
        assert_eq!(paths, ["other", "spec.d", "spec.list[0].b", "spec.map.k.c"]);
        assert_eq!(
            object,
            json!({
                "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x", "anything": 1},
                "spec": {"list": [{"a": "1"}], "map": {"k": {"a": "1"}}},
            })
        );
    }

    #[test]
    fn only_unknown_keys_are_preserved() {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }}});
        let object = json!({"spec": {"free": {"x": {"y": 1}}, "known": {"a": "1", "b": 2}}});
        let (object, paths) = pruned(&schema, object);
        assert_eq!(paths, ["spec.known.b"]);
        assert_eq!(
            object,
            json!({"spec": {"free": {"x": {"y": 1}}, "known": {"a": "1"}}})
        );
    }

    #[test]
    fn preserving_list_preserves_its_items() {
        let schema = json!({"type": "object", "properties": {"list": {
            "type": "array", "x-kubernetes-preserve-unknown-fields": true,
            "items": {"type": "object", "properties": {"a": {"type": "object"}}},
        }}});
        let (object, paths) = pruned(&schema, json!({"list": [{"a": {"x": 1}, "b": 1}]}));
        assert_eq!(paths, ["list[0].a.x"]);
        assert_eq!(object, json!({"list": [{"a": {}, "b": 1}]}));
    }

    #[test]
    fn boolean_additional_properties_keep_keys_and_prune_values() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "additionalProperties": true},
        }});
        let (object, _) = pruned(&schema, json!({"spec": {"a": 1, "b": {"c": 2}}}));
        assert_eq!(object, json!({"spec": {"a": 1, "b": {}}}));
    }

    #[test]
    fn embedded_resources_keep_their_identity() {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"data": {"type": "string"}},
        }}});
        let object = json!({"spec": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "what": 1}, "data": "d", "z": 1,
        }});
        let (object, paths) = pruned(&schema, object);
        assert_eq!(paths, ["spec.metadata.what", "spec.z"]);
        assert_eq!(
            object,
            json!({"spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "data": "d"}})
        );
    }
}
