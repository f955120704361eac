//! The in-memory state of an object that outlives its driver.

use kopf_core::cause::Sighting;
use kopf_core::indexing::Attempts;
use kopf_core::object::handling::Attempted;
use kopf_core::object::{AttemptedEssences, Covered, Moment, Overdue, Release};
use kopf_core::patch::PatchFn;
use kopf_core::progress::state::State;

use super::driver::Version;
use crate::daemons::ObjectDaemons;
use crate::memos::MemoCell;
use crate::metrics::{ErrorMarks, Metrics};
use crate::queueing::Queued;

/// The in-memory state of one object. See [`QuietState`](super::QuietState) for objects without a driver.
#[derive(Debug, Default)]
pub(crate) struct ObjectState {
    /// The first event of the object was an item of a listing. Never changes.
    pub(crate) noticed_by_listing: bool,
    /// The object was completely handled once in this process.
    pub(crate) fully_handled_once: bool,
    /// The number of the tenure under which this replica handles the object; zero if it does not.
    pub(crate) tenure: u32,
    /// Transformations that conflicted with a newer version of the object.
    pub(crate) carried: Vec<PatchFn>,
    /// The outcome of the deletion, if all its handlers have finished.
    pub(crate) release: Option<Box<Release>>,
    /// The versions up to the last own write, if there was no pending work after it.
    pub(crate) covered: Option<Covered>,
    /// The last own write, if its event is late.
    pub(crate) overdue: Option<Box<Overdue>>,
    /// Attempted essences that are too large for an annotation.
    pub(crate) attempted: Option<Box<AttemptedEssences>>,
    /// Attempts of index handlers that have failed or will be retried.
    pub(crate) indexing: Option<Box<Attempts>>,
    pub(super) memo: Option<MemoCell>,
    /// The newest version, if handlers of children or owners need it while the object is idle.
    pub(crate) last: Option<Box<Version>>,
    /// The handlers whose last attempt has failed.
    pub(super) errors: Option<Box<ErrorMarks>>,
    /// The daemons and timers of the object, running or exited.
    pub(crate) background: Option<ObjectDaemons>,
}

impl ObjectState {
    pub(crate) fn new(noticed_by_listing: bool) -> Self {
        Self {
            noticed_by_listing,
            ..Self::default()
        }
    }

    /// Returns `true` if an entry contains no change.
    pub(crate) fn covers(&self, entry: &Queued, now: Moment) -> bool {
        entry.is_covered(self.covered, now)
    }

    /// Returns `true` if nothing but the flags and the covered versions has to be kept.
    pub(crate) fn is_plain(&self) -> bool {
        let Self {
            noticed_by_listing: _,
            fully_handled_once: _,
            tenure: _,
            covered: _,
            carried,
            release,
            overdue,
            attempted,
            indexing,
            memo,
            last,
            errors,
            background,
        } = self;
        carried.is_empty()
            && release.is_none()
            && overdue.is_none()
            && attempted.is_none()
            && indexing.is_none()
            && memo.is_none()
            && last.is_none()
            && errors.is_none()
            && background.is_none()
    }

    /// Returns the memo of the object; creates it if needed.
    pub(crate) fn memo(&mut self, operator: &MemoCell) -> MemoCell {
        self.memo
            .get_or_insert_with(|| operator.of_object())
            .clone()
    }

    /// Adopts a memo created elsewhere, unless there is one.
    pub(crate) fn adopt_memo(&mut self, made: impl FnOnce() -> MemoCell) {
        self.memo.get_or_insert_with(made);
    }

    /// Resets the state because another replica takes over. Entries in indices are kept up to date.
    /// If the object returns, it is resumed as after a restart.
    pub(crate) fn hand_over(&mut self) {
        let (indexing, memo) = (self.indexing.take(), self.memo.take());
        if let Some(background) = self.background.take() {
            background.hand_over();
        }
        *self = Self {
            indexing,
            memo,
            ..Self::new(true)
        };
    }

    /// Drops the state that an idle object does not need.
    pub(crate) fn at_rest(mut self) -> Self {
        self.memo.take_if(|memo| memo.is_unused());
        self
    }

    /// Records the handlers that have failed in a cycle.
    pub(crate) fn note_errors(
        &mut self,
        metrics: &Metrics,
        attempts: &[Attempted],
        progress: &State,
    ) {
        if self.errors.is_none() && !ErrorMarks::are_in(attempts) {
            return;
        }
        let mut errors = self.errors.take().unwrap_or_default();
        errors.note(metrics, attempts, progress);
        self.errors = (!errors.is_empty()).then_some(errors);
    }

    /// Waits until a stopping daemon or timer exits, including exits since the last call; forever
    /// if there are none. Cancel-safe.
    pub(crate) async fn exit(&self) {
        match &self.background {
            Some(background) => background.exit().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the familiarity of this process with the object.
    pub(crate) fn sighting(&self) -> Sighting {
        if self.noticed_by_listing && !self.fully_handled_once {
            Sighting::Initial
        } else {
            Sighting::Later
        }
    }
}
