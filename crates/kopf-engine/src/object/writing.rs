//! Sending of the patch of one cycle.

use std::sync::Arc;

use kopf_client::patching::PatchResponse;
use kopf_core::body::Body;
use kopf_core::finalizer::{self, Removal};
use kopf_core::object::handling::Attempted;
use kopf_core::object::{Covered, FinalizerChange, Input, Moment, Response};
use kopf_core::patch::{Patch, PatchFn};
use kopf_core::settled;
use serde_json::Value;

use super::driver::{Driver, Version};
use super::persisting::Unsaved;
use super::retriggering::is_requested;
use super::stamping::Intent;
use super::{ObjectPermit, ResourceContext};
use crate::error::Error;
use crate::execution::Contribution;
use crate::leading::Pass;
use crate::patching::{Applied, Pending};

/// A patch that is being sent or failed to be sent.
#[derive(Debug)]
pub(super) struct Sending {
    /// The changes that asynchronous storages save before the patch is sent.
    unsaved: Unsaved,
    /// The patch before these changes are saved. Saving may add to it.
    patch: Patch,
    /// The removal of the finalizer.
    removal: Option<Removal>,
    /// The removal ends a deletion.
    is_release: bool,
    /// The requests of the patch.
    pub(super) pending: Option<Pending>,
    /// The parts of the patch that belong to single handlers.
    pub(super) contributed: Vec<Contribution>,
    /// The attempts whose records are a part of the patch.
    recorded: Vec<Attempted>,
    /// The tracked fields that the patch changes, as far as known.
    intent: Option<Intent>,
    /// The essence that is stored as handled, if there is no pending work after the write.
    settled: Option<Arc<Value>>,
}

impl Driver {
    /// Sends the patch of the current cycle, after the carried transformations.
    pub(super) async fn write(
        &mut self,
        change: Option<FinalizerChange>,
        permit: &mut ObjectPermit,
    ) -> Input {
        let Some(Version { body, .. }) = self.newest.clone() else {
            return Input::NoVersion;
        };
        let persistence = &self.context.shared.context.settings.persistence;
        let mut patch = std::mem::take(&mut self.patch);
        patch.fns.splice(..0, self.state.carried.iter().cloned());
        let finalizer = &persistence.finalizer;
        if change == Some(FinalizerChange::Add) {
            patch.add_fn(finalizer::add_fn(finalizer));
        }
        let removal = match (change, &self.state.release) {
            (Some(FinalizerChange::Release), Some(release)) => Some(release.removal(finalizer)),
            (Some(FinalizerChange::Release | FinalizerChange::Drop), _) => {
                Some(Removal::new(finalizer))
            }
            _ => None,
        };
        let untouched = persistence.progress_storage.touch(&body, &mut patch, None);
        self.sending = Some(Box::new(Sending {
            unsaved: std::mem::take(&mut self.unsaved),
            contributed: std::mem::take(&mut self.origins.contributed),
            recorded: std::mem::take(&mut self.origins.recorded),
            settled: self.settled.take(),
            removal,
            is_release: change == Some(FinalizerChange::Release),
            ..Sending::new(patch)
        }));
        if let Err(error) = untouched {
            self.report_only(error.into());
        }
        self.send(permit).await
    }

    /// Saves the unsaved changes of asynchronous storages, and sends the remaining patch.
    pub(super) async fn send(&mut self, permit: &mut ObjectPermit) -> Input {
        let (Some(Version { body, .. }), Some(mut sending), Some(pass)) =
            (self.newest.clone(), self.sending.take(), self.pass.clone())
        else {
            return Input::NoVersion;
        };
        let context = Arc::clone(&self.context);
        let saving = sending.save(&context, &body, pass);
        if let Err(error) = permit.during(saving).await {
            self.failure = Some(error);
            self.sending = Some(sending);
            return Input::WriteFailed { rejected: false };
        }
        let applied = permit.during(self.apply(&mut sending, &body)).await;
        context.count_patch(&applied);
        match applied {
            Err(error) => {
                let rejected = error.is_rejection();
                self.failure = Some(error);
                self.sending = Some(sending);
                Input::WriteFailed { rejected }
            }
            Ok(Applied::NotFound) => {
                self.newest = None;
                Input::NotFound
            }
            Ok(Applied::Accepted { response }) => {
                if sending.is_release {
                    permit.during(self.erase_elsewhere(&body)).await;
                }
                let settled = sending.settled.as_deref();
                let response = self.respond(response, settled, sending.intent.as_ref(), &body);
                Input::Written(response)
            }
            Ok(Applied::Conflict {
                response,
                functions,
            }) => {
                self.state.carried = functions;
                self.state
                    .carried
                    .retain(PatchFn::is_repeated_after_conflict);
                self.contribute_carried(sending.contributed);
                let response =
                    response.map(|response| self.respond(Some(response), None, None, &body));
                Input::Conflicted(response)
            }
        }
    }

    /// Evaluates the response to a write, and stores it until the echo arrives.
    fn respond(
        &mut self,
        response: Option<PatchResponse>,
        settled: Option<&Value>,
        intent: Option<&Intent>,
        before: &Body,
    ) -> Response {
        let Some(response) = response else {
            return Response::NONE;
        };
        let after = response.part();
        let is_settled = || settled.is_some_and(|handled| self.is_settled(handled, before, after));
        let judged = Response::new(before, after, is_settled);
        self.detect_stamp(&response, intent, before);
        self.response = Some(response);
        judged
    }

    /// Returns `true` if there is no pending work after the write, so that its event can be
    /// skipped.
    fn is_settled(&self, handled: &Value, before: &Body, after: &Body) -> bool {
        let storages = self.context.storages();
        let version = after.resource_version().unwrap_or_default();
        self.state.fully_handled_once
            && self.context.handlers.look_at_essences_only()
            && Covered::new(version, Moment::default()).is_some()
            && !is_requested(&self.context, before, after)
            && settled::is_settled(handled, before, after, storages.diffbase, storages.progress)
    }

    /// Triggers a watch event by a dummy patch, as the original does.
    pub(super) async fn touch(&mut self, permit: &mut ObjectPermit) -> Input {
        let Some(Version { body, .. }) = self.newest.clone() else {
            return Input::NoVersion;
        };
        let context = Arc::clone(&self.context);
        let operator = &context.shared.context;
        let now = kopf_core::timestamp::format(operator.clock.now());
        let mut patch = Patch::default();
        let storage = &operator.settings.persistence.progress_storage;
        if let Err(error) = storage.touch(&body, &mut patch, Some(&now)) {
            self.failure = Some(error.into());
            return Input::Failed;
        }
        self.sending = Some(Box::new(Sending::new(patch)));
        self.send(permit).await
    }
}

impl Sending {
    fn new(patch: Patch) -> Self {
        Self {
            unsaved: Unsaved::default(),
            intent: Intent::of(&patch),
            patch,
            removal: None,
            is_release: false,
            pending: None,
            contributed: Vec::new(),
            recorded: Vec::new(),
            settled: None,
        }
    }

    /// Removes a contribution from the requests, and turns the outcome of its handler into a
    /// permanent failure.
    pub(super) async fn fail(
        &mut self,
        context: &ResourceContext,
        body: &Body,
        dropped: &Contribution,
        message: &str,
    ) -> Result<(), Error> {
        let operator = &context.shared.context;
        let persistence = &operator.settings.persistence;
        let storage = &persistence.progress_storage;
        let mut added = Patch::default();
        let attempt = self.recorded.iter_mut().find(|one| one.id == dropped.id);
        if let Some(Attempted { id, record }) = attempt {
            record.fail(message, operator.clock.now());
            if storage.asynchronous().is_some() {
                let record = Some(record.clone());
                self.unsaved.records.insert(id.to_string(), record);
                self.unsaved.save(persistence, body, &mut added).await?;
            } else {
                storage.store(id, record, body, &mut added)?;
            }
        }
        if let Some(pending) = &mut self.pending {
            pending.replace(&dropped.part, added, &context.resource);
        }
        Ok(())
    }

    /// Saves the changes of asynchronous storages, and prepares the requests to send.
    async fn save(
        &mut self,
        context: &ResourceContext,
        body: &Body,
        pass: Pass,
    ) -> Result<(), Error> {
        if !pass.write().await {
            return Err(Error::NotHeld);
        }
        let persistence = &context.shared.context.settings.persistence;
        let Self {
            unsaved,
            patch,
            removal,
            ..
        } = self;
        unsaved.save(persistence, body, patch).await?;
        self.pending.get_or_insert_with(|| {
            Pending::new(std::mem::take(patch), &context.resource, pass)
                .results_first(persistence.results_first)
                .removing(removal.take())
        });
        Ok(())
    }
}
