//! The state of an object without a driver.

use kopf_core::object::{Covered, Moment};

use super::ObjectState;
use crate::queueing::Queued;

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
    /// Returns `true` if an entry brings nothing new.
    pub(crate) fn covers(&self, entry: &Queued, now: Moment) -> bool {
        match self {
            Self::Plain { covered, .. } => entry.is_covered(*covered, now),
            Self::Full(state) => state.covers(entry, now),
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
                noticed_by_listing: state.noticed_by_listing,
                fully_handled_once: state.fully_handled_once,
                tenure: state.tenure,
                covered: state.covered,
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
                fully_handled_once,
                tenure,
                covered,
                ..Self::new(noticed_by_listing)
            },
            QuietState::Full(state) => *state,
        }
    }
}

#[cfg(test)]
mod tests {
    use kopf_core::indexing::Attempts;

    use super::*;

    fn handled() -> ObjectState {
        ObjectState {
            fully_handled_once: true,
            tenure: 3,
            covered: Covered::new("7", Moment::default()),
            ..ObjectState::new(true)
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
        assert!(state.noticed_by_listing && state.fully_handled_once);
        assert_eq!(state.tenure, 3);
        assert_eq!(state.covered, Covered::new("7", Moment::default()));
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
        assert!(state.noticed_by_listing && !state.fully_handled_once);
        assert_eq!(state.covered, None);
    }
}
