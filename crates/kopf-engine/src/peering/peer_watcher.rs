//! The watcher of one peering object, which pauses and resumes this operator according to its
//! peers.

use std::collections::BTreeSet;
use std::time::Duration;

use kopf_client::watching::{Item, Observer, Signal};
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::peering::{Assessment, Verdict, listed};
use kopf_core::wording::Style;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::participation::Participation;
use crate::health::StreamHealth;
use crate::known_peers::KnownPeers;
use crate::pausing::Flag;

/// Time to wait for the first listing if peering is optional and the peering object cannot be
/// watched.
const FIRST_LISTING_TIMEOUT: Duration = Duration::from_secs(10);

/// Time to wait for the watch event of the own record that was written on expiry.
const ECHO_TIMEOUT: Duration = Duration::from_secs(10);

/// Upper bound for durations; adding it to a timestamp cannot overflow.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The reading side of a [`Participation`].
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent flags
pub(super) struct PeerWatcher<'a> {
    me: &'a Participation,
    flag: Flag,
    state: State,
    /// `true` if the current listing contained the peering object.
    is_listed: bool,
    /// The latest status of the peering object: the records of all peers.
    status: Value,
    /// Time at which the first relevant record expires.
    deadline: Option<Instant>,
    /// `true` after an expiry until the next event of the peering object.
    is_awaiting_echo: bool,
    /// Malformed records that were already logged.
    garbage: BTreeSet<String>,
    /// `true` after a failure of the watch until the next listing.
    is_failing: bool,
    /// `true` if the latest status contained the own record.
    is_present: bool,
    began: Instant,
    /// The state of the watch for health probes.
    health: StreamHealth,
    /// Identities of all peers that were seen.
    known: KnownPeers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No listing has arrived yet.
    Unknown,
    /// The peering object does not exist.
    Absent,
    /// No peer requires a pause.
    Clear,
    /// A peer of a higher priority is present.
    Outranked,
    /// Peers of the same priority are present.
    Conflicted,
}

impl State {
    fn is_paused(self) -> bool {
        matches!(self, Self::Outranked | Self::Conflicted)
    }
}

impl<'a> PeerWatcher<'a> {
    /// Creates a watcher. The flag is left unchanged until the first listing.
    pub(super) fn new(me: &'a Participation, flag: Flag, health: StreamHealth) -> Self {
        Self {
            me,
            flag,
            state: State::Unknown,
            is_listed: false,
            status: Value::Null,
            deadline: None,
            is_awaiting_echo: false,
            garbage: BTreeSet::new(),
            is_failing: false,
            is_present: false,
            began: Instant::now(),
            health,
            known: KnownPeers::default(),
        }
    }

    /// Collects the identities of all seen peers in `known`.
    pub(super) fn noting(self, known: KnownPeers) -> Self {
        Self { known, ..self }
    }

    /// Processes the signals of the observer until the future is dropped.
    pub(super) async fn run(mut self, mut observer: Observer) {
        self.health.listening(observer.pulse());
        loop {
            let deadline = self.deadline;
            let expiration = async {
                match deadline {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                signal = observer.next() => self.take(signal),
                () = expiration => self.expire(),
            }
        }
    }

    fn take(&mut self, signal: Signal) {
        match signal {
            Signal::Listing => self.is_listed = false,
            Signal::Item(item) => self.look(&item),
            Signal::Listed { .. } => {
                self.is_failing = false;
                self.health.healthy();
                if !self.is_listed {
                    self.vanish();
                }
            }
            Signal::Failure {
                error, permanent, ..
            } => {
                let (resource, object) = (&self.me.object.resource, &self.me.object);
                if !std::mem::replace(&mut self.is_failing, true) {
                    let state = if permanent {
                        "not possible"
                    } else {
                        "interrupted"
                    };
                    warn!(
                        "Watching of {resource} {object} is {state}, other operators are not \
                         noticed; trying again: {error}"
                    );
                }
                if permanent {
                    self.health.refused(error.to_string());
                } else {
                    self.health.failing(error.to_string());
                }
                // Optional peering must not keep the operator from starting.
                let is_over = permanent || self.began.elapsed() >= FIRST_LISTING_TIMEOUT;
                if self.state == State::Unknown && !self.me.settings.mandatory && is_over {
                    self.flag.set(false);
                }
            }
        }
    }

    fn look(&mut self, item: &Item) {
        if item.key.name.as_deref() != Some(&*self.me.object.name) {
            return;
        }
        self.is_listed = true;
        if item.event == EventType::Deleted {
            return self.vanish();
        }
        match Body::parse(&item.raw) {
            Ok(body) => {
                self.status = body.value().get("status").cloned().unwrap_or_default();
                let identities = self.status.as_object().into_iter().flat_map(Map::keys);
                let others = identities.filter(|identity| **identity != self.me.identity);
                self.known.add(others.map(String::as_str));
                self.assess();
            }
            Err(error) => warn!("The peering {} cannot be read: {error}", self.me.object),
        }
        let own = self.status.get(&self.me.identity);
        let is_present = own.is_some_and(|record| !record.is_null());
        if std::mem::replace(&mut self.is_present, is_present) && !is_present {
            debug!(
                "The own record in {} was removed by another client.",
                self.me.object
            );
            self.me.requests.restore();
        }
        if self.me.requests.is_absent() {
            // The peering object was created: write the own record.
            self.me.requests.touch();
        }
    }

    /// Handles the absence of the peering object: resumes unless peering is mandatory.
    fn vanish(&mut self) {
        (self.deadline, self.status) = (None, Value::Null);
        (self.is_awaiting_echo, self.is_present) = (false, false);
        let before = std::mem::replace(&mut self.state, State::Absent);
        if self.me.settings.mandatory {
            if before != State::Absent {
                warn!(
                    "The peering {} is not found. Operations are paused until it exists, since \
                     peering is mandatory.",
                    self.me.object
                );
            }
            self.flag.set(true);
        } else {
            if before.is_paused() {
                log_resuming(before, self.me.style);
            }
            self.flag.set(false);
        }
    }

    fn assess(&mut self) {
        self.is_awaiting_echo = false;
        let me = self.me;
        let now = me.clock.now();
        let mut found = Assessment::of(&self.status, &me.identity, me.settings.priority, now);
        if me.settings.sharing {
            found = found.sharing();
        }
        for key in found.garbage {
            if !self.garbage.contains(&key) {
                debug!("Ignoring a malformed peer record in {}: {key}", me.object);
                self.garbage.insert(key);
            }
        }
        if !found.dead.is_empty() {
            me.requests.remove(found.dead);
        }
        match &found.verdict {
            Verdict::Outranked(peers) => {
                if !self.state.is_paused() {
                    info!("Pausing operations in favour of {}.", listed(peers));
                }
            }
            Verdict::Conflict(peers) => {
                let conflicting = listed(peers);
                warn!("Possibly conflicting operators with the same priority: {conflicting}.");
                if !self.state.is_paused() {
                    let peers = listed(&found.peers);
                    warn!("Pausing all operators, including self: {peers}");
                }
            }
            Verdict::Clear => {
                let has_waited = me.settings.mandatory || self.state.is_paused();
                if self.flag.is_on() && has_waited {
                    log_resuming(self.state, me.style);
                }
            }
        }
        self.state = match found.verdict {
            Verdict::Outranked(_) => State::Outranked,
            Verdict::Conflict(_) => State::Conflicted,
            Verdict::Clear => State::Clear,
        };
        self.flag.set(self.state.is_paused());
        self.deadline = found.deadline.map(|deadline| {
            let left = deadline.duration_since(now).unsigned_abs();
            Instant::now() + left.min(MAX_DURATION)
        });
    }

    /// Handles the expiry of a record. The stored status can be outdated, so the own record is
    /// renewed, which makes the server send the current one. If that is impossible or takes longer
    /// than [`ECHO_TIMEOUT`], the stored status decides.
    fn expire(&mut self) {
        self.me.requests.touch();
        if self.is_awaiting_echo || self.me.requests.is_forbidden() {
            self.assess();
        } else {
            self.is_awaiting_echo = true;
            self.deadline = Some(Instant::now() + ECHO_TIMEOUT);
        }
    }
}

/// Logs the end of a pause. The original has one message for all reasons.
fn log_resuming(before: State, style: Style) {
    let reason = match (style, before) {
        (Style::Native, State::Outranked) => "Operators with a higher priority are gone.",
        (Style::Native, State::Unknown | State::Absent | State::Clear) => {
            "No other operators require a pause."
        }
        _ => "Conflicting operators with the same priority are gone.",
    };
    info!("Resuming operations after the pause. {reason}");
}
