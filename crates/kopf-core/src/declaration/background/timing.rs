//! The timing of timers.

use std::time::Duration;

use crate::handler::Timing;

/// The next call of a timer after a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is called again after this time.
    After(Duration),
    /// It is called again when the object has changed.
    Change,
    /// It is not called again.
    Never,
}

/// Returns the next call of a timer after a success that took this long.
pub fn after_round(timing: &Timing, taken: Duration) -> Next {
    match (timing.interval, timing.idle) {
        (Some(interval), _) if timing.sharp && !interval.is_zero() => {
            let beyond = taken.as_nanos() % interval.as_nanos();
            let beyond = u64::try_from(beyond).map_or(Duration::ZERO, Duration::from_nanos);
            Next::After(interval.saturating_sub(beyond))
        }
        (Some(interval), _) => Next::After(interval),
        (None, Some(_)) => Next::Change,
        (None, None) => Next::Never,
    }
}

/// Returns the time for which an object must stay unchanged before its timer is called; `None` if
/// it was unchanged for long enough.
pub fn idle_left(timing: &Timing, unchanged: Duration) -> Option<Duration> {
    let left = timing.idle?.saturating_sub(unchanged);
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn timing(interval: Option<f64>, sharp: bool, idle: Option<f64>) -> Timing {
        Timing {
            interval: interval.map(secs),
            sharp,
            idle: idle.map(secs),
        }
    }

    #[test]
    fn next_call() {
        use Next::{After, Change, Never};
        for (interval, sharp, idle, taken, next) in [
            (Some(10.0), false, None, 0.0, After(secs(10.0))),
            (Some(10.0), false, None, 13.0, After(secs(10.0))),
            (Some(10.0), false, Some(60.0), 13.0, After(secs(10.0))),
            (Some(10.0), true, None, 0.0, After(secs(10.0))),
            (Some(10.0), true, None, 0.25, After(secs(9.75))),
            (Some(10.0), true, None, 10.0, After(secs(10.0))),
            (Some(10.0), true, None, 13.0, After(secs(7.0))),
            (Some(10.0), true, None, 20.5, After(secs(9.5))),
            (Some(0.0), true, None, 5.0, After(secs(0.0))),
            (None, false, Some(60.0), 1.0, Change),
            (None, true, Some(60.0), 1.0, Change),
            (None, false, None, 1.0, Never),
            (None, true, None, 1.0, Never),
        ] {
            let timing = timing(interval, sharp, idle);
            assert_eq!(
                after_round(&timing, secs(taken)),
                next,
                "{timing:?} after {taken}"
            );
        }
    }

    #[test]
    fn idling() {
        let idle = timing(None, false, Some(60.0));
        assert_eq!(idle_left(&idle, secs(0.0)), Some(secs(60.0)));
        assert_eq!(idle_left(&idle, secs(59.5)), Some(secs(0.5)));
        assert_eq!(idle_left(&idle, secs(60.0)), None);
        assert_eq!(idle_left(&idle, secs(600.0)), None);
        assert_eq!(idle_left(&timing(Some(10.0), true, None), secs(0.0)), None);
    }

    #[test]
    fn timeline_of_a_slow_sharp_timer() {
        let timing = timing(Some(10.0), true, None);
        let (mut now, mut starts) = (secs(0.0), Vec::new());
        for _ in 0..3 {
            starts.push(now.as_secs());
            let taken = secs(13.0);
            let Next::After(wait) = after_round(&timing, taken) else {
                panic!("an interval always goes on")
            };
            now += taken + wait;
        }
        assert_eq!(starts, [0, 20, 40]);
    }

    #[test]
    fn timeline_of_a_timer_with_everything() {
        // interval=10, idle=60, initial_delay=5; the object appears at 0 and changes at 75.
        let timing = timing(Some(10.0), false, Some(60.0));
        let (mut now, mut calls) = (secs(5.0), Vec::new());
        while calls.len() < 4 {
            let reset = if now >= secs(75.0) {
                secs(75.0)
            } else {
                secs(0.0)
            };
            if let Some(left) = idle_left(&timing, now.saturating_sub(reset)) {
                now += left;
                continue;
            }
            calls.push(now.as_secs());
            let Next::After(wait) = after_round(&timing, Duration::ZERO) else {
                panic!("an interval always goes on")
            };
            now += wait;
        }
        assert_eq!(calls, [60, 70, 135, 145]);
    }
}
