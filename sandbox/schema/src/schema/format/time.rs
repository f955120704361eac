//! Formats of dates, times and durations.

use jiff::civil::Date;

/// Returns `true` for `2006-01-02` with an existing day.
pub(super) fn is_date(text: &str) -> bool {
    let number = |range: std::ops::Range<usize>| -> Option<i16> {
        let digits = text.get(range)?;
        digits
            .chars()
            .all(|c| c.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let parsed = || {
        if text.len() != 10 || text.get(4..5)? != "-" || text.get(7..8)? != "-" {
            return None;
        }
        let month = i8::try_from(number(5..7)?).ok()?;
        let day = i8::try_from(number(8..10)?).ok()?;
        Date::new(number(0..4)?, month, day).ok()
    };
    parsed().is_some()
}

/// Returns `true` for a date, a `T`, a time of day, and `Z` or an offset.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let two = |from: usize| {
        let digits = text.get(from..from.saturating_add(2))?;
        digits.chars().all(|c| c.is_ascii_digit()).then_some(digits)
    };
    let (Some(hour), Some(minute), Some(second)) = (two(0), two(3), two(6)) else {
        return false;
    };
    if text.get(2..3) != Some(":") || text.get(5..6) != Some(":") {
        return false;
    }
    let Some(rest) = text.get(8..) else {
        return false;
    };
    // The server accepts any single character instead of the dot, followed by at least one digit.
    let mut chars = rest.chars();
    chars.next();
    let fraction = chars.as_str();
    let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_zone = |zone: &str| zone == "z" || is_offset(zone);
    let zone_fits = is_zone(rest) || (after.len() < fraction.len() && is_zone(after));
    zone_fits && hour <= "23" && minute <= "59" && second <= "59"
}

fn is_offset(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['+', '-']) else {
        return false;
    };
    rest.len() == 5
        && rest.char_indices().all(|(index, c)| {
            if index == 2 {
                c == ':'
            } else {
                c.is_ascii_digit()
            }
        })
}

/// Returns `true` for `1h30m`, and for strings with at least one count and unit, such as `3 days`.
pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text) || counted_units(text).unwrap_or(false)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let whole = after.len() < rest.len();
        let tail = after.strip_prefix('.').unwrap_or(after);
        let after_fraction = tail.trim_start_matches(|c: char| c.is_ascii_digit());
        if !whole && after_fraction.len() == tail.len() {
            return false;
        }
        let end = after_fraction
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after_fraction.len());
        let (unit, next) = after_fraction.split_at(end);
        if !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = next;
    }
    true
}

/// Returns `true` if any unit is recognised; `None` if a count is too large.
fn counted_units(text: &str) -> Option<bool> {
    let mut found = false;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest.get(start..)?;
        let after = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        let count = digits.get(..digits.len().saturating_sub(after.len()))?;
        let unit_and_rest = after.trim_start_matches([' ', '\t', '\n', '\r', '\x0C']);
        let tail = unit_and_rest.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
        let unit = unit_and_rest.get(..unit_and_rest.len().saturating_sub(tail.len()))?;
        rest = if unit.is_empty() { after } else { tail };
        if unit.is_empty() {
            continue;
        }
        count.parse::<i64>().ok()?;
        let unit = unit.to_lowercase();
        let exact = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
        let starts = [
            "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
        ];
        found |= exact.contains(&unit.as_str()) || starts.iter().any(|name| unit.starts_with(name));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_dates_are_rejected() {
        assert!(is_date("2024-02-29") && is_date("0001-01-01"));
        for bad in [
            "2023-02-29",
            "2024-13-01",
            "2024-1-01",
            "24-01-01",
            "2024-01-01T",
            "+024-01-01",
        ] {
            assert!(!is_date(bad), "{bad}");
        }
    }

    #[test]
    fn times_without_a_zone_are_rejected() {
        for good in [
            "2014-12-15T19:30:20Z",
            "2014-12-15t19:30:20.000z",
            "2014-12-15T19:30:20+01:00",
        ] {
            assert!(is_date_time(good), "{good}");
        }
        for bad in [
            "2014-12-15",
            "2014-12-15T19:30:20",
            "2014-12-15T24:30:20Z",
            "2014-12-15T19:30Z",
            "é",
        ] {
            assert!(!is_date_time(bad), "{bad}");
        }
    }

    #[test]
    fn both_duration_syntaxes_are_accepted() {
        for good in [
            "1h30m",
            "-1.5s",
            "0",
            ".5ms",
            "3 days",
            "2 weeks 1 sec",
            "1hr",
        ] {
            assert!(is_duration(good), "{good}");
        }
        for bad in ["", "1", "h", "3 parsecs", "-", "99999999999999999999 days"] {
            assert!(!is_duration(bad), "{bad}");
        }
    }
}
