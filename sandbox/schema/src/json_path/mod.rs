//! The JSONPath dialect of Kubernetes for printer columns, selectable fields and scale paths:
//! `.spec.a`, `.metadata.labels.foo\.bar`, `['x']`, `[0]`, `[1:3]`, `[*]`, `..name`,
//! `[?(@.type=="Ready")].status`.
//!
//! Templates (`range`, text around braces) are not supported: these fields contain a single
//! expression.

mod parser;

use serde_json::{Number, Value};

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Filter(Box<Filter>),
    Union(Vec<Vec<Self>>),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// A single index: `[2]`, or `[-1]`, whose end is the length instead of zero.
    single: bool,
    step: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<Step>,
    /// `None`: the filter tests if the left side exists.
    comparison: Option<(String, Vec<Step>)>,
}

impl JsonPath {
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self {
            steps: parser::parse_steps(text, 0)?,
        })
    }

    /// Returns all values at this path. Missing fields are ignored.
    ///
    /// # Errors
    ///
    /// An index is out of bounds, or a filter is applied to a value that is not a list.
    pub fn find<'a>(&'a self, value: &'a Value) -> Result<Vec<&'a Value>, String> {
        walk(&self.steps, vec![value])
    }
}

/// Formats a value as Go does, without quotes.
pub fn scalar_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number_text(number),
        other => other.to_string(),
    }
}

/// Formats a number. Floats have an exponent from 1e21 on and below 1e-4; integers never have one.
fn number_text(number: &Number) -> String {
    if number.as_i64().is_some() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..21).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn walk<'a>(steps: &'a [Step], input: Vec<&'a Value>) -> Result<Vec<&'a Value>, String> {
    let mut current = input;
    for step in steps {
        current = match step {
            Step::Field(name) => current
                .into_iter()
                .filter_map(|value| value.get(name))
                .collect(),
            Step::Wildcard => current.into_iter().flat_map(children).collect(),
            Step::Recursive => {
                let mut found = Vec::new();
                for value in current {
                    descend(value, &mut found);
                }
                found
            }
            Step::Slice(slice) => slice_all(*slice, &current)?,
            Step::Filter(filter) => filter_all(filter, &current)?,
            Step::Union(lists) => {
                let mut found = Vec::new();
                for list in lists {
                    found.extend(walk(list, current.clone())?);
                }
                found
            }
            Step::Literal(literal) => current.iter().map(|_| literal).collect(),
        };
    }
    Ok(current)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

/// Collects the value and all descendants that have children. The depth is limited by the JSON
/// parser.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let inside = children(value);
    if !inside.is_empty() {
        found.push(value);
        for child in inside {
            descend(child, found);
        }
    }
}

fn slice_all<'a>(slice: Slice, input: &[&'a Value]) -> Result<Vec<&'a Value>, String> {
    let mut found = Vec::new();
    for value in input {
        let items = match value {
            Value::Null => continue,
            Value::Array(items) => items,
            _ => return Err("not array or slice".to_owned()),
        };
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let from_end = |index: i64| {
            if index < 0 {
                index.saturating_add(length)
            } else {
                index
            }
        };
        let start = from_end(slice.start.unwrap_or(0));
        let end = if slice.single {
            start.saturating_add(1)
        } else {
            slice.end.map_or(length, from_end)
        };
        if start == end {
            return Ok(found);
        }
        let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let part = bounds.and_then(|(start, end)| items.get(start..end));
        let part = part
            .filter(|part| !part.is_empty())
            .ok_or_else(|| format!("array index out of bounds: index {start}, length {length}"))?;
        found.extend(part.iter().step_by(slice.step));
    }
    Ok(found)
}

fn filter_all<'a>(filter: &'a Filter, input: &[&'a Value]) -> Result<Vec<&'a Value>, String> {
    let mut found = Vec::new();
    for value in input {
        let Value::Array(items) = value else {
            return Err("not array or slice and cannot be filtered".to_owned());
        };
        for item in items {
            let lefts = walk(&filter.left, vec![item]);
            let Some((operator, right)) = &filter.comparison else {
                if lefts.is_ok_and(|lefts| !lefts.is_empty()) {
                    found.push(item);
                }
                continue;
            };
            let rights = walk(right, vec![item])?;
            match (lefts?.as_slice(), rights.as_slice()) {
                ([], _) | (_, []) => {}
                ([left], [right]) => {
                    if compare(left, operator, right)? {
                        found.push(item);
                    }
                }
                _ => return Err("can only compare one element at a time".to_owned()),
            }
        }
    }
    Ok(found)
}

fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, String> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) if matches!(operator, "==" | "!=") => {
            Some(left.cmp(right))
        }
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => Some(left.cmp(&right)),
                _ => left.as_f64().partial_cmp(&right.as_f64()),
            }
        }
        _ => None,
    };
    let order = order.ok_or_else(|| "incompatible types for comparison".to_owned())?;
    match operator {
        "==" => Ok(order.is_eq()),
        "!=" => Ok(order.is_ne()),
        "<" => Ok(order.is_lt()),
        "<=" => Ok(order.is_le()),
        ">" => Ok(order.is_gt()),
        ">=" => Ok(order.is_ge()),
        other => Err(format!("unrecognized filter operator {other}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(path: &str) -> Value {
        let object = json!({
            "metadata": { "labels": { "foo.bar/x": "label" } },
            "spec": { "list": [10, 20, 30], "null": null, "deep": [{ "n": 1 }, { "n": 2 }] },
            "status": { "conditions": [
                { "type": "Ready", "status": "True", "weight": 3 },
                { "type": "Up (now)", "status": "False" },
            ] },
        });
        let path = JsonPath::parse(path).unwrap();
        path.find(&object)
            .map_or(json!("error"), |values| json!(values))
    }

    #[test]
    fn paths_of_printer_columns_are_found() {
        let cases = [
            (r".metadata.labels.foo\.bar/x", json!(["label"])),
            (r".metadata.labels['foo\.bar/x']", json!(["label"])),
            (".spec.list[0]", json!([10])),
            (".spec.list[-1]", json!([30])),
            (".spec.list[1:]", json!([20, 30])),
            (".spec.list[0:3:2]", json!([10, 30])),
            (".spec.list[*]", json!([10, 20, 30])),
            (".spec.list[0,2]", json!([10, 30])),
            (".spec.deep[*].n", json!([1, 2])),
            ("..n", json!([1, 2])),
            (".spec.list[7]", json!("error")),
            (".spec.null", json!([null])),
            (".spec.null.more", json!([])),
            (".spec.absent[?(@.a==1)].b", json!([])),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!(["True"]),
            ),
            (
                r".status.conditions[?(@.type == 'Up (now)')].status",
                json!(["False"]),
            ),
            (".status.conditions[?(@.weight>2)].type", json!(["Ready"])),
            (".status.conditions[?(@.weight)].type", json!(["Ready"])),
            (".status[?(@.weight)].type", json!("error")),
            ("$.spec.list[1]", json!([20])),
        ];
        for (path, expected) in cases {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn malformed_paths_are_rejected() {
        for path in [
            ".a[",
            ".a[x]",
            ".a[?(@.b",
            ".a[?(@.b)",
            "spec",
            ".a{",
            "....",
            ".a['b",
            ".a[]",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
        let nested = "[?(".repeat(1000);
        assert!(JsonPath::parse(&nested).is_err());
    }

    #[test]
    fn numbers_are_printed_as_in_go() {
        let cases = [
            (json!(5), "5"),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(1e20), "100000000000000000000"),
            (json!(0.00001), "1e-05"),
            (json!(0.0001), "0.0001"),
            (json!(true), "true"),
            (json!("x"), "x"),
        ];
        for (value, expected) in cases {
            assert_eq!(scalar_text(&value), expected);
        }
    }

    proptest! {
        #[test]
        fn parsing_random_paths_never_panics(path in "[ab.\\[\\]?()@'\"0-3:,*=<!\\\\ \\PC]{0,24}") {
            if let Ok(path) = JsonPath::parse(&path) {
                let _ = path.find(&json!({ "a": [{ "b": 1 }, [2, 3]], "b": { "a": "x" } }));
            }
        }
    }
}
