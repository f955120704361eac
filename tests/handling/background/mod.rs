//! Daemons and timers. Sections refer to the description of background handlers in the
//! original.

mod daemons;
mod deletion;
mod exiting;
mod filters;
mod patching;
mod pausing;
mod spawning;
mod timers;
mod vanishing;

use std::sync::Arc;
use std::time::Duration;

use kopf_core::sync::Mutex;
use kopf_engine::daemons::{StopReason, Stopped};
use kopf_engine::invocation::Call;
use serde_json::json;
use tokio::time::sleep;

use crate::front::{Declaration, done, gives, on};
use crate::stage::Stage;

/// Returns the times of the calls of a handler, in whole seconds since the beginning of the case.
fn times(stage: &Stage, since: jiff::Timestamp, id: &str) -> Vec<i64> {
    let entries = stage.journal.of(id).into_iter();
    entries
        .map(|entry| entry.at.duration_since(since).as_secs())
        .collect()
}

/// Stop flags of daemons, for inspection by the test.
#[derive(Debug, Clone, Default)]
struct Flags(Arc<Mutex<Vec<Stopped>>>);

impl Flags {
    fn keep(&self, call: &Call) -> Stopped {
        let flag = call
            .stopped
            .clone()
            .expect("only daemons and timers keep their flags");
        let mut flags = self.0.lock();
        flags.push(flag.clone());
        flag
    }

    /// Returns the stop reasons of all calls, in order.
    fn reasons(&self) -> Vec<StopReason> {
        let flags = self.0.lock();
        flags.iter().map(Stopped::reason).collect()
    }

    /// Returns the stop reason of the last call.
    fn last(&self) -> StopReason {
        self.reasons().last().copied().unwrap_or_default()
    }
}

/// Returns a daemon that exits this many seconds after it is stopped.
fn slow(flags: &Flags, seconds: u64) -> Declaration {
    ending("watch", flags, seconds, Some("bye"))
}

/// Returns the same daemon without a result, so that its exit does not change the object.
fn silent(id: &str, flags: &Flags, seconds: u64) -> Declaration {
    ending(id, flags, seconds, None)
}

fn ending(id: &str, flags: &Flags, seconds: u64, last_words: Option<&'static str>) -> Declaration {
    let flags = flags.clone();
    on::daemon(id).does(move |call| {
        let stopped = flags.keep(&call);
        async move {
            stopped.wait(None).await;
            sleep(Duration::from_secs(seconds)).await;
            match last_words {
                Some(words) => gives(json!(words)),
                None => done(),
            }
        }
    })
}
