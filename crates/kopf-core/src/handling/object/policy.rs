//! The handlers and settings that decide about the objects of one resource.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::attempted::{AttemptedEssences, Place};
use super::handling::{Storages, Tracking};
use super::memory::Memory;
use super::retriggering::Request;
use super::rules::StandardRules;
use crate::body::Body;
use crate::field::FieldPath;
use crate::keys::KeyNaming;
use crate::registry::ResourceHandlers;
use crate::resource::Resource;
use crate::secrets::{digest_values, is_secret};
use crate::settings::{Persistence, Settings};
use crate::storage::StorageError;

/// The handlers and settings for the objects of one resource.
pub struct Policy<F> {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Its handlers.
    pub handlers: ResourceHandlers<F>,
    settings: Arc<Settings>,
    place: Place,
}

impl<F> Policy<F> {
    /// Creates a policy.
    pub fn new(
        resource: Arc<Resource>,
        handlers: ResourceHandlers<F>,
        settings: Arc<Settings>,
    ) -> Self {
        let persistence = &settings.persistence;
        // Attempted essences are stored beside progress records in the status; otherwise in an
        // annotation next to the diff-base, or under the default prefix if that is no annotation.
        let naming = persistence.diffbase_storage.naming().cloned();
        let naming = naming.unwrap_or_default().with_v1(false);
        Self {
            place: Place::new(naming, persistence.progress_storage.as_ref()),
            resource,
            handlers,
            settings,
        }
    }

    /// Returns the settings of state on objects.
    pub fn persistence(&self) -> &Persistence {
        &self.settings.persistence
    }

    /// Returns the rules of the machines of these objects.
    pub fn rules(&self) -> StandardRules {
        StandardRules {
            echo_timeout: self.persistence().consistency_timeout,
            error_delays: self.settings.queueing.error_delays.clone(),
            touching: self.persistence().touching,
        }
    }

    /// Returns the storages of the state of handling.
    pub fn storages(&self) -> Storages<'_> {
        let persistence = self.persistence();
        Storages {
            progress: persistence.progress_storage.as_ref(),
            diffbase: persistence.diffbase_storage.as_ref(),
            attempted: if persistence.lost_updates {
                Tracking::Off(&self.place)
            } else {
                Tracking::On(&self.place)
            },
        }
    }

    /// Returns the naming of annotations that do not belong to handlers.
    pub fn naming(&self) -> &KeyNaming {
        self.place.naming()
    }

    /// Builds the essence of an object, without the state that operators store in it.
    ///
    /// # Errors
    /// Of the storages.
    pub fn essence(&self, body: &Body) -> Result<Value, StorageError> {
        self.essence_with(body, &self.handlers.extra_fields)
    }

    /// Builds the part of the essence that reconcile handlers look at: without the fields that other handlers
    /// are registered for, such as those of the status.
    ///
    /// # Errors
    /// Of the storages.
    pub(super) fn desired_state(&self, body: &Body) -> Result<Value, StorageError> {
        self.essence_with(body, &[])
    }

    fn essence_with(&self, body: &Body, extra: &[FieldPath]) -> Result<Value, StorageError> {
        let storages = self.storages();
        let mut essence = storages.diffbase.build(body, extra)?;
        storages.progress.clear(&mut essence)?;
        AttemptedEssences::strip(&self.place, body, &mut essence);
        Request::strip(self.naming(), body, &mut essence);
        if is_secret(&self.resource) {
            digest_values(&mut essence, body, &self.persistence().secret_values);
        }
        Ok(essence)
    }

    /// Returns `true` if there are attempted essences of an earlier cycle.
    pub(super) fn tracks_attempts(&self, memory: &Memory, body: &Body) -> bool {
        let place = self.storages().attempted.place();
        memory.attempted.is_some()
            || place.is_some_and(|place| AttemptedEssences::is_stored(place, body))
    }
}

impl<F> fmt::Debug for Policy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("resource", &self.resource)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}
