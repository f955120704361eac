//! The order of items that are identified by keys or values, which says nothing.

use serde_json::Value;

use super::items;
use super::schema::{ListKind, Schema, Shape, TypeId};

/// Sorts the items of all sets and keyed lists by their elements. Lists with an item that cannot be
/// identified stay as they are, as do atomic lists.
pub fn sort(schema: &Schema, of: TypeId, value: &mut Value) {
    match schema.shape(of, value) {
        Shape::Map(map) => {
            for (key, value) in value.as_object_mut().into_iter().flatten() {
                if let Some(of) = map.of_key(key) {
                    sort(schema, of, value);
                }
            }
        }
        Shape::List(list) => {
            let Some(members) = value.as_array_mut() else {
                return;
            };
            for item in members.iter_mut() {
                sort(schema, list.element, item);
            }
            if list.kind == ListKind::Atomic {
                return;
            }
            let element = |item: &Value| items::element(schema, list, item).ok();
            if members.iter().all(|item| element(item).is_some()) {
                members.sort_by_cached_key(element);
            }
        }
        Shape::Scalar(_) | Shape::Nothing => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::builtin;
    use super::*;

    #[test]
    fn ports_are_sorted_by_number_and_protocol_and_arguments_are_not() {
        let schema = builtin("v1");
        let sorted = |kind: &str, mut value: Value| {
            sort(schema, schema.root(kind), &mut value);
            value
        };
        let dns = json!({"port": 53, "protocol": "UDP", "name": "a"});
        let tcp = json!({"port": 53, "name": "b"});
        let ports = |items: [&Value; 2]| json!({"spec": {"ports": items}});
        assert_eq!(
            sorted("Service", ports([&dns, &tcp])),
            ports([&tcp, &dns]),
            "TCP is the default"
        );
        let pod = |names: [&str; 2], arguments: [&str; 2]| {
            json!({"spec": {"containers": [
                {"name": names[0]}, {"name": names[1], "args": arguments},
            ]}})
        };
        assert_eq!(
            sorted("Pod", pod(["b", "c"], ["z", "y"])),
            pod(["b", "c"], ["z", "y"])
        );
        let reversed = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
        assert_eq!(
            sorted("Pod", reversed),
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}})
        );
    }
}
