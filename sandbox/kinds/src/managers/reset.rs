//! Fields that an endpoint cannot change and that are not owned through it.

use std::sync::LazyLock;

use kopf_sandbox_schema::fields::FieldSet;
use kopf_sandbox_schema::kind::{Kind, KindVersion};

use crate::strategy::{self, Strategy};

/// Fields that never have managers.
pub(super) static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
    let paths: [&[&str]; 12] = [
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ];
    set(&paths)
});

fn set(paths: &[&[&str]]) -> FieldSet {
    paths.iter().fold(FieldSet::default(), |all, path| {
        all.union(&FieldSet::of_path(path))
    })
}

/// Returns the fields that a write through this endpoint does not change.
pub(super) fn ignored(kind: &Kind, version: &KindVersion, subresource: Option<&str>) -> FieldSet {
    match subresource {
        Some("status") => {
            let mut paths: Vec<&[&str]> = vec![&["spec"]];
            match (&*kind.group, &*kind.plural) {
                ("apps", "deployments") => paths.push(&["metadata", "labels"]),
                ("", "pods") => {
                    paths.push(&["metadata", "deletionTimestamp"]);
                    paths.push(&["metadata", "ownerReferences"]);
                }
                _ if Strategy::of(kind).status_keeps_metadata => paths.push(&["metadata"]),
                _ => {}
            }
            set(&paths)
        }
        Some("finalize") => set(&[&["status"]]),
        None if strategy::status_is_separate(version) => set(&[&["status"]]),
        _ => FieldSet::default(),
    }
}
