//! Methods of strings that differ from those of the crates.

use std::sync::Arc;

use kube_cel::cel::Value;

use super::evaluate::Outcome;
use super::opaque::list;
use super::patterns;

/// Calls a method of a string. Returns `None` for other functions.
pub(super) fn call(name: &str, all: &[&Value]) -> Option<Outcome> {
    let [Value::String(text), rest @ ..] = all else {
        return None;
    };
    Some(match (name, rest) {
        ("charAt", [Value::Int(at)]) => char_at(text, *at),
        ("substring", [Value::Int(start)]) => substring(text, *start, None),
        ("substring", [Value::Int(start), Value::Int(end)]) => substring(text, *start, Some(*end)),
        ("split", [Value::String(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Value::String(separator), Value::Int(limit)]) => {
            Ok(split(text, separator, *limit))
        }
        ("indexOf" | "lastIndexOf", [Value::String(_), Value::Int(at)]) if *at < 0 => {
            Err(out_of_range(*at))
        }
        ("lastIndexOf", [Value::String(part), Value::Int(at)])
            if usize::try_from(*at).is_ok_and(|at| at >= text.chars().count())
                && !part.is_empty() =>
        {
            Ok(Value::Int(-1))
        }
        ("matches", [Value::String(pattern)]) => {
            patterns::compiled(pattern).map(|it| Value::Bool(it.is_match(text)))
        }
        ("find", [Value::String(pattern)]) => patterns::compiled(pattern).map(|it| {
            let found = it.find(text).map_or("", |found| found.as_str());
            Value::String(Arc::new(found.to_owned()))
        }),
        ("findAll", [Value::String(pattern)]) => found(text, pattern, -1),
        ("findAll", [Value::String(pattern), Value::Int(limit)]) => found(text, pattern, *limit),
        _ => return None,
    })
}

fn out_of_range(index: i64) -> String {
    format!("index out of range: {index}")
}

/// Returns all matches of a pattern. A negative limit is none.
fn found(text: &str, pattern: &str, limit: i64) -> Outcome {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let pattern = patterns::compiled(pattern)?;
    let found = pattern.find_iter(text).take(limit);
    let texts = found.map(|found| Value::String(Arc::new(found.as_str().to_owned())));
    Ok(list(texts.collect()))
}

fn char_at(text: &str, at: i64) -> Outcome {
    let index = usize::try_from(at).map_err(|_| out_of_range(at))?;
    let found = match text.chars().nth(index) {
        Some(found) => found.to_string(),
        None if index == text.chars().count() => String::new(),
        None => return Err(out_of_range(at)),
    };
    Ok(Value::String(Arc::new(found)))
}

fn substring(text: &str, start: i64, end: Option<i64>) -> Outcome {
    let length = text.chars().count();
    let checked = |at: i64| {
        let index = usize::try_from(at).ok().filter(|index| *index <= length);
        index.ok_or_else(|| out_of_range(at))
    };
    let (from, to) = match end {
        Some(end) if start > end => {
            return Err(format!(
                "invalid substring range. start: {start}, end: {end}"
            ));
        }
        Some(end) => (checked(start)?, checked(end)?),
        None => (checked(start)?, length),
    };
    let part: String = text
        .chars()
        .skip(from)
        .take(to.saturating_sub(from))
        .collect();
    Ok(Value::String(Arc::new(part)))
}

/// Splits a string. An empty separator separates all characters; a negative limit is none.
fn split(text: &str, separator: &str, limit: i64) -> Value {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts: Vec<String> = Vec::new();
    let mut rest = text;
    while parts.len().saturating_add(1) < limit {
        let (part, after) = if separator.is_empty() {
            let end = rest.chars().next().map_or(0, char::len_utf8);
            if end == rest.len() {
                break;
            }
            rest.split_at(end)
        } else {
            match rest.split_once(separator) {
                Some(split) => split,
                None => break,
            }
        };
        parts.push(part.to_owned());
        rest = after;
    }
    if limit > 0 && !(separator.is_empty() && text.is_empty()) {
        parts.push(rest.to_owned());
    }
    let parts = parts.into_iter().map(|part| Value::String(Arc::new(part)));
    list(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_split_as_on_a_real_server() {
        for (text, separator, limit, count) in [
            ("a,b,c", ",", -1, 3),
            ("a,b,c", ",", 2, 2),
            ("a,b,c", ",", 1, 1),
            ("a,b,c", ",", 0, 0),
            ("abc", "", -1, 3),
            ("abc", "", 2, 2),
            ("", ",", -1, 1),
            ("", "", -1, 0),
        ] {
            let Value::List(parts) = split(text, separator, limit) else {
                panic!("{text}");
            };
            assert_eq!(parts.len(), count, "{text} {separator} {limit}");
        }
    }
}
