//! Delays between the requests of one observer: a pure state machine.
//!
//! The observer reports what happens to its requests, and gets the delay before the next one. Two
//! counters decide: failures in a row, and re-listings in a row. Each cycle of list and watch ends
//! with one of the inputs that have a delay, so no sequence of responses makes the observer send
//! requests in a tight loop:
//!
//! | counter | grows with | starts again after |
//! |---|---|---|
//! | failures | every input except `Opened`, `Progress`, `Listed`, `Refused` | a new resource version, or a watch of [`STEADY`]; those without a connection also after the first response |
//! | re-listings | every `Relist` and `Missing` | [`STEADY`] between the end of a listing and the next re-listing |
//!
//! Events do not reset the counter of re-listings: a server that forgets versions faster than they
//! are read would otherwise be listed in a tight loop.

use std::time::Duration;

use kopf_core::settings::Watching;
use tokio::time::Instant;

use crate::random::SplitMix64;

/// Upper bound for delays, before the jitter.
const LONGEST: Duration = Duration::from_secs(30);

/// Upper bound while no connection exists, before the jitter. Such attempts cost the server nothing,
/// and the operator must continue soon after an outage.
const UNREACHABLE: Duration = Duration::from_secs(5);

/// Lower bound for the first delay: zero would never grow.
const SHORTEST: Duration = Duration::from_millis(10);

/// Minimum time between two openings of a watch that makes progress each time, unless the first
/// delay is shorter.
const SPACING: Duration = Duration::from_secs(1);

/// A watch that lives this long works, even if nothing happens to the objects.
const STEADY: Duration = Duration::from_secs(10);

/// First delay for resources that do not exist: CRDs can be brand new.
const MISSING: Duration = Duration::from_secs(1);

/// An event in the life of an observer's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The server accepted a watch.
    Opened,
    /// A resource version arrived that is newer than all before.
    Progress,
    /// A listing is complete.
    Listed,
    /// The watch ended: by the server, by a broken connection, or by a time limit.
    Ended,
    /// A request failed, or its response is unusable; the same request follows.
    Failed,
    /// There is no connection; the same request follows.
    Unreachable,
    /// The resource version is unusable; a new listing follows.
    Relist,
    /// The resource does not exist; a new listing follows.
    Missing,
    /// The server permanently rejects the request; a new listing follows.
    Refused,
}

/// The current watch, if there is one.
#[derive(Clone, Copy, Debug)]
enum Watch {
    Closed,
    Open { since: Instant, progress: bool },
}

/// The delays of one observer; see the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    steady: Duration,
    watch: Watch,
    failures: u32,
    /// Those of the failures that happened without a connection.
    unreachable: u32,
    relistings: u32,
    listed: Option<Instant>,
    random: SplitMix64,
}

impl Backoff {
    /// Creates a machine without failures. Observers with different seeds get different jitter.
    pub(super) fn new(settings: &Watching, seed: u64) -> Self {
        // A limit that is shorter than `STEADY` ends watches early because of the settings.
        // Half of it, because the server starts counting before the client does.
        let limits = [
            settings.server_timeout,
            settings.client_timeout,
            settings.inactivity_timeout,
        ];
        let shortest_limit = limits.into_iter().flatten().min();
        Self {
            first: settings.reconnect_backoff.clamp(SHORTEST, LONGEST),
            steady: shortest_limit.map_or(STEADY, |limit| STEADY.min(limit / 2)),
            watch: Watch::Closed,
            failures: 0,
            unreachable: 0,
            relistings: 0,
            listed: None,
            random: SplitMix64::new(seed),
        }
    }

    /// Returns the number of failures since the last progress.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the number of re-listings in a row.
    pub(super) fn relistings(&self) -> u32 {
        self.relistings
    }

    /// Applies an input and returns the delay before the next request: zero for inputs that no
    /// request follows, and for watches that worked.
    pub(super) fn step(&mut self, input: Input, now: Instant) -> Duration {
        if input != Input::Unreachable {
            // The outage is over: a server that starts can reject a few requests at first.
            let unreachable = std::mem::take(&mut self.unreachable);
            self.failures = self.failures.saturating_sub(unreachable);
        }
        match input {
            Input::Opened => {
                let progress = false;
                self.watch = Watch::Open {
                    since: now,
                    progress,
                };
                Duration::ZERO
            }
            Input::Progress => {
                self.failures = 0;
                if let Watch::Open { progress, .. } = &mut self.watch {
                    *progress = true;
                }
                Duration::ZERO
            }
            Input::Listed => {
                self.listed = Some(now);
                Duration::ZERO
            }
            Input::Ended => self.end(now),
            Input::Failed => {
                self.close(now);
                self.grow(self.first, LONGEST)
            }
            Input::Unreachable => match self.close(now) {
                Watch::Closed => {
                    self.unreachable = self.unreachable.saturating_add(1);
                    self.grow(self.first.min(UNREACHABLE), UNREACHABLE)
                }
                // The server was reached, and has ended the watch by breaking the connection.
                Watch::Open { .. } => self.grow(self.first, LONGEST),
            },
            Input::Relist => self.relist(self.first, now),
            Input::Missing => self.relist(MISSING, now),
            Input::Refused => {
                self.close(now);
                self.jitter(LONGEST)
            }
        }
    }

    fn end(&mut self, now: Instant) -> Duration {
        match self.close(now) {
            Watch::Open { since, .. } if now.duration_since(since) >= self.steady => Duration::ZERO,
            Watch::Open {
                since,
                progress: true,
            } => {
                let spacing = self.first.min(SPACING);
                spacing.saturating_sub(now.duration_since(since))
            }
            _ => self.grow(self.first, LONGEST),
        }
    }

    fn relist(&mut self, first: Duration, now: Instant) -> Duration {
        self.close(now);
        let listed = self.listed.take();
        if listed.is_some_and(|listed| now.duration_since(listed) >= self.steady) {
            self.relistings = 0;
        }
        self.relistings = self.relistings.saturating_add(1);
        self.grow(first, LONGEST)
    }

    /// Forgets the current watch. A long one shows that everything before it is repaired.
    fn close(&mut self, now: Instant) -> Watch {
        let closed = std::mem::replace(&mut self.watch, Watch::Closed);
        if let Watch::Open { since, .. } = closed
            && now.duration_since(since) >= self.steady
        {
            self.failures = 0;
        }
        closed
    }

    fn grow(&mut self, first: Duration, longest: Duration) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let doublings = self.failures.max(self.relistings).saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.jitter(first.saturating_mul(factor).min(longest))
    }

    /// Scales a delay by 0.75 to 1.25.
    fn jitter(&mut self, delay: Duration) -> Duration {
        let thousandths = u32::try_from(self.random.next() % 501).unwrap_or_default() + 750;
        delay.saturating_mul(thousandths) / 1000
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn backoff(first: Duration) -> Backoff {
        let mut settings = Watching::default();
        settings.reconnect_backoff = first;
        Backoff::new(&settings, 1)
    }

    fn default() -> Backoff {
        backoff(Duration::from_millis(100))
    }

    /// Returns `true` if a delay is within the jitter of the expected one.
    fn is_about(delay: Duration, expected: Duration) -> bool {
        delay >= expected * 3 / 4 && delay <= expected * 5 / 4
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        for input in [Input::Failed, Input::Relist, Input::Missing, Input::Ended] {
            let mut backoff = default();
            let now = Instant::now();
            let mut expected = match input {
                Input::Missing => MISSING,
                _ => Duration::from_millis(100),
            };
            for failures in 1..=80 {
                backoff.step(Input::Opened, now);
                let delay = backoff.step(input, now);
                assert!(is_about(delay, expected), "{input:?} {failures}: {delay:?}");
                assert_eq!(backoff.failures(), failures);
                expected = (expected * 2).min(LONGEST);
            }
        }
    }

    #[test]
    fn an_absent_server_is_tried_every_few_seconds() {
        let mut backoff = default();
        let now = Instant::now();
        let mut expected = Duration::from_millis(100);
        for _ in 0..40 {
            let delay = backoff.step(Input::Unreachable, now);
            assert!(is_about(delay, expected), "{delay:?}");
            expected = (expected * 2).min(UNREACHABLE);
        }
    }

    #[test]
    fn a_server_that_returns_is_asked_soon_although_it_rejects_requests_at_first() {
        let mut backoff = default();
        let now = Instant::now();
        let first = Duration::from_millis(100);
        backoff.step(Input::Failed, now);
        for _ in 0..40 {
            backoff.step(Input::Unreachable, now);
        }
        // The failure before the outage still counts, and so do those after it.
        for doubled in [first * 2, first * 4, first * 8] {
            let delay = backoff.step(Input::Failed, now);
            assert!(is_about(delay, doubled), "{delay:?}");
        }
    }

    #[test]
    fn rejections_have_the_maximum_delay() {
        let mut backoff = default();
        assert!(is_about(
            backoff.step(Input::Refused, Instant::now()),
            LONGEST
        ));
        assert_eq!(backoff.failures(), 0);
    }

    #[test]
    fn progress_starts_again() {
        let mut backoff = default();
        let now = Instant::now();
        for _ in 0..8 {
            backoff.step(Input::Failed, now);
        }
        backoff.step(Input::Opened, now);
        backoff.step(Input::Progress, now);
        assert_eq!(backoff.failures(), 0);
        let spacing = Duration::from_millis(100);
        assert_eq!(backoff.step(Input::Ended, now), spacing);
        backoff.step(Input::Opened, now);
        backoff.step(Input::Progress, now);
        assert_eq!(backoff.step(Input::Ended, now + spacing), Duration::ZERO);
    }

    #[test]
    fn progress_of_one_watch_does_not_count_for_the_next() {
        let mut backoff = default();
        let now = Instant::now();
        backoff.step(Input::Opened, now);
        backoff.step(Input::Progress, now);
        backoff.step(Input::Ended, now);
        for failures in 1..=5 {
            backoff.step(Input::Opened, now);
            backoff.step(Input::Ended, now);
            assert_eq!(backoff.failures(), failures);
        }
    }

    #[test]
    fn long_watches_end_without_delay() {
        let mut backoff = default();
        let now = Instant::now();
        for _ in 0..8 {
            backoff.step(Input::Failed, now);
        }
        backoff.step(Input::Opened, now);
        assert_eq!(backoff.step(Input::Ended, now + STEADY), Duration::ZERO);
        assert_eq!(backoff.failures(), 0);
        backoff.step(Input::Opened, now);
        let early = now + STEADY - Duration::from_millis(1);
        assert!(backoff.step(Input::Ended, early) > Duration::ZERO);
    }

    #[test]
    fn watches_that_the_settings_keep_short_end_without_delay() {
        let mut settings = Watching::default();
        settings.server_timeout = Some(seconds(5));
        let mut backoff = Backoff::new(&settings, 1);
        let now = Instant::now();
        backoff.step(Input::Opened, now);
        assert_eq!(backoff.step(Input::Ended, now + seconds(4)), Duration::ZERO);
        backoff.step(Input::Opened, now);
        assert!(backoff.step(Input::Ended, now + seconds(2)) > Duration::ZERO);
    }

    #[test]
    fn relistings_slow_down_although_events_arrive() {
        let mut backoff = default();
        let mut now = Instant::now();
        let mut expected = Duration::from_millis(100);
        for _ in 0..20 {
            backoff.step(Input::Listed, now);
            backoff.step(Input::Opened, now);
            backoff.step(Input::Progress, now);
            let delay = backoff.step(Input::Relist, now);
            assert!(is_about(delay, expected), "{delay:?}");
            expected = (expected * 2).min(LONGEST);
            now += delay;
        }
        backoff.step(Input::Listed, now);
        backoff.step(Input::Opened, now);
        let delay = backoff.step(Input::Relist, now + STEADY);
        assert!(is_about(delay, Duration::from_millis(100)), "{delay:?}");
    }

    #[test]
    fn extreme_settings_are_bounded() {
        let now = Instant::now();
        let first = |setting| backoff(setting).step(Input::Failed, now);
        assert!(is_about(first(Duration::ZERO), SHORTEST));
        assert!(is_about(first(Duration::MAX), LONGEST));
    }

    #[derive(Clone, Copy, Debug)]
    struct Step {
        input: Input,
        /// The time before the input, in milliseconds.
        takes: u64,
    }

    fn steps(inputs: &'static [Input]) -> impl Strategy<Value = Vec<Step>> {
        let step = (proptest::sample::select(inputs), 0_u64..40);
        let step = step.prop_map(|(input, takes)| Step { input, takes });
        proptest::collection::vec(step, 1..200)
    }

    /// Inputs after which the observer sends a request.
    fn sends(input: Input) -> bool {
        !matches!(input, Input::Opened | Input::Progress | Input::Listed)
    }

    proptest! {
        /// Without progress, the n-th delay is at least what n doublings give, so that the number
        /// of requests in any minute is bounded.
        #[test]
        fn delays_grow_without_progress(
            steps in steps(&[
                Input::Opened, Input::Listed, Input::Ended, Input::Failed, Input::Relist, Input::Missing,
            ]),
            seed in any::<u64>(),
        ) {
            let mut backoff = Backoff::new(&Watching::default(), seed);
            let mut now = Instant::now();
            let mut expected = Duration::from_millis(100);
            let mut requests = Vec::new();
            for Step { input, takes } in steps {
                now += Duration::from_millis(takes);
                let delay = backoff.step(input, now);
                prop_assert_eq!(delay.is_zero(), !sends(input));
                if sends(input) {
                    prop_assert!(delay >= expected * 3 / 4, "{:?} after {:?}", delay, input);
                    prop_assert!(delay <= LONGEST * 5 / 4);
                    expected = (expected * 2).min(LONGEST);
                    now += delay;
                    requests.push(now);
                }
            }
            for (index, request) in requests.iter().enumerate() {
                let within = requests[index..].iter().take_while(|at| **at < *request + seconds(60));
                // Ten doublings of 0.1 s exceed a minute.
                prop_assert!(within.count() <= 11);
            }
        }

        /// Requests are spaced in any case, even with progress.
        #[test]
        fn requests_are_always_spaced(
            steps in steps(&[
                Input::Opened, Input::Progress, Input::Listed, Input::Ended, Input::Failed,
                Input::Unreachable, Input::Relist, Input::Missing, Input::Refused,
            ]),
        ) {
            let mut backoff = default();
            let mut now = Instant::now();
            let mut last = None;
            for Step { input, takes } in steps {
                now += Duration::from_millis(takes);
                let delay = backoff.step(input, now);
                if sends(input) {
                    now += delay;
                    if let Some(last) = last.replace(now) {
                        prop_assert!(now.duration_since(last) >= Duration::from_millis(75));
                    }
                }
            }
        }
    }
}
