//! Timestamps of objects: RFC 3339 in UTC, with a precision of seconds or microseconds.

use jiff::Timestamp;

/// The precision of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    Seconds,
    Micros,
}

/// Returns the canonical form of a timestamp. The error is that of Go's parser.
pub(crate) fn canonical(text: &str, precision: Precision) -> Result<String, String> {
    let layout = match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z07:00",
        Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
    };
    let wrong = |rest: &str, element: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quoted(text),
            quoted(layout),
            quoted(rest),
            quoted(element)
        )
    };
    let mut rest = text;
    for element in [
        "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05",
    ] {
        let after = if element.len() > 1 {
            after_digits(rest, element.len())
        } else {
            rest.strip_prefix(element)
        };
        rest = after.ok_or_else(|| wrong(rest, element))?;
    }
    let fraction = rest.strip_prefix('.').map_or(0, |digits| {
        digits.len()
            - digits
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len()
    });
    if precision == Precision::Micros && fraction != 6 {
        return Err(wrong(rest, ".000000"));
    }
    if fraction > 0 {
        rest = rest.get(1 + fraction..).unwrap_or_default();
    }
    match after_zone(rest) {
        Some("") => {}
        Some(extra) => {
            let (text, extra) = (quoted(text), quoted(extra));
            return Err(format!("parsing time {text}: extra text: {extra}"));
        }
        None => return Err(wrong(rest, "Z07:00")),
    }
    let out_of_range = |what: &str| format!("parsing time {}: {what} out of range", quoted(text));
    let moment: Timestamp = text.parse().map_err(|_| out_of_range(culprit(text)))?;
    Ok(match precision {
        // Truncated, not rounded: a timestamp never moves into the future.
        Precision::Seconds => moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Precision::Micros => moment.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
    })
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the rest after a time zone.
fn after_zone(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some(rest);
    }
    let hours = after_digits(text.strip_prefix(['+', '-'])?, 2)?;
    after_digits(hours.strip_prefix(':')?, 2)
}

/// Returns the rest after exactly this many digits.
fn after_digits(text: &str, width: usize) -> Option<&str> {
    let digits = text.as_bytes().get(..width)?;
    if digits.iter().all(u8::is_ascii_digit) {
        text.get(width..)
    } else {
        None
    }
}

/// Returns the part of a well-formed timestamp that is out of range.
fn culprit(text: &str) -> &'static str {
    let part = |from: usize| {
        text.get(from..from + 2)
            .and_then(|digits| digits.parse::<u8>().ok())
            .unwrap_or_default()
    };
    if !(1..=12).contains(&part(5)) {
        "month"
    } else if part(11) > 23 {
        "hour"
    } else if part(14) > 59 {
        "minute"
    } else if part(17) > 59 {
        "second"
    } else {
        "day"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timestamps_are_converted_to_utc() {
        let seconds = |text| canonical(text, Precision::Seconds);
        assert_eq!(
            seconds("2024-02-29T10:00:00Z").unwrap(),
            "2024-02-29T10:00:00Z"
        );
        assert_eq!(
            seconds("2024-02-29T10:00:00.987Z").unwrap(),
            "2024-02-29T10:00:00Z"
        );
        assert_eq!(
            seconds("2024-01-01T01:00:00+02:00").unwrap(),
            "2023-12-31T23:00:00Z"
        );
        let micros = |text| canonical(text, Precision::Micros);
        assert_eq!(
            micros("2024-01-01T00:00:00.000001Z").unwrap(),
            "2024-01-01T00:00:00.000001Z"
        );
        assert_eq!(
            micros("2024-01-01T01:00:00.500000+01:00").unwrap(),
            "2024-01-01T00:00:00.500000Z"
        );
    }

    #[test]
    fn malformed_timestamps_are_rejected_with_the_wording_of_go() {
        let seconds = |text| canonical(text, Precision::Seconds).unwrap_err();
        assert_eq!(
            seconds("yesterday"),
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": \
             cannot parse \"yesterday\" as \"2006\""
        );
        assert_eq!(
            seconds("2024-01-01"),
            "parsing time \"2024-01-01\" as \"2006-01-02T15:04:05Z07:00\": \
             cannot parse \"\" as \"T\""
        );
        assert_eq!(
            seconds("2024-13-01T00:00:00Z"),
            "parsing time \"2024-13-01T00:00:00Z\": month out of range"
        );
        assert_eq!(
            canonical("2024-01-01T00:00:00Z", Precision::Micros).unwrap_err(),
            "parsing time \"2024-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
             cannot parse \"Z\" as \".000000\""
        );
    }

    proptest! {
        #[test]
        fn random_strings_never_panic(
            text in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})|.{0,30}"
        ) {
            if let Ok(once) = canonical(&text, Precision::Seconds) {
                prop_assert_eq!(canonical(&once, Precision::Seconds), Ok(once.clone()));
            }
            let _ = canonical(&text, Precision::Micros);
        }
    }
}
