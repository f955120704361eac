//! Lifecycle of namespaces: the check of creations, and deletion.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kopf_sandbox_kinds::strategy::Propagation;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Cluster;
use super::garbage::{FOREGROUND, ORPHAN, is_namespace, namespace_is_held};
use crate::status::{ApiError, Result};
use crate::store::{Key, Stored};

/// Maximum number of deletions that wait for webhooks concurrently.
const DELETIONS_AT_ONCE: usize = 8;

/// Namespaces that cannot be deleted.
const ETERNAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Cluster {
    /// Returns the stored namespace.
    pub fn namespace(&self, name: &str) -> Option<Value> {
        self.store
            .get("/namespaces", &Key::new(None, name))
            .map(|stored| stored.value())
    }

    /// Rejects creations in a namespace that does not exist or is terminating.
    pub(crate) fn check_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<()> {
        let stored = self.store.get("/namespaces", &Key::new(None, namespace));
        let Some(stored) = stored else {
            return Err(match self.built_in("", "namespaces") {
                Some(namespaces) => ApiError::not_found(&namespaces, namespace),
                None => ApiError::no_such_path(),
            });
        };
        if stored.terminating {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            return Err(ApiError::forbidden(kind, name, &why).with_causes(json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"),
                "field": "metadata.namespace",
            }])));
        }
        Ok(())
    }

    /// Rejects the deletion of the initial namespaces.
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

    /// Deletes the content of a terminating namespace, then the namespace itself.
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
            let objects = self.store.list(&collection, Some(name)).objects;
            if let Err(error) = self.delete_content(kind, objects).await {
                failure = failure.or(Some(error));
            }
            let remaining = self.store.list(&collection, Some(name)).objects;
            if !remaining.is_empty() {
                left.push((kind.qualified_plural(), remaining.len()));
            }
            for stored in remaining {
                for finalizer in Head::of(&stored).metadata.finalizers.unwrap_or_default() {
                    match waiting.iter_mut().find(|(known, _)| *known == finalizer) {
                        Some((_, count)) => *count += 1,
                        None => waiting.push((finalizer, 1)),
                    }
                }
            }
        }
        let key = Key::new(None, name);
        let now = self.clock.seconds();
        self.modify(&namespaces, &key, |object| {
            let finalizers = object.pointer_mut("/spec/finalizers");
            if let Some(finalizers) = finalizers.and_then(Value::as_array_mut)
                && left.is_empty()
            {
                finalizers.retain(|finalizer| finalizer != "kubernetes");
            }
            if namespace_is_held(object) {
                let status = meta::entry(object, "status");
                let conditions = conditions(status.get("conditions"), &left, &waiting, &now);
                status.insert("conditions".to_owned(), conditions);
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Deletes objects of a terminating namespace. Returns one of the errors, if any.
    async fn delete_content(&self, kind: &Arc<Kind>, objects: Vec<Arc<Stored>>) -> Result<()> {
        let mut objects = objects.into_iter();
        let mut deletions = FuturesUnordered::new();
        let mut outcome = Ok(());
        loop {
            while deletions.len() < DELETIONS_AT_ONCE
                && let Some(stored) = objects.next()
            {
                let metadata = Head::of(&stored).metadata;
                if stored.terminating && !metadata.waits_for_dependents() {
                    continue;
                }
                deletions.push(async move {
                    let policy = Propagation::Background;
                    let uid = &metadata.uid;
                    self.delete_as_system(kind, &stored.key, uid, policy, "namespace-controller")
                        .await
                });
            }
            match deletions.next().await {
                Some(deleted) => outcome = outcome.and(deleted),
                None => return outcome,
            }
        }
    }
}

/// The fields of an object that matter in a terminating namespace. A partial parse, because it runs
/// often.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    uid: String,
    finalizers: Option<Vec<String>>,
}

impl Head {
    fn of(stored: &Stored) -> Self {
        // The store contains only valid objects. Without the uid, the deletion would not match the
        // object.
        serde_json::from_slice(&stored.raw).unwrap_or_default()
    }
}

impl Metadata {
    /// Returns `true` if the object waits for its dependents when nothing else holds it.
    fn waits_for_dependents(&self) -> bool {
        let mut finalizers = self.finalizers.iter().flatten();
        finalizers.any(|finalizer| finalizer == FOREGROUND || finalizer == ORPHAN)
    }
}

/// The conditions of every terminating namespace: type, status, reason and message.
const CONTENT_CONDITIONS: [(&str, &str, &str, &str); 3] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
];

/// Returns the conditions of a namespace that cannot be removed yet.
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
    let (remaining, content) = match left {
        [] => (None, "All content successfully removed"),
        _ => (Some("SomeResourcesRemain"), content.as_str()),
    };
    let (unfinished, finalizers) = match waiting {
        [] => (None, "All content-preserving finalizers finished"),
        _ => (Some("SomeFinalizersRemain"), finalizers.as_str()),
    };
    let status = |reason: Option<&str>| if reason.is_some() { "True" } else { "False" };
    let rest = [
        (
            "NamespaceContentRemaining",
            status(remaining),
            remaining.unwrap_or("ContentRemoved"),
            content,
        ),
        (
            "NamespaceFinalizersRemaining",
            status(unfinished),
            unfinished.unwrap_or("ContentHasNoFinalizers"),
            finalizers,
        ),
    ];
    let all = CONTENT_CONDITIONS.into_iter().chain(rest);
    all.map(|(kind, status, reason, message)| {
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
