//! Timestamps and durations.

use std::sync::Arc;

use kube_cel::cel::Value;

use super::evaluate::Outcome;
use super::functions::of_library;
use super::operators::NO_OVERLOAD;

/// Converts a value to a timestamp.
pub(super) fn timestamp(value: &Value) -> Outcome {
    match value {
        Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => {
            let time = jiff::Timestamp::from_second(*seconds);
            let time = time.map_err(|_| "timestamp overflow".to_owned())?;
            timestamp(&Value::String(Arc::new(time.to_string())))
        }
        Value::String(_) => of_library("timestamp", None, vec![value.clone()]).map_err(|_| {
            "type conversion error from 'string' to 'google.protobuf.Timestamp'".into()
        }),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

/// Converts a value to a duration.
pub(super) fn duration(value: &Value) -> Outcome {
    match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::String(_) => of_library("duration", None, vec![value.clone()]).map_err(|_| {
            "type conversion error from 'string' to 'google.protobuf.Duration'".into()
        }),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
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
