//! The time for which processes have waited for a processor: on a busy machine, an operator that is silent may
//! have work to do, and no turn.

use std::time::Duration;

/// Returns the sum of the waits of all threads of process groups. Zero on systems that do not count it.
#[cfg(target_os = "linux")]
pub(super) fn waited(groups: &[u32]) -> Duration {
    if groups.is_empty() {
        return Duration::ZERO;
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let nanos = processes
        .map(|entry| entry.path())
        .filter(|path| {
            // Processes may end while they are read.
            let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
            group(&stat).is_some_and(|group| groups.contains(&group))
        })
        .flat_map(|path| std::fs::read_dir(path.join("task")).into_iter().flatten())
        .flatten()
        .filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum();
    Duration::from_nanos(nanos)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn waited(_groups: &[u32]) -> Duration {
    Duration::ZERO
}

/// Returns the process group from `/proc/PID/stat`. The name of the program may contain any character.
#[cfg(target_os = "linux")]
fn group(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(2)?.parse().ok()
}

/// The silence of an operator, without the time in which it had no turn.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// The waits at the last look.
    waited: Duration,
    /// The time since the last change that does not count.
    lost: Duration,
}

impl Silence {
    /// Takes a look at a silence, some time after the last look, which should have been `usual`. Returns the time of
    /// it that does not count: this program was late itself, or the operator waited for a processor.
    pub(super) fn look(
        &mut self,
        quiet_for: Duration,
        elapsed: Duration,
        usual: Duration,
        waited: Duration,
    ) -> Duration {
        // The waits of processes that have ended are gone.
        let without_turn = waited.saturating_sub(self.waited);
        self.waited = waited;
        let late = elapsed.saturating_sub(usual * 2);
        let lost = late.max(without_turn).min(elapsed);
        if quiet_for < elapsed {
            // There was a change since the last look.
            self.lost = Duration::ZERO;
        }
        self.lost = (self.lost + lost).min(quiet_for);
        lost
    }

    /// Returns the part of a silence that counts.
    pub(super) fn counted(&self, quiet_for: Duration) -> Duration {
        quiet_for.saturating_sub(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn silence_without_a_turn_does_not_count() {
        let mut silence = Silence::default();
        // The waits before the first look may be long ago.
        silence.look(ms(50), ms(100), ms(100), ms(5000));
        assert_eq!(silence.counted(ms(50)), ms(0));
        silence.look(ms(90), ms(100), ms(100), ms(5000));
        assert_eq!(silence.counted(ms(90)), ms(90), "a change begins another");
        assert_eq!(silence.look(ms(200), ms(100), ms(100), ms(5080)), ms(80));
        assert_eq!(silence.counted(ms(200)), ms(120));
        silence.look(ms(1100), ms(900), ms(100), ms(5080));
        assert_eq!(silence.counted(ms(1100)), ms(320), "the look was late");
        silence.look(ms(1200), ms(100), ms(100), ms(9000));
        assert_eq!(
            silence.counted(ms(1200)),
            ms(320),
            "never more than the time"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn groups_are_read_whatever_the_name_of_the_program() {
        assert_eq!(group("12 (a) b) c) S 1 77 12 0 -1"), Some(77));
        assert_eq!(group(""), None);
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(waited(&[group(&own).unwrap()]) > Duration::ZERO);
        assert_eq!(waited(&[]), Duration::ZERO);
    }
}
