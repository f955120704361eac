//! Removal of fields that a manager applied before and no longer lists.

use std::collections::BTreeMap;

use kopf_sandbox_schema::fields::{FieldSet, Typed, collect, named, remove};
use serde_json::Value;

use super::managed::{Managed, Owned};
use super::tracker::Tracker;

impl Tracker<'_> {
    /// Returns the merged object without the fields of `last` that no manager owns any more.
    pub(super) fn pruned(&self, merged: Value, managed: &Managed, last: Option<&Owned>) -> Value {
        let Some(last) = last.filter(|last| !last.set.is_empty()) else {
            return merged;
        };
        let Some(converted) = self.converted(&merged, &last.api_version) else {
            return merged;
        };
        let Some(typed) = self.typed(&converted, &last.api_version) else {
            return merged;
        };
        let last_set = named(typed.schema, typed.of, &last.set);
        let pruned = remove(typed, &last_set);
        let pruned = self.with_owned(&converted, pruned, &last.api_version, managed);
        // Fields that the manager never owned stay.
        let pruned_set = match self.converted(&pruned, &last.api_version) {
            Some(pruned) => self.fields_of(&pruned, &last.api_version),
            None => return merged,
        };
        let merged_set = named(typed.schema, typed.of, &collect(typed));
        let dropped = merged_set.difference(&pruned_set).intersection(&last_set);
        let result = remove(typed, &dropped);
        self.converted(&result, &self.api_version())
            .unwrap_or(merged)
    }

    /// Restores owned fields, version by version, that of `pruned` first.
    fn with_owned(&self, merged: &Value, pruned: Value, version: &str, managed: &Managed) -> Value {
        let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owned in managed.owners.values() {
            let set = by_version.entry(&owned.api_version).or_default();
            *set = std::mem::take(set).union(&owned.set);
        }
        let mut order: Vec<&str> = by_version.keys().copied().collect();
        order.sort_by_key(|other| *other != version);
        let (mut merged, mut pruned) = (merged.clone(), pruned);
        for version in order {
            let (Some(all), Some(left)) = (
                self.converted(&merged, version),
                self.converted(&pruned, version),
            ) else {
                continue;
            };
            let (Some(typed), Some(owned)) = (self.typed(&all, version), by_version.get(version))
            else {
                continue;
            };
            let kept = self
                .fields_of(&left, version)
                .union(&named(typed.schema, typed.of, owned));
            pruned = remove(typed, &self.fields_of(&all, version).difference(&kept));
            merged.clone_from(&all);
        }
        pruned
    }

    /// Returns the fields of an object, with the declared ones on their paths.
    fn fields_of(&self, object: &Value, version: &str) -> FieldSet {
        self.typed(object, version)
            .map_or_else(FieldSet::default, |typed: Typed<'_>| {
                named(typed.schema, typed.of, &collect(typed))
            })
    }
}
