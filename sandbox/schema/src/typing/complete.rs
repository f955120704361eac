//! Defaults of decoded objects, and fields that are serialised even if they are unset, such as
//! `resources: {}` or `status: {}`.

use super::table::{Shape, TypeRef, TypeTable};
use serde_json::Value;

impl TypeTable {
    /// Adds the defaults to a decoded object. Idempotent.
    pub fn apply_defaults(&self, root: TypeRef, object: &mut Value) {
        let target = self.get(self.target(root));
        match (&target.shape, object) {
            (Shape::Struct(fields), Value::Object(map)) => {
                // The outer type goes first: it can create inner ones, which have their own
                // defaults.
                target.defaults.apply(map);
                for field in fields.iter().filter(|field| field.shown) {
                    if !map.contains_key(&*field.name) {
                        map.insert(field.name.to_string(), self.zero(field.of));
                    }
                }
                for (key, value) in map.iter_mut() {
                    if let Some(field) = target.field(key)
                        && (value.is_object() || value.is_array())
                    {
                        self.apply_defaults(field.of, value);
                    }
                }
            }
            (Shape::Slice(of), Value::Array(items)) => {
                for item in items {
                    self.apply_defaults(*of, item);
                }
            }
            (Shape::Map(of), Value::Object(map)) => {
                for value in map.values_mut() {
                    self.apply_defaults(*of, value);
                }
            }
            _ => {}
        }
    }
}
