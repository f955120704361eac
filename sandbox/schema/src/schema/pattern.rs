//! Regular expressions of schemas: written for Go, run by the `regex` crate.
//!
//! The differences are translated here: in Go `\d`, `\w`, `\s` and `\b` match ASCII, a `[` inside
//! of a class and a `{` that starts no repetition are literals, and `\Q…\E` quotes.

use regex::{Regex, RegexBuilder};

use crate::pattern_weight::{self, MAX_WEIGHT, TOO_LARGE};

/// Maximum memory of one compiled pattern: above that of patterns with the maximum weight.
const MOST_BYTES: usize = 64 << 20;
/// Maximum memory of the cache of a search.
const MOST_CACHED_BYTES: usize = 1 << 20;

/// A compiled `pattern` with its source, for error messages.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) text: String,
    pub(super) weight: u64,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern. The error is the reason for the client.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let translated = translate(text);
        // Malformed patterns have no weight, and an error below.
        let weight = pattern_weight::weight(&translated).unwrap_or_default();
        if weight > MAX_WEIGHT {
            return Err(format!("error parsing regexp: {TOO_LARGE}"));
        }
        let regex = RegexBuilder::new(&translated)
            .size_limit(MOST_BYTES)
            .dfa_size_limit(MOST_CACHED_BYTES)
            .build()
            .map_err(|error| reason(text, &error))?;
        Ok(Self {
            text: text.to_owned(),
            weight,
            regex,
        })
    }

    /// Returns the weight of a pattern without compiling it; zero for a malformed one.
    pub(super) fn weight_of(text: &str) -> u64 {
        pattern_weight::weight(&translate(text)).unwrap_or_default()
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Returns Go's message for common errors, and that of the `regex` crate for others.
fn reason(text: &str, error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return format!("error parsing regexp: {TOO_LARGE}");
    }
    let ours = error.to_string();
    let last = ours
        .lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    if last.starts_with("unclosed character class") {
        let from = text.find('[').and_then(|at| text.get(at..)).unwrap_or(text);
        format!("error parsing regexp: missing closing ]: `{from}`")
    } else if last.starts_with("unclosed group") {
        format!("error parsing regexp: missing closing ): `{text}`")
    } else if last.starts_with("unopened group") {
        format!("error parsing regexp: unexpected ): `{text}`")
    } else if last.starts_with("repetition operator missing expression") {
        let at = text.find(['*', '+', '?']).unwrap_or_default();
        let from = text.get(at..=at).unwrap_or_default();
        format!("error parsing regexp: missing argument to repetition operator: `{from}`")
    } else if last.starts_with("look-around") {
        let at = text.find("(?").unwrap_or_default();
        let from = text.get(at..at.saturating_add(3)).unwrap_or_default();
        format!("error parsing regexp: invalid or unsupported Perl syntax: `{from}`")
    } else {
        format!("error parsing regexp: {last}: `{text}`")
    }
}

fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len().saturating_add(8));
    let mut rest = text;
    let mut in_class = false;
    while let Some(char) = rest.chars().next() {
        let (_, after) = rest.split_at(char.len_utf8());
        rest = after;
        match char {
            '\\' => rest = escape(after, in_class, &mut out),
            '[' if in_class => {
                // Only classes such as `[:alpha:]` are more than a literal bracket.
                match after.find(":]").filter(|_| after.starts_with(':')) {
                    Some(end) => {
                        let (class, tail) = after.split_at(end.saturating_add(2));
                        out.push('[');
                        out.push_str(class);
                        rest = tail;
                    }
                    None => out.push_str("\\["),
                }
            }
            '[' => {
                in_class = true;
                out.push('[');
                // A bracket at the start of a class is a member of it, not its end.
                for opener in ["^", "]"] {
                    if let Some(tail) = rest.strip_prefix(opener) {
                        out.push_str(if opener == "]" { "\\]" } else { opener });
                        rest = tail;
                    }
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(char);
            }
            '{' if !in_class && !starts_repetition(after) => out.push_str("\\{"),
            _ => out.push(char),
        }
    }
    out
}

/// Translates the characters after a backslash. Returns the rest of the pattern.
fn escape<'a>(after: &'a str, in_class: bool, out: &mut String) -> &'a str {
    let Some(char) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let (_, rest) = after.split_at(char.len_utf8());
    let ascii = match char {
        'd' | 'D' => "0-9",
        'w' | 'W' => "0-9A-Za-z_",
        's' | 'S' => "\\t\\n\\f\\r ",
        'b' if !in_class => {
            out.push_str("(?-u:\\b)");
            return rest;
        }
        'Q' if !in_class => {
            let (quoted, tail) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(quoted));
            return tail;
        }
        _ => {
            out.push('\\');
            out.push(char);
            return braced(char, rest, out);
        }
    };
    let (open, close) = match (char.is_ascii_uppercase(), in_class) {
        (false, true) => ("", ""),
        (false, false) => ("[", "]"),
        (true, _) => ("[^", "]"),
    };
    out.extend([open, ascii, close]);
    rest
}

/// Copies the name of a Unicode class, or the number of a character: `\p{L}`, `\x{e9}`.
fn braced<'a>(char: char, rest: &'a str, out: &mut String) -> &'a str {
    match rest.split_once('}') {
        Some((name, tail)) if matches!(char, 'p' | 'P' | 'x') && name.starts_with('{') => {
            out.push_str(name);
            out.push('}');
            tail
        }
        _ => rest,
    }
}

/// Returns `true` if a `{` is followed by `3}`, `3,}` or `3,5}`.
fn starts_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else {
        return false;
    };
    let (low, high) = inside.split_once(',').unwrap_or((inside, ""));
    !low.is_empty()
        && low
            .chars()
            .chain(high.chars())
            .all(|char| char.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_patterns_keep_their_meaning() {
        let cases = [
            (r"^\d+$", "12", "١"),
            (r"^\w+$", "ab_1", "é"),
            (r"^[\w.-]+$", "a.b-c", "a b"),
            (r"^[[]x$", "[x", "x"),
            (r"^[]x]+$", "]x", "y"),
            (r"^[^]x]$", "y", "]"),
            (r"^[[:alpha:]]+$", "abc", "1"),
            (r"^\${x}$", "${x}", "x"),
            (r"^a{2,3}$", "aaa", "a"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[^\s]+$", "ab", "a b"),
            (r"^\S\D$", "ab", "a1"),
            (r"\bfoo\b", "a foo b", "foobar"),
            (r"^\p{L}{1,3}$", "Bär", "b1"),
            (r"^[\p{Lu}\x{e9}]+$", "Éé", "e"),
        ];
        for (pattern, yes, no) in cases {
            let compiled = Pattern::compile(pattern).unwrap();
            assert!(compiled.matches(yes), "{pattern} should match {yes}");
            assert!(!compiled.matches(no), "{pattern} should not match {no}");
        }
    }

    #[test]
    fn pattern_errors_have_the_wording_of_go() {
        assert_eq!(
            Pattern::compile("^[a").unwrap_err(),
            "error parsing regexp: missing closing ]: `[a`"
        );
        assert_eq!(
            Pattern::compile("(a").unwrap_err(),
            "error parsing regexp: missing closing ): `(a`"
        );
    }
}
