//! Objects that another replica handles, which are only indexed here.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::object::handling::RunnerExits;
use kopf_core::object::{Input, Machine};
use kopf_core::patch::Patch;

use super::ObjectPermit;
use super::driver::{Driver, Version};
use super::persisting::Unsaved;
use crate::leading::Pass;
use crate::queueing::{Processing as _, Queued};

/// The result of standing by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandbyOutcome {
    /// This replica handles the object.
    Taken,
    /// There are no entries to index.
    Quiet,
    /// The object is deleted.
    Gone,
}

impl Driver {
    /// Indexes queued entries until there are none, or until this replica handles the object.
    pub(super) async fn stand_by(&mut self) -> StandbyOutcome {
        let context = Arc::clone(&self.context);
        let mut is_gone = false;
        loop {
            if let Some(pass) = context.enter(&self.identity) {
                self.take_over(pass);
                return StandbyOutcome::Taken;
            }
            if !self.mailbox.is_empty() {
                let _worker_permit = context.worker_permit().await;
                let mut permit = self.acquire_permit().await;
                while let Some(entry) = self.mailbox.pop() {
                    is_gone = !entry.is_alive();
                    Box::pin(self.index_foreign(entry, &mut permit)).await;
                }
            }
            self.blocker = None;
            if self.mailbox.close() {
                return if is_gone {
                    StandbyOutcome::Gone
                } else {
                    StandbyOutcome::Quiet
                };
            }
        }
    }

    async fn index_foreign(&mut self, entry: Queued, permit: &mut ObjectPermit) {
        let context = Arc::clone(&self.context);
        // If this replica takes over the object, resume handlers are called.
        self.state.noticed_by_listing = true;
        if !context.is_indexed_globally() {
            return;
        }
        let Queued::Event { event, raw, .. } = entry else {
            context.indices.discard(&self.key);
            self.state.indexing = None;
            return;
        };
        let managed = context.shared.context.managed_fields;
        match Body::parse_with(&raw, managed) {
            Ok((body, _)) => {
                self.taken = Some(Version { event, body });
                self.is_indexed = false;
                let version = None;
                self.feed(Input::Event { event, version }, permit).await;
                self.taken = None;
            }
            Err(error) => self.report_only(error.into()),
        }
        if event == EventType::Deleted {
            self.state.indexing = None;
        }
    }

    /// Begins to handle the object.
    pub(super) fn take_over(&mut self, pass: Pass) {
        let number = pass.number();
        if self.state.tenure != 0 && self.state.tenure != number {
            self.state.hand_over();
        }
        self.state.tenure = number;
        self.machine = if self.context.is_ready() {
            Machine::default()
        } else {
            Machine::awaiting_indices()
        };
        self.machine
            .restore_overdue(self.state.overdue.take().map(|overdue| *overdue));
        self.logger = None;
        self.pass = Some(pass);
    }

    /// Returns `true` if the object must be left to another replica now. Results are written first,
    /// unless the Lease is lost.
    pub(super) async fn is_to_be_left(&mut self) -> bool {
        let Some(pass) = self.pass.clone() else {
            return true;
        };
        if pass.is_lost() {
            return true;
        }
        let context = Arc::clone(&self.context);
        let _worker_permit = context.worker_permit().await;
        self.on_pause().await;
        let is_left = !self.machine.has_unsent() || self.machine.is_rejected();
        if is_left && self.state.release.is_some() {
            // The other replica must not call the handlers of the deletion again.
            let mut permit = self.acquire_permit().await;
            self.record_release(&mut permit).await;
        }
        is_left
    }

    /// Stops handling the object.
    pub(super) fn leave(&mut self) {
        self.pass = None;
        self.context.discard_sharded(&self.key);
        self.state.hand_over();
        self.machine = Machine::awaiting_indices();
        self.logger = None;
        self.newest = None;
        self.taken = None;
        self.patch = Patch::default();
        self.tended = None;
        self.cycle = None;
        self.runner_exits = RunnerExits::Exited;
        self.settled = None;
        self.unsaved = Unsaved::default();
        self.sending = None;
        self.response = None;
        self.failure = None;
        self.postponed = 0;
        self.ahead.clear();
    }
}
