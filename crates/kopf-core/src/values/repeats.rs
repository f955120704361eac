//! The pace of equal Kubernetes events: the first is posted at once, the next ones after growing
//! delays.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

/// The delay between the first two equal events. It doubles with each one.
const FIRST_DELAY: Duration = Duration::from_secs(2);

/// The longest delay between equal events.
const LONGEST_DELAY: Duration = Duration::from_secs(600);

/// The time without equal events after which the next one counts as the first.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1_200);

/// The times at which events were posted, by the digests of the events.
///
/// The memory is bounded: if there are too many different events, the older half is forgotten, so
/// that these are posted at once again.
#[derive(Debug)]
pub struct Repeats {
    posted: HashMap<u64, Posted>,
    limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    at: Timestamp,
    /// The time until the next equal event.
    delay: Duration,
}

impl Repeats {
    /// Creates an empty history of this many events at most.
    pub fn new(limit: usize) -> Self {
        Self {
            posted: HashMap::new(),
            limit: limit.max(1),
        }
    }

    /// Returns the time at which an event with this digest can be posted; `None` for immediately.
    pub fn due(&self, digest: u64, now: Timestamp) -> Option<Timestamp> {
        let posted = self.posted.get(&digest)?;
        let due = later(posted.at, posted.delay);
        (now < due).then_some(due)
    }

    /// Notes that an event with this digest is posted. Returns `true` if it is a repeat.
    pub fn note(&mut self, digest: u64, now: Timestamp) -> bool {
        let known = self.posted.get(&digest).copied();
        let known = known.filter(|posted| now <= later(posted.at, FORGOTTEN_AFTER));
        let delay = known.map_or(FIRST_DELAY, |posted| {
            posted.delay.saturating_mul(2).min(LONGEST_DELAY)
        });
        if known.is_none() && self.posted.len() >= self.limit {
            self.forget_half(now);
        }
        self.posted.insert(digest, Posted { at: now, delay });
        known.is_some()
    }

    fn forget_half(&mut self, now: Timestamp) {
        self.posted
            .retain(|_, posted| now <= later(posted.at, FORGOTTEN_AFTER));
        if self.posted.len() < self.limit {
            return;
        }
        let mut times: Vec<Timestamp> = self.posted.values().map(|posted| posted.at).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.posted.retain(|_, posted| posted.at > median);
    }
}

fn later(time: Timestamp, delay: Duration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns the seconds at which events are posted that occur at this interval.
    fn posted(interval: usize, seconds: i64) -> Vec<i64> {
        let mut repeats = Repeats::new(10);
        let mut posted = Vec::new();
        for second in (0..seconds).step_by(interval) {
            if repeats.due(7, at(second)).is_none() {
                repeats.note(7, at(second));
                posted.push(second);
            }
        }
        posted
    }

    #[test]
    fn delays_double_up_to_ten_minutes() {
        let expected = [
            0, 2, 6, 14, 30, 62, 126, 254, 510, 1_022, 1_622, 2_222, 2_822, 3_422,
        ];
        assert_eq!(posted(1, 3_600), expected);
        assert_eq!(posted(3, 60), [0, 3, 9, 18, 36]);
    }

    #[test]
    fn rare_events_are_posted_at_once() {
        assert_eq!(posted(700, 3_000), [0, 700, 1_400, 2_100, 2_800]);
    }

    #[test]
    fn events_are_forgotten_after_a_while() {
        let mut repeats = Repeats::new(10);
        assert!(!repeats.note(7, at(0)));
        assert!(repeats.note(7, at(2)) && repeats.note(7, at(6)));
        assert_eq!(repeats.due(7, at(7)), Some(at(14)));
        assert!(!repeats.note(7, at(5_000)));
        assert_eq!(repeats.due(7, at(5_001)), Some(at(5_002)));
        assert_eq!(repeats.due(8, at(5_001)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut repeats = Repeats::new(10);
        for digest in 0..1_000 {
            repeats.note(digest, at(i64::try_from(digest).unwrap()));
        }
        assert!(repeats.posted.len() <= 10);
        assert!(repeats.posted.contains_key(&999));
        let mut repeats = Repeats::new(10);
        for digest in 0..1_000 {
            repeats.note(digest, at(0));
        }
        assert!(repeats.posted.len() <= 10, "even if all are equally old");
    }
}
