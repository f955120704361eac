//! Globs: `*`, `?`, `[seq]`, `[!seq]`; other characters are literal.

/// A compiled glob.
#[derive(Clone, Debug)]
pub(super) struct Glob(Vec<Token>);

impl Glob {
    /// Compiles a glob. All strings are valid.
    pub(super) fn new(text: &str) -> Self {
        Self(tokens(text))
    }

    /// Returns `true` if the whole name matches.
    pub(super) fn matches(&self, name: &str) -> bool {
        glob_matches(&self.0, name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// `*`
    Many,
    /// `?`
    One,
    /// `[a-z]`, `[!a-z]`
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    Literal(char),
}

fn tokens(glob: &str) -> Vec<Token> {
    let chars: Vec<char> = glob.chars().collect();
    let mut tokens = Vec::with_capacity(chars.len());
    let mut rest = chars.as_slice();
    while let Some((&char, tail)) = rest.split_first() {
        rest = tail;
        let token = match char {
            '*' => Token::Many,
            '?' => Token::One,
            '[' => match set(tail) {
                Some((token, tail)) => {
                    rest = tail;
                    token
                }
                None => Token::Literal('['),
            },
            char => Token::Literal(char),
        };
        if !(token == Token::Many && tokens.last() == Some(&Token::Many)) {
            tokens.push(token);
        }
    }
    tokens
}

/// Parses a set after its opening bracket; `None` if it is never closed, and then `[` is literal.
fn set(chars: &[char]) -> Option<(Token, &[char])> {
    let negated = chars.first() == Some(&'!');
    let body = chars.get(usize::from(negated)..)?;
    // A bracket at the start is a member of the set.
    let end = 1 + body.get(1..)?.iter().position(|&char| char == ']')?;
    let (mut members, tail) = (body.get(..end)?, body.get(end + 1..)?);
    let mut ranges = Vec::new();
    while let Some((&from, rest)) = members.split_first() {
        let (to, rest) = match rest {
            ['-', to, rest @ ..] => (*to, rest),
            _ => (from, rest),
        };
        ranges.push((from, to));
        members = rest;
    }
    Some((Token::Set { negated, ranges }, tail))
}

/// Matches greedily, and backtracks only to the last `*`: never exponential.
fn glob_matches(glob: &[Token], name: &str) -> bool {
    let (mut tokens, mut rest) = (glob, name);
    let mut retry: Option<(&[Token], &str)> = None;
    loop {
        match tokens.split_first() {
            Some((Token::Many, tail)) => {
                tokens = tail;
                retry = Some((tail, rest));
                continue;
            }
            Some((token, tail)) => {
                let mut chars = rest.chars();
                if chars.next().is_some_and(|char| token.accepts(char)) {
                    (tokens, rest) = (tail, chars.as_str());
                    continue;
                }
            }
            None if rest.is_empty() => return true,
            None => {}
        }
        let Some((tail, from)) = retry else {
            return false;
        };
        let mut chars = from.chars();
        if chars.next().is_none() {
            return false;
        }
        (tokens, rest) = (tail, chars.as_str());
        retry = Some((tail, rest));
    }
}

impl Token {
    fn accepts(&self, char: char) -> bool {
        match self {
            Self::Many | Self::One => true,
            Self::Literal(literal) => *literal == char,
            Self::Set { negated, ranges } => {
                *negated != ranges.iter().any(|(from, to)| (from..=to).contains(&&char))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let cases = [
            ("ns", "ns", true),
            ("ns", "ns1", false),
            ("*", "anything", true),
            ("ns-*", "ns-", true),
            ("ns-*", "ns", false),
            ("*-a-*-b", "x-a-a-b-b", true),
            ("*-a-*-b", "x-a-a-b-c", false),
            ("n?", "ns", true),
            ("n?", "n", false),
            ("n[a-cx]", "nb", true),
            ("n[a-cx]", "nx", true),
            ("n[a-cx]", "nd", false),
            ("n[!a-c]", "nd", true),
            ("n[!a-c]", "na", false),
            ("n[]]", "n]", true),
            ("n[a", "n[a", true),
            ("n[-a]", "n-", true),
            ("**b*", "aab", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(
                Glob::new(pattern).matches(name),
                expected,
                "{pattern} on {name}"
            );
        }
    }
}
