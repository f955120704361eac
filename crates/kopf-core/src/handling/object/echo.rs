//! Own writes: which version is awaited on the watch stream, and until when.
//!
//! After a write, change handlers run only on a version that is at least as new as the one in the
//! response (*own writes are seen first*). The event of a write can arrive before the response, so
//! recently seen versions are remembered.

use std::collections::VecDeque;
use std::time::Duration;

use super::moment::Moment;
use super::version::reaches;
use crate::cause::EventType;

/// Time for which events older than an overdue write are ignored.
const OVERDUE: Duration = Duration::from_secs(60);

/// Number of remembered versions that are not numbers. Of numeric ones, the newest is enough.
const REMEMBERED: usize = 16;

/// The event that proves that an own write has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Awaited {
    /// An event with this version or a newer one.
    Version(Box<str>),
    /// The end of the object: the write has removed the last finalizer. With the version of the
    /// response, if any.
    End(Option<Box<str>>),
}

/// The work that remains once an own write has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remaining {
    /// Nothing: the wait ends at the deadline without a cycle.
    Nothing,
    /// Another cycle is needed, even if the event never arrives.
    Cycle,
}

/// An own write that has not been seen yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pending {
    awaited: Awaited,
    deadline: Moment,
    remaining: Remaining,
}

/// The own writes of one object and the versions seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Echo {
    seen: VecDeque<Box<str>>,
    pending: Option<Pending>,
    overdue: Option<Overdue>,
}

/// An own write whose event has not arrived in time. Older events are ignored for a while.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Overdue {
    version: Box<str>,
    until: Moment,
}

impl Echo {
    /// Records a version seen on the watch stream. Ends the wait for it or for an older one.
    pub fn see(&mut self, version: &str) {
        if let Some(Pending {
            awaited: Awaited::Version(awaited),
            ..
        }) = &self.pending
            && reaches(version, awaited)
        {
            self.pending = None;
        }
        // A number stands for all the smaller ones.
        if version.parse::<u128>().is_ok() || self.seen.len() >= REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(version.into());
    }

    /// Begins to wait for an own write. Returns `false` if it was seen already.
    pub fn expect(&mut self, awaited: Awaited, deadline: Moment, remaining: Remaining) -> bool {
        let before = self.remaining();
        if let Awaited::Version(version) = &awaited
            && self.seen.iter().any(|seen| reaches(seen, version))
        {
            self.pending = None;
            return false;
        }
        let remaining = match before {
            Some(Remaining::Cycle) => Remaining::Cycle,
            _ => remaining,
        };
        self.pending = Some(Pending {
            awaited,
            deadline,
            remaining,
        });
        true
    }

    /// Notes that a cycle is needed after the awaited write. No effect if none is awaited.
    pub fn require_cycle(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.remaining = Remaining::Cycle;
        }
    }

    /// Stops waiting.
    pub fn forget(&mut self) {
        self.pending = None;
    }

    /// Returns `true` while an own write is awaited.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the moment at which the wait ends without the event.
    pub fn deadline(&self) -> Option<Moment> {
        Some(self.pending.as_ref()?.deadline)
    }

    /// Returns what remains to be done after the awaited write.
    pub fn remaining(&self) -> Option<Remaining> {
        Some(self.pending.as_ref()?.remaining)
    }

    /// Ends the wait if its deadline has passed, and returns what remains to be done.
    pub fn expire(&mut self, now: Moment) -> Option<Remaining> {
        let is_due = self.deadline().is_some_and(|deadline| deadline <= now);
        is_due.then(|| self.abandon(now))?
    }

    /// Stops waiting, but ignores older events from now on. Returns what remains to be done.
    pub fn abandon(&mut self, now: Moment) -> Option<Remaining> {
        let expired = self.pending.take()?;
        let version = match expired.awaited {
            Awaited::Version(version) => Some(version),
            Awaited::End(version) => version,
        };
        self.overdue = version.map(|version| Overdue {
            version,
            until: now.after(OVERDUE),
        });
        Some(expired.remaining)
    }

    /// Returns `true` if a version is older than a write that the machine has continued from because
    /// its event was late. Versions are compared for a minute only: a server restored from a backup
    /// counts from an earlier one.
    pub fn is_outdated(&self, version: &str, now: Moment) -> bool {
        let Some(overdue) = &self.overdue else {
            return false;
        };
        match (version.parse::<u128>(), overdue.version.parse::<u128>()) {
            (Ok(version), Ok(own)) => version < own && now < overdue.until,
            _ => false,
        }
    }

    pub(super) fn take_overdue(&mut self) -> Option<Overdue> {
        self.overdue.take()
    }

    pub(super) fn restore_overdue(&mut self, overdue: Option<Overdue>) {
        self.overdue = overdue;
    }
}

/// The versions that need no cycle: the one made by the last own write, and all before it.
///
/// The comparison is limited in time, because a server restored from a backup counts from an
/// earlier version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Covered {
    version: u64,
    until: Moment,
}

impl Covered {
    /// Returns `None` for a version that is not a number.
    pub fn new(version: &str, until: Moment) -> Option<Self> {
        let version = version.parse().ok()?;
        Some(Self { version, until })
    }

    /// Returns `true` if an event brings nothing new. A `DELETED` event always does.
    pub fn covers(&self, event: EventType, version: Option<&str>, now: Moment) -> bool {
        let version = version.and_then(|version| version.parse::<u64>().ok());
        event != EventType::Deleted
            && now < self.until
            && version.is_some_and(|version| version <= self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Moment = Moment::new(Duration::from_secs(5));

    fn awaiting(version: &str) -> Echo {
        let mut echo = Echo::default();
        let awaited = Awaited::Version(version.into());
        assert!(echo.expect(awaited, DEADLINE, Remaining::Nothing));
        echo
    }

    #[test]
    fn newer_version_ends_the_wait() {
        let mut echo = awaiting("7");
        echo.see("6");
        assert!(echo.is_pending());
        echo.see("8");
        assert!(!echo.is_pending());
    }

    #[test]
    fn event_before_the_response_is_not_awaited() {
        for (seen, awaited, pending) in [("7", "7", false), ("8", "7", false), ("6", "7", true)] {
            let mut echo = Echo::default();
            echo.see(seen);
            let awaited = Awaited::Version(awaited.into());
            assert_eq!(echo.expect(awaited, DEADLINE, Remaining::Nothing), pending);
            assert_eq!(echo.is_pending(), pending);
        }
    }

    #[test]
    fn only_the_deadline_ends_the_wait_for_the_end() {
        let mut echo = Echo::default();
        assert!(echo.expect(Awaited::End(None), DEADLINE, Remaining::Nothing));
        echo.see("1000");
        assert!(echo.is_pending());
        assert_eq!(echo.expire(Moment::default()), None);
        assert_eq!(echo.expire(DEADLINE), Some(Remaining::Nothing));
        assert!(!echo.is_pending());
    }

    #[test]
    fn required_cycle_survives_the_next_write() {
        let mut echo = awaiting("7");
        echo.require_cycle();
        echo.expect(Awaited::Version("9".into()), DEADLINE, Remaining::Nothing);
        assert_eq!(echo.remaining(), Some(Remaining::Cycle));
    }

    #[test]
    fn covered_versions_expire_and_never_include_the_deletion() {
        let covered = Covered::new("10", DEADLINE).unwrap();
        let start = Moment::default();
        let covers = |event, version| covered.covers(event, version, start);
        assert!(covers(EventType::Modified, Some("10")));
        assert!(covers(EventType::Listed, Some("9")));
        assert!(!covers(EventType::Modified, Some("11")));
        assert!(!covers(EventType::Modified, Some("abc")));
        assert!(!covers(EventType::Modified, None));
        assert!(!covers(EventType::Deleted, Some("10")));
        assert!(!covered.covers(EventType::Modified, Some("10"), DEADLINE));
        assert!(Covered::new("abc", DEADLINE).is_none());
    }
}
