//! The participation of one operator in one peering: renews its record and removes expired ones.
//!
//! Reading and writing run concurrently, so that a slow write does not delay a decision. Decisions
//! use the records of the latest watch event.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kopf_core::peering::{Peer, keepalive_interval};
use kopf_core::settings::Peering;
use kopf_core::sync::Mutex;
use kopf_core::wording::Style;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::peering_object::PeeringObject;
use crate::clock::Clock;
use crate::leading::{Assignments, Pass};

/// Time limit for removing the record at exit. A leftover record expires.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// Delay after a failed write, and the minimum time between renewals of a removed record.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The writing side of a peering.
#[derive(Debug)]
pub(super) struct Participation {
    pub(super) object: PeeringObject,
    pub(super) settings: Peering,
    pub(super) clock: Clock,
    pub(super) style: Style,
    pub(super) identity: String,
    pub(super) requests: WriteRequests,
    /// The leases of this replica: only one replica of a group writes.
    pub(super) assignments: Assignments,
    /// Cancelled when the operator exits.
    pub(super) exiting: CancellationToken,
}

/// Requests of the reading side, and results of the writing side.
#[derive(Debug, Default)]
pub(super) struct WriteRequests {
    dead: Mutex<BTreeSet<String>>,
    touch: AtomicBool,
    /// `true` if another client has removed the own record.
    is_lost: AtomicBool,
    news: Notify,
    /// `true` if the peering object did not exist at the last write.
    is_absent: AtomicBool,
    /// `true` if the last write was forbidden.
    is_forbidden: AtomicBool,
}

impl WriteRequests {
    /// Requests a renewal of the own record.
    pub(super) fn touch(&self) {
        self.touch.store(true, Ordering::Release);
        self.news.notify_one();
    }

    /// Requests that a removed own record is written again.
    pub(super) fn restore(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.news.notify_one();
    }

    /// Requests the removal of expired records.
    pub(super) fn remove(&self, dead: Vec<String>) {
        let mut wanted = self.dead.lock();
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
        let mut wanted = self.dead.lock();
        let touch = self.touch.swap(false, Ordering::AcqRel);
        (std::mem::take(&mut *wanted), touch)
    }
}

impl Participation {
    /// Writes until stopped, then removes the own record. Runs `reading` concurrently.
    pub(super) async fn run(&self, reading: impl Future<Output = ()>, stop: &CancellationToken) {
        let mut writing = pin!(self.write(stop));
        tokio::select! {
            biased;
            () = &mut writing => {}
            () = reading => {}
            () = stop.cancelled() => {
                // A request in flight must not arrive after the removal of the record.
                if timeout(EXIT_TIMEOUT, &mut writing).await.is_err() {
                    warn!("Couldn't remove self from the peering {} in time. Ignoring.", self.object);
                }
            }
        }
    }

    /// Writes while this replica acts for its group. All replicas of a group are one peer.
    async fn write(&self, stop: &CancellationToken) {
        while let Some(pass) = stop.run_until_cancelled(self.assignments.first()).await {
            self.write_as(&pass, stop).await;
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Renews the record until stopped or until another replica acts for the group. At exit, the
    /// record is removed; otherwise the next replica continues it.
    async fn write_as(&self, pass: &Pass, stop: &CancellationToken) {
        let mut random = seed(&self.identity);
        // An exiting replica is a peer until its last handler has ended.
        let exits = || self.exiting.is_cancelled() && !pass.is_lost();
        while !stop.is_cancelled() && (!pass.is_ending() || exits()) {
            let wait = self.keep_alive(random).await;
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            self.requests.is_lost.store(false, Ordering::Release);
            let written = Instant::now();
            let until = written + wait.min(super::peer_watcher::MAX_DURATION);
            tokio::select! {
                () = self.serve(written + RETRY_DELAY, until, stop) => {}
                () = pass.ended(), if !exits() => {}
            }
        }
        if !stop.is_cancelled() || pass.is_lost() {
            return;
        }
        match self.object.remove([self.identity.as_str()]).await {
            Ok(found) => self.log(found),
            Err(error) => warn!("Couldn't remove self from the peering. Ignoring. {error}"),
        }
    }

    /// Renews the own record. Returns the delay until the next renewal.
    async fn keep_alive(&self, random: u64) -> Duration {
        let Peering {
            priority, lifetime, ..
        } = self.settings;
        let wait = keepalive_interval(lifetime, random >> 32);
        let peer = Peer::new(&self.identity, priority, lifetime, self.clock.now());
        match self.object.touch(&peer).await {
            Ok(found) => {
                self.requests.is_absent.store(!found, Ordering::Release);
                self.requests.is_forbidden.store(false, Ordering::Release);
                self.log(found);
                wait
            }
            Err(error) if error.is_forbidden() => {
                let object = &self.object;
                if !self.requests.is_forbidden.swap(true, Ordering::AcqRel) {
                    warn!(
                        "Keep-alive in {object} is not possible, other operators do not see this \
                         one: {error}"
                    );
                }
                wait
            }
            Err(error) => {
                warn!("Keep-alive in {} has failed: {error}", self.object);
                wait.min(RETRY_DELAY)
            }
        }
    }

    fn log(&self, found: bool) {
        if !found {
            debug!("Keep-alive in {}: not found.", self.object);
        } else if !self.settings.stealth {
            debug!("Keep-alive in {}: ok.", self.object);
        }
    }

    /// Processes requests until the next renewal is due or requested. A record that another client
    /// has removed is renewed no earlier than `earliest`, because a client with a wrong clock
    /// removes it repeatedly.
    async fn serve(&self, earliest: Instant, mut until: Instant, stop: &CancellationToken) {
        loop {
            if self.requests.is_lost.swap(false, Ordering::AcqRel) {
                until = until.min(earliest);
            }
            let (dead, touch) = self.requests.take();
            if !dead.is_empty()
                && let Err(error) = self.object.remove(dead.iter().map(String::as_str)).await
            {
                debug!("Dead peers in {} are not removed: {error}", self.object);
            }
            if touch {
                return;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep_until(until) => return,
                () = self.requests.news.notified() => {}
            }
        }
    }
}

/// Returns a seed for the jitter of renewals: deterministic, and different for each identity.
fn seed(identity: &str) -> u64 {
    identity.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
