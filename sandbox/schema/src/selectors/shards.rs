//! Shard selectors: objects whose uid or namespace hashes into given ranges.
//!
//! `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')`, and any number of
//! them joined by `||`. The syntax is a subset of CEL, but nothing is evaluated.

use std::fmt;

/// The end of the last range: 2^64.
const END: &str = "0x10000000000000000";

/// A parsed selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardSelector {
    field: Field,
    ranges: Vec<Range>,
}

/// The hashed field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Uid,
    Namespace,
}

/// Hashes from `start` up to `end`, exclusively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u128,
    end: u128,
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

impl ShardSelector {
    /// Parses the parameter of a request. The error has the wording of a real server.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err(
                "empty shard selector is not allowed; omit the parameter for unfiltered lists"
                    .to_owned(),
            );
        }
        let tokens = tokens(text)?;
        let mut parser = Parser { rest: &tokens };
        let parsed = parser.alternatives()?;
        if let Some(token) = parser.rest.first() {
            return Err(unexpected(token));
        }
        let mut ranges = Vec::with_capacity(parsed.len());
        let mut field = None;
        for (of, range) in parsed {
            let first: Field = *field.get_or_insert(of);
            if of != first {
                let (first, of) = (first.path(), of.path());
                return Err(format!(
                    "all shard ranges must use the same field, got {first:?} and {of:?}"
                ));
            }
            ranges.push(range);
        }
        Ok(Self {
            field: field.unwrap_or(Field::Uid),
            ranges,
        })
    }

    pub fn field(&self) -> Field {
        self.field
    }

    /// Returns `true` if the hash of a field's value is in one of the ranges.
    pub fn matches(&self, value: &str) -> bool {
        let hash = u128::from(fnv1a(value.as_bytes()));
        self.ranges
            .iter()
            .any(|range| (range.start..range.end).contains(&hash))
    }
}

impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            if index > 0 {
                f.write_str(" || ")?;
            }
            let (path, Range { start, end }) = (self.field.path(), range);
            write!(f, "shardRange({path}, '0x{start:016x}', '0x{end:016x}')")?;
        }
        Ok(())
    }
}

/// Returns the 64-bit FNV-1a hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    Or,
    Sign(char),
}

fn unexpected(token: &Token) -> String {
    match token {
        Token::Name(name) => format!("CEL parse error: Syntax error: unexpected {name:?}"),
        Token::Text(text) => format!("CEL parse error: Syntax error: unexpected string {text:?}"),
        Token::Or => "CEL parse error: Syntax error: unexpected '||'".to_owned(),
        Token::Sign(sign) => format!("CEL parse error: Syntax error: unexpected '{sign}'"),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            next if next.is_whitespace() => {}
            '|' if rest.peek() == Some(&'|') => {
                rest.next();
                tokens.push(Token::Or);
            }
            '\'' | '"' => {
                let mut inside = String::new();
                loop {
                    match rest.next() {
                        Some(end) if end == next => break,
                        // Hexadecimal numbers contain no escapes.
                        Some(other) => inside.push(other),
                        None => {
                            return Err("CEL parse error: Syntax error: unterminated string".into());
                        }
                    }
                }
                tokens.push(Token::Text(inside));
            }
            next if next.is_alphabetic() || next == '_' => {
                let mut name = String::from(next);
                while let Some(more) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    name.push(more);
                }
                tokens.push(Token::Name(name));
            }
            sign => tokens.push(Token::Sign(sign)),
        }
    }
    Ok(tokens)
}

struct Parser<'a> {
    rest: &'a [Token],
}

impl Parser<'_> {
    fn next(&mut self) -> Option<&Token> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        match self.next() {
            Some(Token::Sign(found)) if *found == sign => Ok(()),
            Some(other) => Err(unexpected(other)),
            None => Err(format!("CEL parse error: Syntax error: missing '{sign}'")),
        }
    }

    /// Parses calls joined by `||`. Parentheses around all of them have no effect.
    fn alternatives(&mut self) -> Result<Vec<(Field, Range)>, String> {
        let mut ranges = vec![self.call()?];
        while self.rest.first() == Some(&Token::Or) {
            self.next();
            ranges.push(self.call()?);
        }
        Ok(ranges)
    }

    fn call(&mut self) -> Result<(Field, Range), String> {
        let mut depth = 0_usize;
        while self.rest.first() == Some(&Token::Sign('(')) {
            self.next();
            depth += 1;
        }
        let name = match self.next() {
            Some(Token::Name(name)) => name.clone(),
            Some(other) => return Err(unexpected(other)),
            None => return Err("CEL parse error: Syntax error: unexpected end".to_owned()),
        };
        if self.rest.first() != Some(&Token::Sign('(')) {
            return Err(format!(
                "unexpected expression {name:?}; expected shardRange() call or || operator"
            ));
        }
        if name != "shardRange" {
            return Err(format!(
                "unsupported function {name:?}; only shardRange() and || are allowed"
            ));
        }
        let range = self.arguments()?;
        for _ in 0..depth {
            self.expect(')')?;
        }
        Ok(range)
    }

    fn arguments(&mut self) -> Result<(Field, Range), String> {
        self.expect('(')?;
        let field = self.field()?;
        self.expect(',')?;
        let (start, start_text) = self.bound("hexStart")?;
        self.expect(',')?;
        let (end, end_text) = self.bound("hexEnd")?;
        self.expect(')')?;
        if start >= end {
            return Err(format!(
                "shard range start {start_text} must be less than end {end_text}"
            ));
        }
        Ok((field, Range { start, end }))
    }

    fn field(&mut self) -> Result<Field, String> {
        let mut path = String::new();
        loop {
            match self.next() {
                Some(Token::Name(name)) => path.push_str(name),
                None => return Err("CEL parse error: Syntax error: unexpected end".to_owned()),
                Some(_) => {
                    return Err(
                        "shardRange() first argument: expected field path (e.g. object.metadata.uid)"
                            .to_owned(),
                    );
                }
            }
            if self.rest.first() != Some(&Token::Sign('.')) {
                break;
            }
            self.next();
            path.push('.');
        }
        [Field::Uid, Field::Namespace]
            .into_iter()
            .find(|field| field.path() == path)
            .ok_or_else(|| {
                format!(
                    "unsupported field path {path:?}; supported: object.metadata.uid, object.metadata.namespace"
                )
            })
    }

    fn bound(&mut self, name: &str) -> Result<(u128, String), String> {
        let Some(Token::Text(text)) = self.next() else {
            return Err(format!("{name} must be a string literal (e.g. '0xff')"));
        };
        bound(name, text).map(|number| (number, text.clone()))
    }
}

fn bound(name: &str, text: &str) -> Result<u128, String> {
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {text:?}"));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    let length = digits.len();
    if length > 17 {
        return Err(format!(
            "{name}: hex value too long ({length} chars, max 17): {digits:?}"
        ));
    }
    let wrong = |c: &char| !matches!(c, '0'..='9' | 'a'..='f');
    if let Some(wrong) = digits.chars().find(wrong) {
        let wrong = wrong.to_string();
        return Err(format!(
            "{name}: invalid hex character {wrong:?} in {text:?}"
        ));
    }
    if length == 17 && text != END {
        return Err(format!(
            "{name}: 17-digit hex value must be '{END}' (2^64), got {text:?}"
        ));
    }
    if length < 16 {
        let padded = format!("0x{digits:0>16}");
        return Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean {padded:?}?)"
        ));
    }
    u128::from_str_radix(digits, 16).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_fnv1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn two_halves_partition_all_objects() {
        let half = |from: &str, to: &str| {
            let text = format!("shardRange(object.metadata.uid, '{from}', '{to}')");
            ShardSelector::parse(&text).unwrap()
        };
        let (low, high) = (
            half("0x0000000000000000", "0x8000000000000000"),
            half("0x8000000000000000", END),
        );
        for number in 0..1000 {
            let uid = number.to_string();
            assert!(low.matches(&uid) != high.matches(&uid));
        }
        let both = ShardSelector::parse(&format!("({low}) || {high}")).unwrap();
        assert!((0..1000).all(|number: u32| both.matches(&number.to_string())));
        assert_eq!(both.to_string(), format!("{low} || {high}"));
    }

    #[test]
    fn malformed_shard_selectors_are_rejected_with_a_reason() {
        let uid = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
        let cases = [
            (" ".to_owned(), "empty shard selector"),
            (
                "object.metadata.uid".to_owned(),
                "expected shardRange() call",
            ),
            (
                "hash(object.metadata.uid)".to_owned(),
                "unsupported function \"hash\"",
            ),
            (uid.replace("uid", "name"), "unsupported field path"),
            (
                uid.replace("0x8000000000000000", "0x8"),
                "(did you mean \"0x0000000000000008\"?)",
            ),
            (
                uid.replace("0x8000000000000000", "0x0000000000000000"),
                "must be less than",
            ),
            (
                uid.replace("0x8000000000000000", "0x20000000000000000"),
                "17-digit",
            ),
            (uid.replace("0x8", "0xA"), "invalid hex character"),
            (format!("{uid} && {uid}"), "CEL parse error"),
            (format!("{uid} ||"), "CEL parse error"),
            (format!("({uid}"), "CEL parse error"),
            (
                format!("{uid} || {}", uid.replace("uid", "namespace")),
                "must use the same field",
            ),
        ];
        for (text, expected) in cases {
            let error = ShardSelector::parse(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
