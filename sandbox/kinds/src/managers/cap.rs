//! The limit of entries by updates: the oldest ones are merged.

use std::collections::BTreeMap;

use super::managed::{Managed, Manager, Operation};

/// Maximum number of entries by updates of an object.
const MAX_UPDATERS: usize = 10;
/// The manager of merged entries.
const BUCKET: &str = "ancient-changes";

/// Merges the oldest entries by updates until the limit holds.
pub(super) fn cap(managed: &mut Managed) {
    let mut updaters: Vec<Manager> = managed
        .owners
        .keys()
        .filter(|manager| manager.operation == Operation::Update)
        .cloned()
        .collect();
    let mut count = updaters.len();
    if count <= MAX_UPDATERS {
        return;
    }
    updaters.sort_by_cached_key(|manager| {
        let time = managed
            .owners
            .get(manager)
            .and_then(|owned| owned.time.clone());
        (time, manager.clone())
    });
    let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
    for manager in updaters {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(version) = managed
            .owners
            .get(&manager)
            .map(|it| it.api_version.clone())
        else {
            continue;
        };
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, manager);
            continue;
        };
        let bucket = Manager::new(BUCKET, Operation::Update, &version, None);
        if !managed.owners.contains_key(&bucket)
            && let Some(owned) = managed.owners.remove(first)
        {
            managed.owners.insert(bucket.clone(), owned);
        }
        if let Some(merged) = managed.owners.remove(&manager)
            && let Some(owned) = managed.owners.get_mut(&bucket)
        {
            owned.set = merged.set.union(&owned.set);
            owned.time = merged.time;
            count -= 1;
        }
    }
}
