//! Records of a deletion whose handlers have finished, before and after the finalizer is removed.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::object::Release;
use kopf_core::patch::Patch;

use super::ObjectPermit;
use super::driver::{Driver, Version};
use super::persisting::saved;
use crate::error::{Error, Stored};
use crate::patching::{Applied, Pending};

impl Driver {
    /// Records that the handlers of the deletion have finished, if the server has refused to remove
    /// the finalizer: it may do so for long, and the operator may be restarted meanwhile.
    pub(super) async fn record_refused(&mut self, permit: &mut ObjectPermit) {
        if matches!(&self.failure, Some(Error::Api(error)) if error.code().is_some()) {
            self.record_release(permit).await;
        }
    }

    /// Records that the handlers of the deletion have finished, if they have.
    pub(super) async fn record_release(&mut self, permit: &mut ObjectPermit) {
        let Some(mut release) = self.state.release.take() else {
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
        self.state.release = Some(release);
    }

    async fn record(
        &mut self,
        release: &mut Release,
        permit: &mut ObjectPermit,
    ) -> Result<(), Error> {
        let (Some(Version { body, .. }), Some(pass)) = (self.newest.clone(), self.pass.clone())
        else {
            return Ok(());
        };
        let logger = self.logger(&body).clone();
        let context = Arc::clone(&self.context);
        let operator = &context.shared.context;
        let storage = &*operator.settings.persistence.progress_storage;
        let mut patch = Patch::default();
        release.record(storage, &body, &mut patch)?;
        let mut pending = Pending::new(patch, &context.resource, pass);
        let applying = pending.apply(operator, &context.resource, &body, &logger);
        let applied = permit.during(applying).await;
        context.count_patch(&applied);
        if let Applied::Accepted { response } = applied? {
            self.response = response;
            self.adopt_response();
            let recorded = self.newest.as_ref().map_or(&body, |newest| &newest.body);
            release.note_recorded(storage, recorded)?;
        }
        Ok(())
    }

    /// Erases the records outside of the object after its finalizer is removed.
    pub(super) async fn erase_elsewhere(&mut self, body: &Body) {
        let Some(mut release) = self.state.release.take() else {
            return;
        };
        release.note_removed();
        let persistence = &self.context.shared.context.settings.persistence;
        let storage = &persistence.progress_storage;
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
        self.state.release = Some(release);
        if let Err(error) = erased {
            self.report_only(error);
        }
    }
}
