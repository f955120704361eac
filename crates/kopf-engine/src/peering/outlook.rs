//! What the others say, and what is made of it: whether this operator is paused.

use std::collections::BTreeSet;
use std::time::Duration;

use kopf_client::watching::{Item, Observer, Signal};
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::peering::{Assessment, Verdict, listed};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::participation::Participation;
use crate::health::Sign;
use crate::known_peers::KnownPeers;
use crate::pausing::Flag;

/// How long the others are looked for before an operator that need not agree with them begins.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// How long to wait for the server to tell anew what it has told.
const ANSWER: Duration = Duration::from_secs(10);

/// Longer than any operator runs, and short enough to be added to any time.
pub(super) const A_LIFETIME: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The reading side of a participation.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // facts that have nothing to do with each other
pub(super) struct Outlook<'a> {
    me: &'a Participation,
    flag: Flag,
    state: State,
    /// Whether the listing that goes on has had the object.
    is_listed: bool,
    /// What was last told.
    status: Value,
    /// When the first of those that matter is presumably dead.
    deadline: Option<Instant>,
    /// Whether the server was asked to tell of them anew, and did not yet.
    is_asked: bool,
    /// What was complained about.
    garbage: BTreeSet<String>,
    is_troubled: bool,
    /// Whether the own record was among what was last told.
    is_present: bool,
    began: Instant,
    /// What it tells to those who ask how the operator is.
    sign: Sign,
    /// Identities of all peers that were seen.
    known: KnownPeers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was seen yet.
    Unknown,
    /// There is no such object.
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

impl<'a> Outlook<'a> {
    /// The flag is as it is until the others are seen for the first time.
    pub(super) fn new(me: &'a Participation, flag: Flag, sign: Sign) -> Self {
        Self {
            me,
            flag,
            state: State::Unknown,
            is_listed: false,
            status: Value::Null,
            deadline: None,
            is_asked: false,
            garbage: BTreeSet::new(),
            is_troubled: false,
            is_present: false,
            began: Instant::now(),
            sign,
            known: KnownPeers::default(),
        }
    }

    /// Adds the identities of all peers to these.
    pub(super) fn noting(self, known: KnownPeers) -> Self {
        Self { known, ..self }
    }

    /// Looks at what is told, until it is dropped.
    pub(super) async fn run(mut self, mut observer: Observer) {
        self.sign.listening(observer.pulse());
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
                self.is_troubled = false;
                self.sign.fine();
                if !self.is_listed {
                    self.vanish();
                }
            }
            Signal::Failure {
                error, permanent, ..
            } => {
                let (resource, board) = (&self.me.board.resource, &self.me.board);
                if !std::mem::replace(&mut self.is_troubled, true) {
                    let fate = if permanent {
                        "not possible"
                    } else {
                        "interrupted"
                    };
                    warn!(
                        "Watching of {resource} {board} is {fate}, other operators are not \
                         noticed; trying again: {error}"
                    );
                }
                if permanent {
                    self.sign.refused(error.to_string());
                } else {
                    self.sign.troubled(error.to_string());
                }
                // Who need not agree with others is not kept from working by that for long.
                let is_over = permanent || self.began.elapsed() >= FIRST_LOOK;
                if self.state == State::Unknown && !self.me.settings.mandatory && is_over {
                    self.flag.set(false);
                }
            }
        }
    }

    fn look(&mut self, item: &Item) {
        if item.key.name.as_deref() != Some(&*self.me.board.name) {
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
            Err(error) => warn!("The peering {} cannot be read: {error}", self.me.board),
        }
        let own = self.status.get(&self.me.identity);
        let is_present = own.is_some_and(|record| !record.is_null());
        if std::mem::replace(&mut self.is_present, is_present) && !is_present {
            debug!(
                "The own record in {} is removed by somebody else.",
                self.me.board
            );
            self.me.wishes.restore();
        }
        if self.me.wishes.is_absent() {
            // It has come into being, and the others are to know who is here.
            self.me.wishes.touch();
        }
    }

    /// There is no such object, or none any more: nobody is in the way.
    fn vanish(&mut self) {
        (self.deadline, self.status) = (None, Value::Null);
        (self.is_asked, self.is_present) = (false, false);
        let before = std::mem::replace(&mut self.state, State::Absent);
        if self.me.settings.mandatory {
            if before != State::Absent {
                warn!(
                    "The peering {} is not found. Operations are paused until it is there, since \
                     peering is mandatory.",
                    self.me.board
                );
            }
            self.flag.set(true);
        } else {
            if before.is_paused() {
                log_resuming(before);
            }
            self.flag.set(false);
        }
    }

    fn assess(&mut self) {
        self.is_asked = false;
        let me = self.me;
        let now = me.clock.now();
        let mut found = Assessment::of(&self.status, &me.identity, me.settings.priority, now);
        if me.settings.sharing {
            found = found.sharing();
        }
        for key in found.garbage {
            if !self.garbage.contains(&key) {
                debug!(
                    "Ignoring what is no record of an operator in {}: {key}",
                    me.board
                );
                self.garbage.insert(key);
            }
        }
        if !found.dead.is_empty() {
            me.wishes.remove(found.dead);
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
                    log_resuming(self.state);
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
            Instant::now() + left.min(A_LIFETIME)
        });
    }

    /// Somebody has not been seen for too long, as far as it was told. A change of the own record
    /// makes the server tell it once more; if it does not, because that cannot be changed, what it
    /// has told must do.
    fn expire(&mut self) {
        self.me.wishes.touch();
        if self.is_asked || self.me.wishes.is_forbidden() {
            self.assess();
        } else {
            self.is_asked = true;
            self.deadline = Some(Instant::now() + ANSWER);
        }
    }
}

fn log_resuming(before: State) {
    let reason = match before {
        State::Outranked => "Operators with a higher priority are gone.",
        State::Conflicted => "Conflicting operators with the same priority are gone.",
        State::Unknown | State::Absent | State::Clear => "No other operators require a pause.",
    };
    info!("Resuming operations after the pause. {reason}");
}
