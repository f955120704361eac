//! Regular expressions in the syntax of a real server (RE2), compiled by the crate `regex`.
//!
//! Both have nearly the same syntax. The pattern is rewritten where they differ: classes such as
//! `\w` are ASCII, brackets and `&&` in classes are literals, and so are braces without a count.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::{Arc, LazyLock};

use kopf_sandbox_store::sync::Mutex;
use regex::{Regex, RegexBuilder};

use crate::pattern_weight::{self, MAX_WEIGHT, TOO_LARGE};

/// Maximum number of compiled patterns that are kept, and the maximum length of one.
const MAX_KEPT: usize = 64;
const MAX_KEPT_LENGTH: usize = 256;
/// Maximum size of a compiled pattern, in bytes: above that of patterns with the maximum weight.
const MAX_SIZE: usize = 64 << 20;
/// Maximum count of a repetition.
const MAX_REPEAT: u32 = 1_000;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Compiled {
    regex: Regex,
    weight: u64,
}

impl std::ops::Deref for Compiled {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.regex
    }
}

/// Returns the cost of a search in a text: a hundredth of its steps, and a part of the compilation.
pub(super) fn cost(pattern: &str, length: u64) -> u64 {
    let weight = compiled(pattern).map_or(0, |it| it.weight);
    weight / 10 + weight.saturating_mul(length) / 100
}

/// Checks a pattern without compiling it.
///
/// # Errors
///
/// The pattern is malformed or too large.
pub(super) fn check(pattern: &str) -> Result<u64, String> {
    let rewritten = rewritten(pattern)?;
    match pattern_weight::weight(&rewritten) {
        Some(weight) if weight <= MAX_WEIGHT => Ok(weight),
        Some(_) => Err(format!("{TOO_LARGE}: `{pattern}`")),
        None => Err(format!("{}: `{pattern}`", general_problem(pattern))),
    }
}

/// Compiles a pattern, or returns a recently compiled one.
///
/// # Errors
///
/// The pattern is malformed.
pub(super) fn compiled(pattern: &str) -> Result<Arc<Compiled>, String> {
    static KEPT: LazyLock<Mutex<HashMap<String, Arc<Compiled>>>> = LazyLock::new(Mutex::default);
    if let Some(known) = KEPT.lock().get(pattern) {
        return Ok(Arc::clone(known));
    }
    let problem = |why: String| format!("error parsing regexp: {why}");
    let weight = check(pattern).map_err(problem)?;
    let rewritten = rewritten(pattern).map_err(problem)?;
    let regex = RegexBuilder::new(&rewritten)
        .size_limit(MAX_SIZE)
        .build()
        .map_err(|_| problem(format!("{}: `{pattern}`", general_problem(pattern))))?;
    let compiled = Arc::new(Compiled { regex, weight });
    if pattern.len() > MAX_KEPT_LENGTH {
        return Ok(compiled);
    }
    let mut kept = KEPT.lock();
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(pattern.to_owned(), Arc::clone(&compiled));
    Ok(compiled)
}

/// Returns the problem of a malformed pattern, in the words of a real server.
fn general_problem(pattern: &str) -> &'static str {
    let count = |sign| pattern.matches(sign).count();
    if count('(') > count(')') {
        "missing closing )"
    } else if count('(') < count(')') {
        "unexpected )"
    } else if count('[') > count(']') {
        "missing closing ]"
    } else {
        "invalid or unsupported Perl syntax"
    }
}

/// Rewrites a pattern in the syntax of the crate.
fn rewritten(pattern: &str) -> Result<String, String> {
    let mut result = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    let mut repeats = false;
    while let Some(character) = rest.next() {
        let repeated = std::mem::take(&mut repeats);
        match character {
            '*' | '+' | '?' => {
                let lazy = rest.next_if_eq(&'?').is_some();
                let sign = if lazy { "?" } else { "" };
                if repeated {
                    let shown = format!("`{character}{sign}`");
                    return Err(format!("invalid nested repetition operator: {shown}"));
                }
                result.push(character);
                result.push_str(sign);
                repeats = true;
            }
            '{' => match count(rest.clone())? {
                Some(_) if repeated => {
                    return Err("invalid nested repetition operator: `{`".to_owned());
                }
                Some(text) => {
                    rest.by_ref().take(text.len()).for_each(drop);
                    result.push('{');
                    result.push_str(&text);
                    repeats = true;
                    result.extend(rest.next_if_eq(&'?'));
                }
                None => result.push_str("\\{"),
            },
            '}' => result.push_str("\\}"),
            '[' => class(&mut rest, &mut result)?,
            '(' if rest.peek() == Some(&'?') => group(&mut rest, &mut result)?,
            '\\' => escape(&mut rest, &mut result)?,
            other => result.push(other),
        }
    }
    Ok(result)
}

/// Returns the text of a count after its opening brace, or `None` if the brace is a literal.
fn count(rest: Peekable<Chars<'_>>) -> Result<Option<String>, String> {
    let mut text = String::new();
    let mut is_closed = false;
    for character in rest {
        text.push(character);
        is_closed = character == '}';
        if !(character.is_ascii_digit() || character == ',') {
            break;
        }
    }
    let content = text.strip_suffix('}').unwrap_or(&text);
    let (least, most) = content.split_once(',').unwrap_or((content, ""));
    let is_number = |text: &str| {
        let is_padded = text.len() > 1 && text.starts_with('0');
        !text.is_empty() && !is_padded && text.bytes().all(|it| it.is_ascii_digit())
    };
    if !is_closed || !is_number(least) || !(most.is_empty() || is_number(most)) {
        return Ok(None);
    }
    let fits = |text: &str| text.is_empty() || text.parse().is_ok_and(|it: u32| it <= MAX_REPEAT);
    if !fits(least) || !fits(most) {
        return Err(format!("invalid repeat count: `{{{text}`"));
    }
    Ok(Some(text))
}

/// Copies the start of a group with flags or a name: `(?i:`, `(?P<name>`.
fn group(rest: &mut Peekable<Chars<'_>>, result: &mut String) -> Result<(), String> {
    let mut flags = rest.clone().skip(1).take_while(|it| !":)<".contains(*it));
    if flags.any(|flag| !"imsUP-".contains(flag)) {
        let shown: String = rest.clone().take(2).collect();
        return Err(format!("invalid or unsupported Perl syntax: `({shown}`"));
    }
    result.push('(');
    result.extend(rest.next());
    Ok(())
}

/// Returns the members of a class such as `\d`.
fn members(name: char) -> Option<&'static str> {
    match name.to_ascii_lowercase() {
        'd' => Some("0-9"),
        'w' => Some("0-9A-Za-z_"),
        's' => Some("\\t\\n\\f\\r\\x20"),
        _ => None,
    }
}

/// Rewrites an escape outside of a class.
fn escape(rest: &mut Peekable<Chars<'_>>, result: &mut String) -> Result<(), String> {
    let Some(name) = rest.next() else {
        return Err("trailing backslash at end of expression: ``".to_owned());
    };
    match name {
        'b' => result.push_str("(?-u:\\b)"),
        'B' => result.push_str("(?-u:\\B)"),
        'Q' => {
            let mut literal = String::new();
            while let Some(character) = rest.next() {
                if character == '\\' && rest.next_if_eq(&'E').is_some() {
                    break;
                }
                literal.push(character);
            }
            result.push_str(&regex::escape(&literal));
        }
        _ => {
            common_escape(name, rest, result)?;
        }
    }
    Ok(())
}

/// The meaning of an escape in a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escaped {
    /// One character, which can begin a range.
    Character,
    /// Several characters.
    Class,
}

/// Rewrites an escape that has the same meaning inside and outside of classes.
fn common_escape(
    name: char,
    rest: &mut Peekable<Chars<'_>>,
    result: &mut String,
) -> Result<Escaped, String> {
    if let Some(members) = members(name) {
        let negation = if name.is_ascii_uppercase() { "^" } else { "" };
        result.extend(["[", negation, members, "]"]);
        return Ok(Escaped::Class);
    }
    match name {
        'p' | 'P' | 'x' => {
            result.extend(['\\', name]);
            if rest.peek() == Some(&'{') {
                for character in rest.by_ref() {
                    result.push(character);
                    if character == '}' {
                        break;
                    }
                }
            }
            return Ok(match name {
                'x' => Escaped::Character,
                _ => Escaped::Class,
            });
        }
        '0'..='7' => octal(name, rest, result)?,
        '<' | '>' => result.push(name),
        'A' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'z' => result.extend(['\\', name]),
        other if other.is_ascii_alphanumeric() => {
            return Err(format!("invalid escape sequence: `\\{name}`"));
        }
        other => result.extend(['\\', other]),
    }
    Ok(Escaped::Character)
}

/// Rewrites an octal number of up to three digits. A single digit is a reference, except zero.
fn octal(first: char, rest: &mut Peekable<Chars<'_>>, result: &mut String) -> Result<(), String> {
    let mut code = first.to_digit(8).unwrap_or_default();
    let mut digits = 1;
    while digits < 3
        && let Some(digit) = rest.next_if(|it| it.is_digit(8))
    {
        code = code * 8 + digit.to_digit(8).unwrap_or_default();
        digits += 1;
    }
    if digits == 1 && first != '0' {
        return Err(format!("invalid escape sequence: `\\{first}`"));
    }
    let _ = write!(result, "\\x{{{code:x}}}");
    Ok(())
}

/// Rewrites a class in brackets.
fn class(rest: &mut Peekable<Chars<'_>>, result: &mut String) -> Result<(), String> {
    let start = rest.clone();
    let unclosed = || {
        let shown: String = start.clone().collect();
        format!("missing closing ]: `[{shown}`")
    };
    result.push('[');
    result.extend(rest.next_if_eq(&'^'));
    let mut is_first = true;
    loop {
        let character = rest.next().ok_or_else(unclosed)?;
        if character == ']' && !is_first {
            break;
        }
        is_first = false;
        if character == '[' && rest.peek() == Some(&':') && named(rest, result)? {
            continue;
        }
        let begins = result.len();
        if member(character, rest, result, &unclosed)? == Escaped::Class {
            continue;
        }
        let mut after = rest.clone();
        if after.next() != Some('-') || after.peek().is_none_or(|next| *next == ']') {
            continue;
        }
        rest.next();
        result.push('-');
        let last = rest.next().ok_or_else(unclosed)?;
        if member(last, rest, result, &unclosed)? == Escaped::Class {
            let shown = result.get(begins..).unwrap_or_default();
            return Err(format!("invalid character class range: `{shown}`"));
        }
    }
    result.push(']');
    Ok(())
}

/// Rewrites a character or an escape of a class.
fn member(
    character: char,
    rest: &mut Peekable<Chars<'_>>,
    result: &mut String,
    unclosed: &dyn Fn() -> String,
) -> Result<Escaped, String> {
    if character == '\\' {
        let name = rest.next().ok_or_else(unclosed)?;
        return common_escape(name, rest, result);
    }
    result.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
    Ok(Escaped::Character)
}

/// Copies the rest of a named class such as `[:alpha:]`. Returns `false` for a literal bracket.
fn named(rest: &mut Peekable<Chars<'_>>, result: &mut String) -> Result<bool, String> {
    // The longest name has six letters: `xdigit`.
    let name: String = rest.clone().take(10).take_while(|it| *it != ']').collect();
    let Some(inner) = name.strip_prefix(':').and_then(|it| it.strip_suffix(':')) else {
        return Ok(false);
    };
    let known = inner.strip_prefix('^').unwrap_or(inner);
    if !NAMED.contains(&known) {
        return Err(format!("invalid character class range: `[{name}]`"));
    }
    rest.by_ref().take(name.chars().count() + 1).for_each(drop);
    result.extend(["[", &name, "]"]);
    Ok(true)
}

/// Names of classes of ASCII characters.
const NAMED: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];
