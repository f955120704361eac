//! Column definitions of tables.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kopf_sandbox_schema::kind::Kind;
use serde_json::{Value, json};

use super::custom;

/// By `group/version/resource`, as recorded from a real server.
static RECORDED: LazyLock<BTreeMap<String, Vec<Value>>> = LazyLock::new(|| {
    let text = kopf_sandbox_schema::recorded::TABLES;
    let mut recorded: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(text).expect("the recorded columns are part of the build");
    for column in recorded
        .values_mut()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        // Clients expect the field. The descriptions are omitted to save space.
        column.entry("description").or_insert_with(|| json!(""));
    }
    recorded
});

/// Returns the column definitions of a kind. Unrecorded kinds have a name and an age.
pub fn columns(kind: &Kind, version: &str) -> Vec<Value> {
    if kind.is_custom() {
        let declared = kind
            .version(version)
            .map(|version| version.columns.as_slice());
        return custom::columns(declared.unwrap_or_default());
    }
    recorded(kind, version).map_or_else(|| custom::columns(&[]), <[Value]>::to_vec)
}

/// Returns the recorded columns without copying them: rows need only their number.
pub(super) fn recorded(kind: &Kind, version: &str) -> Option<&'static [Value]> {
    let key = format!("{}/{}", kind.api_version(version), kind.plural);
    RECORDED.get(&key).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;

    #[test]
    fn columns_of_built_in_kinds_are_recorded() {
        let kinds = builtin();
        let pods = columns(kinds.by_plural("", "pods").unwrap(), "v1");
        let names: Vec<&str> = pods
            .iter()
            .filter_map(|column| column["name"].as_str())
            .collect();
        assert_eq!(
            names.get(..5),
            Some(&["Name", "Ready", "Status", "Restarts", "Age"][..])
        );
        assert_eq!(pods[0]["format"], "name");
        assert_eq!(pods[0]["description"], "");
        for kind in kinds.iter().filter(|kind| {
            kind.versions
                .iter()
                .any(|version| version.verbs.iter().any(|verb| verb == "list"))
        }) {
            let version = &kind.versions[0].name;
            let key = format!("{}/{}", kind.api_version(version), kind.plural);
            assert!(RECORDED.contains_key(&key), "{key}");
        }
    }
}
