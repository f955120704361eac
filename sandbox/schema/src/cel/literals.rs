//! Literals and operators that the parser of the crate `cel` misreads: triple quotes, raw bytes,
//! rare escapes, negative hexadecimal numbers and repeated signs.

use std::fmt::Write as _;

/// Rewrites an expression for the parser. Characters keep their columns where possible, because
/// errors contain them.
pub(super) fn normalised(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    // The last character that is neither blank nor part of a comment.
    let mut last = ' ';
    while let Some(character) = rest.chars().next() {
        if let Some((literal, length)) = quoted(rest) {
            result.push_str(&literal);
            rest = rest.get(length..).unwrap_or_default();
            last = '\'';
            continue;
        }
        if let Some((number, length)) = negative_hexadecimal(rest) {
            let _ = write!(result, "{number:<length$}");
            rest = rest.get(length..).unwrap_or_default();
            last = '0';
            continue;
        }
        if let Some(length) = signs(rest, last) {
            let (taken, after) = rest.split_at(length);
            result.extend(
                taken
                    .chars()
                    .map(|it| if it == character { ' ' } else { it }),
            );
            rest = after;
            continue;
        }
        let word = rest.find(|it: char| !(it.is_alphanumeric() || it == '_'));
        let length = match word.unwrap_or(rest.len()) {
            0 if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            0 => character.len_utf8(),
            length => length,
        };
        let (taken, after) = rest.split_at(length);
        let is_comment = taken.starts_with("//");
        let visible = taken.trim_end().chars().next_back();
        last = visible.filter(|_| !is_comment).unwrap_or(last);
        result.push_str(taken);
        rest = after;
    }
    result
}

/// Returns the length of an even number of equal signs at the start, which have no effect: `!!x`,
/// `- -5`. A `-` after an operand is a subtraction.
fn signs(rest: &str, last: char) -> Option<usize> {
    let sign = rest.chars().next().filter(|it| ['!', '-'].contains(it))?;
    let is_operand = |it: char| it.is_alphanumeric() || "_)]}'\"".contains(it);
    if sign == '-' && is_operand(last) {
        return None;
    }
    let first = rest.get(1..)?;
    let second = first.trim_start().strip_prefix(sign)?;
    // Not the first part of an operator.
    (!second.starts_with('=')).then(|| rest.len() - second.len())
}

fn negative_hexadecimal(rest: &str) -> Option<(i64, usize)> {
    let digits = rest.strip_prefix("-0x")?;
    let end = digits.find(|it: char| !it.is_ascii_hexdigit());
    let digits = digits.get(..end.unwrap_or(digits.len()))?;
    let number = i64::from_str_radix(&format!("-{digits}"), 16).ok()?;
    Some((number, "-0x".len() + digits.len()))
}

/// Returns a literal of a string or bytes at the start, and the length of its source. Plain literals
/// are unchanged.
pub(super) fn quoted(rest: &str) -> Option<(String, usize)> {
    let mut first = rest.bytes().take(3);
    let start = first.position(|byte| byte == b'"' || byte == b'\'')?;
    let prefix = rest.get(..start)?.to_ascii_lowercase();
    let (raw, bytes) = match prefix.as_str() {
        "" => (false, false),
        "r" => (true, false),
        "b" => (false, true),
        "br" => (true, true),
        _ => return None,
    };
    let quotes = ["\"\"\"", "'''", "\"", "'"];
    let body = rest.get(start..)?;
    let quote = quotes.into_iter().find(|quote| body.starts_with(quote))?;
    let body = body.get(quote.len()..)?;
    let end = closing(body, quote, raw)?;
    let length = start + quote.len() + end + quote.len();
    let content = body.get(..end)?;
    let plain = !bytes && quote.len() == 1 && (raw || !content.contains('\\'));
    let same = || rest.get(..length).map(str::to_owned);
    let literal = match decoded(content, raw, bytes) {
        Some(decoded) if !plain => encoded(&decoded, bytes)?,
        // Malformed literals are reported by the parser.
        _ => same()?,
    };
    Some((literal, length))
}

fn closing(body: &str, quote: &str, raw: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = body.get(at..)?;
        if rest.starts_with(quote) {
            return Some(at);
        }
        let mut characters = rest.chars();
        let character = characters.next()?;
        at += character.len_utf8();
        if character == '\\' && !raw {
            at += characters.next()?.len_utf8();
        }
    }
}

/// Returns the bytes of a literal, or `None` if an escape is invalid.
fn decoded(content: &str, raw: bool, bytes: bool) -> Option<Vec<u8>> {
    let mut result = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(character) = rest.chars().next() {
        let code;
        if character == '\\' && !raw {
            let (escaped, length) = escape(rest)?;
            code = escaped;
            // Escapes of bytes are single bytes.
            if bytes && matches!(rest.as_bytes().get(1), Some(b'u' | b'U')) {
                return None;
            }
            let is_number = rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
            if bytes && (is_number || rest.starts_with("\\x")) {
                result.push(u8::try_from(u32::from(code)).ok()?);
                rest = rest.get(length..)?;
                continue;
            }
            rest = rest.get(length..)?;
        } else {
            code = character;
            rest = rest.get(character.len_utf8()..)?;
        }
        let mut buffer = [0; 4];
        result.extend_from_slice(code.encode_utf8(&mut buffer).as_bytes());
    }
    Some(result)
}

/// Returns the character of an escape at the start, and the length of its source.
fn escape(rest: &str) -> Option<(char, usize)> {
    let number = |from: usize, count: usize, radix: u32| {
        let code = u32::from_str_radix(rest.get(from..from + count)?, radix).ok()?;
        Some((char::from_u32(code)?, from + count))
    };
    let simple = |character: char| Some((character, 2));
    match rest.chars().nth(1)? {
        'a' => simple('\u{7}'),
        'b' => simple('\u{8}'),
        'f' => simple('\u{c}'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'v' => simple('\u{b}'),
        same @ ('\\' | '?' | '"' | '\'' | '`') => simple(same),
        'x' | 'X' => number(2, 2, 16),
        'u' => number(2, 4, 16),
        'U' => number(2, 8, 16),
        '0'..='3' => number(1, 3, 8),
        _ => None,
    }
}

/// Returns a literal that the parser reads correctly.
fn encoded(content: &[u8], bytes: bool) -> Option<String> {
    if bytes {
        let mut literal = "b\"".to_owned();
        for byte in content {
            let _ = write!(literal, "\\x{byte:02x}");
        }
        literal.push('"');
        return Some(literal);
    }
    let mut literal = "\"".to_owned();
    for character in std::str::from_utf8(content).ok()?.chars() {
        match character {
            '\\' | '"' => literal.extend(['\\', character]),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            other => literal.push(other),
        }
    }
    literal.push('"');
    Some(literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_rewritten_for_the_parser() {
        for (text, expected) in [
            ("'a' == r'\\d'", "'a' == r'\\d'"),
            ("'''a\"b'c'''", "\"a\\\"b'c\""),
            ("b'\\n' == br'\\'", "b\"\\x0a\" == b\"\\x5c\""),
            ("'\\a\\x41\\u00e9'", "\"\u{7}Aé\""),
            ("1 == -0x10 && !!x", "1 == -16   &&   x"),
            ("- -5 == --x - -y", "   5 ==   x - -y"),
            ("! ! !x", "    !x"),
            ("a - - -5", "a -    5"),
            ("!x != y", "!x != y"),
            ("a // sum:\n- -b", "a // sum:\n- -b"),
            ("a.b('x', \"y\") // '", "a.b('x', \"y\") // '"),
            ("'open", "'open"),
            ("'\\z'", "'\\z'"),
        ] {
            assert_eq!(normalised(text), expected, "{text}");
        }
    }
}
