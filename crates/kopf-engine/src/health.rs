//! Whether an operator lives: whether it hears from the cluster about everything that it serves.
//!
//! Every stream has a [`Sign`], which the stream keeps up to date; [`Health`] is what they say
//! together at one moment. An operator that cannot hear says so here, whatever its process does.
//!
//! What is refused by the server (permissions, kinds that do not exist) is noted, but is no reason to
//! be called dead: the others are served, and a restart would change nothing. The same goes for a
//! pause, and for streams that wait for the handlers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kopf_client::watching::Pulse;
use tokio::time::Instant;

/// How long it can take to come back after a stream was found to be dead.
const GRACE: Duration = Duration::from_secs(20);

/// How an operator is at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Health {
    /// What makes it deaf, one text for each stream; nothing if it lives.
    pub problems: Vec<String>,
    /// What is worth knowing, but does not matter: what is refused, what is paused.
    pub notes: Vec<String>,
}

impl Health {
    /// Whether it hears from the cluster.
    pub fn is_alive(&self) -> bool {
        self.problems.is_empty()
    }
}

/// One line for each problem and each note.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_alive() {
            "alive"
        } else {
            "not alive"
        })?;
        for line in self.problems.iter().chain(&self.notes) {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}

/// The signs of life of one operator. Cheap to clone: clones are of the same operator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vitals(Arc<Mutex<Signs>>);

#[derive(Debug, Default)]
struct Signs {
    /// Since when it should find out what there is in the cluster; none if it has, or did not begin.
    searching: Option<Instant>,
    /// How long a stream can be silent.
    limit: Duration,
    streams: BTreeMap<u64, Stream>,
    next: u64,
    has_ended: bool,
}

#[derive(Debug)]
struct Stream {
    name: String,
    since: Instant,
    pulse: Option<Pulse>,
    state: State,
    listing: ListingState,
}

/// The first listing of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListingState {
    /// It is complete, or is not waited for.
    Complete,
    Awaited,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Fine,
    Troubled(String),
    Refused(String),
    Paused,
    /// It reads no more than the handlers can take.
    SlowedDown,
}

impl Vitals {
    /// The operator begins to look around in the cluster.
    pub(crate) fn begin(&self, inactivity_timeout: Duration) {
        let mut signs = self.lock();
        signs.limit = inactivity_timeout.saturating_add(GRACE);
        signs.searching = Some(Instant::now());
    }

    /// The operator runs until this is dropped.
    pub(crate) fn live(&self) -> Life {
        self.lock().has_ended = false;
        Life(self.clone())
    }

    /// It knows what to serve, and serves it.
    pub(crate) fn ready(&self) {
        self.lock().searching = None;
    }

    /// The sign of one more stream.
    pub(crate) fn stream(&self, name: String) -> Sign {
        let mut signs = self.lock();
        let id = signs.next;
        signs.next = signs.next.wrapping_add(1);
        let stream = Stream {
            name,
            since: Instant::now(),
            pulse: None,
            state: State::Fine,
            listing: ListingState::Complete,
        };
        signs.streams.insert(id, stream);
        Sign {
            vitals: self.clone(),
            id,
            is_slow: AtomicBool::new(false),
        }
    }

    pub(crate) fn health(&self) -> Health {
        let signs = self.lock();
        let mut health = Health::default();
        if signs.has_ended {
            health.problems.push("the operator has ended".to_owned());
        }
        if let Some(since) = signs.searching
            && since.elapsed() > signs.limit
        {
            let seconds = since.elapsed().as_secs();
            health.problems.push(format!(
                "it is not known what is in the cluster, {seconds} seconds after the start"
            ));
        }
        for stream in signs.streams.values() {
            stream.tell(signs.limit, &mut health);
        }
        health
    }

    /// Returns `true` if it is not known yet what is in the cluster.
    pub(crate) fn is_searching(&self) -> bool {
        self.lock().searching.is_some()
    }

    /// Returns one line for each stream whose first listing is awaited.
    pub(crate) fn unlisted(&self) -> Vec<String> {
        let signs = self.lock();
        let streams = signs.streams.values();
        streams
            .filter(|stream| stream.listing == ListingState::Awaited)
            .map(|stream| match &stream.state {
                State::Troubled(error) => format!("{}: not listed yet: {error}", stream.name),
                _ => format!("{}: not listed yet", stream.name),
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Signs> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    fn tell(&self, limit: Duration, health: &mut Health) {
        let name = &self.name;
        let error = match &self.state {
            State::Paused => {
                health.notes.push(format!("{name}: paused"));
                return;
            }
            State::SlowedDown => {
                let note = "read slowly: many changes wait for handlers";
                health.notes.push(format!("{name}: {note}"));
                return;
            }
            State::Refused(error) => {
                health.notes.push(format!("{name}: refused: {error}"));
                return;
            }
            State::Troubled(error) => Some(error),
            State::Fine => None,
        };
        let heard = self.pulse.as_ref().map(Pulse::last);
        let silent = heard.unwrap_or(self.since).max(self.since).elapsed();
        if silent > limit {
            let seconds = silent.as_secs();
            let why = error.map(|error| format!(": {error}")).unwrap_or_default();
            health.problems.push(format!(
                "{name}: nothing is heard for {seconds} seconds{why}"
            ));
        }
    }
}

/// The life of one operator.
#[derive(Debug)]
pub(crate) struct Life(Vitals);

impl Drop for Life {
    fn drop(&mut self) {
        let mut signs = self.0.lock();
        signs.has_ended = true;
        signs.searching = None;
    }
}

/// The sign of life of one stream. It ends when it is dropped: who does not listen, is not deaf.
#[derive(Debug)]
pub(crate) struct Sign {
    vitals: Vitals,
    id: u64,
    is_slow: AtomicBool,
}

impl Sign {
    /// It listens (again).
    pub(crate) fn listening(&self, pulse: Pulse) {
        self.change(|stream| {
            stream.since = Instant::now();
            stream.pulse = Some(pulse);
            stream.state = State::Fine;
        });
    }

    /// Its listing is awaited before the operator is ready.
    pub(crate) fn unlisted(&self) {
        self.change(|stream| stream.listing = ListingState::Awaited);
    }

    /// Its listing is complete, or is not awaited any more.
    pub(crate) fn listed(&self) {
        self.change(|stream| stream.listing = ListingState::Complete);
    }

    /// It has heard something that makes sense.
    pub(crate) fn fine(&self) {
        self.change(|stream| stream.state = State::Fine);
    }

    /// Something is wrong, and it tries again.
    pub(crate) fn troubled(&self, error: String) {
        self.change(|stream| {
            // It was heard of until now, if only to be refused.
            if let State::Refused(_) = stream.state {
                stream.since = Instant::now();
            }
            stream.state = State::Troubled(error);
        });
    }

    /// The server does not want it.
    pub(crate) fn refused(&self, error: String) {
        self.change(|stream| stream.state = State::Refused(error));
    }

    /// It does not listen on purpose.
    pub(crate) fn paused(&self) {
        self.change(|stream| stream.state = State::Paused);
    }

    /// It does not listen, because there is too much to do already. Whether that is new.
    pub(crate) fn slow_down(&self) -> bool {
        let is_new = !self.is_slow.swap(true, Ordering::Relaxed);
        if is_new {
            self.change(|stream| stream.state = State::SlowedDown);
        }
        is_new
    }

    /// It listens again, if it did not because of that. What has come meanwhile is still to be read.
    pub(crate) fn catch_up(&self) {
        if self.is_slow.load(Ordering::Relaxed) && self.is_slow.swap(false, Ordering::Relaxed) {
            self.change(|stream| {
                stream.since = Instant::now();
                stream.state = State::Fine;
            });
        }
    }

    fn change(&self, change: impl FnOnce(&mut Stream)) {
        if let Some(stream) = self.vitals.lock().streams.get_mut(&self.id) {
            change(stream);
        }
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        self.vitals.lock().streams.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(70);

    fn vitals() -> Vitals {
        let vitals = Vitals::default();
        vitals.begin(LIMIT);
        vitals.ready();
        vitals
    }

    async fn pass(seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_that_finds_nothing_out_is_not_alive() {
        let vitals = Vitals::default();
        pass(1_000).await;
        assert!(vitals.health().is_alive(), "it has not begun yet");
        vitals.begin(LIMIT);
        pass(90).await;
        assert!(vitals.health().is_alive());
        pass(1).await;
        assert_eq!(
            vitals.health().to_string(),
            "not alive\nit is not known what is in the cluster, 91 seconds after the start"
        );
        vitals.ready();
        assert!(vitals.health().is_alive());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_is_named_with_its_error() {
        let vitals = vitals();
        let sign = vitals.stream("things in 'a'".to_owned());
        pass(80).await;
        sign.troubled("connection refused".to_owned());
        assert!(vitals.health().is_alive());
        pass(11).await;
        assert_eq!(
            vitals.health().problems,
            ["things in 'a': nothing is heard for 91 seconds: connection refused"]
        );
        drop(sign);
        assert!(vitals.health().is_alive(), "nobody listens any more");
    }

    #[tokio::test(start_paused = true)]
    async fn refused_and_paused_streams_are_noted() {
        let vitals = vitals();
        let (one, two) = (
            vitals.stream("one".to_owned()),
            vitals.stream("two".to_owned()),
        );
        one.refused("forbidden".to_owned());
        two.paused();
        pass(1_000).await;
        let health = vitals.health();
        assert!(health.is_alive());
        assert_eq!(health.notes, ["one: refused: forbidden", "two: paused"]);
        // From refused to unreachable, the time begins anew.
        one.troubled("no route".to_owned());
        pass(80).await;
        assert!(vitals.health().is_alive());
        pass(11).await;
        assert!(!vitals.health().is_alive());
        one.fine();
        assert!(!vitals.health().is_alive(), "what counts is what is heard");
    }
}
