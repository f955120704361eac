//! Timestamps and durations.

use chrono::{DateTime, FixedOffset, TimeDelta};
use kube_cel::cel::Value;

use super::arithmetic::OVERFLOW;
use super::evaluate::Outcome;
use super::operators::NO_OVERLOAD;

/// Seconds of the first and after the last timestamp: the years 1 to 9999.
const RANGE: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

/// Converts a value to a timestamp.
pub(super) fn timestamp(value: &Value) -> Outcome {
    let time = match value {
        Value::Timestamp(_) => return Ok(value.clone()),
        Value::Int(seconds) => {
            let time = DateTime::from_timestamp(*seconds, 0).map(|time| time.fixed_offset());
            return in_range(time);
        }
        Value::String(text) if is_rfc3339(text) => DateTime::parse_from_rfc3339(text).ok(),
        Value::String(_) => None,
        _ => return Err(NO_OVERLOAD.to_owned()),
    };
    let problem = "type conversion error from 'string' to 'google.protobuf.Timestamp'";
    in_range(time).map_err(|_| problem.to_owned())
}

/// Returns a timestamp that is not before the year 1 or after 9999.
pub(super) fn in_range(time: Option<DateTime<FixedOffset>>) -> Outcome {
    let time = time.filter(|time| RANGE.contains(&time.timestamp()));
    time.map(Value::Timestamp)
        .ok_or("timestamp overflow".into())
}

/// Returns a duration whose nanoseconds fit into 64 bits.
pub(super) fn bounded(duration: Option<TimeDelta>) -> Outcome {
    let duration = duration.filter(|duration| duration.num_nanoseconds().is_some());
    duration.map(Value::Duration).ok_or(OVERFLOW.into())
}

/// Returns `true` if a text has the separators of RFC 3339, which the parser does not require.
fn is_rfc3339(text: &str) -> bool {
    text.as_bytes().get(10) == Some(&b'T') && !text.contains(['t', 'z', ' '])
}

/// Converts a value to a duration.
pub(super) fn duration(value: &Value) -> Outcome {
    match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::String(text) => parsed(text).map(Value::Duration).ok_or_else(|| {
            "type conversion error from 'string' to 'google.protobuf.Duration'".into()
        }),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

/// Parses a duration such as `-1h30m0.5s`.
fn parsed(text: &str) -> Option<TimeDelta> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1 } else { 1 };
    if unsigned == "0" {
        return Some(TimeDelta::zero());
    }
    let (mut rest, mut sum) = (unsigned, 0_i128);
    while !rest.is_empty() || unsigned.is_empty() {
        let end = rest.find(|it: char| !(it.is_ascii_digit() || it == '.'))?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|it: char| it.is_ascii_digit() || it == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        sum = sum.checked_add(nanoseconds(number, unit)?)?;
        rest = after;
    }
    let sum = i64::try_from(sum.checked_mul(sign)?).ok()?;
    Some(TimeDelta::nanoseconds(sum))
}

/// Returns the nanoseconds of a number with a unit.
fn nanoseconds(number: &str, unit: &str) -> Option<i128> {
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<i128>().ok()
        }
    };
    // More digits do not change the result.
    let fraction = fraction.get(..18).unwrap_or(fraction);
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let part = digits(fraction)?.checked_mul(unit)? / scale;
    digits(whole)?.checked_mul(unit)?.checked_add(part)
}

/// Returns the text of a timestamp or duration.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Timestamp(time) => {
            let text = time.to_rfc3339();
            match text.strip_suffix("+00:00") {
                Some(utc) if utc.contains('.') => format!("{}Z", utc.trim_end_matches('0')),
                Some(utc) => format!("{utc}Z"),
                None => text,
            }
        }
        Value::Duration(duration) => {
            let (seconds, rest) = (duration.num_seconds(), duration.subsec_nanos().abs());
            let sign = if duration.num_nanoseconds().is_some_and(|all| all < 0) {
                "-"
            } else {
                ""
            };
            let text = format!("{sign}{}.{rest:09}", seconds.abs());
            format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => String::new(),
    }
}

/// Calls a method of a timestamp. Returns `None` for other functions.
pub(super) fn call(name: &str, all: &[&Value]) -> Option<Outcome> {
    let (time, zone) = match all {
        [Value::Timestamp(time)] => (time, "UTC"),
        [Value::Timestamp(time), Value::String(zone)] => (time, zone.as_str()),
        _ => return None,
    };
    if !name.starts_with("get") {
        return None;
    }
    let nanoseconds = i32::try_from(time.timestamp_subsec_nanos()).unwrap_or_default();
    let time = jiff::Timestamp::new(time.timestamp(), nanoseconds).ok()?;
    let Some(zone) = zone_named(zone) else {
        return Some(Err(format!("unknown time zone {zone}")));
    };
    let local = time.to_zoned(zone);
    Some(Ok(Value::Int(match name {
        "getFullYear" => local.year().into(),
        "getMonth" => i64::from(local.month()) - 1,
        "getDate" => local.day().into(),
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDayOfWeek" => local.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getHours" => local.hour().into(),
        "getMinutes" => local.minute().into(),
        "getSeconds" => local.second().into(),
        "getMilliseconds" => local.millisecond().into(),
        _ => return None,
    })))
}

/// Returns a time zone: `UTC`, a name such as `Europe/Berlin`, or an offset such as `+02:00`.
fn zone_named(name: &str) -> Option<jiff::tz::TimeZone> {
    use jiff::tz::{Offset, TimeZone};
    if name == "UTC" || name.is_empty() {
        return Some(TimeZone::UTC);
    }
    if let Some((hours, minutes)) = name.split_once(':') {
        let negative = hours.starts_with('-');
        let hours: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
        let minutes: i32 = minutes.parse().ok()?;
        let seconds = hours
            .checked_mul(3600)?
            .checked_add(minutes.checked_mul(60)?)?;
        let seconds = if negative { -seconds } else { seconds };
        return Some(TimeZone::fixed(Offset::from_seconds(seconds).ok()?));
    }
    TimeZone::get(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_strictly() {
        for (text, nanoseconds) in [
            ("1h1m", Some(3_660_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("+.5ms", Some(500_000)),
            ("1µs", Some(1_000)),
            ("0", Some(0)),
            ("1h 1m", None),
            ("1", None),
            ("", None),
            ("-", None),
            (".s", None),
            ("1.2.3s", None),
            ("2562048h", None),
            ("1x", None),
        ] {
            let parsed = parsed(text).and_then(|it| it.num_nanoseconds());
            assert_eq!(parsed, nanoseconds, "{text}");
        }
    }

    #[test]
    fn timestamps_are_parsed_strictly() {
        for (text, valid) in [
            ("2020-01-01T00:00:00Z", true),
            ("2020-01-01T00:00:00.123456789+02:00", true),
            ("0001-01-01T00:00:00Z", true),
            ("2020-01-01 00:00:00Z", false),
            ("2020-01-01t00:00:00Z", false),
            ("2020-01-01T00:00:00z", false),
            ("0000-01-01T00:00:00Z", false),
            ("2020-01-01", false),
            ("", false),
        ] {
            let value = Value::from(text);
            assert_eq!(timestamp(&value).is_ok(), valid, "{text}");
        }
        assert!(timestamp(&Value::Int(-62_135_596_801)).is_err());
    }
}
