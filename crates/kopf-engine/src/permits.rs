//! Permits, which bound the number of objects that are planned or written concurrently.
//!
//! Changed objects precede listed ones. Cycles in progress precede both: their results are lost
//! until they are written, and take much more memory until then. A permit is never held while a
//! handler runs or an object sleeps, so slow handlers do not block other objects.

use std::collections::VecDeque;
use std::sync::Arc;

use kopf_core::sync::Mutex;
use tokio::sync::oneshot;

/// One of this many permits goes to a listed object even if changed objects wait.
const LISTED_SHARE: u32 = 16;

/// The priority of waiting objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Handlers were called, and their results must be written.
    Begun,
    /// The object has changed.
    Changed,
    /// The object existed when the stream began.
    Listed,
}

/// A pool of permits. Cheap to clone: clones share the permits.
#[derive(Debug, Clone)]
pub(crate) struct Permits(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    free: usize,
    served: u32,
    begun: VecDeque<oneshot::Sender<Permit>>,
    changed: VecDeque<oneshot::Sender<Permit>>,
    listed: VecDeque<oneshot::Sender<Permit>>,
}

/// A permit; released by dropping it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Permit(Option<Permits>);

impl Permits {
    pub(crate) fn new(permits: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            free: permits.max(1),
            served: 0,
            begun: VecDeque::new(),
            changed: VecDeque::new(),
            listed: VecDeque::new(),
        })))
    }

    /// Acquires a permit. Cancel-safe: dropping the future only loses the position in the queue.
    pub(crate) async fn acquire(&self, priority: Priority) -> Permit {
        loop {
            let waiting = {
                let mut inner = self.0.lock();
                if inner.free > 0 {
                    inner.free -= 1;
                    return Permit(Some(self.clone()));
                }
                let (sender, receiver) = oneshot::channel();
                match priority {
                    Priority::Begun => inner.begun.push_back(sender),
                    Priority::Changed => inner.changed.push_back(sender),
                    Priority::Listed => inner.listed.push_back(sender),
                }
                receiver
            };
            // A sender is dropped only after sending a permit, or together with the queues.
            if let Ok(permit) = waiting.await {
                return permit;
            }
        }
    }
}

impl Inner {
    fn next(&mut self) -> Option<oneshot::Sender<Permit>> {
        if let Some(next) = self.begun.pop_front() {
            return Some(next);
        }
        self.served = self.served.wrapping_add(1);
        if self.served.is_multiple_of(LISTED_SHARE) {
            self.listed.pop_front().or_else(|| self.changed.pop_front())
        } else {
            self.changed.pop_front().or_else(|| self.listed.pop_front())
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(permits) = self.0.take() else { return };
        loop {
            let next = {
                let mut inner = permits.0.lock();
                // Cancelled waiters are skipped.
                let next = std::iter::from_fn(|| inner.next()).find(|next| !next.is_closed());
                if next.is_none() {
                    inner.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Self(Some(permits.clone()))) {
                Ok(()) => return,
                // The waiter was cancelled after the check. The returned permit must not be
                // released twice.
                Err(mut permit) => permit.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn cycles_in_progress_go_first() {
        let permits = Permits::new(1);
        let current = permits.acquire(Priority::Changed).await;
        let mut changed = Box::pin(permits.acquire(Priority::Changed));
        let mut begun = Box::pin(permits.acquire(Priority::Begun));
        assert!(changed.as_mut().now_or_never().is_none());
        assert!(begun.as_mut().now_or_never().is_none());
        drop(current);
        assert!(changed.as_mut().now_or_never().is_none());
        let permit = begun.as_mut().now_or_never().unwrap();
        drop(permit);
        assert!(changed.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn changes_go_first_and_listed_objects_are_not_starved() {
        let permits = Permits::new(1);
        let mut current = permits.acquire(Priority::Changed).await;
        let mut listed: Vec<_> = (0..4)
            .map(|_| Box::pin(permits.acquire(Priority::Listed)))
            .collect();
        let mut changed: Vec<_> = (0..40)
            .map(|_| Box::pin(permits.acquire(Priority::Changed)))
            .collect();
        for waiting in listed.iter_mut().chain(&mut changed) {
            assert!(
                waiting.as_mut().now_or_never().is_none(),
                "there is only one permit"
            );
        }
        let mut served = String::new();
        while !(listed.is_empty() && changed.is_empty()) {
            drop(current);
            current = 'found: {
                for (line, name) in [(&mut changed, 'f'), (&mut listed, 'l')] {
                    for position in 0..line.len() {
                        if let Some(permit) = line[position].as_mut().now_or_never() {
                            drop(line.remove(position));
                            served.push(name);
                            break 'found permit;
                        }
                    }
                }
                panic!("no permit was acquired");
            };
        }
        let expected = format!("{0}l{0}l{1}ll", "f".repeat(15), "f".repeat(10));
        assert_eq!(served, expected);
    }

    #[tokio::test]
    async fn cancelled_waiters_do_not_leak_permits() {
        let permits = Permits::new(1);
        let current = permits.acquire(Priority::Changed).await;
        let mut leaving = Box::pin(permits.acquire(Priority::Changed));
        assert!(leaving.as_mut().now_or_never().is_none());
        drop(leaving);
        let mut served_but_leaving = Box::pin(permits.acquire(Priority::Changed));
        assert!(served_but_leaving.as_mut().now_or_never().is_none());
        drop(current);
        drop(served_but_leaving);
        drop(permits.acquire(Priority::Listed).await);
    }
}
