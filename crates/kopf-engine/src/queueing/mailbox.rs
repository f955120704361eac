//! The queue of one object: written by its stream, read by its worker.
//!
//! Versions are looked at already here: an event that is superseded before it is processed still
//! tells that an own write has come back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kopf_core::cause::EventType;
use tokio::sync::Notify;

use super::load::Load;
use super::turns::Lane;
use super::versions::covers;

/// How many versions that are no numbers are remembered as seen.
const SEEN: usize = 16;

/// One entry of a queue.
#[derive(Debug)]
pub(crate) enum Queued {
    /// What the stream has told.
    Event {
        event: EventType,
        version: Option<Box<str>>,
        raw: Bytes,
    },
    /// The object is absent from a complete listing: it is gone, and nobody has told.
    Vanished,
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

    /// Whether the object is there, as far as this tells.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Event { event, .. } => *event != EventType::Deleted,
            Self::Vanished => false,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Event { raw, .. } => raw.len(),
            Self::Vanished => 0,
        }
    }

    /// Listed objects are bounded by their bytes alone: the watch begins only when the listing is
    /// read, and changes are to overtake it.
    fn events(&self) -> usize {
        match self {
            Self::Event { event, .. } => usize::from(*event != EventType::Listed),
            Self::Vanished => 0,
        }
    }
}

/// What was in a queue.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) entries: VecDeque<Queued>,
    /// Whether an own write has not come back with these yet.
    pub(crate) expecting: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    arrival: Notify,
    load: Arc<Load>,
    keep_all: bool,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Queued>,
    closed: bool,
    awaited: Option<Awaited>,
    seen: VecDeque<Box<str>>,
}

/// Which event is expected because of an own write.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// The one of this version, or of a newer one.
    Version(Box<str>),
    /// The end of the object: no version will do.
    End,
}

impl Mailbox {
    /// With `keep_all`, every event is kept until it is read; otherwise only the newest one.
    pub(crate) fn new(load: Arc<Load>, keep_all: bool) -> Self {
        Self {
            inner: Mutex::default(),
            arrival: Notify::new(),
            load,
            keep_all,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry; gives it back if the worker has ended.
    pub(crate) fn push(&self, entry: Queued) -> Result<(), Queued> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(entry);
        }
        if let Queued::Event {
            version: Some(version),
            ..
        } = &entry
        {
            inner.see(version);
        }
        if !self.keep_all {
            let events = inner.queue.iter().map(Queued::events).sum();
            let bytes = inner.queue.iter().map(Queued::bytes).sum();
            inner.queue.clear();
            self.load.remove(events, bytes);
        }
        self.load.add(entry.events(), entry.bytes());
        inner.queue.push_back(entry);
        drop(inner);
        self.arrival.notify_one();
        Ok(())
    }

    /// Takes everything.
    pub(crate) fn drain(&self) -> Drained {
        let mut inner = self.lock();
        let entries = std::mem::take(&mut inner.queue);
        let expecting = inner.awaited.is_some();
        drop(inner);
        if !entries.is_empty() {
            let events = entries.iter().map(Queued::events).sum();
            let bytes = entries.iter().map(Queued::bytes).sum();
            self.load.remove(events, bytes);
        }
        Drained { entries, expecting }
    }

    /// Throws out what need not be looked at.
    pub(crate) fn discard(&self, unneeded: impl Fn(&Queued) -> bool) {
        let (mut events, mut bytes) = (0, 0);
        self.lock().queue.retain(|entry| {
            let unneeded = unneeded(entry);
            if unneeded {
                events += entry.events();
                bytes += entry.bytes();
            }
            !unneeded
        });
        self.load.remove(events, bytes);
    }

    /// Closes the queue if nothing is in it.
    pub(crate) fn close(&self) -> bool {
        let mut inner = self.lock();
        inner.closed = inner.queue.is_empty();
        inner.closed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    /// Waits for the next entry. Cancel-safe. May return without one.
    pub(crate) async fn arrival(&self) {
        self.arrival.notified().await;
    }

    /// With changes in the queue, the object goes ahead of those that are merely listed.
    ///
    /// `listed`: whether something listed was taken out before, and is still to be handled.
    pub(crate) fn lane(&self, listed: bool) -> Lane {
        let inner = self.lock();
        let has_any = listed || !inner.queue.is_empty();
        if has_any && inner.queue.iter().all(Queued::is_listed) {
            Lane::Listing
        } else {
            Lane::Fresh
        }
    }

    /// Expects the event of an own write. Tells whether it is to be waited for: it may have come
    /// already, before the answer to the write.
    pub(crate) fn expect(&self, awaited: Awaited) -> bool {
        let mut inner = self.lock();
        if let Awaited::Version(version) = &awaited
            && inner.seen.iter().any(|seen| covers(seen, version))
        {
            inner.awaited = None;
            return false;
        }
        inner.awaited = Some(awaited);
        true
    }

    /// Gives up expecting.
    pub(crate) fn expect_nothing(&self) {
        self.lock().awaited = None;
    }
}

impl Inner {
    fn see(&mut self, version: &str) {
        if let Some(Awaited::Version(awaited)) = &self.awaited
            && covers(version, awaited)
        {
            self.awaited = None;
        }
        // A number stands for all the smaller ones.
        if version.parse::<u128>().is_ok() || self.seen.len() >= SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(version.into());
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
                Queued::Vanished => None,
            })
            .collect()
    }

    #[test]
    fn only_the_newest_is_kept_unless_all_are_wanted() {
        for (keep_all, expected) in [(false, vec!["2"]), (true, vec!["1", "2"])] {
            let mailbox = Mailbox::new(Arc::default(), keep_all);
            mailbox.push(event("1")).unwrap();
            mailbox.push(event("2")).unwrap();
            assert_eq!(versions(&mailbox.drain().entries), expected);
        }
    }

    #[test]
    fn a_superseded_event_still_opens_the_gate() {
        let mailbox = Mailbox::new(Arc::default(), false);
        assert!(mailbox.expect(Awaited::Version("b".into())));
        mailbox.push(event("a")).unwrap();
        assert!(mailbox.drain().expecting);
        mailbox.push(event("b")).unwrap();
        mailbox.push(event("c")).unwrap();
        assert!(!mailbox.drain().expecting);
    }

    #[test]
    fn an_event_may_come_before_the_answer() {
        for (seen, awaited, waits) in [("7", "7", false), ("8", "7", false), ("6", "7", true)] {
            let mailbox = Mailbox::new(Arc::default(), false);
            mailbox.push(event(seen)).unwrap();
            mailbox.drain();
            assert_eq!(mailbox.expect(Awaited::Version(awaited.into())), waits);
            assert_eq!(mailbox.drain().expecting, waits);
        }
    }

    #[test]
    fn nothing_but_the_end_ends_the_wait_for_it() {
        let mailbox = Mailbox::new(Arc::default(), false);
        assert!(mailbox.expect(Awaited::End));
        mailbox.push(event("1000")).unwrap();
        assert!(mailbox.drain().expecting);
    }

    #[test]
    fn a_closed_queue_gives_entries_back() {
        let mailbox = Mailbox::new(Arc::default(), false);
        mailbox.push(event("1")).unwrap();
        assert!(!mailbox.close(), "it is not empty");
        mailbox.drain();
        assert!(mailbox.close());
        assert!(mailbox.push(event("2")).is_err());
    }

    #[test]
    fn what_is_thrown_out_weighs_nothing() {
        let load: Arc<Load> = Arc::default();
        let mailbox = Mailbox::new(Arc::clone(&load), true);
        mailbox.push(event("1")).unwrap();
        mailbox.push(event("2")).unwrap();
        let is_first = |entry: &Queued| matches!(entry, Queued::Event { version, .. } if version.as_deref() == Some("1"));
        mailbox.discard(is_first);
        assert_eq!(versions(&mailbox.drain().entries), ["2"]);
        assert!(load.is_idle());
    }

    #[test]
    fn what_is_listed_gives_way() {
        let mailbox = Mailbox::new(Arc::default(), true);
        mailbox
            .push(Queued::Event {
                event: EventType::Listed,
                version: None,
                raw: Bytes::new(),
            })
            .unwrap();
        assert_eq!(mailbox.lane(false), Lane::Listing);
        mailbox.push(event("1")).unwrap();
        assert_eq!(mailbox.lane(true), Lane::Fresh);
        mailbox.drain();
        assert_eq!(mailbox.lane(true), Lane::Listing);
        assert_eq!(mailbox.lane(false), Lane::Fresh);
    }
}
