//! Pausing: a paused operator starts no cycles, daemons or timers.
//!
//! There can be several reasons at once, such as conflicts in several namespaces. Each source of
//! pauses has its own [`Flag`]; the operator is paused while any flag is set.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// The pause of one operator. Cheap to clone: clones share the flags.
#[derive(Debug, Clone)]
pub(crate) struct Pause(Arc<watch::Sender<Flags>>);

/// The names of the set flags, by their numbers.
#[derive(Debug, Default)]
struct Flags {
    on: BTreeMap<u64, Arc<str>>,
    next: u64,
}

impl Default for Pause {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Flags::default())))
    }
}

impl Pause {
    /// Creates a flag, which is initially cleared. The name is used in logs.
    pub(crate) fn flag(&self, name: impl Into<Arc<str>>) -> Flag {
        let mut id = 0;
        self.0.send_if_modified(|flags| {
            id = flags.next;
            flags.next = flags.next.wrapping_add(1);
            false
        });
        Flag {
            pause: self.clone(),
            id,
            name: name.into(),
            is_on: false,
        }
    }

    /// Returns `true` if any flag is set.
    pub(crate) fn is_paused(&self) -> bool {
        !self.0.borrow().on.is_empty()
    }

    /// Waits until any flag is set; returns immediately if one is. Cancel-safe.
    pub(crate) async fn paused(&self) {
        self.wait_for(true).await;
    }

    /// Waits until no flag is set; returns immediately if none is. Cancel-safe.
    pub(crate) async fn resumed(&self) {
        self.wait_for(false).await;
    }

    async fn wait_for(&self, paused: bool) {
        let mut flags = self.0.subscribe();
        // The sender is owned by `self`, so the channel cannot be closed.
        let _ = flags.wait_for(|flags| flags.on.is_empty() != paused).await;
    }
}

/// The names of the set flags.
impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.0.borrow();
        for (position, name) in flags.on.values().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}

/// A reason for a pause while it is set. Dropping it clears it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Flag {
    pause: Pause,
    id: u64,
    name: Arc<str>,
    is_on: bool,
}

impl Flag {
    /// Returns `true` if this flag is set.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Sets or clears the flag.
    pub(crate) fn set(&mut self, on: bool) {
        if self.is_on == on {
            return;
        }
        self.is_on = on;
        self.pause.0.send_modify(|flags| {
            if on {
                flags.on.insert(self.id, Arc::clone(&self.name));
            } else {
                flags.on.remove(&self.id);
            }
        });
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.set(false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn operator_is_paused_while_any_flag_is_set() {
        let pause = Pause::default();
        let (mut one, mut two) = (pause.flag("one"), pause.flag("two"));
        assert!(!pause.is_paused());
        one.set(true);
        one.set(true);
        two.set(true);
        assert!(pause.is_paused());
        assert_eq!(pause.to_string(), "one, two");
        one.set(false);
        assert_eq!(pause.to_string(), "two");
        assert!(pause.is_paused(), "the other flag is still set");
        assert!(!one.is_on() && two.is_on());
        drop(two);
        assert!(!pause.is_paused());
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_are_notified_of_changes() {
        let pause = Pause::default();
        let mut flag = pause.clone().flag("one");
        pause.resumed().await;
        let moment = Duration::from_secs(1);
        assert!(timeout(moment, pause.paused()).await.is_err());
        tokio::join!(pause.paused(), async { flag.set(true) });
        pause.paused().await;
        assert!(timeout(moment, pause.resumed()).await.is_err());
        tokio::join!(pause.resumed(), async { drop(flag) });
    }
}
