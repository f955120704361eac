//! Sending of the patch of one cycle.

use std::sync::Arc;

use kopf_client::patching::PatchResponse;
use kopf_core::body::Body;
use kopf_core::finalizer::{self, Removal};
use kopf_core::object::{Covered, FinalizerChange, Input, Moment, Response};
use kopf_core::patch::{Patch, PatchFn};
use kopf_core::settled;
use serde_json::Value;

use super::driver::{Driver, Version};
use super::persisting::Unsaved;
use super::retriggering::is_requested;
use super::{ObjectPermit, ResourceContext};
use crate::error::Error;
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
    pending: Option<Pending>,
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
        let logger = self.logger(&body).clone();
        let context = Arc::clone(&self.context);
        let operator = &context.shared.context;
        let saving = sending.save(&context, &body, pass);
        let pending = match permit.during(saving).await {
            Ok(pending) => pending,
            Err(error) => {
                self.failure = Some(error);
                self.sending = Some(sending);
                return Input::WriteFailed { rejected: false };
            }
        };
        let applying = pending.apply(operator, &context.resource, &body, &logger);
        let applied = permit.during(applying).await;
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
                let response = self.respond(response, sending.settled.as_deref(), &body);
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
                let response = response.map(|response| self.respond(Some(response), None, &body));
                Input::Conflicted(response)
            }
        }
    }

    /// Evaluates the response to a write, and stores it until the echo arrives.
    fn respond(
        &mut self,
        response: Option<PatchResponse>,
        settled: Option<&Value>,
        before: &Body,
    ) -> Response {
        let Some(response) = response else {
            return Response::NONE;
        };
        let after = response.part();
        let is_settled = || settled.is_some_and(|handled| self.is_settled(handled, before, after));
        let judged = Response::new(before, after, is_settled);
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
            patch,
            removal: None,
            is_release: false,
            pending: None,
            settled: None,
        }
    }

    /// Saves the changes of asynchronous storages, and returns the requests to send.
    async fn save(
        &mut self,
        context: &ResourceContext,
        body: &Body,
        pass: Pass,
    ) -> Result<&mut Pending, Error> {
        if !pass.may_write() {
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
        Ok(self.pending.get_or_insert_with(|| {
            Pending::new(std::mem::take(patch), &context.resource, pass)
                .results_first(persistence.results_first)
                .removing(removal.take())
        }))
    }
}
