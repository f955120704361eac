//! One operator at one peering object: it keeps its record fresh, looks at the others, and pauses.
//!
//! Reading and writing go on side by side: a slow write does not delay the decision, and decisions
//! are made on what the server tells, never on what is left of an older telling.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kopf_core::peering::{Peer, keepalive_interval};
use kopf_core::settings::Peering;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::board::Board;
use crate::clock::Clock;
use crate::leading::{Assignments, Pass};

/// How long an exiting operator may take to remove its record. If it fails, the record expires.
const EXITING: Duration = Duration::from_secs(3);

/// When to write again what could not be written, if the lifetime allows for so long.
const RETRY: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Participation {
    pub(super) board: Board,
    pub(super) settings: Peering,
    pub(super) clock: Clock,
    pub(super) identity: String,
    pub(super) wishes: Wishes,
    /// Of several replicas, only one writes.
    pub(super) assignments: Assignments,
    /// Cancelled when the operator exits.
    pub(super) exiting: CancellationToken,
}

/// What the reading side wants to be written, and what it has to know of the writing.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    dead: Mutex<BTreeSet<String>>,
    touch: AtomicBool,
    /// Whether somebody else has removed the own record.
    is_lost: AtomicBool,
    news: Notify,
    /// Whether there was no object to write to.
    is_absent: AtomicBool,
    /// Whether it is not permitted to write.
    is_forbidden: AtomicBool,
}

impl Wishes {
    /// Says once more that this operator is there.
    pub(super) fn touch(&self) {
        self.touch.store(true, Ordering::Release);
        self.news.notify_one();
    }

    /// Writes the own record again, which somebody else has removed.
    pub(super) fn restore(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.news.notify_one();
    }

    /// Removes the records of those that are dead.
    pub(super) fn remove(&self, dead: Vec<String>) {
        let mut wanted = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.extend(dead);
        drop(wanted);
        self.news.notify_one();
    }

    pub(super) fn is_absent(&self) -> bool {
        self.is_absent.load(Ordering::Acquire)
    }

    pub(super) fn is_forbidden(&self) -> bool {
        self.is_forbidden.load(Ordering::Acquire)
    }

    fn take(&self) -> (BTreeSet<String>, bool) {
        let mut wanted = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        let touch = self.touch.swap(false, Ordering::AcqRel);
        (std::mem::take(&mut *wanted), touch)
    }
}

impl Participation {
    /// Writes until it is stopped, then removes the own record. `reading` goes on meanwhile.
    pub(super) async fn run(&self, reading: impl Future<Output = ()>, stop: &CancellationToken) {
        let mut writing = pin!(self.write(stop));
        tokio::select! {
            biased;
            () = &mut writing => {}
            () = reading => {}
            () = stop.cancelled() => {
                // A request that is on its way is waited for: it must not come after the last one.
                if timeout(EXITING, &mut writing).await.is_err() {
                    warn!("Couldn't remove self from the peering {} in time. Ignoring.", self.board);
                }
            }
        }
    }

    /// Writes while this replica acts for its group; all replicas are one peer.
    async fn write(&self, stop: &CancellationToken) {
        while let Some(pass) = stop.run_until_cancelled(self.assignments.first()).await {
            self.write_as(&pass, stop).await;
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Keeps the record fresh until it is stopped or another replica acts for the group. The record
    /// is removed at the exit, and left to the next replica otherwise.
    async fn write_as(&self, pass: &Pass, stop: &CancellationToken) {
        let mut random = seed(&self.identity);
        // An exiting replica is a peer until its last handler has ended.
        let exits = || self.exiting.is_cancelled() && pass.may_write();
        while !stop.is_cancelled() && (pass.may_begin() || exits()) {
            let wait = self.keep_alive(random).await;
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            self.wishes.is_lost.store(false, Ordering::Release);
            let written = Instant::now();
            let until = written + wait.min(super::outlook::A_LIFETIME);
            tokio::select! {
                () = self.serve(written + RETRY, until, stop) => {}
                () = pass.ended(), if !exits() => {}
            }
        }
        if !stop.is_cancelled() || !pass.may_write() {
            return;
        }
        match self.board.remove([self.identity.as_str()]).await {
            Ok(found) => self.log(found),
            Err(error) => warn!("Couldn't remove self from the peering. Ignoring. {error}"),
        }
    }

    /// Renews the own record. When to do it again.
    async fn keep_alive(&self, random: u64) -> Duration {
        let Peering {
            priority, lifetime, ..
        } = self.settings;
        let wait = keepalive_interval(lifetime, random >> 32);
        let peer = Peer::new(&self.identity, priority, lifetime, self.clock.now());
        match self.board.touch(&peer).await {
            Ok(found) => {
                self.wishes.is_absent.store(!found, Ordering::Release);
                self.wishes.is_forbidden.store(false, Ordering::Release);
                self.log(found);
                wait
            }
            Err(error) if error.is_forbidden() => {
                let board = &self.board;
                if !self.wishes.is_forbidden.swap(true, Ordering::AcqRel) {
                    warn!(
                        "Keep-alive in {board} is not possible, other operators do not see this \
                         one: {error}"
                    );
                }
                wait
            }
            Err(error) => {
                warn!("Keep-alive in {} has failed: {error}", self.board);
                wait.min(RETRY)
            }
        }
    }

    fn log(&self, found: bool) {
        if !found {
            debug!("Keep-alive in {}: not found.", self.board);
        } else if !self.settings.stealth {
            debug!("Keep-alive in {}: ok.", self.board);
        }
    }

    /// Does what is wished for, until it is time for the own record, or that is wished for. A record
    /// that is removed by somebody is not written in haste: whoever removes it, because of a wrong clock,
    /// does so again.
    async fn serve(&self, earliest: Instant, mut until: Instant, stop: &CancellationToken) {
        loop {
            if self.wishes.is_lost.swap(false, Ordering::AcqRel) {
                until = until.min(earliest);
            }
            let (dead, touch) = self.wishes.take();
            if !dead.is_empty()
                && let Err(error) = self.board.remove(dead.iter().map(String::as_str)).await
            {
                debug!("Dead peers in {} are not removed: {error}", self.board);
            }
            if touch {
                return;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep_until(until) => return,
                () = self.wishes.news.notified() => {}
            }
        }
    }
}

/// Operators differ by their names, and so do their times; for the same name, they are the same.
fn seed(identity: &str) -> u64 {
    identity.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
