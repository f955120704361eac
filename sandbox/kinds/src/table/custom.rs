//! Rows of custom resources: the columns of the CRD.

use jiff::Timestamp;
use kopf_sandbox_schema::json_path::{JsonPath, scalar_text};
use kopf_sandbox_schema::kind::PrinterColumn;
use serde_json::{Value, json};

use super::duration;

/// Returns all column definitions. A CRD without columns gets the age.
pub(super) fn columns(declared: &[PrinterColumn]) -> Vec<Value> {
    let name = json!({
        "name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": "The name of the object, unique within its namespace.",
    });
    if declared.is_empty() {
        let age = json!({
            "name": "Age", "type": "date", "format": "", "priority": 0,
            "description": "When the object was created.",
        });
        return vec![name, age];
    }
    let own = declared.iter().map(|column| {
        let path = &column.json_path;
        let description = match column.description.as_str() {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            given => given.to_owned(),
        };
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": description, "priority": column.priority,
        })
    });
    std::iter::once(name).chain(own).collect()
}

/// A column of a CRD with its parsed path.
#[derive(Debug)]
pub struct Column {
    kind: String,
    /// `None` for an invalid path, which has empty cells.
    path: Option<JsonPath>,
}

/// Parses the paths of columns.
pub(super) fn compiled(declared: &[PrinterColumn]) -> Vec<Column> {
    let columns = declared.iter().map(|column| Column {
        kind: column.kind.clone(),
        path: JsonPath::parse(&column.json_path).ok(),
    });
    columns.collect()
}

pub(super) fn cells(declared: &[Column], object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object
        .pointer("/metadata/name")
        .cloned()
        .unwrap_or_else(|| json!(""));
    if declared.is_empty() {
        let created = object
            .pointer("/metadata/creationTimestamp")
            .unwrap_or(&Value::Null);
        return vec![name, typed("date", created, now)];
    }
    let own = declared.iter().map(|column| {
        let Some(path) = &column.path else {
            return Value::Null;
        };
        // Of several values, the real server prints the first one.
        let Ok(Some(value)) = path.find(object).map(|found| found.first().copied()) else {
            return Value::Null;
        };
        typed(&column.kind, value, now)
    });
    std::iter::once(name).chain(own).collect()
}

/// Returns the value as a cell of this type; `null` if it has another type.
fn typed(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::Null) => json!("<no value>"),
        ("string", Value::Array(_) | Value::Object(_)) => json!(go_json(value)),
        ("string", scalar) => json!(scalar_text(scalar)),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(integer) => json!(integer),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the fraction is truncated intentionally"
            )]
            None => json!(number.as_f64().unwrap_or_default() as i64),
        },
        ("number", Value::Number(number)) => go_number(number.as_f64().unwrap_or_default()),
        ("boolean", Value::Bool(flag)) => json!(flag),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(then) => json!(duration::age(then, now)),
            Err(_) => json!("<invalid>"),
        },
        _ => Value::Null,
    }
}

/// Formats a number. Whole numbers have no fraction.
fn go_number(number: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only whole numbers are passed"
    )]
    if number.fract() == 0.0 && number.abs() < 1e15 {
        json!(number as i64)
    } else {
        json!(number)
    }
}

/// Formats JSON with characters escaped that are special in HTML.
fn go_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: &str, path: &str) -> PrinterColumn {
        PrinterColumn {
            name: "X".to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: path.to_owned(),
        }
    }

    #[test]
    fn values_become_cells_of_the_type_of_the_column() {
        let now = "2030-01-01T00:03:12Z".parse().unwrap();
        let object = json!({
            "metadata": { "name": "n", "creationTimestamp": "2030-01-01T00:00:00Z" },
            "spec": {
                "text": "a", "int": 5, "float": 2.5, "flag": true, "null": null,
                "list": ["x", "<y>"], "when": "soon",
            },
        });
        let cases = [
            ("string", ".spec.text", json!("a")),
            ("string", ".spec.int", json!("5")),
            ("string", ".spec.flag", json!("true")),
            ("string", ".spec.list", json!(r#"["x","\u003cy\u003e"]"#)),
            ("string", ".spec.list[*]", json!("x")),
            ("string", ".spec.absent", Value::Null),
            ("string", ".spec.null", json!("<no value>")),
            ("integer", ".spec.int", json!(5)),
            ("integer", ".spec.float", json!(2)),
            ("integer", ".spec.text", Value::Null),
            ("number", ".spec.float", json!(2.5)),
            ("number", ".spec.int", json!(5)),
            ("boolean", ".spec.flag", json!(true)),
            ("boolean", ".spec.text", Value::Null),
            ("date", ".metadata.creationTimestamp", json!("3m12s")),
            ("date", ".spec.when", json!("<invalid>")),
            ("date", ".spec.int", Value::Null),
        ];
        for (kind, path, expected) in cases {
            let cells = cells(&compiled(&[column(kind, path)]), &object, now);
            assert_eq!(cells, [json!("n"), expected], "{kind} {path}");
        }
        assert_eq!(
            super::cells(&[], &object, now),
            [json!("n"), json!("3m12s")]
        );
    }

    #[test]
    fn columns_without_a_description_have_a_default() {
        let columns = columns(&[column("string", ".spec.a")]);
        assert_eq!(columns[0]["format"], "name");
        let text = "Custom resource definition column (in JSONPath format): .spec.a";
        assert_eq!(columns[1]["description"], text);
        assert_eq!(super::columns(&[])[1]["name"], "Age");
    }
}
