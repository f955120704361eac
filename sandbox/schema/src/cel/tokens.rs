//! Positions of the parts of an expression, which the parser does not return.

use super::literals;

/// A token of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// The opening parenthesis of a call.
    Call(String),
    /// The dot before a field.
    Field(String),
    Name(String),
    /// An operator, or an opening bracket.
    Mark(String),
    /// A string or a number.
    Literal,
}

/// The tokens of an expression that have not been visited.
#[derive(Debug)]
pub(super) struct Tokens(Vec<(Token, usize)>);

impl Tokens {
    pub(super) fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut at = 0;
        let mut after_dot = None;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let (length, token) = next(rest);
            let is_call = rest.get(length..).is_some_and(|it| it.starts_with('('));
            match token {
                Some(Token::Name(name)) if is_call => tokens.push((Token::Call(name), at + length)),
                Some(Token::Name(name)) => match after_dot {
                    Some(dot) => tokens.push((Token::Field(name), dot)),
                    None => tokens.push((Token::Name(name), at)),
                },
                Some(token) => tokens.push((token, at)),
                None => {}
            }
            match rest.get(..length) {
                Some("." | ".?") => after_dot = Some(at),
                Some(blank) if blank.trim().is_empty() => {}
                _ => after_dot = None,
            }
            at += length;
        }
        Self(tokens)
    }

    /// Removes the first token of this kind, and returns its position.
    pub(super) fn take(&mut self, token: &Token) -> Option<usize> {
        let index = self.0.iter().position(|(known, _)| known == token)?;
        Some(self.0.remove(index).1)
    }
}

/// Returns the length of the first token, and the token if it is significant.
fn next(rest: &str) -> (usize, Option<Token>) {
    if let Some((_, length)) = literals::quoted(rest) {
        return (length, Some(Token::Literal));
    }
    let while_true = |test: fn(char) -> bool| rest.find(|it| !test(it)).unwrap_or(rest.len());
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_alphabetic() || first == '_' {
        let length = while_true(|it| it.is_alphanumeric() || it == '_');
        let name = rest.get(..length).unwrap_or_default();
        return (
            length,
            Some(match name {
                "in" => Token::Mark(name.to_owned()),
                "true" | "false" | "null" => Token::Literal,
                _ => Token::Name(name.to_owned()),
            }),
        );
    }
    if first.is_ascii_digit() {
        return (
            while_true(|it| it.is_alphanumeric() || it == '.'),
            Some(Token::Literal),
        );
    }
    for mark in ["==", "!=", "<=", ">=", "&&", "||", ".?", "[?", "!!"] {
        if rest.starts_with(mark) {
            let shown = (mark != "!!").then(|| Token::Mark(mark.to_owned()));
            return (2, shown);
        }
    }
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), None);
    }
    let shown = "+-*/%<>!?[{".contains(first);
    (
        first.len_utf8(),
        shown.then(|| Token::Mark(first.to_string())),
    )
}

/// Returns an error with its position in the expression.
pub(super) fn located(text: &str, at: usize, problem: &str) -> String {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count();
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    let shown = text.split('\n').nth(line).unwrap_or_default();
    let dots = ".".repeat(column);
    format!(
        "ERROR: <input>:{}:{}: {problem}\n | {shown}\n | {dots}^",
        line + 1,
        column + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_positions() {
        let mut tokens = Tokens::of("self.a.size('x') == self.b");
        let mut at = |token: Token| tokens.take(&token);
        assert_eq!(at(Token::Name("self".to_owned())), Some(0));
        assert_eq!(at(Token::Name("self".to_owned())), Some(20));
        assert_eq!(at(Token::Field("a".to_owned())), Some(4));
        assert_eq!(at(Token::Call("size".to_owned())), Some(11));
        assert_eq!(at(Token::Literal), Some(12));
        assert_eq!(at(Token::Mark("==".to_owned())), Some(17));
        assert_eq!(at(Token::Field("c".to_owned())), None);
    }
}
