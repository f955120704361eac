//! Conflicts of an apply with other managers.

use std::collections::BTreeMap;

use kopf_sandbox_schema::fields::FieldSet;
use serde_json::{Value, json};

use super::managed::Manager;

/// The fields that an apply would take from others, by manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflict {
    pub(super) fields: BTreeMap<Manager, FieldSet>,
}

impl Conflict {
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the fields of all managers.
    pub(super) fn all(&self) -> FieldSet {
        let mut all = FieldSet::default();
        for set in self.fields.values() {
            all = all.union(set);
        }
        all
    }

    /// Returns the conflicts without some fields.
    pub(super) fn without(&self, allowed: &FieldSet) -> Self {
        let fields = self
            .fields
            .iter()
            .map(|(manager, set)| (manager.clone(), set.difference(allowed)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        Self { fields }
    }

    /// Returns the message of the response.
    pub fn message(&self) -> String {
        let all: Vec<(&Manager, Vec<String>)> = self
            .fields
            .iter()
            .map(|(manager, set)| (manager, set.paths()))
            .collect();
        let count: usize = all.iter().map(|(_, paths)| paths.len()).sum();
        if count == 1
            && let Some((manager, paths)) = all.first()
        {
            return format!(
                "Apply failed with 1 conflict: conflict with {}: {}",
                manager.shown(),
                paths.concat()
            );
        }
        let mut lines = Vec::new();
        for (manager, paths) in all {
            lines.push(format!("conflicts with {}:", manager.shown()));
            lines.extend(paths.into_iter().map(|path| format!("- {path}")));
        }
        format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
    }

    /// Returns the causes of the response, one per field.
    pub fn causes(&self) -> Vec<Value> {
        let mut causes = Vec::new();
        for (manager, set) in &self.fields {
            for path in set.paths() {
                causes.push(json!({
                    "reason": "FieldManagerConflict",
                    "message": format!("conflict with {}", manager.shown()),
                    "field": path,
                }));
            }
        }
        causes
    }
}
