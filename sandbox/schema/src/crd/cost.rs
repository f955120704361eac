//! The estimated cost of CEL rules on the largest object that fits into a request.
//!
//! Only iterations are counted: of loops over `self` and its fields, and of the lists and maps that
//! contain the schema. A real server also counts the cost of every step, so rules rejected here are
//! rejected there.

use crate::cel::{Expression, escaped};
use crate::field_error::FieldError;
use crate::schema::{Additional, Items, Source};

/// The maximum size of a request, in bytes.
const REQUEST: u64 = 3 * 1024 * 1024;
/// The budget of one rule, in steps.
const BUDGET: u64 = 10_000_000;

/// Returns errors for the rules of a schema and of its subschemas that exceed the budget.
pub(super) fn problems(schema: Source<'_>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, path, 1, &mut errors);
    errors
}

/// Checks a schema whose values occur up to `times` times in an object.
fn check(schema: Source<'_>, path: &str, times: u64, errors: &mut Vec<FieldError>) {
    for (index, rule) in schema.schemas("x-kubernetes-validations").enumerate() {
        let Ok(expression) = Expression::parse(rule.text("rule")) else {
            continue; // reported elsewhere
        };
        let steps = expression
            .loops_over("self")
            .iter()
            .map(|loops| iterations(schema, loops))
            .fold(1, u64::max);
        let cost = times.saturating_mul(steps);
        if cost > BUDGET {
            let at = format!("{path}.x-kubernetes-validations[{index}].rule");
            let why = format!(
                "estimated rule cost exceeds budget by factor of {} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)",
                factor(cost)
            );
            errors.push(FieldError::forbidden(at, &why));
        }
    }
    for (name, property) in schema.properties() {
        check(
            property,
            &format!("{path}.properties[{name}]"),
            times,
            errors,
        );
    }
    let times = times.saturating_mul(size(schema).unwrap_or(1));
    if let Items::One(items) = schema.items() {
        check(items, &format!("{path}.items"), times, errors);
    }
    if let Additional::Schema(values) = schema.additional() {
        check(
            values,
            &format!("{path}.additionalProperties"),
            times,
            errors,
        );
    }
}

fn factor(cost: u64) -> String {
    let tenths = cost / (BUDGET / 10);
    if tenths > 1_000 {
        "more than 100x".to_owned()
    } else {
        format!("{}.{}x", tenths / 10, tenths % 10)
    }
}

/// Returns the number of iterations of the innermost of nested loops. Loops over values other than
/// lists and maps of the schema count once.
fn iterations(schema: Source<'_>, loops: &[Vec<String>]) -> u64 {
    let sizes = loops.iter().filter_map(|path| {
        let mut at = schema;
        for field in path {
            at = property(at, field)?;
        }
        size(at)
    });
    sizes.fold(1, u64::saturating_mul)
}

/// Returns a property by its name in expressions, which can be escaped.
fn property<'a>(schema: Source<'a>, name: &str) -> Option<Source<'a>> {
    let mut properties = schema.properties();
    let found = properties.find(|(known, _)| *known == name || escaped(known) == name);
    found.map(|(_, property)| property)
}

/// Returns the maximum number of items of a list or map, or `None` for other values.
fn size(schema: Source<'_>) -> Option<u64> {
    let (bound, entry) = match (schema.items(), schema.additional()) {
        (Items::One(items), _) => ("maxItems", least_bytes(items) + 1),
        // A key is at least two quotes and a colon.
        (_, Additional::Schema(values)) => ("maxProperties", least_bytes(values) + 4),
        _ => return None,
    };
    let bound = schema.value(bound).and_then(serde_json::Value::as_u64);
    Some(bound.unwrap_or(u64::MAX).min(REQUEST / entry))
}

/// Returns the minimum length of a value's JSON.
fn least_bytes(schema: Source<'_>) -> u64 {
    match schema.text("type") {
        "boolean" => 4,
        "array" => 2,
        "string" => {
            2 + schema
                .value("minLength")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(0)
        }
        "object" => {
            let required = schema.texts("required").filter_map(|name| {
                let value = least_bytes(schema.property(name)?);
                Some(name.len() as u64 + 4 + value)
            });
            2 + required.sum::<u64>()
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(schema: &Value) -> usize {
        problems(Source::new(schema), "spec").len()
    }

    #[test]
    fn loops_inside_of_unbounded_lists_exceed_the_budget() {
        let inner = |bounds: Value| {
            let mut list = json!({
                "type": "array", "items": {"type": "string"},
                "x-kubernetes-validations": [{"rule": "self.all(s, s == 'constant')"}],
            });
            list.as_object_mut()
                .unwrap()
                .extend(bounds.as_object().unwrap().clone());
            list
        };
        assert_eq!(found(&inner(json!({}))), 0);
        assert_eq!(
            found(&json!({"type": "array", "items": inner(json!({}))})),
            1
        );
        assert_eq!(
            found(&json!({"type": "array", "items": inner(json!({"maxItems": 5}))})),
            0
        );
        assert_eq!(
            found(&json!({"type": "array", "maxItems": 5, "items": inner(json!({}))})),
            0
        );
    }

    #[test]
    fn nested_loops_over_fields_are_multiplied() {
        let list = json!({"type": "array", "items": {"type": "integer"}});
        let schema = |rule: &str| {
            json!({
                "type": "object", "properties": {"a": list, "b": list},
                "x-kubernetes-validations": [{"rule": rule}],
            })
        };
        assert_eq!(found(&schema("self.a.all(x, self.b.exists(y, x == y))")), 1);
        assert_eq!(
            found(&schema("self.a.all(x, x > 0) && self.b.all(y, y > 0)")),
            0
        );
        assert_eq!(found(&schema("self.a.all(x, [1, 2].exists(y, x == y))")), 0);
    }
}
