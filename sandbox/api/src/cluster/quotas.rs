//! Enforces the resource quotas of namespaces and keeps their `status.used` current.
//!
//! A write is checked, stored and counted under one lock, so concurrent requests cannot exceed a
//! quota. Writes to namespaces without quotas share a read lock and run in parallel.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, RwLockWriteGuard};

use kopf_sandbox_kinds::plugins::Rejected;
use kopf_sandbox_kinds::plugins::quotas::{self, Counted, Quota};
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_store::sync::RwLock;
use serde_json::Value;

use super::{Cluster, collection};
use crate::store::{Expect, Key, Stored, Unexpected};

const COLLECTION: &str = "/resourcequotas";

/// Names of the namespaces that have quotas.
#[derive(Debug, Default)]
pub(super) struct Limited(RwLock<HashSet<String>>);

/// An error of a write that is checked against quotas.
#[derive(Debug)]
pub enum Refused {
    /// The stored object is not the expected one.
    Unexpected(Unexpected),
    /// The object exceeds a quota, or omits a resource that a quota requires.
    OverQuota(Rejected),
}

impl From<Unexpected> for Refused {
    fn from(unexpected: Unexpected) -> Self {
        Self::Unexpected(unexpected)
    }
}

/// A pending write or removal of one object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) kind: &'a Kind,
    pub(super) key: &'a Key,
    pub(super) outcome: Outcome,
}

/// The state of an object after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Present,
    Removed,
}

impl Write<'_> {
    fn is_of_quota(self) -> bool {
        self.kind.group.is_empty() && &*self.kind.plural == "resourcequotas"
    }
}

impl Cluster {
    /// Performs a write and counts it towards the quotas of its namespace. An error of `check`
    /// rejects the write; `check` is called only if the namespace has quotas.
    pub(super) fn write_counted<E: From<Unexpected>>(
        &self,
        write: Write<'_>,
        object: Value,
        check: impl FnOnce(&Value) -> Result<(), E>,
        store: impl FnOnce(Value) -> Result<Arc<Stored>, Unexpected>,
    ) -> Result<Arc<Stored>, E> {
        let Some(namespace) = write.key.namespace() else {
            return Ok(store(object)?);
        };
        {
            let limited = self.limited.0.read();
            if !write.is_of_quota() && !limited.contains(namespace) {
                return Ok(store(object)?);
            }
        }
        let limited = self.limited.0.write();
        check(&object)?;
        let before = self.present(write);
        let after = (write.outcome == Outcome::Present).then(|| object.clone());
        let stored = store(object)?;
        if write.is_of_quota() {
            self.recount(limited, namespace);
        } else {
            self.count(write, before.as_ref(), after.as_ref(), namespace);
        }
        Ok(stored)
    }

    /// Checks a write against the quotas of its namespace. A create request for an existing object
    /// is checked like any other: a real server checks quotas before it reads the store.
    pub(crate) fn check_quotas(
        &self,
        kind: &Kind,
        key: &Key,
        expect: Expect,
        object: &Value,
    ) -> Result<(), Rejected> {
        let Some(namespace) = key.namespace() else {
            return Ok(());
        };
        let quotas = self.quotas(namespace);
        if quotas.is_empty() {
            return Ok(());
        }
        let quotas: Vec<Quota> = quotas
            .iter()
            .map(|stored| Quota::read(&stored.value()))
            .collect();
        let collection = collection(kind);
        let state = |object| Counted {
            collection: &collection,
            object,
        };
        let before = match expect {
            Expect::Absent => None,
            Expect::Revision(_) => self.store.get(&collection, key),
        };
        let before = before.map(|stored| stored.value());
        quotas::check(&quotas, before.as_ref().map(state), state(object))
    }

    /// Adds a completed write to the usage of the quotas.
    fn count(
        &self,
        write: Write<'_>,
        before: Option<&Value>,
        after: Option<&Value>,
        namespace: &str,
    ) {
        let collection = collection(write.kind);
        let state = |object| Counted {
            collection: &collection,
            object,
        };
        for stored in self.quotas(namespace) {
            self.store_usage(&stored, |quota| {
                quota.count(before.map(state), after.map(state));
            });
        }
    }

    /// Counts all objects of a namespace after a change of its quotas.
    fn recount(&self, mut limited: RwLockWriteGuard<'_, HashSet<String>>, namespace: &str) {
        let quotas = self.quotas(namespace);
        if quotas.is_empty() {
            limited.remove(namespace);
            return;
        }
        limited.insert(namespace.to_owned());
        for stored in quotas {
            self.store_usage(&stored, |quota| {
                quota.reset();
                for collection in quota.collections() {
                    for stored in self.store.list(&collection, Some(namespace)).objects {
                        let object = stored.value();
                        let state = Counted {
                            collection: &collection,
                            object: &object,
                        };
                        quota.count(None, Some(state));
                    }
                }
            });
        }
    }

    /// Counts the objects of all namespaces that have quotas.
    pub(super) fn recount_all(&self) {
        let quotas = self.store.list(COLLECTION, None).objects;
        let namespaces: BTreeSet<&str> = quotas
            .iter()
            .filter_map(|stored| stored.key.namespace())
            .collect();
        for namespace in namespaces {
            self.recount(self.limited.0.write(), namespace);
        }
    }

    /// Writes the status of a quota if its usage changes.
    fn store_usage(&self, stored: &Arc<Stored>, change: impl FnOnce(&mut Quota)) {
        let mut object = stored.value();
        let mut quota = Quota::read(&object);
        change(&mut quota);
        let status = quota.status();
        if object.get("status") == Some(&status) {
            return;
        }
        if let Some(map) = object.as_object_mut() {
            map.insert("status".to_owned(), status);
        }
        // The caller holds the lock under which quotas are written, so the revision is current.
        let expect = Expect::Revision(stored.revision);
        let collection = Arc::from(COLLECTION);
        let written = self
            .store
            .put(&collection, &stored.key, expect, &stored.kind, object, &[]);
        if let Err(error) = written {
            tracing::warn!(?error, quota = ?stored.key, "cannot store the usage of a quota");
        }
    }

    fn quotas(&self, namespace: &str) -> Vec<Arc<Stored>> {
        self.store.list(COLLECTION, Some(namespace)).objects
    }

    fn present(&self, write: Write<'_>) -> Option<Value> {
        let stored = self.store.get(&collection(write.kind), write.key)?;
        Some(stored.value())
    }
}
