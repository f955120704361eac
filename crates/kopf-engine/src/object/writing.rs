//! Writes of an object: its patches, those that are too large, and the records of its deletion.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::object::handling::Attempted;
use kopf_core::object::{FinalizerChange, Input, Release, Response, Version, WritePlan};
use kopf_core::patch::Patch;

use super::active::{Active, Relay, Sending};
use super::context::{ObjectPermit, ResourceContext};
use super::sessions::{Unsaved, saved};
use crate::error::{Error, Stored};
use crate::execution::Contribution;
use crate::leading::Pass;
use crate::patching::{Applied, Pending};

impl Active {
    /// Sends the patch of the current cycle, after the carried transformations.
    pub(super) async fn write(
        &mut self,
        change: Option<FinalizerChange>,
        relay: &mut Relay,
        permit: &mut ObjectPermit,
    ) -> Input {
        let Some(Version { body, .. }) = self.object.newest.clone() else {
            return Input::NoVersion;
        };
        let results = std::mem::take(&mut relay.results);
        let policy = &self.base.context.policy;
        let (plan, untouched) = self
            .object
            .plan_write(policy, &body, change, results.settled);
        let sending = Box::new(Sending {
            unsaved: results.unsaved,
            recorded: results.recorded,
            contributed: std::mem::take(&mut self.contributed),
            ..Sending::new(plan)
        });
        if let Err(error) = untouched {
            self.report(&error.into(), None);
        }
        self.send(sending, relay, permit).await
    }

    /// Sends the patch that could not be sent.
    pub(super) async fn resend(&mut self, relay: &mut Relay, permit: &mut ObjectPermit) -> Input {
        match self.unsent.take() {
            Some(sending) => self.send(sending, relay, permit).await,
            None => Input::NoVersion,
        }
    }

    /// Triggers a watch event by a dummy patch, as the original does.
    pub(super) async fn touch(&mut self, relay: &mut Relay, permit: &mut ObjectPermit) -> Input {
        let Some(Version { body, .. }) = self.object.newest.clone() else {
            return Input::NoVersion;
        };
        let context = Arc::clone(&self.base.context);
        let now = kopf_core::timestamp::format(context.shared.context.clock.now());
        let mut patch = Patch::default();
        let storage = &context.policy.persistence().progress_storage;
        if let Err(error) = storage.touch(&body, &mut patch, Some(&now)) {
            relay.failure = Some(error.into());
            return Input::Failed;
        }
        let sending = Box::new(Sending::new(WritePlan::new(patch)));
        self.send(sending, relay, permit).await
    }

    /// Saves the unsaved changes of asynchronous storages, and sends the remaining patch.
    async fn send(
        &mut self,
        mut sending: Box<Sending>,
        relay: &mut Relay,
        permit: &mut ObjectPermit,
    ) -> Input {
        let Some(Version { body, .. }) = self.object.newest.clone() else {
            return Input::NoVersion;
        };
        let context = Arc::clone(&self.base.context);
        let saving = sending.save(&context, &body, self.pass.clone());
        let applied = match permit.during(saving).await {
            Ok(()) => {
                let applied = permit.during(self.apply(&mut sending, &body)).await;
                context.count_patch(&applied);
                applied.map_err(|error| (error.is_rejection(), error))
            }
            Err(error) => Err((false, error)),
        };
        match applied {
            Err((rejected, error)) => {
                relay.failure = Some(error);
                self.unsent = Some(sending);
                Input::WriteFailed { rejected }
            }
            Ok(Applied::NotFound) => Input::NotFound,
            Ok(Applied::Accepted { response }) => {
                if sending.plan.is_release {
                    permit.during(self.erase_elsewhere(&body)).await;
                }
                let policy = &context.policy;
                let judged = response.as_ref().map_or(Response::NONE, |response| {
                    let versions = (&body, response.part());
                    let whole = || {
                        response
                            .body_with(kopf_core::body::ManagedFields::Keep)
                            .ok()
                    };
                    let memory = &self.object.memory;
                    sending.plan.judge(policy, memory, versions, whole)
                });
                self.response = response.or(self.response.take());
                Input::Written(judged)
            }
            Ok(Applied::Conflict {
                response,
                functions,
            }) => {
                self.object.carry(functions);
                self.contribute_carried(sending.contributed);
                let judged = response.as_ref();
                let judged = judged.map(|one| WritePlan::judge_part(&body, one.part()));
                self.response = response.or(self.response.take());
                Input::Conflicted(judged)
            }
        }
    }

    /// Keeps the contributions of the carried functions, which the next patch contains.
    fn contribute_carried(&mut self, mut contributions: Vec<Contribution>) {
        let carried = &self.object.memory.carried;
        for Contribution { part, .. } in &mut contributions {
            part.merge.clear();
            part.fns
                .retain(|function| carried.iter().any(|other| other.is_same(function)));
        }
        contributions.retain(|contribution| !contribution.part.fns.is_empty());
        self.contribute(contributions);
    }

    /// Sends the requests of a patch. If it is too large for the server, the handler that has
    /// contributed most fails permanently, and the rest is sent, so that nothing that a handler
    /// returns or changes can block the object.
    async fn apply(&mut self, sending: &mut Sending, body: &Body) -> Result<Applied, Error> {
        let logger = self.logger(body).clone();
        let context = Arc::clone(&self.base.context);
        let resource = context.resource();
        loop {
            let Some(pending) = &mut sending.pending else {
                return Ok(Applied::Accepted { response: None });
            };
            let operator = &context.shared.context;
            let applied = pending.apply(operator, resource, body, &logger).await;
            let error = match applied {
                Err(error) if error.exceeded_limit().is_some() => error,
                applied => return applied,
            };
            let share = |part: &Patch| pending.share_of(part, resource);
            let largest = Contribution::take_largest(&mut sending.contributed, share);
            let Some(largest) = largest else {
                return Err(error);
            };
            let message = error.too_large(largest.part.size());
            largest.report(&message, &logger);
            sending.fail(&context, body, &largest, &message).await?;
            let now = context.now();
            self.object.fail_reconciliation(&largest.id, now);
        }
    }

    /// Records that the handlers of the deletion have finished, if the server has refused to remove
    /// the finalizer: it may do so for long, and the operator may be restarted meanwhile.
    pub(super) async fn record_refused(
        &mut self,
        failure: Option<&Error>,
        permit: &mut ObjectPermit,
    ) {
        if matches!(failure, Some(Error::Api(error)) if error.code().is_some()) {
            self.record_release(permit).await;
        }
    }

    /// Records that the handlers of the deletion have finished, if they have.
    pub(super) async fn record_release(&mut self, permit: &mut ObjectPermit) {
        let Some(mut release) = self.object.memory.release.take() else {
            return;
        };
        if !release.is_recorded()
            && let Err(error) = self.record(&mut release, permit).await
            && let Some(logger) = &self.logger
        {
            let error = error.chain();
            let logger = logger.local();
            logger.debug(format_args!(
                "The finished handlers are not recorded: {error}"
            ));
        }
        self.object.memory.release = Some(release);
    }

    async fn record(
        &mut self,
        release: &mut Release,
        permit: &mut ObjectPermit,
    ) -> Result<(), Error> {
        let Some(Version { body, .. }) = self.object.newest.clone() else {
            return Ok(());
        };
        let logger = self.logger(&body).clone();
        let context = Arc::clone(&self.base.context);
        let storage = &*context.policy.persistence().progress_storage;
        let mut patch = Patch::default();
        release.record(storage, &body, &mut patch)?;
        let resource = context.resource();
        let mut pending = Pending::new(patch, resource, self.pass.clone());
        let applying = pending.apply(&context.shared.context, resource, &body, &logger);
        let applied = permit.during(applying).await;
        context.count_patch(&applied);
        if let Applied::Accepted { response } = applied? {
            self.response = response;
            self.adopt_response();
            let newest = self.object.newest.as_ref();
            let recorded = newest.map_or(&body, |newest| &newest.body);
            release.note_recorded(storage, recorded)?;
        }
        Ok(())
    }

    /// Erases the records outside of the object after its finalizer is removed.
    async fn erase_elsewhere(&mut self, body: &Body) {
        let Some(release) = &mut self.object.memory.release else {
            return;
        };
        release.note_removed();
        let storage = &self.base.context.policy.persistence().progress_storage;
        let erased = match storage.asynchronous() {
            Some(asynchronous) => {
                let changes = release.take_erasures();
                let mut added = Patch::default();
                let erasing = asynchronous.save(&changes, body, &mut added);
                if changes.is_empty() {
                    Ok(())
                } else {
                    saved(Stored::Progress, erasing).await
                }
            }
            None => release
                .purge_elsewhere(&**storage, body)
                .map_err(Error::from),
        };
        if let Err(error) = erased {
            self.report(&error, None);
        }
    }
}

impl Sending {
    fn new(plan: WritePlan) -> Self {
        Self {
            plan,
            unsaved: Unsaved::default(),
            pending: None,
            contributed: Vec::new(),
            recorded: Vec::new(),
        }
    }

    /// Removes a contribution from the requests, and turns the outcome of its handler into a
    /// permanent failure.
    async fn fail(
        &mut self,
        context: &ResourceContext,
        body: &Body,
        dropped: &Contribution,
        message: &str,
    ) -> Result<(), Error> {
        let persistence = context.policy.persistence();
        let storage = &persistence.progress_storage;
        let mut added = Patch::default();
        let attempt = self.recorded.iter_mut().find(|one| one.id == dropped.id);
        if let Some(Attempted { id, record }) = attempt {
            record.fail(message, context.shared.context.clock.now());
            if storage.asynchronous().is_some() {
                let record = Some(record.clone());
                self.unsaved.records.insert(id.to_string(), record);
                self.unsaved.save(persistence, body, &mut added).await?;
            } else {
                storage.store(id, record, body, &mut added)?;
            }
        }
        if let Some(pending) = &mut self.pending {
            pending.replace(&dropped.part, added, context.resource());
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
        let persistence = context.policy.persistence();
        let Self { unsaved, plan, .. } = self;
        unsaved.save(persistence, body, &mut plan.patch).await?;
        self.pending.get_or_insert_with(|| {
            Pending::new(std::mem::take(&mut plan.patch), context.resource(), pass)
                .results_first(persistence.results_first)
                .removing(plan.removal.take())
        });
        Ok(())
    }
}
