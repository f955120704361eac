//! Regular expressions in the syntax of a real server (RE2), compiled by the crate `regex`.
//!
//! Both have nearly the same syntax. The pattern is rewritten where they differ: classes such as
//! `\w` are ASCII, brackets and `&&` in classes are literals, and so are braces without a count.

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::sync::Mutex;

/// Maximum number of compiled patterns that are kept.
const MAX_KEPT: usize = 256;
/// Maximum count of a repetition.
const MAX_REPEAT: u32 = 1_000;

/// Compiles a pattern, or returns a recently compiled one.
///
/// # Errors
///
/// The pattern is malformed.
pub(super) fn compiled(pattern: &str) -> Result<Arc<Regex>, String> {
    static KEPT: LazyLock<Mutex<HashMap<String, Arc<Regex>>>> = LazyLock::new(Mutex::default);
    if let Some(known) = KEPT.lock().get(pattern) {
        return Ok(Arc::clone(known));
    }
    let problem = |why: String| format!("error parsing regexp: {why}");
    let rewritten = rewritten(pattern).map_err(problem)?;
    let compiled = Regex::new(&rewritten)
        .map_err(|_| problem(format!("{}: `{pattern}`", general_problem(pattern))))?;
    let compiled = Arc::new(compiled);
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
    let text: String = rest.take_while(|it| *it != '}').collect();
    let (least, most) = text.split_once(',').unwrap_or((&text, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !is_number(least) || !(most.is_empty() || is_number(most)) {
        return Ok(None);
    }
    let fits = |text: &str| text.is_empty() || text.parse().is_ok_and(|it: u32| it <= MAX_REPEAT);
    if !fits(least) || !fits(most) {
        return Err(format!("invalid repeat count: `{{{text}}}`"));
    }
    Ok(Some(format!("{text}}}")))
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
    match (name, members(name)) {
        (_, Some(members)) if name.is_ascii_lowercase() => result.extend(["[", members, "]"]),
        (_, Some(members)) => result.extend(["[^", members, "]"]),
        ('b', None) => result.push_str("(?-u:\\b)"),
        ('B', None) => result.push_str("(?-u:\\B)"),
        ('Q', None) => {
            let mut literal = String::new();
            while let Some(character) = rest.next() {
                if character == '\\' && rest.next_if_eq(&'E').is_some() {
                    break;
                }
                literal.push(character);
            }
            result.push_str(&regex::escape(&literal));
        }
        _ => result.push_str(&literal_escape(name)?),
    }
    Ok(())
}

/// Rewrites an escape that has the same meaning inside and outside of classes.
fn literal_escape(name: char) -> Result<String, String> {
    if name.is_ascii_alphabetic() && !"AafnrtvxzpP".contains(name) {
        return Err(format!("invalid escape sequence: `\\{name}`"));
    }
    Ok(match name {
        '<' | '>' => name.to_string(),
        other => format!("\\{other}"),
    })
}

/// Rewrites a class in brackets.
fn class(rest: &mut Peekable<Chars<'_>>, result: &mut String) -> Result<(), String> {
    let shown: String = format!("[{}", rest.clone().collect::<String>());
    let unclosed = || format!("missing closing ]: `{shown}`");
    result.push('[');
    result.extend(rest.next_if_eq(&'^'));
    let mut is_first = true;
    loop {
        let character = rest.next().ok_or_else(unclosed)?;
        match character {
            ']' if !is_first => break,
            '[' if rest.peek() == Some(&':') => named(rest, result),
            '\\' => {
                let name = rest.next().ok_or_else(unclosed)?;
                match members(name) {
                    Some(members) if name.is_ascii_lowercase() => result.push_str(members),
                    Some(members) => result.extend(["[^", members, "]"]),
                    None => result.push_str(&literal_escape(name)?),
                }
            }
            '-' if !is_first && rest.peek().is_some_and(|next| *next != ']') => result.push('-'),
            other => result.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
        is_first = false;
    }
    result.push(']');
    Ok(())
}

/// Copies the rest of a named class such as `[:alpha:]`, or a literal bracket.
fn named(rest: &mut Peekable<Chars<'_>>, result: &mut String) {
    let name: String = rest.clone().take_while(|it| *it != ']').collect();
    let is_name = name.len() > 2 && name.ends_with(':');
    if !is_name {
        result.push_str("\\[");
        return;
    }
    rest.by_ref().take(name.chars().count() + 1).for_each(drop);
    result.extend(["[", &name, "]"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_on_a_real_server() {
        for (pattern, text, matches) in [
            ("^\\w$", "é", false),
            ("^\\d$", "٣", false),
            ("^\\D$", "٣", true),
            ("^[\\w-]+$", "a-b", true),
            ("^[^\\s\\d]$", "x", true),
            ("\\bx\\b", "éxé", true),
            ("^[[]x[]]$", "[x]", true),
            ("^{$", "{", true),
            ("^a{,2}$", "a{,2}", true),
            ("^a{1,2}$", "aa", true),
            ("\\Qa.b\\E", "a.b", true),
            ("\\Qa.b\\E", "axb", false),
            ("^[a&&b]+$", "a&&b", true),
            ("\\<", "<", true),
            ("^[[:alpha:]]+$", "abc", true),
            ("^[a-c-]+$", "a-c", true),
            ("^[-a]+$", "-a", true),
            ("(?i:A)", "a", true),
            ("(?P<name>a)", "a", true),
            ("a+?", "a", true),
        ] {
            let compiled = compiled(pattern).unwrap();
            assert_eq!(compiled.is_match(text), matches, "{pattern}");
        }
    }

    #[test]
    fn malformed_patterns_are_rejected() {
        for (pattern, problem) in [
            ("a**", "invalid nested repetition operator: `*`"),
            ("a++", "invalid nested repetition operator: `+`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("(a", "missing closing ): `(a`"),
            ("[a", "missing closing ]: `[a`"),
            ("\\", "trailing backslash at end of expression: ``"),
            ("\\y", "invalid escape sequence: `\\y`"),
        ] {
            let error = compiled(pattern).unwrap_err();
            assert_eq!(error, format!("error parsing regexp: {problem}"));
        }
    }
}
