//! Restoring of the objects of a dump with their uids, statuses and owners.

use kopf_sandbox_api::cluster::Cluster;
use serde_json::Value;

use super::loading::{Loaded, object_name, problem};
use super::owners::{Owners, with_references};
use super::{Document, Error};
use crate::Sandbox;

/// Stores all objects. Failures do not stop it; see [`load`](super::loading::load).
pub(super) async fn restore(
    sandbox: &Sandbox,
    documents: &[Document],
) -> Result<Vec<Loaded>, Error> {
    let mut restoring = Restoring {
        cluster: sandbox.cluster(),
        owners: Owners::of(documents),
        loaded: Vec::new(),
        late: Vec::new(),
    };
    let mut problems = Vec::new();
    for document in documents {
        tokio::task::yield_now().await;
        if let Err(cause) = restoring.store(document).await {
            problems.push(problem(document, &cause));
        }
    }
    // Objects stored before their owners are stored again, with all references.
    for document in std::mem::take(&mut restoring.late) {
        if let Err(cause) = restoring.put(document).await {
            problems.push(problem(document, &cause));
        }
    }
    if let Err(why) = restoring.cluster.store.durable().await {
        return Err(Error::new("the objects cannot be stored")
            .because(why.to_string())
            .advise("free disk space or choose another folder, and start again"));
    }
    if problems.is_empty() {
        return Ok(restoring.loaded);
    }
    let (count, all) = (problems.len(), documents.len());
    let mut error = Error::new(format!("{count} of {all} objects cannot be restored"));
    for problem in problems {
        error = error.because(problem);
    }
    Err(error.advise("correct the dump and start again"))
}

struct Restoring<'a> {
    cluster: &'a Cluster,
    owners: Owners,
    loaded: Vec<Loaded>,
    /// Objects that were stored before their owners.
    late: Vec<&'a Document>,
}

impl<'a> Restoring<'a> {
    async fn store(&mut self, document: &'a Document) -> Result<(), String> {
        let dropped_owners = self.put(document).await?;
        let name = document.name.as_deref().unwrap_or_default();
        self.loaded.push(Loaded {
            object: object_name(document, name),
            namespace: document.namespace.clone(),
            place: document.place.clone(),
            dropped_owners,
        });
        Ok(())
    }

    /// Stores an object with references to existing owners. Returns the owners that are not in the
    /// dump.
    async fn put(&mut self, document: &'a Document) -> Result<Vec<String>, String> {
        let Document {
            kind, api_version, ..
        } = document;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kinds = self.cluster.kinds();
        let found = kinds
            .by_kind(group, kind)
            .filter(|found| found.version(version).is_some())
            .ok_or_else(|| format!("unknown kind {kind} in {api_version}"))?;
        if document.name.is_none() {
            return Err("metadata.name is missing".to_owned());
        }
        let translated = self.owners.translate(&document.value).unwrap_or_default();
        let mut object = with_references(&document.value, translated.references);
        if let Some(uid) = &document.uid {
            object["metadata"]["uid"] = Value::String(uid.clone());
        }
        if found.namespaced && document.namespace.is_none() {
            object["metadata"]["namespace"] = Value::from("default");
        }
        let stored = self.cluster.import(found, version, object.clone()).await;
        stored.map_err(|rejection| rejection.message().to_owned())?;
        self.owners.learn(document, &object);
        if translated.incomplete {
            self.late.push(document);
        }
        Ok(translated.dropped)
    }
}
