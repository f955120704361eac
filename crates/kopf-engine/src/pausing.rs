//! Whether the operator is paused: it then starts nothing new until all who paused it let it go on.
//!
//! There can be several reasons at once, such as a conflict in each of several namespaces. Everyone
//! who may pause the operator holds a [`Flag`] of their own; the operator is paused while any flag is
//! on. Streams, daemons and health look at the sum of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// The pause of one operator. Cheap to clone: clones are of the same pause.
#[derive(Debug, Clone)]
pub(crate) struct Pause(Arc<watch::Sender<Flags>>);

/// The flags that are on, with their names.
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
    /// One more reason to be paused, off at first. The name is for the logs.
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

    /// Whether any flag is on.
    pub(crate) fn is_paused(&self) -> bool {
        !self.0.borrow().on.is_empty()
    }

    /// Waits until any flag is on; not at all if one is. Cancel-safe.
    pub(crate) async fn paused(&self) {
        self.wait_for(true).await;
    }

    /// Waits until all flags are off; not at all if they are. Cancel-safe.
    pub(crate) async fn resumed(&self) {
        self.wait_for(false).await;
    }

    async fn wait_for(&self, paused: bool) {
        let mut flags = self.0.subscribe();
        // The sender is held here: it cannot be closed meanwhile.
        let _ = flags.wait_for(|flags| flags.on.is_empty() != paused).await;
    }
}

/// The names of the flags that are on.
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

/// A reason to be paused, while it is on. Dropping it turns it off.
#[derive(Debug)]
#[must_use]
pub(crate) struct Flag {
    pause: Pause,
    id: u64,
    name: Arc<str>,
    is_on: bool,
}

impl Flag {
    /// Whether this one is on.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Turns it on or off.
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
    async fn it_is_paused_while_any_flag_is_on() {
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
        assert!(pause.is_paused(), "the other one is still on");
        assert!(!one.is_on() && two.is_on());
        drop(two);
        assert!(!pause.is_paused());
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_waited_for() {
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
