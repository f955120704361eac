//! Human-readable durations.

use jiff::Timestamp;

/// Returns the time until a moment, such as `12 s`; `None` if the moment has passed.
pub(crate) fn remaining(now: Timestamp, moment: Timestamp) -> Option<String> {
    let seconds = seconds(now, moment);
    (seconds > 0).then(|| brief(seconds))
}

/// Returns the time since a moment, such as `5 min ago`.
pub(crate) fn ago(now: Timestamp, moment: Timestamp) -> String {
    format!("{} ago", brief(seconds(moment, now).max(0)))
}

/// Returns the time since an RFC 3339 timestamp, such as `5 min`; empty if it is invalid.
pub(crate) fn age(now: Timestamp, text: Option<&str>) -> String {
    let moment = text.and_then(|text| kopf_core::timestamp::parse(text).ok());
    moment.map_or_else(String::new, |moment| brief(seconds(moment, now).max(0)))
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    let duration = to.duration_since(from);
    // Rounded up: otherwise the last second would be shown as passed.
    duration.as_secs() + i64::from(duration.subsec_nanos() > 0)
}

/// Returns a duration in one unit, with about two digits.
fn brief(seconds: i64) -> String {
    match seconds {
        ..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min", seconds / 60),
        6_000..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit() {
        for (seconds, expected) in [
            (0, "0 s"),
            (99, "99 s"),
            (100, "1 min"),
            (5_999, "99 min"),
            (6_000, "1 h"),
            (172_799, "47 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(brief(seconds), expected);
        }
    }

    #[test]
    fn passed_moments_have_no_remaining_time() {
        let now = kopf_core::timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let soon = kopf_core::timestamp::parse("2026-01-02T03:04:05.5Z").unwrap();
        assert_eq!(remaining(now, soon).as_deref(), Some("1 s"));
        assert_eq!(remaining(now, now), None);
        assert_eq!(remaining(soon, now), None);
        assert_eq!(age(now, Some("garbage")), "");
        assert_eq!(age(now, Some("2026-01-02T03:03:05Z")), "60 s");
    }
}
