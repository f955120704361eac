//! The grammar of paths.

use serde_json::Value;

use super::{Filter, Slice, Step};

/// Maximum nesting of filters.
const MAX_NESTING: usize = 8;

/// Parses the steps of a path, or of a part of it at this nesting depth.
pub(super) fn parse_steps(text: &str, nesting: usize) -> Result<Vec<Step>, String> {
    if nesting > MAX_NESTING {
        return Err("filters are nested too deeply".to_owned());
    }
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let tail = rest.get(first.len_utf8()..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix("[?(") {
            let (filter, after) = parse_filter(after, nesting)?;
            steps.push(Step::Filter(Box::new(filter)));
            rest = after;
        } else if let Some(after) = rest.strip_prefix("..") {
            if steps.last() == Some(&Step::Recursive) {
                return Err("invalid multiple recursive descent".to_owned());
            }
            steps.push(Step::Recursive);
            rest = after;
            if after.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                let (field, after) = parse_field(after);
                steps.push(field);
                rest = after;
            }
        } else {
            rest = match first {
                ' ' | '@' | '$' => tail,
                '[' => {
                    let (inner, after) = tail
                        .split_once(']')
                        .ok_or_else(|| "unterminated array".to_owned())?;
                    parse_brackets(inner, nesting, &mut steps)?;
                    after
                }
                '"' | '\'' => {
                    let (literal, after) = parse_quoted(tail, first)?;
                    steps.push(Step::Literal(Value::String(literal)));
                    after
                }
                '.' => {
                    let (field, after) = parse_field(tail);
                    steps.push(field);
                    after
                }
                c if c == '+' || c == '-' || c.is_ascii_digit() => {
                    let (literal, after) = parse_number(rest)?;
                    steps.push(Step::Literal(literal));
                    after
                }
                c if c == '_' || c.is_alphabetic() => {
                    let (literal, after) = parse_word(rest)?;
                    steps.push(Step::Literal(literal));
                    after
                }
                other => return Err(format!("unrecognized character in action: {other:?}")),
            };
        }
    }
    Ok(steps)
}

fn parse_word(text: &str) -> Result<(Value, &str), String> {
    let end = text.find(is_terminator).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    match word {
        "true" => Ok((Value::Bool(true), after)),
        "false" => Ok((Value::Bool(false), after)),
        other => Err(format!("unrecognized identifier {other}")),
    }
}

fn is_terminator(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

/// Parses a name up to the next terminator without a backslash in front.
fn parse_field(text: &str) -> (Step, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((index, c)) = chars.next() {
        if c == '\\' {
            name.extend(
                chars
                    .next()
                    .map(|(_, next)| next)
                    .filter(|&next| next != '\\'),
            );
        } else if is_terminator(c) {
            end = index;
            break;
        } else {
            name.push(c);
        }
    }
    let step = if name == "*" {
        Step::Wildcard
    } else {
        Step::Field(name)
    };
    (step, text.get(end..).unwrap_or_default())
}

fn parse_quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut literal = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => match chars.next().map(|(_, next)| next) {
                Some('n') => literal.push('\n'),
                Some('t') => literal.push('\t'),
                Some(next) => literal.push(next),
                None => break,
            },
            c if c == quote => {
                let after = text.get(index + quote.len_utf8()..).unwrap_or_default();
                return Ok((literal, after));
            }
            c => literal.push(c),
        }
    }
    Err("unterminated quoted string".to_owned())
}

fn parse_number(text: &str) -> Result<(Value, &str), String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = text.len() - unsigned.len();
    let digits = unsigned.find(|c: char| c != '.' && !c.is_ascii_digit());
    let (number, after) = text.split_at(digits.unwrap_or(unsigned.len()) + sign);
    let wrong = || format!("cannot parse number {number}");
    let plain = number.strip_prefix('+').unwrap_or(number);
    let value = match plain.parse::<i64>() {
        Ok(integer) => Value::from(integer),
        Err(_) => Value::from(plain.parse::<f64>().map_err(|_| wrong())?),
    };
    Ok((value, after))
}

fn parse_brackets(text: &str, nesting: usize, steps: &mut Vec<Step>) -> Result<(), String> {
    if text.contains(',') {
        let union = text
            .split(',')
            .map(|part| parse_steps(&format!("[{}]", part.trim_matches(' ')), nesting + 1))
            .collect::<Result<_, _>>()?;
        steps.push(Step::Union(union));
        return Ok(());
    }
    let quoted = text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''));
    if let Some(key) = quoted.filter(|key| !key.contains('\'')) {
        steps.extend(parse_steps(&format!(".{key}"), nesting + 1)?);
        return Ok(());
    }
    steps.push(Step::Slice(parse_slice(text)?));
    Ok(())
}

fn parse_slice(text: &str) -> Result<Slice, String> {
    let text = if text == "*" { ":" } else { text };
    let mut parts = text.split(':');
    let mut number = || match parts.next() {
        None | Some("") => Ok(None),
        Some(part) => part
            .parse::<i64>()
            .map(Some)
            .map_err(|_| format!("invalid array index {text}")),
    };
    let (start, end, step) = (number()?, number()?, number()?);
    if parts.next().is_some() || (start.is_none() && !text.contains(':')) {
        return Err(format!("invalid array index {text}"));
    }
    let step = usize::try_from(step.unwrap_or(1))
        .ok()
        .filter(|&step| step > 0);
    let step = step.ok_or_else(|| "step must be > 0".to_owned())?;
    Ok(Slice {
        start,
        end,
        single: !text.contains(':'),
        step,
    })
}

/// Parses the part after `[?(`, up to `)]`. Quotes may contain parentheses.
fn parse_filter(text: &str, nesting: usize) -> Result<(Filter, &str), String> {
    let mut quote = None;
    let mut end = None;
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            '"' | '\'' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) && !escaped => quote = None,
            ')' if quote.is_none() => {
                end = Some(index);
                break;
            }
            _ => {}
        }
        escaped = c == '\\';
    }
    let (inner, after) = text
        .split_at_checked(end.unwrap_or(text.len()))
        .unwrap_or((text, ""));
    let after = match after.strip_prefix(")]") {
        Some(after) => after,
        None if after.is_empty() => return Err("unterminated filter".to_owned()),
        None => return Err("unclosed array expect ]".to_owned()),
    };
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let start = inner.find(is_operator).filter(|&start| start > 0);
    let filter = match start.and_then(|start| inner.split_at_checked(start)) {
        None => Filter {
            left: parse_steps(inner, nesting + 1)?,
            comparison: None,
        },
        Some((left, rest)) => {
            let right = rest.trim_start_matches(is_operator);
            let operator = rest.strip_suffix(right).unwrap_or(rest);
            let right = parse_steps(right, nesting + 1)?;
            let left = parse_steps(left, nesting + 1)?;
            Filter {
                left,
                comparison: Some((operator.to_owned(), right)),
            }
        }
    };
    Ok((filter, after))
}
