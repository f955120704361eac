//! The storages of one cycle, and unsaved changes of asynchronous storages.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::diffbase::DiffBaseSession;
use kopf_core::handler::HandlerId;
use kopf_core::object::Version;
use kopf_core::object::handling::Storages;
use kopf_core::patch::Patch;
use kopf_core::progress::{ProgressChanges, ProgressSession};
use kopf_core::settings::Persistence;
use kopf_core::storage::{StorageError, StorageFuture};
use serde_json::Value;

use super::context::ResourceContext;
use crate::error::{Error, Stored};
use crate::execution::{describe_panic, warn_unreadable};
use crate::logger::ObjectLogger;

/// The storages of one cycle. The content of asynchronous storages is loaded into memory.
#[derive(Debug)]
pub(super) struct Sessions {
    diffbase: DiffBaseSession,
    /// `None` until the progress is loaded, which most cycles do not need.
    progress: Option<ProgressSession>,
}

impl Sessions {
    /// Opens the storage of the diff-base. An unreadable essence counts as absent if the object is
    /// being deleted, because it would block the deletion. For a deleted object, and without change
    /// handlers, nothing is fetched.
    pub(super) async fn open(
        context: &ResourceContext,
        version: &Version,
        logger: &ObjectLogger,
    ) -> Result<Self, Error> {
        let storage = &context.policy.persistence().diffbase_storage;
        let is_needed = !context.policy.handlers.changing.is_empty();
        if !is_needed || version.event == EventType::Deleted {
            return Ok(Self::without_essence(context));
        }
        let diffbase = match DiffBaseSession::open(storage, &version.body).await {
            Err(error) if error.is_unreadable() && version.body.is_deleting() => {
                warn_unreadable(&error, logger);
                DiffBaseSession::without_essence(storage)
            }
            opened => opened.map_err(|error| unloaded(Stored::DiffBase, error))?,
        };
        Ok(Self {
            diffbase,
            progress: None,
        })
    }

    /// Opens the storages without fetching anything.
    pub(super) fn without_essence(context: &ResourceContext) -> Self {
        let storage = &context.policy.persistence().diffbase_storage;
        Self {
            diffbase: DiffBaseSession::without_essence(storage),
            progress: None,
        }
    }

    /// Loads the progress of these handlers.
    pub(super) async fn load_progress(
        &mut self,
        context: &ResourceContext,
        ids: &[HandlerId],
        body: &Body,
    ) -> Result<(), Error> {
        let storage = &context.policy.persistence().progress_storage;
        let opened = ProgressSession::open(storage, ids, body).await;
        self.progress = Some(opened.map_err(|error| unloaded(Stored::Progress, error))?);
        Ok(())
    }

    /// Returns the storages to use in this cycle.
    pub(super) fn storages<'a>(&'a self, context: &'a ResourceContext) -> Storages<'a> {
        let storages = context.policy.storages();
        Storages {
            diffbase: self.diffbase.storage(),
            progress: match &self.progress {
                Some(session) => session.storage(),
                None => storages.progress,
            },
            attempted: storages.attempted,
        }
    }

    /// Takes the changes of asynchronous storages.
    pub(super) fn take_unsaved(&self) -> Unsaved {
        let progress = self.progress.as_ref();
        Unsaved {
            records: progress
                .map(ProgressSession::take_changes)
                .unwrap_or_default(),
            essence: self.diffbase.take_essence(),
        }
    }
}

/// Unsaved changes of asynchronous storages.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    pub(super) records: ProgressChanges,
    essence: Option<Value>,
}

impl Unsaved {
    /// Returns `true` if there is nothing to save.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.essence.is_none()
    }

    /// Adds later changes.
    pub(super) fn merge_from(&mut self, later: Self) {
        self.records.extend(later.records);
        if later.essence.is_some() {
            self.essence = later.essence;
        }
    }

    /// Saves the changes and removes the saved ones; after an error, the rest can be saved again.
    ///
    /// The records are saved first: if the process dies in between, handlers are called again for
    /// the same change. In the other order, records of the old change would apply to the next one.
    pub(super) async fn save(
        &mut self,
        persistence: &Persistence,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), Error> {
        if let Some(storage) = persistence.progress_storage.asynchronous()
            && !self.records.is_empty()
        {
            let mut added = Patch::default();
            let saving = storage.save(&self.records, body, &mut added);
            saved(Stored::Progress, saving).await?;
            patch.merge_from(added);
            self.records.clear();
        }
        if let (Some(storage), Some(essence)) =
            (persistence.diffbase_storage.asynchronous(), &self.essence)
        {
            let mut added = Patch::default();
            let storing = storage.store(body, essence, &mut added);
            saved(Stored::DiffBase, storing).await?;
            patch.merge_from(added);
            self.essence = None;
        }
        Ok(())
    }
}

pub(super) async fn saved(stored: Stored, saving: StorageFuture<'_, ()>) -> Result<(), Error> {
    match AssertUnwindSafe(saving).catch_unwind().await {
        Ok(saved) => saved.map_err(|source| Error::Save { stored, source }),
        Err(panic) => Err(Error::Panic(describe_panic(&*panic))),
    }
}

fn unloaded(stored: Stored, source: StorageError) -> Error {
    Error::Load { stored, source }
}
