//! The API server: Leases with versions, and objects with the changes that are recorded as handled.

use std::collections::BTreeMap;
use std::time::Duration;

use kopf_core::leading::{Intent, LeaseRecord};
use kopf_core::sharding::{Listed, Role};

/// The state of the server.
#[derive(Default)]
pub(crate) struct Server {
    version: u64,
    leases: BTreeMap<String, Listed>,
    pub(crate) objects: Vec<Object>,
}

/// An object with numbered changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Object {
    pub(crate) changed: u64,
    pub(crate) handled: u64,
}

/// A write to a Lease.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) shards: u32,
    pub(crate) intent: Intent,
    pub(crate) holder: String,
    pub(crate) seconds: u64,
}

impl Server {
    /// Performs a write; `None` is a conflict.
    pub(crate) fn write(&mut self, write: &Write) -> Option<LeaseRecord> {
        let known = self.leases.get(&write.name);
        let fits = match (&write.intent, known) {
            (Intent::Create, None) => true,
            (Intent::Update { version }, Some(known)) => known.record.version == *version,
            _ => false,
        };
        if !fits {
            return None;
        }
        self.version += 1;
        let record = LeaseRecord {
            version: self.version.to_string(),
            holder: write.holder.clone(),
            duration: Duration::from_secs(write.seconds),
            acquired: None,
            renewed: Some(self.version.to_string()),
            transitions: 0,
        };
        let lease = Listed {
            name: write.name.clone(),
            role: write.role,
            shards: write.shards,
            record: record.clone(),
        };
        self.leases.insert(write.name.clone(), lease);
        Some(record)
    }

    /// Edits the duration of a Lease by hand, as users do: its holder has not renewed it.
    pub(crate) fn edit(&mut self, name: &str, seconds: u64) {
        self.version += 1;
        if let Some(lease) = self.leases.get_mut(name) {
            lease.record.version = self.version.to_string();
            lease.record.duration = Duration::from_secs(seconds);
        }
    }

    /// Deletes a Lease by hand.
    pub(crate) fn remove(&mut self, name: &str) {
        self.leases.remove(name);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.leases.keys().cloned().collect()
    }

    pub(crate) fn list(&self) -> Vec<Listed> {
        self.leases.values().cloned().collect()
    }

    pub(crate) fn lease(&self, name: &str) -> Option<LeaseRecord> {
        self.leases.get(name).map(|lease| lease.record.clone())
    }

    pub(crate) fn delete(&mut self, name: &str, version: &str) {
        if self
            .lease(name)
            .is_some_and(|record| record.version == version)
        {
            self.leases.remove(name);
        }
    }
}
