//! The life of namespaces: what may be created in them, and how they end.

use serde_json::{Value, json};

use super::Cluster;
use super::garbage::is_namespace;
use crate::kinds::Kind;
use crate::object::meta;
use crate::request::options::Propagation;
use crate::status::{ApiError, Result};
use crate::store::Key;

/// Namespaces that can't be deleted.
const ETERNAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Cluster {
    /// The namespace as it is stored.
    pub(crate) fn namespace(&self, name: &str) -> Option<Value> {
        self.store
            .get("/namespaces", &Key::new(None, name))
            .map(|stored| stored.value())
    }

    /// Refuses to create anything in a namespace that does not exist or is ending.
    pub(crate) fn check_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<()> {
        let stored = self.store.get("/namespaces", &Key::new(None, namespace));
        let Some(stored) = stored else {
            return Err(match self.built_in("", "namespaces") {
                Some(namespaces) => ApiError::not_found(&namespaces, namespace),
                None => ApiError::no_such_path(),
            });
        };
        if meta::is_terminating(&stored.value()) {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let mut error = ApiError::forbidden(kind, name, &why);
            if let Some(details) = &mut error.details {
                details["causes"] = json!([{
                    "reason": "NamespaceTerminating",
                    "message": format!("namespace {namespace} is being terminated"),
                    "field": "metadata.namespace",
                }]);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Refuses the deletion of the namespaces that every cluster has.
    pub(crate) fn check_namespace_deletion(kind: &Kind, name: &str) -> Result<()> {
        if is_namespace(kind) && ETERNAL.contains(&name) {
            return Err(ApiError::forbidden(
                kind,
                name,
                "this namespace may not be deleted",
            ));
        }
        Ok(())
    }

    /// Empties a terminating namespace and lets it go when nothing is left.
    pub(crate) async fn end_namespace(&self, name: &str) -> Result<()> {
        let Some(namespace) = self.namespace(name) else {
            return Ok(());
        };
        let Some(namespaces) = self.built_in("", "namespaces") else {
            return Ok(());
        };
        if !meta::is_terminating(&namespace) {
            return Ok(());
        }
        let mut failure = None;
        let mut left: Vec<(String, usize)> = Vec::new();
        let mut waiting: Vec<(String, usize)> = Vec::new();
        for kind in self.kinds().iter().filter(|kind| kind.namespaced) {
            if &*kind.group == "events.k8s.io" {
                continue; // the same objects as core events
            }
            let collection = super::collection(kind);
            for stored in self.store.list(&collection, Some(name)).objects {
                let object = stored.value();
                if meta::is_terminating(&object) {
                    continue;
                }
                let deleted = self
                    .delete_as_system(
                        kind,
                        &stored.key,
                        meta::uid(&object),
                        Propagation::Background,
                        "namespace-controller",
                    )
                    .await;
                failure = failure.or(deleted.err());
            }
            let remaining = self.store.list(&collection, Some(name)).objects;
            if !remaining.is_empty() {
                left.push((kind.qualified_plural(), remaining.len()));
            }
            for stored in remaining {
                for finalizer in meta::finalizers(&stored.value()) {
                    match waiting.iter_mut().find(|(known, _)| known == finalizer) {
                        Some((_, count)) => *count += 1,
                        None => waiting.push((finalizer.to_owned(), 1)),
                    }
                }
            }
        }
        let key = Key::new(None, name);
        if left.is_empty() {
            self.modify(&namespaces, &key, |object| {
                if let Some(finalizers) = object
                    .pointer_mut("/spec/finalizers")
                    .and_then(Value::as_array_mut)
                {
                    finalizers.retain(|finalizer| finalizer != "kubernetes");
                }
            });
        } else {
            let now = self.clock.seconds();
            self.modify(&namespaces, &key, |object| {
                let status = meta::entry(object, "status");
                let conditions = conditions(status.get("conditions"), &left, &waiting, &now);
                status.insert("conditions".to_owned(), conditions);
            });
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The conditions of a namespace that can't go yet.
fn conditions(
    before: Option<&Value>,
    left: &[(String, usize)],
    waiting: &[(String, usize)],
    now: &str,
) -> Value {
    let instances = |list: &[(String, usize)], what: &str| -> String {
        list.iter()
            .map(|(name, count)| format!("{name} has {count} {what}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let content = format!(
        "Some resources are remaining: {}",
        instances(left, "resource instances")
    );
    let finalizers = format!(
        "Some content in the namespace has finalizers remaining: {}",
        waiting
            .iter()
            .map(|(name, count)| format!("{name} in {count} resource instances"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let list = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            content,
        ),
        if waiting.is_empty() {
            (
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            )
        } else {
            (
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                finalizers,
            )
        },
    ];
    list.into_iter()
        .map(|(kind, status, reason, message)| {
            let since = before
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .find(|known| known["type"] == kind && known["status"] == status)
                .and_then(|known| known["lastTransitionTime"].as_str())
                .unwrap_or(now);
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": since,
            })
        })
        .collect()
}
