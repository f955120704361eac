//! Operators recognised by the state that they have left on an object.
//!
//! Operators choose their own prefix of annotations, finalizer and field of the status. All of them
//! leave traces: the marker of the prefix, the diff-base, and progress records, whose content is
//! recognisable.

use std::collections::BTreeSet;

use kopf_core::body::Body;
use kopf_core::field::FieldPath;
use kopf_core::keys::{DEFAULT_PREFIX, MARKER};
use kopf_core::lenient;
use kopf_core::progress::ProgressRecord;
use serde_json::{Map, Value};

use crate::annotations::{BASE, COPIED, is_known, record};

/// The depth in which progress records are looked for in the status.
const DEPTH: usize = 4;

/// The annotations of one operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operator<'a> {
    /// The prefix of the diff-base.
    pub(crate) prefix: &'a str,
    /// The name of the diff-base, unless it is the usual one.
    pub(crate) key: Option<&'a str>,
    /// Further prefixes, of progress records.
    pub(crate) others: Vec<&'a str>,
}

/// Returns the operators with annotations on this object, that with the default prefix first.
pub(crate) fn operators(body: &Body) -> Vec<Operator<'_>> {
    let traces: Vec<Trace<'_>> = body
        .annotations()
        .iter()
        .filter_map(|(key, value)| Trace::of(key, value.as_str()?))
        .collect();
    let mut prefixes: Vec<&str> = traces
        .iter()
        .filter(|trace| trace.is_sure)
        .map(|trace| trace.prefix)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    prefixes.sort_by_key(|prefix| *prefix != DEFAULT_PREFIX);
    let base = |prefix: &str| {
        let mut traces = traces.iter().filter(|trace| trace.prefix == prefix);
        let usual = traces.clone().find(|trace| trace.name == BASE);
        usual.or_else(|| traces.find(|trace| trace.is_base))
    };
    // An own prefix for the records and the default one for the diff-base is one operator.
    if let [first, second] = *prefixes
        && base(first).is_some()
        && base(second).is_none()
    {
        return vec![Operator {
            prefix: first,
            key: None,
            others: vec![second],
        }];
    }
    let operators = prefixes.into_iter().map(|prefix| {
        let key = base(prefix).map(|trace| trace.name);
        Operator {
            prefix,
            key: key.filter(|key| *key != BASE),
            others: Vec::new(),
        }
    });
    operators.collect()
}

/// An annotation that may belong to an operator.
struct Trace<'a> {
    prefix: &'a str,
    /// The name without the prefix and the suffix of replica sets.
    name: &'a str,
    /// Only Kopf operators write such annotations.
    is_sure: bool,
    /// It may be a diff-base with another name.
    is_base: bool,
}

impl<'a> Trace<'a> {
    fn of(key: &'a str, text: &str) -> Option<Self> {
        let (prefix, name) = key.split_once('/').unwrap_or(("", key));
        let name = name.strip_suffix(COPIED).unwrap_or(name);
        let is_record = record(text).is_some_and(|record| record.started.is_some());
        let is_usual = name == BASE && is_object(text.trim_end());
        Some(Self {
            prefix,
            name,
            is_sure: is_record || is_usual || name == MARKER || prefix == DEFAULT_PREFIX,
            is_base: is_usual || !is_record && !is_known(name) && is_essence(text),
        })
        .filter(|trace| trace.is_sure || trace.is_base)
    }
}

/// Returns `true` for a JSON object with a line break at its end, as diff-bases are stored.
fn is_essence(text: &str) -> bool {
    text.strip_suffix('\n').is_some_and(is_object)
}

fn is_object(text: &str) -> bool {
    text.starts_with('{') && lenient::from_str(text).is_ok_and(|value| value.is_object())
}

/// Returns the field of the status with a diff-base, if it is not the default one.
pub(crate) fn base_in_status(body: &Body) -> Option<FieldPath> {
    let status = body.status().as_object()?;
    let fields = status.iter().filter(|(name, _)| *name != "kopf");
    let mut found = fields.filter(|(_, value)| value.get(BASE).is_some_and(Value::is_string));
    let (name, _) = found.next()?;
    Some(FieldPath::from("status").join(name.as_str()).join(BASE))
}

/// Returns the fields of the status with progress records, with all their records.
pub(crate) fn records_in_status(body: &Body) -> Vec<(FieldPath, Vec<(&String, ProgressRecord)>)> {
    let mut found = Vec::new();
    if let Some(status) = body.status().as_object() {
        collect(status, &FieldPath::from("status"), &mut found);
    }
    found
}

fn collect<'a>(
    map: &'a Map<String, Value>,
    path: &FieldPath,
    found: &mut Vec<(FieldPath, Vec<(&'a String, ProgressRecord)>)>,
) {
    let records = map.iter();
    let records = records.filter_map(|(id, value)| Some((id, record_of(value)?)));
    let records: Vec<_> = records.collect();
    if !records.is_empty() {
        found.push((path.clone(), records));
    } else if path.steps().len() < DEPTH {
        for (key, value) in map {
            if let Some(inner) = value.as_object() {
                collect(inner, &path.join(key.as_str()), found);
            }
        }
    }
}

/// Reads a progress record, which has fields that other values of the status do not have together.
fn record_of(value: &Value) -> Option<ProgressRecord> {
    let fields = value.as_object()?;
    let has = |name: &str| fields.contains_key(name);
    if !has("retries") || !(has("started") || has("success") || has("purpose")) {
        return None;
    }
    ProgressRecord::from_value(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RECORD: &str = r#"{"started":"2026-01-02T03:04:05.000000","retries":1}"#;
    const ESSENCE: &str = "{\"spec\":{}}\n";

    fn found(annotations: &Value) -> Vec<(String, Option<String>, Vec<String>)> {
        let body = Body::new(json!({"metadata": {"annotations": annotations}}));
        let operators = operators(&body).into_iter().map(|operator| {
            let others = operator.others.into_iter().map(str::to_owned);
            let key = operator.key.map(str::to_owned);
            (operator.prefix.to_owned(), key, others.collect())
        });
        operators.collect()
    }

    fn one(prefix: &str) -> (String, Option<String>, Vec<String>) {
        (prefix.to_owned(), None, Vec::new())
    }

    #[test]
    fn operators_are_recognised_by_their_annotations() {
        for annotations in [
            json!({"op.example/kopf-managed": "yes"}),
            json!({"op.example/create_fn": RECORD}),
            json!({"op.example/last-handled-configuration": ESSENCE}),
            json!({"op.example/last-handled-configuration-ofDRS": ESSENCE}),
            json!({"op.example/create_fn": RECORD, "a.example/x": "y", "b": "{}\n"}),
        ] {
            assert_eq!(found(&annotations), [one("op.example")], "{annotations}");
        }
        let plain = json!({"last-handled-configuration": ESSENCE});
        assert_eq!(found(&plain), [one("")]);
    }

    #[test]
    fn other_annotations_are_not_operators() {
        for annotations in [
            json!({}),
            json!({"kubectl.kubernetes.io/last-applied-configuration": ESSENCE}),
            json!({"a.example/config": "{\"retries\": 5}", "b.example/x": "{\"a\": 1}"}),
            json!({"a.example/last-handled-configuration": "no"}),
        ] {
            assert_eq!(found(&annotations), [], "{annotations}");
        }
    }

    #[test]
    fn several_operators_are_distinguished() {
        let both = json!({
            "kopf.zalando.org/last-handled-configuration": ESSENCE,
            "a.example/last-handled-configuration": ESSENCE, "a.example/kopf-managed": "yes",
        });
        assert_eq!(found(&both), [one(DEFAULT_PREFIX), one("a.example")]);
        let split = json!({
            "kopf.zalando.org/last-handled-configuration": ESSENCE,
            "a.example/fn": RECORD, "a.example/kopf-managed": "yes",
        });
        let expected = (
            DEFAULT_PREFIX.to_owned(),
            None,
            vec!["a.example".to_owned()],
        );
        assert_eq!(found(&split), [expected]);
    }

    #[test]
    fn another_name_of_the_essence_is_found() {
        let annotations = json!({"a.example/kopf-managed": "yes", "a.example/seen": ESSENCE});
        let expected = ("a.example".to_owned(), Some("seen".to_owned()), Vec::new());
        assert_eq!(found(&annotations), [expected]);
    }

    #[test]
    fn records_are_found_in_any_field_of_the_status() {
        let record = json!({"started": "2026-01-02T03:04:05.000000", "retries": 1});
        let body = Body::new(json!({"status": {
            "my-op": {"progress": {"fn": record, "bad": 1}, "last-handled-configuration": "{}"},
            "direct": {"fn": record}, "other": {"retries": 5}, "fn": {"retries": 5},
            "a": {"b": {"c": {"d": {"e": record}}}},
        }}));
        let found = records_in_status(&body);
        let paths: Vec<_> = found.iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(paths, ["status.direct", "status.my-op.progress"]);
        let base = base_in_status(&body).unwrap();
        assert_eq!(base.to_string(), "status.my-op.last-handled-configuration");
    }
}
