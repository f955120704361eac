//! Patches that are too large for the server.
//!
//! The handler that has contributed most of such a patch fails permanently, and the rest is sent,
//! so that nothing that a handler returns or changes can block the object.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::object::handling::Attempted;
use kopf_core::patch::Patch;
use kopf_core::sizes::{
    ANNOTATIONS_LIMIT, annotations_size, patched_annotations, size_of_annotations,
};
use kopf_core::wording;

use super::driver::Driver;
use super::planning::Cycle;
use super::writing::Sending;
use crate::error::Error;
use crate::execution::Contribution;
use crate::logger::ObjectLogger;
use crate::patching::Applied;

impl Driver {
    /// Adds the contributions of handlers to those of the current patch.
    pub(super) fn contribute(&mut self, contributions: Vec<Contribution>) {
        for contribution in contributions {
            contribution.join(&mut self.origins.contributed);
        }
    }

    /// Keeps the contributions of the carried functions, which the next patch contains.
    pub(super) fn contribute_carried(&mut self, mut contributions: Vec<Contribution>) {
        let carried = &self.state.carried;
        for Contribution { part, .. } in &mut contributions {
            part.merge.clear();
            part.fns
                .retain(|function| carried.iter().any(|other| other.is_same(function)));
        }
        contributions.retain(|contribution| !contribution.part.fns.is_empty());
        self.contribute(contributions);
    }

    /// Sends a patch. If it is too large for the server, the largest contributions are dropped, and
    /// their handlers fail.
    pub(super) async fn apply(
        &mut self,
        sending: &mut Sending,
        body: &Body,
    ) -> Result<Applied, Error> {
        let logger = self.logger(body).clone();
        let context = Arc::clone(&self.context);
        let operator = &context.shared.context;
        loop {
            let Some(pending) = &mut sending.pending else {
                return Ok(Applied::Accepted { response: None });
            };
            let applied = pending
                .apply(operator, &context.resource, body, &logger)
                .await;
            let error = match applied {
                Err(error) if error.exceeded_limit().is_some() => error,
                applied => return applied,
            };
            let share = |part: &Patch| pending.share_of(part, &context.resource);
            let Some(largest) = take_largest(&mut sending.contributed, share) else {
                return Err(error);
            };
            let message = error.too_large(largest.part.size());
            report(&largest, &message, &logger);
            sending
                .fail(&self.context, body, &largest, &message)
                .await?;
        }
    }

    /// Drops the contributions with which the annotations of the object would be too large, so that
    /// there is room for the progress.
    pub(super) fn refuse_annotations(
        &mut self,
        cycle: &mut Cycle,
        attempts: &mut [Attempted],
        logger: &ObjectLogger,
    ) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        let operator = &context.shared.context;
        loop {
            let size = annotations_size(&cycle.cause.body, &self.patch);
            if size <= ANNOTATIONS_LIMIT {
                return Ok(());
            }
            let share = |part: &Patch| patched_annotations(part).map_or(0, size_of_annotations);
            let Some(largest) = take_largest(&mut self.origins.contributed, share) else {
                return Ok(());
            };
            let message = format!(
                "with its changes, the annotations of the object would have {size} bytes, and may \
                 have {ANNOTATIONS_LIMIT}"
            );
            report(&largest, &message, logger);
            self.patch.subtract(&largest.part);
            let now = operator.clock.now();
            let is_known = cycle.progress.fail(&largest.id, &message, now);
            let attempt = attempts.iter_mut().find(|one| one.id == largest.id);
            let Some(attempt) = attempt else { continue };
            attempt.record.fail(&message, now);
            if is_known {
                continue;
            }
            // A sub-handler, whose record is in the patch already.
            let storage = &operator.settings.persistence.progress_storage;
            if storage.asynchronous().is_some() {
                let record = Some(attempt.record.clone());
                self.unsaved.records.insert(largest.id.to_string(), record);
            } else {
                storage.store(
                    &largest.id,
                    &attempt.record,
                    &cycle.cause.body,
                    &mut self.patch,
                )?;
            }
        }
    }
}

/// Takes the contribution with the largest share; `None` if all shares are zero.
fn take_largest(
    all: &mut Vec<Contribution>,
    share: impl Fn(&Patch) -> usize,
) -> Option<Contribution> {
    let shares = all.iter().map(|one| share(&one.part)).enumerate();
    let largest = shares
        .filter(|(_, share)| *share > 0)
        .max_by_key(|(_, share)| *share);
    largest.map(|(position, _)| all.swap_remove(position))
}

fn report(contribution: &Contribution, message: &str, logger: &ObjectLogger) {
    let label = wording::label(contribution.kind, &contribution.id);
    let logger = logger.about(contribution.kind);
    logger.error(format_args!("{label} failed permanently: {message}"));
}
