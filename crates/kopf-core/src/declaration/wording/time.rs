//! Formatting of times in messages, as in the original.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// A `Display` value of a closure, so that nothing is formatted before it is needed.
pub(super) struct Lazy<F>(pub(super) F);

impl<F: Fn(&mut Formatter<'_>) -> fmt::Result> Display for Lazy<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

/// Formats a setting in seconds as its author wrote it: `60`, `0.5`.
pub fn seconds(duration: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write_seconds(f, duration, false))
}

/// Formats a measured time in seconds: `1.0`, `0.985344`.
pub fn measured(duration: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write_seconds(f, duration, true))
}

/// Formats a long time as Python's time differences: `0:00:05.250000`, `1 day, 2:03:04`.
pub fn elapsed(duration: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let total = duration.as_secs();
        let days = total / 86_400;
        if days > 0 {
            write!(f, "{days} day{}, ", if days == 1 { "" } else { "s" })?;
        }
        let (hours, minutes) = (total % 86_400 / 3_600, total % 3_600 / 60);
        write!(f, "{hours}:{minutes:02}:{:02}", total % 60)?;
        match duration.subsec_micros() {
            0 => Ok(()),
            micros => write!(f, ".{micros:06}"),
        }
    })
}

fn write_seconds(f: &mut Formatter<'_>, duration: Duration, always_fraction: bool) -> fmt::Result {
    write!(f, "{}", duration.as_secs())?;
    let fraction = format!("{:06}", duration.subsec_micros());
    match fraction.trim_end_matches('0') {
        "" if always_fraction => f.write_str(".0"),
        "" => Ok(()),
        digits => write!(f, ".{digits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_settings_have_a_fraction_only_if_there_is_one() {
        assert_eq!(seconds(Duration::from_secs(60)).to_string(), "60");
        assert_eq!(seconds(Duration::from_millis(500)).to_string(), "0.5");
    }

    #[test]
    fn measured_seconds_always_have_a_fraction() {
        assert_eq!(measured(Duration::from_secs(1)).to_string(), "1.0");
        assert_eq!(
            measured(Duration::from_micros(985_344)).to_string(),
            "0.985344"
        );
        assert_eq!(
            measured(Duration::from_nanos(1_500_000_999)).to_string(),
            "1.5"
        );
    }

    #[test]
    fn elapsed_time_matches_python() {
        for (micros, expected) in [
            (0, "0:00:00"),
            (5_250_000, "0:00:05.250000"),
            (3_723_000_000, "1:02:03"),
            (86_400_000_000, "1 day, 0:00:00"),
            (2 * 86_400_000_000 + 1, "2 days, 0:00:00.000001"),
        ] {
            assert_eq!(elapsed(Duration::from_micros(micros)).to_string(), expected);
        }
    }
}
