//! Parsing with bounds: the parser is recursive, and a stack overflow would abort the process.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use super::{literals, macros, names};
use crate::stack::on_large_stack;

/// Longer expressions are rejected.
const MAX_LENGTH: usize = 16 * 1024;
/// Maximum number of brackets, operators and dots. Each can add a level to the parser's stack.
const MAX_MARKS: usize = 1_500;
/// Maximum number of open brackets.
const MAX_BRACKETS: usize = 100;
/// Maximum depth of a parsed expression.
const MAX_DEPTH: usize = 100;

/// Parses an expression.
///
/// # Errors
///
/// The expression is malformed, too long or too deep.
pub(super) fn parse(text: &str) -> Result<IdedExpr, String> {
    check(text)?;
    let run = || -> Result<IdedExpr, String> {
        let source = literals::normalised(text);
        let parsed = Parser::new().enable_optional_syntax(true).parse(&source);
        let parsed = parsed.map_err(|errors| {
            // A real server indents the lines of the source excerpt.
            errors.to_string().trim_end().replace("\n| ", "\n | ")
        })?;
        if names::depth(&parsed) > MAX_DEPTH {
            return Err(format!(
                "expression is nested deeper than {MAX_DEPTH} levels"
            ));
        }
        Ok(macros::expanded(parsed))
    };
    on_large_stack(run)
}

/// Bounds the work of the parser by scanning the characters outside of quotes.
fn check(text: &str) -> Result<(), String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("expression exceeds {MAX_LENGTH} bytes"));
    }
    let (mut marks, mut open, mut quote) = (0_usize, 0_usize, None);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => {
                characters.next();
            }
            (Some(end), other) if other == end => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[' | '{') => {
                open += 1;
                marks += 1;
            }
            (None, ')' | ']' | '}') => open = open.saturating_sub(1),
            (None, other) if other.is_ascii_punctuation() && other != '_' => marks += 1,
            (Some(_) | None, _) => {}
        }
        if open > MAX_BRACKETS {
            return Err(format!(
                "expression is nested deeper than {MAX_BRACKETS} levels"
            ));
        }
        if marks > MAX_MARKS {
            return Err(format!("expression has more than {MAX_MARKS} operators"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_expressions_are_rejected() {
        let many = |part: &str, count: usize| part.repeat(count);
        for text in [
            many("(", 20_000),
            many("(", 5_000),
            many("[", 101),
            many("!", 10_000),
            format!("a{}", many(".b", 5_000)),
            format!("a{}", many(".b", 1_400)),
            format!("1{}", many("+1", 1_400)),
            format!("true{}", many("?1:true", 700)),
            many("a", 20_000),
            format!("{}1{}", many("[", 99), many("]", 99)),
            many("-", 1_000),
            format!("{}1{}", many("f(", 99), many(")", 99)),
        ] {
            let short: String = text.chars().take(10).collect();
            // Some inputs are valid; none aborts the process.
            let parsed = parse(&text);
            assert!(
                parsed.is_err() || names::depth(&parsed.unwrap()) <= MAX_DEPTH,
                "{short}"
            );
        }
        assert!(parse(&format!("a{}", many("&& a", 300))).is_ok());
        assert!(parse(&format!("'{}' == a", many("(", 5_000))).is_ok());
    }
}
