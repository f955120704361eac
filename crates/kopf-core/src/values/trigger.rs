//! Triggers: the reasons why reconcile handlers are called, and their requests for another call.

use std::fmt;
use std::time::Duration;

/// A reason to call a reconcile handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// The object has appeared while the operator was running.
    Created,
    /// The object has changed: its spec, labels, or any other field outside of the status and the system
    /// metadata.
    Updated,
    /// The operator has started, or this replica has taken over the object, and the object existed before.
    Resumed,
    /// An owned object was created, changed or deleted, or is not owned any more.
    Child,
    /// The period since the end of the last call is over.
    Period,
    /// The last call has requested this one.
    Requeued,
    /// A user has requested the call: `kopf retrigger --handler`.
    Requested,
    /// The last call has failed. The reasons of that call are included as well.
    Retried,
    /// The object is being deleted.
    Deleted,
}

impl Trigger {
    /// All triggers, in their order in sets.
    pub const ALL: [Self; 9] = [
        Self::Created,
        Self::Updated,
        Self::Resumed,
        Self::Child,
        Self::Period,
        Self::Requeued,
        Self::Requested,
        Self::Retried,
        Self::Deleted,
    ];

    /// Returns the name in logs and arguments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Resumed => "resumed",
            Self::Child => "child",
            Self::Period => "period",
            Self::Requeued => "requeued",
            Self::Requested => "requested",
            Self::Retried => "retried",
            Self::Deleted => "deleted",
        }
    }

    /// Parses the name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A set of triggers: several reasons can lead to one call.
///
/// ```
/// use kopf_core::trigger::{Trigger, Triggers};
///
/// let triggers: Triggers = [Trigger::Child, Trigger::Updated].into_iter().collect();
/// assert!(triggers.contains(Trigger::Child) && !triggers.contains(Trigger::Period));
/// assert_eq!(triggers.to_string(), "updated, child");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Triggers(u16);

impl Triggers {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns `true` if the set contains the trigger.
    pub const fn contains(self, trigger: Trigger) -> bool {
        self.0 & trigger.bit() != 0
    }

    /// Returns `true` if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a trigger.
    pub const fn insert(&mut self, trigger: Trigger) {
        self.0 |= trigger.bit();
    }

    /// Returns the set with this trigger added.
    #[must_use]
    pub const fn with(mut self, trigger: Trigger) -> Self {
        self.insert(trigger);
        self
    }

    /// Iterates over the triggers, in the order of [`Trigger::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Trigger> {
        let all = Trigger::ALL.into_iter();
        all.filter(move |trigger| self.contains(*trigger))
    }
}

impl From<Trigger> for Triggers {
    fn from(trigger: Trigger) -> Self {
        Self::NONE.with(trigger)
    }
}

impl FromIterator<Trigger> for Triggers {
    fn from_iter<I: IntoIterator<Item = Trigger>>(triggers: I) -> Self {
        triggers.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, trigger) in self.iter().enumerate() {
            let separator = if position > 0 { ", " } else { "" };
            write!(f, "{separator}{trigger}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The request of a reconcile handler for another call after some time, even if nothing changes.
///
/// It is kept in memory: after a restart, the handler is called with [`Trigger::Resumed`] anyway.
///
/// ```
/// use kopf_core::trigger::Requeue;
/// use std::time::Duration;
///
/// let requeue = Requeue::after(Duration::from_secs(30));
/// assert_eq!(requeue.delay(), Some(Duration::from_secs(30)));
/// assert_eq!(Requeue::never().delay(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct Requeue(Option<Duration>);

impl Requeue {
    /// The shortest time until a requested call. Shorter requests count as this one, so that a handler cannot
    /// call itself in a busy loop.
    pub const SHORTEST: Duration = Duration::from_secs(1);

    /// Requests a call after this time, unless another trigger comes first. The call comes at the earliest
    /// after [one second](Self::SHORTEST).
    pub const fn after(delay: Duration) -> Self {
        Self(Some(delay))
    }

    /// Returns the time until the requested call, which is never too short.
    pub fn pause(self) -> Option<Duration> {
        self.0.map(|delay| delay.max(Self::SHORTEST))
    }

    /// Requests nothing: the handler is called for the next trigger.
    pub const fn never() -> Self {
        Self(None)
    }

    /// Returns the time until the requested call.
    pub const fn delay(self) -> Option<Duration> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_contain_what_was_added() {
        assert!(Triggers::NONE.is_empty());
        for trigger in Trigger::ALL {
            let set = Triggers::from(trigger);
            assert_eq!(set.iter().collect::<Vec<_>>(), [trigger]);
            assert_eq!(Trigger::parse(trigger.as_str()), Some(trigger));
        }
        let all: Triggers = Trigger::ALL.into_iter().collect();
        assert_eq!(all.iter().count(), 9);
        assert_eq!(Trigger::parse("other"), None);
    }

    #[test]
    fn sets_are_listed_in_a_fixed_order() {
        let set = Triggers::from(Trigger::Deleted).with(Trigger::Retried);
        assert_eq!(set.to_string(), "retried, deleted");
        assert_eq!(format!("{set:?}"), "{Retried, Deleted}");
        assert_eq!(Triggers::NONE.to_string(), "");
    }
}
