//! The mailbox of one object, written by its stream and read by its driver.

mod load;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use kopf_core::cause::EventType;
use kopf_core::object::{Covered, Moment};
use kopf_core::sync::Mutex;
use tokio::sync::Notify;

pub(crate) use load::Load;

use crate::metrics::Arrival;
use crate::permits::Priority;

/// Maximum number of stored versions of replaced entries.
const MAX_SUPERSEDED: usize = 16;

/// One entry of a mailbox.
#[derive(Debug)]
pub(crate) enum Queued {
    /// An event of the watch stream, or an item of a listing.
    Event {
        event: EventType,
        version: Option<Box<str>>,
        raw: Bytes,
    },
    /// The object is absent from a complete listing.
    Vanished,
    /// Children of the object have changed. Stored as a flag, not as an entry: see
    /// [`Mailbox::push`].
    Nudge,
}

impl Queued {
    pub(crate) fn is_listed(&self) -> bool {
        matches!(
            self,
            Self::Event {
                event: EventType::Listed,
                ..
            }
        )
    }

    /// Returns `true` if the object exists according to this entry.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Event { event, .. } => *event != EventType::Deleted,
            Self::Vanished => false,
            Self::Nudge => true,
        }
    }

    /// Returns `true` if this entry brings nothing new after the covered versions.
    pub(crate) fn is_covered(&self, covered: Option<Covered>, now: Moment) -> bool {
        match (self, covered) {
            (Self::Event { event, version, .. }, Some(covered)) => {
                covered.covers(*event, version.as_deref(), now)
            }
            _ => false,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Event { raw, .. } => raw.len(),
            Self::Vanished | Self::Nudge => 0,
        }
    }

    /// Returns the number of events for the limit of queued events. Listed objects are limited only
    /// by bytes: the watch begins after the listing is read, and changes must overtake it.
    fn events(&self) -> usize {
        match self {
            Self::Event { event, .. } => usize::from(*event != EventType::Listed),
            Self::Vanished | Self::Nudge => 0,
        }
    }
}

/// The drained content of a mailbox.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    pub(crate) entries: VecDeque<Queued>,
    /// Versions of entries that were replaced by newer ones. Of numeric versions, only the newest
    /// is kept.
    pub(crate) superseded: VecDeque<Box<str>>,
}

/// A bounded queue of watch events for one object.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    arrival: Notify,
    load: Arc<Load>,
    keep_all: bool,
}

#[derive(Debug, Default)]
struct Inner {
    drained: Drained,
    nudged: bool,
    closed: bool,
    /// The arrival of the oldest entry since the mailbox was empty, if measured.
    since: Option<Arrival>,
}

impl Mailbox {
    /// Creates a mailbox. With `keep_all`, every entry is kept until it is read; otherwise only the
    /// newest one is kept.
    pub(crate) fn new(load: Arc<Load>, keep_all: bool) -> Self {
        Self {
            inner: Mutex::default(),
            arrival: Notify::new(),
            load,
            keep_all,
        }
    }

    /// Adds an entry; returns it if the mailbox is closed. A nudge only sets a flag and replaces no
    /// entry.
    pub(crate) fn push(&self, entry: Queued) -> Result<(), Queued> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(entry);
        }
        if matches!(entry, Queued::Nudge) {
            inner.nudged = true;
            drop(inner);
            self.arrival.notify_one();
            return Ok(());
        }
        if !self.keep_all {
            for replaced in std::mem::take(&mut inner.drained.entries) {
                self.load.remove(replaced.events(), replaced.bytes());
                inner.drained.supersede(replaced);
            }
        }
        self.load.add(entry.events(), entry.bytes());
        if inner.since.is_none() {
            inner.since = self.load.arrive();
        }
        inner.drained.entries.push_back(entry);
        drop(inner);
        self.arrival.notify_one();
        Ok(())
    }

    /// Takes all entries.
    pub(crate) fn drain(&self) -> Drained {
        let mut inner = self.inner.lock();
        inner.nudged = false;
        let drained = std::mem::take(&mut inner.drained);
        self.load.leave(inner.since.take());
        drop(inner);
        for entry in &drained.entries {
            self.load.remove(entry.events(), entry.bytes());
        }
        drained
    }

    /// Takes the oldest entry.
    pub(crate) fn pop(&self) -> Option<Queued> {
        let mut inner = self.inner.lock();
        let entry = inner.drained.entries.pop_front()?;
        self.note_emptiness(&mut inner);
        drop(inner);
        self.load.remove(entry.events(), entry.bytes());
        Some(entry)
    }

    /// Drops the entries that satisfy the predicate.
    pub(crate) fn discard(&self, is_unneeded: impl Fn(&Queued) -> bool) {
        let mut inner = self.inner.lock();
        inner.drained.entries.retain(|entry| {
            let is_unneeded = is_unneeded(entry);
            if is_unneeded {
                self.load.remove(entry.events(), entry.bytes());
            }
            !is_unneeded
        });
        self.note_emptiness(&mut inner);
    }

    fn note_emptiness(&self, inner: &mut Inner) {
        if inner.drained.entries.is_empty() {
            self.load.leave(inner.since.take());
        }
    }

    /// Closes the mailbox if it is empty and not nudged.
    pub(crate) fn close(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.closed = inner.drained.entries.is_empty() && !inner.nudged;
        inner.closed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock().drained.entries.is_empty()
    }

    /// Returns `true` if children of the object have changed.
    pub(crate) fn is_nudged(&self) -> bool {
        self.inner.lock().nudged
    }

    /// Clears the nudge, because the object does not exist.
    pub(crate) fn drop_nudge(&self) {
        self.inner.lock().nudged = false;
    }

    /// Returns `true` if the oldest entry is an item of a listing.
    pub(crate) fn begins_listed(&self) -> bool {
        self.inner
            .lock()
            .drained
            .entries
            .front()
            .is_some_and(Queued::is_listed)
    }

    /// Waits for the next entry. Cancel-safe. May return spuriously.
    pub(crate) async fn arrival(&self) {
        self.arrival.notified().await;
    }

    /// Returns the priority of the object: objects with changes in the mailbox precede those that
    /// are only listed. `listed`: some listed entries are taken and not handled yet.
    pub(crate) fn priority(&self, listed: bool) -> Priority {
        let inner = self.inner.lock();
        let entries = &inner.drained.entries;
        let has_any = listed || !entries.is_empty();
        if has_any && entries.iter().all(Queued::is_listed) {
            Priority::Listed
        } else {
            Priority::Changed
        }
    }
}

impl Drained {
    /// Stores the version of a replaced entry, because an echo of it may be awaited.
    fn supersede(&mut self, replaced: Queued) {
        let Queued::Event {
            version: Some(version),
            ..
        } = replaced
        else {
            return;
        };
        if version.parse::<u128>().is_ok() || self.superseded.len() >= MAX_SUPERSEDED {
            self.superseded.pop_front();
        }
        self.superseded.push_back(version);
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.drain();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(version: &str) -> Queued {
        Queued::Event {
            event: EventType::Modified,
            version: Some(version.into()),
            raw: Bytes::from_static(b"{}"),
        }
    }

    fn versions(entries: &VecDeque<Queued>) -> Vec<&str> {
        entries
            .iter()
            .filter_map(|entry| match entry {
                Queued::Event { version, .. } => version.as_deref(),
                Queued::Vanished | Queued::Nudge => None,
            })
            .collect()
    }

    #[test]
    fn only_the_newest_entry_is_kept_unless_all_are_wanted() {
        for (keep_all, expected) in [(false, vec!["2"]), (true, vec!["1", "2"])] {
            let mailbox = Mailbox::new(Arc::default(), keep_all);
            mailbox.push(event("1")).unwrap();
            mailbox.push(event("2")).unwrap();
            assert_eq!(versions(&mailbox.drain().entries), expected);
        }
    }

    #[test]
    fn versions_of_replaced_entries_are_kept() {
        let mailbox = Mailbox::new(Arc::default(), false);
        for version in ["1", "2", "b", "c"] {
            mailbox.push(event(version)).unwrap();
        }
        let drained = mailbox.drain();
        assert_eq!(drained.superseded, ["2".into(), "b".into()]);
        assert!(mailbox.drain().superseded.is_empty());
        for version in 0..100 {
            mailbox.push(event(&format!("x{version}"))).unwrap();
        }
        assert_eq!(mailbox.drain().superseded.len(), MAX_SUPERSEDED);
    }

    #[test]
    fn a_closed_mailbox_returns_entries() {
        let mailbox = Mailbox::new(Arc::default(), false);
        mailbox.push(event("1")).unwrap();
        assert!(!mailbox.close(), "the mailbox is not empty");
        mailbox.drain();
        assert!(mailbox.close());
        assert!(mailbox.push(event("2")).is_err());
    }

    #[test]
    fn nudges_replace_no_entries_and_keep_the_mailbox_open() {
        let mailbox = Mailbox::new(Arc::default(), false);
        mailbox.push(event("1")).unwrap();
        mailbox.push(Queued::Nudge).unwrap();
        assert!(mailbox.is_nudged());
        assert_eq!(versions(&mailbox.drain().entries), ["1"]);
        assert!(!mailbox.is_nudged());
        mailbox.push(Queued::Nudge).unwrap();
        assert!(mailbox.is_empty() && !mailbox.close());
        mailbox.drain();
        assert!(mailbox.close());
        assert!(mailbox.push(Queued::Nudge).is_err());
    }

    #[test]
    fn removed_entries_do_not_count_as_load() {
        let load: Arc<Load> = Arc::default();
        let mailbox = Mailbox::new(Arc::clone(&load), true);
        for version in ["1", "2", "3"] {
            mailbox.push(event(version)).unwrap();
        }
        let is_first = |entry: &Queued| matches!(entry, Queued::Event { version, .. } if version.as_deref() == Some("1"));
        mailbox.discard(is_first);
        assert!(mailbox.pop().is_some());
        assert_eq!(versions(&mailbox.drain().entries), ["3"]);
        assert!(load.is_idle());
    }

    #[test]
    fn changed_objects_go_ahead_of_listed_ones() {
        let mailbox = Mailbox::new(Arc::default(), true);
        mailbox
            .push(Queued::Event {
                event: EventType::Listed,
                version: None,
                raw: Bytes::new(),
            })
            .unwrap();
        assert_eq!(mailbox.priority(false), Priority::Listed);
        mailbox.push(event("1")).unwrap();
        assert_eq!(mailbox.priority(true), Priority::Changed);
        mailbox.drain();
        assert_eq!(mailbox.priority(true), Priority::Listed);
        assert_eq!(mailbox.priority(false), Priority::Changed);
    }
}
