//! Values in Go's format in error messages: `map[a:1 b:[x y]]`.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Formats a value as `%v` does. The server formats failed strategic patches this way.
pub fn value(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value);
    text
}

/// Formats a map as `%v` does.
pub(super) fn map(map: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_map(&mut text, map);
    text
}

/// Formats a list as `%v` does.
pub(super) fn list(items: &[Value]) -> String {
    let mut text = String::new();
    write_list(&mut text, items);
    text
}

fn write(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::String(inner) => text.push_str(inner),
        Value::Array(items) => write_list(text, items),
        Value::Object(map) => write_map(text, map),
        Value::Number(number) => match number.as_f64() {
            // Go prints a float without a fraction like an integer.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e21 => {
                let _ = write!(text, "{float:.0}");
            }
            _ => text.push_str(&number.to_string()),
        },
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
    }
}

fn write_map(text: &mut String, map: &Map<String, Value>) {
    text.push_str("map[");
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(key);
        text.push(':');
        write(text, value);
    }
    text.push(']');
}

fn write_list(text: &mut String, items: &[Value]) {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        write(text, item);
    }
    text.push(']');
}

/// Returns the Go type to which a JSON value is decoded.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_formatted_as_in_go() {
        let all = json!({"b": [1, 2.5, 3.0, "x y"], "a": null, "c": {}, "d": true});
        assert_eq!(value(&all), "map[a:<nil> b:[1 2.5 3 x y] c:map[] d:true]");
    }
}
