//! The in-memory state of an object that outlives its driver.

use kopf_core::indexing::Attempts;
use kopf_core::object::handling::Attempted;
use kopf_core::object::{Covered, Memory, Moment, Version};
use kopf_core::progress::state::State;

use crate::daemons::ObjectDaemons;
use crate::mailbox::Queued;
use crate::memos::MemoCell;
use crate::metrics::{ErrorMarks, Metrics};

/// The in-memory state of one object. See [`QuietState`] for objects without a driver.
#[derive(Debug, Default)]
pub(crate) struct ObjectState {
    /// The state of handling. Moved into the [`Active`](super::active::Active) phase.
    pub(super) memory: Memory,
    /// The number of the tenure under which this replica handles the object; zero if it does not.
    pub(super) tenure: u32,
    /// Attempts of index handlers that have failed or will be retried.
    pub(super) indexing: Option<Box<Attempts>>,
    memo: Option<MemoCell>,
    /// The newest version, if handlers of children or owners need it while the object is idle.
    pub(super) last: Option<Box<Version>>,
    /// The handlers whose last attempt has failed.
    errors: Option<Box<ErrorMarks>>,
    /// The daemons and timers of the object, running or exited.
    pub(super) background: Option<ObjectDaemons>,
}

impl ObjectState {
    pub(crate) fn new(noticed_by_listing: bool) -> Self {
        Self {
            memory: Memory::new(noticed_by_listing),
            ..Self::default()
        }
    }

    /// Returns `true` if nothing but the flags and the covered versions has to be kept.
    fn is_plain(&self) -> bool {
        let Self {
            memory,
            tenure: _,
            indexing,
            memo,
            last,
            errors,
            background,
        } = self;
        memory.is_plain()
            && indexing.is_none()
            && memo.is_none()
            && last.is_none()
            && errors.is_none()
            && background.is_none()
    }

    /// Returns the memo of the object; creates it if needed.
    pub(super) fn memo(&mut self, operator: &MemoCell) -> MemoCell {
        self.memo
            .get_or_insert_with(|| operator.of_object())
            .clone()
    }

    /// Adopts a memo created elsewhere, unless there is one.
    pub(super) fn adopt_memo(&mut self, made: impl FnOnce() -> MemoCell) {
        self.memo.get_or_insert_with(made);
    }

    /// Resets the state because another replica takes over. Entries in indices are kept up to date.
    /// If the object returns, it is resumed as after a restart.
    pub(super) fn hand_over(&mut self) {
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
    pub(super) fn at_rest(mut self) -> Self {
        self.memo.take_if(|memo| memo.is_unused());
        self
    }

    /// Records the handlers that have failed in a cycle.
    pub(super) fn note_errors(
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
    pub(super) async fn exit(&self) {
        match &self.background {
            Some(background) => background.exit().await,
            None => std::future::pending().await,
        }
    }
}

/// The state of a quiet object.
///
/// An operator can have hundreds of thousands of quiet objects, and most of them have no memo, no
/// daemons and no failures: their state fits into the map of the stream.
#[derive(Debug)]
pub(crate) enum QuietState {
    Plain {
        noticed_by_listing: bool,
        fully_handled_once: bool,
        tenure: u32,
        covered: Option<Covered>,
    },
    Full(Box<ObjectState>),
}

impl QuietState {
    /// Returns the newest version of the object, if it is kept.
    pub(crate) fn last(&self) -> Option<&Version> {
        match self {
            Self::Plain { .. } => None,
            Self::Full(state) => state.last.as_deref(),
        }
    }

    /// Returns `true` if an entry brings nothing new.
    pub(crate) fn covers(&self, entry: &Queued, now: Moment) -> bool {
        match self {
            Self::Plain { covered, .. } => entry.is_covered(*covered, now),
            Self::Full(state) => entry.is_covered(state.memory.covered, now),
        }
    }

    /// Returns the number of the tenure in which this replica handles the object; zero if it does not.
    pub(crate) fn tenure(&self) -> u32 {
        match self {
            Self::Plain { tenure, .. } => *tenure,
            Self::Full(state) => state.tenure,
        }
    }

    /// Forgets the handling, as [`ObjectState::hand_over`] does.
    pub(crate) fn hand_over(&mut self) {
        let mut state = ObjectState::from(std::mem::take(self));
        state.hand_over();
        *self = state.into();
    }
}

impl Default for QuietState {
    fn default() -> Self {
        ObjectState::default().into()
    }
}

impl From<ObjectState> for QuietState {
    fn from(state: ObjectState) -> Self {
        if state.is_plain() {
            Self::Plain {
                noticed_by_listing: state.memory.noticed_by_listing,
                fully_handled_once: state.memory.fully_handled_once,
                tenure: state.tenure,
                covered: state.memory.covered,
            }
        } else {
            Self::Full(Box::new(state))
        }
    }
}

impl From<QuietState> for ObjectState {
    fn from(state: QuietState) -> Self {
        match state {
            QuietState::Plain {
                noticed_by_listing,
                fully_handled_once,
                tenure,
                covered,
            } => Self {
                memory: Memory {
                    fully_handled_once,
                    covered,
                    ..Memory::new(noticed_by_listing)
                },
                tenure,
                ..Self::default()
            },
            QuietState::Full(state) => *state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handled() -> ObjectState {
        ObjectState {
            memory: Memory {
                fully_handled_once: true,
                covered: Covered::new("7", Moment::default()),
                ..Memory::new(true)
            },
            tenure: 3,
            ..ObjectState::default()
        }
    }

    #[test]
    fn quiet_objects_are_small() {
        assert!(size_of::<QuietState>() <= 40);
        assert!(matches!(handled().into(), QuietState::Plain { .. }));
    }

    #[test]
    fn plain_state_is_restored() {
        let state = ObjectState::from(QuietState::from(handled()));
        assert!(state.memory.noticed_by_listing && state.memory.fully_handled_once);
        assert_eq!(state.tenure, 3);
        assert_eq!(state.memory.covered, Covered::new("7", Moment::default()));
    }

    #[test]
    fn other_state_is_kept_whole() {
        let state = ObjectState {
            indexing: Some(Box::new(Attempts::default())),
            ..handled()
        };
        let state = ObjectState::from(QuietState::from(state));
        assert!(state.indexing.is_some());
    }

    #[test]
    fn handed_over_object_is_resumed_later() {
        let mut quiet = QuietState::from(handled());
        quiet.hand_over();
        assert_eq!(quiet.tenure(), 0);
        let state = ObjectState::from(quiet);
        assert!(state.memory.noticed_by_listing && !state.memory.fully_handled_once);
        assert_eq!(state.memory.covered, None);
    }
}
