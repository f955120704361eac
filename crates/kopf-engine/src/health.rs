//! Liveness of an operator: it is alive while the tasks of its watch streams do their work.
//!
//! Every stream updates its [`StreamHealth`]; [`Health`] is a snapshot of all of them.
//!
//! A stream is stuck if its task neither reads, nor waits, nor retries. An API server that is
//! unreachable, slow or silent is noted but does not count as a failure: a restart would not help, and
//! the kubelet would restart all operators of the cluster during an outage. The same applies to rejected
//! streams (missing permissions or resources), to paused streams and to streams that wait for handlers.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kopf_client::watching::Pulse;
use kopf_core::sync::Mutex;
use tokio::time::{Instant, sleep};

/// Time to reconnect after a stream has timed out.
const RECONNECT_GRACE: Duration = Duration::from_secs(20);

/// Interval in which the task of a stream shows that it reads, waits or retries.
const ATTENDANCE_INTERVAL: Duration = Duration::from_secs(10);

/// Time without such a sign after which the task is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// A snapshot of the liveness of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Health {
    /// Failures that only a restart can end, one line each; empty if the operator is alive.
    pub problems: Vec<String>,
    /// Conditions that do not affect the liveness: a silent API server; rejected, paused and throttled
    /// streams.
    pub notes: Vec<String>,
}

impl Health {
    /// Returns `true` if there are no problems.
    pub fn is_alive(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The state, then one line per problem and note.
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

/// The liveness of the streams of one operator. Cheap to clone: clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct HealthTracker(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Start of the discovery; `None` before the start and after the end of the discovery.
    searching: Option<Instant>,
    /// Maximum time without data from a stream.
    limit: Duration,
    streams: BTreeMap<u64, Stream>,
    next: u64,
    has_ended: bool,
    /// The operator was ready once.
    was_ready: bool,
}

#[derive(Debug)]
struct Stream {
    name: String,
    since: Instant,
    pulse: Option<Pulse>,
    /// The last sign of the task; `None` if none is expected.
    attended: Option<Instant>,
    state: State,
    listing: ListingState,
}

/// The state of the first listing of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListingState {
    /// Complete, or not required for readiness.
    Complete,
    Awaited,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Healthy,
    Failing(String),
    Refused(String),
    Paused,
    /// Reading is suspended because many changes wait for handlers.
    SlowedDown,
}

impl HealthTracker {
    /// Starts the time limit of the discovery.
    pub(crate) fn begin(&self, inactivity_timeout: Duration) {
        let mut inner = self.0.lock();
        inner.limit = inactivity_timeout.saturating_add(RECONNECT_GRACE);
        inner.searching = Some(Instant::now());
    }

    /// Marks the operator as running until the guard is dropped.
    pub(crate) fn mark_running(&self) -> RunGuard {
        let mut inner = self.0.lock();
        (inner.has_ended, inner.was_ready) = (false, false);
        drop(inner);
        RunGuard(self.clone())
    }

    /// Marks the discovery as complete.
    pub(crate) fn ready(&self) {
        self.0.lock().searching = None;
    }

    /// Adds a stream.
    pub(crate) fn stream(&self, name: String) -> StreamHealth {
        let mut inner = self.0.lock();
        let id = inner.next;
        inner.next = inner.next.wrapping_add(1);
        let stream = Stream {
            name,
            since: Instant::now(),
            pulse: None,
            attended: None,
            state: State::Healthy,
            listing: ListingState::Complete,
        };
        inner.streams.insert(id, stream);
        StreamHealth {
            tracker: self.clone(),
            id,
            is_slow: AtomicBool::new(false),
        }
    }

    pub(crate) fn health(&self) -> Health {
        let inner = self.0.lock();
        let mut health = Health::default();
        if inner.has_ended {
            health.problems.push("the operator has ended".to_owned());
        }
        if let Some(since) = inner.searching
            && since.elapsed() > inner.limit
        {
            let seconds = since.elapsed().as_secs();
            health.notes.push(format!(
                "the discovery is incomplete {seconds} seconds after the start"
            ));
        }
        for stream in inner.streams.values() {
            stream.report(inner.limit, &mut health);
        }
        health
    }

    /// Notes that the operator is ready, and returns `true` if it was ready before.
    pub(crate) fn note_ready(&self) -> bool {
        std::mem::replace(&mut self.0.lock().was_ready, true)
    }

    /// Returns `true` if the operator was ready once.
    pub(crate) fn was_ready(&self) -> bool {
        self.0.lock().was_ready
    }

    /// Returns `true` during the discovery of resources and namespaces.
    pub(crate) fn is_searching(&self) -> bool {
        self.0.lock().searching.is_some()
    }

    /// Returns one line for each stream whose first listing is awaited.
    pub(crate) fn unlisted(&self) -> Vec<String> {
        let inner = self.0.lock();
        let streams = inner.streams.values();
        streams
            .filter(|stream| stream.listing == ListingState::Awaited)
            .map(|stream| match &stream.state {
                State::Failing(error) => format!("{}: not listed yet: {error}", stream.name),
                _ => format!("{}: not listed yet", stream.name),
            })
            .collect()
    }
}

impl Stream {
    fn report(&self, limit: Duration, health: &mut Health) {
        let name = &self.name;
        if let Some(attended) = self.attended
            && attended.elapsed() > STUCK_AFTER
        {
            let seconds = attended.elapsed().as_secs();
            let problem = "the task of the stream is stuck";
            health
                .problems
                .push(format!("{name}: {problem} for {seconds} seconds"));
        }
        let error = match &self.state {
            State::Paused => {
                health.notes.push(format!("{name}: paused"));
                return;
            }
            State::SlowedDown => {
                let note = "throttled: many changes wait for handlers";
                health.notes.push(format!("{name}: {note}"));
                return;
            }
            State::Refused(error) => {
                health.notes.push(format!("{name}: refused: {error}"));
                return;
            }
            State::Failing(error) => Some(error),
            State::Healthy => None,
        };
        let heard = self.pulse.as_ref().map(Pulse::last);
        let silent = heard.unwrap_or(self.since).max(self.since).elapsed();
        if silent > limit {
            let seconds = silent.as_secs();
            let why = error.map(|error| format!(": {error}")).unwrap_or_default();
            let note = format!("{name}: no data for {seconds} seconds{why}");
            health.notes.push(note);
        }
    }
}

/// Marks the operator as ended when dropped.
#[derive(Debug)]
pub(crate) struct RunGuard(HealthTracker);

impl Drop for RunGuard {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock();
        inner.has_ended = true;
        inner.searching = None;
    }
}

/// The health of one stream. Dropping it removes the stream from the snapshot.
#[derive(Debug)]
pub(crate) struct StreamHealth {
    tracker: HealthTracker,
    id: u64,
    is_slow: AtomicBool,
}

impl StreamHealth {
    /// Reports a new connection.
    pub(crate) fn listening(&self, pulse: Pulse) {
        self.change(|stream| {
            stream.since = Instant::now();
            stream.pulse = Some(pulse);
            stream.state = State::Healthy;
        });
    }

    /// Waits for the future, and shows meanwhile that the task of the stream does its work. Outside of
    /// such waits, the task is expected to return to one soon.
    pub(crate) async fn attend<T>(&self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        loop {
            self.change(|stream| stream.attended = Some(Instant::now()));
            tokio::select! {
                biased;
                done = &mut waiting => return done,
                () = sleep(ATTENDANCE_INTERVAL) => {}
            }
        }
    }

    /// Reports that the task does other work than that of the stream.
    pub(crate) fn unattended(&self) {
        self.change(|stream| stream.attended = None);
    }

    /// Requires the listing of this stream for readiness.
    pub(crate) fn unlisted(&self) {
        self.change(|stream| stream.listing = ListingState::Awaited);
    }

    /// Reports that the listing is complete or no longer required.
    pub(crate) fn listed(&self) {
        self.change(|stream| stream.listing = ListingState::Complete);
    }

    /// Reports valid data.
    pub(crate) fn healthy(&self) {
        self.change(|stream| stream.state = State::Healthy);
    }

    /// Reports an error that is retried.
    pub(crate) fn failing(&self, error: String) {
        self.change(|stream| {
            // A rejection is a response, so the time limit starts now.
            if let State::Refused(_) = stream.state {
                stream.since = Instant::now();
            }
            stream.state = State::Failing(error);
        });
    }

    /// Reports a rejection by the server.
    pub(crate) fn refused(&self, error: String) {
        self.change(|stream| stream.state = State::Refused(error));
    }

    /// Reports that the stream is paused.
    pub(crate) fn paused(&self) {
        self.change(|stream| {
            stream.state = State::Paused;
            stream.attended = None;
        });
    }

    /// Reports that reading is suspended because of many waiting changes. Returns `true` if it was
    /// not suspended before.
    pub(crate) fn slow_down(&self) -> bool {
        let is_new = !self.is_slow.swap(true, Ordering::Relaxed);
        if is_new {
            self.change(|stream| stream.state = State::SlowedDown);
        }
        is_new
    }

    /// Reports that reading is resumed, if it was suspended. The time limit starts again, because
    /// the changes sent meanwhile are not read yet.
    pub(crate) fn catch_up(&self) {
        if self.is_slow.load(Ordering::Relaxed) && self.is_slow.swap(false, Ordering::Relaxed) {
            self.change(|stream| {
                stream.since = Instant::now();
                stream.state = State::Healthy;
            });
        }
    }

    fn change(&self, change: impl FnOnce(&mut Stream)) {
        if let Some(stream) = self.tracker.0.lock().streams.get_mut(&self.id) {
            change(stream);
        }
    }
}

impl Drop for StreamHealth {
    fn drop(&mut self) {
        self.tracker.0.lock().streams.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(70);

    fn tracker() -> HealthTracker {
        let tracker = HealthTracker::default();
        tracker.begin(LIMIT);
        tracker.ready();
        tracker
    }

    async fn pass(seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_discovery_is_noted() {
        let tracker = HealthTracker::default();
        pass(1_000).await;
        assert!(tracker.health().is_alive(), "the discovery has not started");
        tracker.begin(LIMIT);
        pass(90).await;
        assert!(tracker.health().is_alive());
        pass(1).await;
        assert_eq!(
            tracker.health().to_string(),
            "alive\nthe discovery is incomplete 91 seconds after the start"
        );
        tracker.ready();
        assert_eq!(tracker.health(), Health::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_task_of_a_stream_is_a_problem() {
        let tracker = tracker();
        let health = tracker.stream("things".to_owned());
        let waiting = health.attend(pass(1_000));
        tokio::select! {
            biased; // the last poll of the task is at the end of the 900 seconds
            () = waiting => panic!("too early"),
            () = pass(900) => assert!(tracker.health().is_alive(), "it waits"),
        }
        pass(61).await;
        let problem = "things: the task of the stream is stuck for 61 seconds";
        assert_eq!(tracker.health().problems, [problem]);
        health.attend(async {}).await;
        assert!(tracker.health().is_alive());
        health.unattended();
        pass(1_000).await;
        assert!(tracker.health().is_alive());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_is_named_with_its_error() {
        let tracker = tracker();
        let health = tracker.stream("things in 'a'".to_owned());
        pass(80).await;
        health.failing("connection refused".to_owned());
        assert!(tracker.health().is_alive());
        pass(11).await;
        assert_eq!(
            tracker.health().notes,
            ["things in 'a': no data for 91 seconds: connection refused"]
        );
        drop(health);
        assert!(tracker.health().is_alive(), "the stream is removed");
    }

    #[tokio::test(start_paused = true)]
    async fn refused_and_paused_streams_are_noted() {
        let tracker = tracker();
        let (one, two) = (
            tracker.stream("one".to_owned()),
            tracker.stream("two".to_owned()),
        );
        one.refused("forbidden".to_owned());
        two.paused();
        pass(1_000).await;
        let health = tracker.health();
        assert!(health.is_alive());
        assert_eq!(health.notes, ["one: refused: forbidden", "two: paused"]);
        // The time limit starts when a rejected stream becomes unreachable.
        one.failing("no route".to_owned());
        pass(80).await;
        assert!(tracker.health().is_alive());
        pass(11).await;
        let note = "one: no data for 91 seconds: no route";
        assert_eq!(tracker.health().notes, [note, "two: paused"]);
        assert!(tracker.health().is_alive());
        one.healthy();
        let note = "one: no data for 91 seconds";
        assert_eq!(tracker.health().notes, [note, "two: paused"]);
    }
}
