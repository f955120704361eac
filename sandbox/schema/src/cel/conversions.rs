//! Conversions between types: `int()`, `string()`, `timestamp()`.

use std::sync::Arc;

use kube_cel::cel::Value;

use super::arithmetic::{OVERFLOW, UNSIGNED_OVERFLOW};
use super::evaluate::Outcome;
use super::operators::NO_OVERLOAD;
use super::times;

/// Calls a conversion. Returns `None` for other functions, and for values of the crates.
pub(super) fn call(name: &str, all: &[&Value]) -> Option<Outcome> {
    let [value] = all else {
        return None;
    };
    if matches!(value, Value::Opaque(_)) {
        return None;
    }
    Some(match name {
        "int" => int(value),
        "uint" => uint(value),
        "double" => double(value),
        "string" => string(value),
        "bool" => bool(value),
        "bytes" => match value {
            Value::String(text) => Ok(Value::Bytes(Arc::new(text.as_bytes().to_vec()))),
            Value::Bytes(_) => Ok((*value).clone()),
            _ => no_overload(),
        },
        "timestamp" => times::timestamp(value),
        "duration" => times::duration(value),
        _ => return None,
    })
}

fn no_overload() -> Outcome {
    Err(NO_OVERLOAD.to_owned())
}

fn from_string(kind: &str) -> String {
    format!("type conversion error from 'string' to '{kind}'")
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the range is checked before the conversion"
)]
fn int(value: &Value) -> Outcome {
    let overflow = || OVERFLOW.to_owned();
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::UInt(number) => i64::try_from(*number)
            .map(Value::Int)
            .map_err(|_| overflow()),
        Value::Float(number) if number.abs() < i64::MAX as f64 => Ok(Value::Int(*number as i64)),
        Value::Float(_) => Err(overflow()),
        Value::String(text) => {
            let number = text.parse().map(Value::Int);
            number.map_err(|_| from_string("int"))
        }
        Value::Timestamp(time) => Ok(Value::Int(time.timestamp())),
        Value::Duration(duration) => {
            let nanoseconds = duration.num_nanoseconds().map(Value::Int);
            nanoseconds.ok_or_else(overflow)
        }
        _ => no_overload(),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the range is checked before the conversion"
)]
fn uint(value: &Value) -> Outcome {
    let overflow = || UNSIGNED_OVERFLOW.to_owned();
    match value {
        Value::UInt(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number)
            .map(Value::UInt)
            .map_err(|_| overflow()),
        Value::Float(number) if *number >= 0.0 && *number < u64::MAX as f64 => {
            Ok(Value::UInt(*number as u64))
        }
        Value::Float(_) => Err(overflow()),
        Value::String(text) if text.starts_with('+') => Err(from_string("uint")),
        Value::String(text) => {
            let number = text.parse().map(Value::UInt);
            number.map_err(|_| from_string("uint"))
        }
        _ => no_overload(),
    }
}

#[allow(clippy::cast_precision_loss, reason = "the conversion rounds")]
fn double(value: &Value) -> Outcome {
    match value {
        Value::Float(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Float(*number as f64)),
        Value::UInt(number) => Ok(Value::Float(*number as f64)),
        Value::String(text) => {
            let number = text.parse().ok();
            // Only words are infinite; a number can be too large.
            let is_word = text.ends_with(['f', 'F', 'y', 'Y']);
            let number =
                number.filter(|number: &f64| number.is_finite() || number.is_nan() || is_word);
            number
                .map(Value::Float)
                .ok_or_else(|| from_string("double"))
        }
        _ => no_overload(),
    }
}

fn bool(value: &Value) -> Outcome {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(from_string("bool")),
        },
        _ => no_overload(),
    }
}

fn string(value: &Value) -> Outcome {
    let text = match value {
        Value::String(_) => return Ok(value.clone()),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => float_text(*number),
        Value::Bytes(bytes) => match String::from_utf8(bytes.to_vec()) {
            Ok(text) => text,
            Err(_) => return Err("invalid UTF-8 in bytes, cannot convert to string".to_owned()),
        },
        Value::Timestamp(_) | Value::Duration(_) => times::text(value),
        _ => return no_overload(),
    };
    Ok(Value::String(Arc::new(text)))
}

/// Formats a number with the fewest digits, with an exponent below 1e-4 and from 1e6 on.
pub(super) fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_text_of_a_real_server() {
        for (number, text) in [
            (1.0, "1"),
            (1e6, "1e+06"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e21, "1e+21"),
            (-1.5, "-1.5"),
            (0.0, "0"),
        ] {
            assert_eq!(float_text(number), text);
        }
    }
}
