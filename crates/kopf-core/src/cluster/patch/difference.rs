//! The parts of a patch that single handlers have added.

use serde_json::{Map, Value};

use super::Patch;
use crate::encoding::size_of_json;

impl Patch {
    /// Returns the fields and functions of this patch that an earlier state of it did not have.
    /// Removed ones are not a part of the difference.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let fns = self.fns.iter().filter(|function| {
            let mut earlier = earlier.fns.iter();
            !earlier.any(|known| known.is_same(function))
        });
        Self {
            merge: added(&self.merge, &earlier.merge),
            fns: fns.cloned().collect(),
        }
    }

    /// Removes the fields and functions of another patch from this one. Fields with other values
    /// are kept: they were overwritten later.
    pub fn subtract(&mut self, other: &Self) {
        subtract_fields(&mut self.merge, &other.merge);
        self.fns.retain(|function| {
            let mut removed = other.fns.iter();
            !removed.any(|removed| removed.is_same(function))
        });
    }

    /// Returns the size of the fields as JSON, in bytes. The size of functions is unknown.
    pub fn size(&self) -> usize {
        size_of_json(&self.merge)
    }
}

fn added(now: &Map<String, Value>, earlier: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in now {
        match (value, earlier.get(key)) {
            (Value::Object(now), Some(Value::Object(earlier))) => {
                let inner = added(now, earlier);
                if !inner.is_empty() {
                    all.insert(key.clone(), Value::Object(inner));
                }
            }
            (value, Some(earlier)) if value == earlier => {}
            (value, _) => drop(all.insert(key.clone(), value.clone())),
        }
    }
    all
}

/// Removes fields with these values from an object, and the objects that become empty by that.
pub fn subtract_fields(fields: &mut Map<String, Value>, removed: &Map<String, Value>) {
    for (key, removed) in removed {
        let is_over = match (fields.get_mut(key), removed) {
            (Some(Value::Object(fields)), Value::Object(removed)) => {
                subtract_fields(fields, removed);
                fields.is_empty()
            }
            (Some(value), removed) => value == removed,
            (None, _) => false,
        };
        if is_over {
            fields.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::PatchFn;
    use super::*;

    fn patch(merge: &Value) -> Patch {
        Patch {
            merge: merge.as_object().unwrap().clone(),
            fns: Vec::new(),
        }
    }

    #[test]
    fn differences_contain_what_was_added() {
        let earlier = patch(&json!({"status": {"a": 1, "b": {"x": 1}}, "spec": {"s": 1}}));
        let now = patch(&json!({"status": {"a": 2, "b": {"x": 1, "y": null}}, "spec": {"s": 1}}));
        let difference = now.since(&earlier);
        let expected = json!({"status": {"a": 2, "b": {"y": null}}});
        assert_eq!(Value::Object(difference.merge), expected);
    }

    #[test]
    fn subtracting_a_difference_leaves_the_rest() {
        let mut earlier = patch(&json!({"status": {"a": 1}}));
        earlier.add_fn(PatchFn::new("kept", |_| Ok(())));
        let mut now = earlier.clone();
        now.merge_from(patch(&json!({"status": {"b": {"c": 1}}, "spec": {"s": 1}})));
        now.add_fn(PatchFn::new("dropped", |_| Ok(())));
        let difference = now.since(&earlier);
        assert_eq!(difference.fns.len(), 1);

        now.merge_from(patch(&json!({"spec": {"s": 2}})));
        now.subtract(&difference);
        let expected = json!({"status": {"a": 1}, "spec": {"s": 2}});
        assert_eq!(
            Value::Object(now.merge),
            expected,
            "the later value is kept"
        );
        let labels: Vec<_> = now.fns.iter().map(PatchFn::label).collect();
        assert_eq!(labels, ["kept"]);
    }

    #[test]
    fn size_is_that_of_the_json() {
        assert_eq!(
            patch(&json!({"a": {"b": "ä"}})).size(),
            r#"{"a":{"b":"ä"}}"#.len()
        );
    }
}
