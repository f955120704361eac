//! `<string>.format(<list>)`

use std::fmt::Write as _;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Key;

use super::conversions::float_text;
use super::evaluate::Outcome;
use super::opaque::{TypeName, as_list, type_name};
use super::times;

/// Formats values: `%s`, `%d`, `%f`, `%e`, `%b`, `%o`, `%x`, `%X` and `%%`.
pub(super) fn formatted(text: &str, values: &[Value]) -> Outcome {
    let mut result = String::new();
    let mut values = values.iter().enumerate();
    let mut characters = text.chars().peekable();
    let mut used = 0;
    while let Some(character) = characters.next() {
        if character != '%' {
            result.push(character);
            continue;
        }
        if characters.next_if_eq(&'%').is_some() {
            result.push('%');
            continue;
        }
        let mut precision = None;
        if characters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = characters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = digits.parse().ok();
        }
        let Some(clause) = characters.next() else {
            return Err("unexpected end of string".to_owned());
        };
        let Some((_, value)) = values.next() else {
            return Err(format!("index {used} out of range"));
        };
        used += 1;
        result.push_str(&clause_text(clause, value, precision)?);
    }
    Ok(Value::String(Arc::new(result)))
}

fn clause_text(clause: char, value: &Value, precision: Option<usize>) -> Result<String, String> {
    let wrong = |what: &str| {
        let of = type_name(value);
        Err(format!("error during formatting: {what}, was given {of}"))
    };
    Ok(match (clause, value) {
        ('s', _) => match plain_text(value) {
            Some(text) => text,
            None => {
                return wrong(
                    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
                );
            }
        },
        ('d', Value::Int(number)) => number.to_string(),
        ('d', Value::UInt(number)) => number.to_string(),
        ('d', _) => return wrong("decimal clause can only be used on integers"),
        ('f', Value::Float(number)) => grouped(&format!("{number:.*}", precision.unwrap_or(6))),
        ('f', Value::String(text)) => text.to_string(),
        ('f', _) => return wrong("fixed-point clause can only be used on doubles"),
        ('e', Value::Float(number)) => scientific(*number),
        ('e', _) => return wrong("scientific clause can only be used on doubles"),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b', Value::Int(number)) => based(*number, &format!("{:b}", number.unsigned_abs())),
        ('b', Value::UInt(number)) => format!("{number:b}"),
        ('b', _) => return wrong("only integers and bools can be formatted as binary"),
        ('o', Value::Int(number)) => based(*number, &format!("{:o}", number.unsigned_abs())),
        ('o', Value::UInt(number)) => format!("{number:o}"),
        ('o', _) => return wrong("octal clause can only be used on integers"),
        ('x', _) => match hexadecimal(value) {
            Some(text) => text,
            None => {
                return wrong("only integers, byte buffers, and strings can be formatted as hex");
            }
        },
        ('X', _) => clause_text('x', value, precision)?.to_uppercase(),
        (other, _) => {
            return Err(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{other}\""
            ));
        }
    })
}

fn based(number: i64, digits: &str) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{digits}")
}

fn hexadecimal(value: &Value) -> Option<String> {
    let bytes = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    match value {
        Value::Int(number) => Some(based(*number, &format!("{:x}", number.unsigned_abs()))),
        Value::UInt(number) => Some(format!("{number:x}")),
        Value::String(text) => Some(bytes(text.as_bytes())),
        Value::Bytes(value) => Some(bytes(value)),
        _ => None,
    }
}

/// Separates the thousands of a number.
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |it| ("-", it));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// Formats a number as `1.234500×10⁰³`.
fn scientific(number: f64) -> String {
    let text = format!("{number:.6e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let raised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let sign = if exponent < 0 { "⁻" } else { "" };
    let power: String = format!("{:02}", exponent.abs())
        .chars()
        .filter_map(|digit| raised.get(digit.to_digit(10)? as usize))
        .collect();
    format!("{digits}×10{sign}{power}")
}

fn plain_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.to_string(),
        Value::Float(number) => float_text(*number),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Timestamp(_) | Value::Duration(_) => times::text(value),
        other => nested_text(other)?,
    })
}

/// Returns the text of a value inside of a list or map.
fn nested_text(value: &Value) -> Option<String> {
    if let Some(items) = as_list(value) {
        let items: Option<Vec<String>> = items.iter().map(nested_text).collect();
        return Some(format!("[{}]", items?.join(", ")));
    }
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => format!("{number:.6}"),
        Value::String(text) => format!("{:?}", text.as_str()),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Timestamp(_) => format!("timestamp(\"{}\")", times::text(value)),
        Value::Duration(_) => format!("duration(\"{}\")", times::text(value)),
        Value::Map(map) => {
            let mut entries: Vec<(&Key, &Value)> = map.map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let entries: Option<Vec<String>> = entries
                .into_iter()
                .map(|(key, value)| {
                    let key = nested_text(&Value::from(key))?;
                    Some(format!("{key}:{}", nested_text(value)?))
                })
                .collect();
            format!("{{{}}}", entries?.join(", "))
        }
        Value::Opaque(opaque) => opaque.downcast_ref::<TypeName>()?.0.clone(),
        _ => return None,
    })
}
