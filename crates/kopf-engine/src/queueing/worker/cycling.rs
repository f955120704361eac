//! One cycle: decide on the newest version, write what was decided, and see when to go on.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kopf_core::cause::EventType;
use kopf_core::patch::Patch;
use kopf_core::wording;

use super::waiting::{Wake, Why, after};
use super::writing::Unsent;
use super::{Holding, Worker};
use crate::execution::describe_panic;
use crate::logger::ObjectLogger;
use crate::processing::{Cycle, Decided, Error, Pending, Verdict};

/// Where nothing is stored, nothing changes: going on at once would go on forever.
const AT_LEAST: Duration = Duration::from_secs(1);

impl Worker {
    /// Runs a cycle on the newest version. `consistent`: it is not older than the last own write.
    pub(super) async fn cycle(&mut self, mut holding: Holding, consistent: bool) {
        if let Some(mut unsent) = self.unsent.take() {
            self.wake = None;
            // Versions may have come since, about which nothing is decided yet.
            unsent.more = true;
            return self.write(unsent, holding).await;
        }
        let Some((event, body)) = self.newest.clone() else {
            return;
        };
        let kind = Arc::clone(&self.kind);
        let logger = self.logger(&body).clone();
        let cycle = Cycle {
            kind: &kind,
            memory: &mut self.memory,
            event,
            body: &body,
            patch: self.from_events.clone(),
            consistent,
            logger: &logger,
        };
        let deciding = AssertUnwindSafe(cycle.decide(&mut holding)).catch_unwind();
        let decided = match deciding.await {
            Ok(Ok(decided)) => decided,
            Ok(Err(error)) => return self.fail(&error),
            Err(panic) => return self.fail(&Error::Panic(describe_panic(&*panic))),
        };
        let Decided {
            verdict,
            mut patch,
            delays,
            skipped,
            considered,
            attempted,
            settled,
            trouble,
        } = decided;
        if verdict == Verdict::Gated {
            if let Some(gate) = &mut self.gate {
                gate.unfinished = true;
            }
            // What is being stopped does not wait for own writes.
            self.wake = delays.iter().min().map(|delay| Wake {
                at: after(*delay),
                why: Why::Due,
            });
            return;
        }
        self.from_events = Patch::default();
        self.wake = None;
        if event == EventType::Deleted {
            return;
        }
        if !patch.is_empty() {
            let persistence = &kind.shared.context.settings.persistence;
            if let Err(error) = persistence.progress_storage.touch(&body, &mut patch, None) {
                self.report(&error.into(), None);
            }
            let pending = Pending::new(patch, &kind.resource);
            let pending = pending.results_first(persistence.results_first);
            let mut unsent = Unsent::new(pending, delays, skipped, &body);
            unsent.settled = settled.filter(|_| trouble.is_none());
            self.write(unsent, holding).await;
        } else if skipped {
            // There was something to be done first, and it was nothing.
            self.memory.remaining.clear();
            self.go_on_at_once();
        } else if trouble.is_none() {
            self.failures = 0;
            let delay = delays.iter().min().copied();
            // Some handler was due, and nothing is stored of it.
            let delay = delay.map(|delay| {
                if attempted {
                    delay.max(AT_LEAST)
                } else {
                    delay
                }
            });
            self.sleep(delay, considered, &logger);
        }
        if let Some(error) = trouble
            && self.unsent.is_none()
        {
            self.fail(&error);
        }
    }

    /// Sleeps until the first handler is due, or ends if none will be.
    fn sleep(&mut self, delay: Option<Duration>, considered: bool, logger: &ObjectLogger) {
        match delay {
            Some(delay) => {
                if !delay.is_zero() {
                    logger.local().debug(wording::sleeping(delay));
                }
                self.wake = Some(Wake {
                    at: after(delay),
                    why: Why::Due,
                });
            }
            None if considered => logger.local().debug(wording::CYCLE_FINISHED),
            None => {}
        }
    }

    pub(super) fn go_on_at_once(&mut self) {
        self.wake = Some(Wake {
            at: after(Duration::ZERO),
            why: Why::Again,
        });
    }
}
