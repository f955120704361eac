//! Comparison of the managers of new objects with those recorded from a real server.

use serde_json::{Value, json};

use super::{Conversions, Tracker};
use crate::builtin::builtin;
use crate::conform;
use crate::strategy::Strategy;

fn entry_of(object: &Value) -> Value {
    let entries = object.pointer("/metadata/managedFields").cloned();
    let mut entries = entries.unwrap_or_default();
    if let Some(entry) = entries.get_mut(0).and_then(Value::as_object_mut) {
        entry.remove("time");
        entry.remove("manager");
    }
    entries
}

#[test]
fn managers_of_created_objects_match_a_real_server() {
    let recorded = include_str!("../../../schema/data/defaults.json");
    let recorded: Vec<Value> = serde_json::from_str(recorded).unwrap();
    let kinds = builtin();
    let (mut seen, mut wrong) = (0, Vec::new());
    for case in &recorded {
        let text = |field: &str| case[field].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion")
            .rsplit_once('/')
            .unwrap_or(("", text("apiVersion")));
        let Some(kind) = kinds.by_plural(group, text("resource")) else {
            continue;
        };
        let expected = entry_of(&case["stored"]);
        // Empty lists are dropped on decoding: see the decoder of built-in kinds.
        let is_empty_list =
            text("kind") == "EndpointSlice" && case["sent"]["endpoints"] == json!([]);
        if expected.is_null() || is_empty_list {
            continue;
        }
        seen += 1;
        let mut object = case["sent"].clone();
        let kind_version = kind.version(version).unwrap();
        conform::conform(kind, version, &mut object).unwrap();
        (Strategy::of(kind).default_new)(&mut object);
        let conversions = Conversions::default();
        let tracker = Tracker::new(kind, kind_version, None, "now".to_owned(), &conversions);
        tracker.update(None, &mut object, "manager");
        let found = entry_of(&object);
        if found != expected {
            wrong.push(format!(
                "{} {}\n  expected {expected}\n  found    {found}",
                text("kind"),
                case["sent"]["metadata"]["name"]
            ));
        }
    }
    assert!(seen > 50, "only {seen} records");
    assert!(
        wrong.is_empty(),
        "{} of {seen}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
