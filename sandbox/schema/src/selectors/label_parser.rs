//! The grammar of the `labelSelector` parameter, with the error messages of the real server.

use serde_json::json;

use super::labels::{Operator, Requirement};
use crate::field_error::{FieldError, FieldErrorKind};
use crate::object::label_rules::{label_key_errors, label_value_errors};

/// Returns the requirements in the order of the selector.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut tokens = Tokens {
        items: scan(text),
        position: 0,
    };
    let mut requirements = Vec::new();
    loop {
        match tokens.peek().as_value() {
            Token::Word(_) | Token::Not => {
                let requirement = tokens
                    .requirement()
                    .map_err(|error| format!("unable to parse requirement: {error}"))?;
                requirements.push(requirement);
                match tokens.next().as_value() {
                    Token::End => return Ok(requirements),
                    Token::Comma => {
                        let after = tokens.peek().as_value();
                        if !matches!(after, Token::Word(_) | Token::Not) {
                            let found = after.text();
                            return Err(format!("found '{found}', expected: identifier after ','"));
                        }
                    }
                    other => {
                        let found = other.text();
                        return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                    }
                }
            }
            Token::End => return Ok(requirements),
            other => {
                let found = other.text();
                return Err(format!(
                    "found '{found}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    In,
    NotIn,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

impl<'a> Token<'a> {
    /// Converts `in` and `notin` to plain words, for positions without operators.
    fn as_value(self) -> Self {
        match self {
            Self::In | Self::NotIn => Self::Word(self.text()),
            other => other,
        }
    }

    fn text(self) -> &'a str {
        match self {
            Self::Word(word) => word,
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Not => "!",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::End => "",
        }
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn scan(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    // The real server treats a zero byte as the end of the input.
    let mut rest = text.split('\0').next().unwrap_or_default();
    loop {
        rest = rest.trim_start_matches(is_blank);
        let Some(first) = rest.chars().next() else {
            return tokens;
        };
        let (token, length) = if is_special(first) {
            let pair = |second: char| rest.chars().nth(1) == Some(second);
            match first {
                '=' if pair('=') => (Token::DoubleEquals, 2),
                '!' if pair('=') => (Token::NotEquals, 2),
                '=' => (Token::Equals, 1),
                '!' => (Token::Not, 1),
                '(' => (Token::Open, 1),
                ')' => (Token::Close, 1),
                ',' => (Token::Comma, 1),
                '>' => (Token::Greater, 1),
                _ => (Token::Less, 1),
            }
        } else {
            let end = rest
                .find(|c| is_special(c) || is_blank(c))
                .unwrap_or(rest.len());
            match rest.get(..end).unwrap_or_default() {
                "in" => (Token::In, end),
                "notin" => (Token::NotIn, end),
                word => (Token::Word(word), end),
            }
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
    }
}

struct Tokens<'a> {
    items: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> Token<'a> {
        self.items.get(self.position).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next().as_value();
        let negated = token == Token::Not;
        if negated {
            token = self.next().as_value();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let errors = label_key_errors(key);
        if !errors.is_empty() {
            return Err(invalid("", key, &errors.join("; ")).text());
        }
        let alone = matches!(self.peek(), Token::End | Token::Comma);
        let (operator, values) = match (negated, alone) {
            (true, _) => (Operator::DoesNotExist, Vec::new()),
            (false, true) => (Operator::Exists, Vec::new()),
            (false, false) => {
                let operator = self.operator()?;
                let values = match operator {
                    Operator::In | Operator::NotIn => self.set()?,
                    _ => vec![self.exact_value()?],
                };
                (operator, values)
            }
        };
        checked(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.next() {
            Token::In => Ok(Operator::In),
            Token::NotIn => Ok(Operator::NotIn),
            Token::Equals => Ok(Operator::Equals),
            Token::DoubleEquals => Ok(Operator::DoubleEquals),
            Token::NotEquals => Ok(Operator::NotEquals),
            Token::Greater => Ok(Operator::Greater),
            Token::Less => Ok(Operator::Less),
            other => {
                let found = other.text();
                Err(format!(
                    "found '{found}', expected: in, notin, =, ==, !=, gt, lt"
                ))
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next().as_value() {
            Token::Word(word) => Ok(word.to_owned()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// Parses a list in parentheses. An empty item is the empty value.
    fn set(&mut self) -> Result<Vec<String>, String> {
        let open = self.next().as_value();
        if open != Token::Open {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        match self.peek().as_value() {
            Token::Word(_) | Token::Comma => {}
            Token::Close => {
                self.next();
                return Ok(vec![String::new()]);
            }
            other => {
                return Err(format!(
                    "found '{}', expected: ',', ')' or identifier",
                    other.text()
                ));
            }
        }
        loop {
            match self.next().as_value() {
                Token::Word(word) => {
                    values.push(word.to_owned());
                    match self.peek().as_value() {
                        Token::Comma => {}
                        Token::Close => break,
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek() {
                        Token::Close => {
                            values.push(String::new());
                            break;
                        }
                        Token::Comma => values.push(String::new()),
                        _ => {}
                    }
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', or identifier",
                        other.text()
                    ));
                }
            }
        }
        self.next();
        values.sort();
        values.dedup();
        Ok(values)
    }
}

fn checked(key: &str, operator: Operator, values: Vec<String>) -> Result<Requirement, String> {
    let mut errors = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let compares = matches!(operator, Operator::Greater | Operator::Less);
        if compares && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(invalid(&format!("values[{index}]"), value, detail).text());
        }
    }
    for (index, value) in values.iter().enumerate() {
        let found = label_value_errors(value);
        if !found.is_empty() {
            let field = format!("values[{index}][{key}]");
            errors.push(invalid(&field, value, &found.join("; ")).text());
        }
    }
    match errors.as_slice() {
        [] => Ok(Requirement {
            key: key.to_owned(),
            operator,
            values,
        }),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

fn invalid(field: &str, value: &str, detail: &str) -> FieldError {
    let shown = crate::field_error::shown(&json!(value));
    FieldError::new(
        FieldErrorKind::Invalid,
        field,
        format!("Invalid value: {shown}: {detail}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err()
    }

    #[test]
    fn errors_match_a_real_server() {
        let cases = [
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "a in",
                "unable to parse requirement: found '' expected: '('",
            ),
            (
                "a in (",
                "unable to parse requirement: found '', expected: ',', ')' or identifier",
            ),
            (
                "a in (b",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "a in (b c)",
                "unable to parse requirement: found 'c', expected: ',' or ')'",
            ),
            (
                "!",
                "unable to parse requirement: found '', expected: identifier",
            ),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a=b,", "found '', expected: identifier after ','"),
            ("a=b,,c", "found ',', expected: identifier after ','"),
            (
                "=a",
                "found '=', expected: !, identifier, or 'end of string'",
            ),
            (
                "a=(b)",
                "unable to parse requirement: found '(', expected: identifier",
            ),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' \
                 operators, the value must be an integer",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    #[test]
    fn keys_and_values_are_validated() {
        assert!(error("a@=b").starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"a@\": name part must consist of"
        ));
        assert!(error("a=b@").starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"b@\": a valid label must"
        ));
        assert!(error("a in (@,%)").starts_with("unable to parse requirement: [values[0][a]: "));
    }
}
