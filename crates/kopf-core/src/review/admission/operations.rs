//! Differences between two JSON values as JSON-patch operations.
//!
//! The `json-patch` crate compares lists by position: after the removal of the first item, all items
//! differ. Here, equal items at both ends of a list are skipped, so that patches in audit logs are short.

use serde_json::{Map, Value, json};

use crate::equality::equal;

/// Returns the operations that transform one value into the other.
pub(super) fn operations(from: &Value, to: &Value) -> Vec<Value> {
    let mut walk = Walk::default();
    walk.compare(from, to);
    walk.operations
}

#[derive(Default)]
struct Walk {
    /// JSON pointer to the compared values (RFC 6901).
    path: String,
    operations: Vec<Value>,
}

impl Walk {
    fn compare(&mut self, from: &Value, to: &Value) {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => self.objects(from, to),
            (Value::Array(from), Value::Array(to)) => self.lists(from, to),
            (from, to) if equal(from, to) => {}
            (_, to) => {
                let operation = json!({"op": "replace", "path": self.path, "value": to});
                self.operations.push(operation);
            }
        }
    }

    fn objects(&mut self, from: &Map<String, Value>, to: &Map<String, Value>) {
        for (key, value) in from {
            match to.get(key) {
                Some(other) => self.at(key, |walk| walk.compare(value, other)),
                None => self.at(key, Self::remove),
            }
        }
        for (key, value) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
            self.at(key, |walk| walk.add(value));
        }
    }

    /// Compares lists, skipping equal items at the beginning and at the end.
    fn lists(&mut self, from: &[Value], to: &[Value]) {
        let same = |(a, b): &(&Value, &Value)| equal(a, b);
        let ahead = from.iter().zip(to).take_while(same).count();
        let (from, to) = (from.get(ahead..), to.get(ahead..));
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        let behind = from.iter().rev().zip(to.iter().rev());
        let behind = behind.take_while(same).count();
        let from = from.get(..from.len() - behind).unwrap_or_default();
        let to = to.get(..to.len() - behind).unwrap_or_default();

        let mut place = ahead;
        for (from, to) in from.iter().zip(to) {
            self.at(&place.to_string(), |walk| walk.compare(from, to));
            place += 1;
        }
        for value in to.iter().skip(from.len()) {
            self.at(&place.to_string(), |walk| walk.add(value));
            place += 1;
        }
        // The following items move up.
        for _ in to.len()..from.len() {
            self.at(&place.to_string(), Self::remove);
        }
    }

    fn add(&mut self, value: &Value) {
        let operation = json!({"op": "add", "path": self.path, "value": value});
        self.operations.push(operation);
    }

    fn remove(&mut self) {
        self.operations
            .push(json!({"op": "remove", "path": self.path}));
    }

    fn at(&mut self, key: &str, action: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('/');
        self.path
            .push_str(&key.replace('~', "~0").replace('/', "~1"));
        action(self);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_changed_where_they_differ() {
        for (from, to, expected) in [
            (json!([1, 2, 3]), json!([1, 2, 3]), json!([])),
            (json!([1]), json!([1.0]), json!([])),
            (
                json!(["a", "b", "c"]),
                json!(["b", "c"]),
                json!([{"op": "remove", "path": "/0"}]),
            ),
            (
                json!(["b", "c"]),
                json!(["a", "b", "c"]),
                json!([{"op": "add", "path": "/0", "value": "a"}]),
            ),
            (
                json!(["a", "b", "c", "d"]),
                json!(["a", "d"]),
                json!([{"op": "remove", "path": "/1"}, {"op": "remove", "path": "/1"}]),
            ),
            (
                json!(["a"]),
                json!(["a", "b", "c"]),
                json!([
                    {"op": "add", "path": "/1", "value": "b"},
                    {"op": "add", "path": "/2", "value": "c"},
                ]),
            ),
            (
                json!([{"name": "a", "x": 1}, {"name": "b"}]),
                json!([{"name": "a", "x": 2}, {"name": "b"}]),
                json!([{"op": "replace", "path": "/0/x", "value": 2}]),
            ),
            (
                json!(["a", "a"]),
                json!(["a"]),
                json!([{"op": "remove", "path": "/1"}]),
            ),
            (
                json!(["a"]),
                json!([]),
                json!([{"op": "remove", "path": "/0"}]),
            ),
        ] {
            assert_eq!(json!(operations(&from, &to)), expected, "{from} {to}");
        }
    }

    #[test]
    fn values_of_other_types_are_replaced() {
        let expected = json!([{"op": "replace", "path": "/a~1b/~0", "value": [1]}]);
        let found = operations(
            &json!({"a/b": {"~": {"x": 1}}}),
            &json!({"a/b": {"~": [1]}}),
        );
        assert_eq!(json!(found), expected);
        let nulls = operations(&json!({"a": null}), &json!({}));
        assert_eq!(json!(nulls), json!([{"op": "remove", "path": "/a"}]));
    }
}
