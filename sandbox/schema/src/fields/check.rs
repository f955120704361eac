//! Validation of values against their types.

use std::collections::BTreeSet;

use serde_json::Value;

use super::schema::{List, ListKind, Scalar, Schema, Shape, TypeId};
use super::{Element, Typed, items};

/// Returns the problems of a value with their paths: unknown fields, items without keys, duplicate
/// items, values of a wrong type. Of several unknown fields of one map, only the first is reported.
pub fn check(typed: Typed<'_>) -> Vec<String> {
    let mut checker = Checker {
        schema: typed.schema,
        problems: Vec::new(),
    };
    checker.value(typed.of, typed.value, "");
    checker.problems
}

struct Checker<'a> {
    schema: &'a Schema,
    problems: Vec<String>,
}

impl Checker<'_> {
    fn report(&mut self, path: &str, problem: &str) {
        self.problems.push(if path.is_empty() {
            problem.to_owned()
        } else {
            format!("{path}: {problem}")
        });
    }

    fn value(&mut self, of: TypeId, value: &Value, path: &str) {
        let schema = self.schema;
        match (schema.shape(of, value), value) {
            (_, Value::Null) => {}
            (Shape::Scalar(scalar), value) => {
                if let Some(problem) = scalar_problem(scalar, value) {
                    self.report(path, &problem);
                }
            }
            (Shape::Map(map), Value::Object(members)) => {
                for (key, member) in members {
                    let below = format!("{path}{}", Element::field(key));
                    let Some(of) = map.of_key(key) else {
                        self.report(&below, "field not declared in schema");
                        return;
                    };
                    self.value(of, member, &below);
                }
            }
            (Shape::List(list), Value::Array(members)) => self.list(list, members, path),
            (Shape::Map(_), other) => {
                self.report(path, &format!("expected map, got {}", shown(other)));
            }
            (Shape::List(_), other) => {
                self.report(path, &format!("expected list, got {}", shown(other)));
            }
            (Shape::Nothing, _) => self.report(path, "schema error: no type"),
        }
    }

    fn list(&mut self, list: &List, members: &[Value], path: &str) {
        let mut seen = BTreeSet::new();
        for (index, item) in members.iter().enumerate() {
            if list.kind == ListKind::Atomic {
                self.value(list.element, item, &format!("{path}[{index}]"));
                continue;
            }
            match items::element(self.schema, list, item) {
                Ok(element) => {
                    let below = format!("{path}{element}");
                    if seen.contains(&element) {
                        self.report(path, &format!("duplicate entries for key {element}"));
                    } else {
                        seen.insert(element);
                        self.value(list.element, item, &below);
                    }
                }
                Err(problem) => self.report(path, &format!("element {index}: {problem}")),
            }
        }
    }
}

fn scalar_problem(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match scalar {
        Scalar::Any => !value.is_object() && !value.is_array(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Numeric => value.is_number(),
        Scalar::Text => value.is_string(),
    };
    if fits {
        return None;
    }
    Some(match scalar {
        Scalar::Any => format!("expected any scalar, got {}", shown(value)),
        Scalar::Boolean => format!("expected boolean, got {}", shown(value)),
        Scalar::Numeric => {
            let name = match value {
                Value::Bool(_) => "bool",
                Value::String(_) => "string",
                Value::Array(_) => "[]interface {}",
                Value::Object(_) => "map[string]interface {}",
                Value::Null | Value::Number(_) => "<nil>",
            };
            format!("expected numeric (int or float), got {name}")
        }
        Scalar::Text => format!("expected string, got &value.valueUnstructured{{Value:{value}}}"),
    })
}

/// Formats a simple value as Go does.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("&{{{text}}}"),
        other => format!("&{{{other}}}"),
    }
}
