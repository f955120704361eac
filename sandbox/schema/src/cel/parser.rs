//! Parsing with bounds: the parser is recursive, and a stack overflow would abort the process.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use super::{literals, macros, names};
use crate::stack::on_large_stack;

/// Maximum number of characters, as on a real server.
const MAX_LENGTH: usize = 100_000;
/// Maximum number of brackets, operators and dots. Each can add a level to the parser's stack.
const MAX_MARKS: usize = 1_500;
/// Maximum number of open brackets.
const MAX_BRACKETS: usize = 249;
/// Maximum depth of nested expressions, as on a real server.
const MAX_RECURSION: u16 = 250;
/// Maximum depth of a parsed expression.
const MAX_DEPTH: usize = 300;

/// Parses an expression.
///
/// # Errors
///
/// The expression is malformed, too long or too deep.
pub(super) fn parse(text: &str) -> Result<IdedExpr, String> {
    check(text)?;
    let run = || -> Result<IdedExpr, String> {
        let source = literals::normalised(text);
        let parsed = Parser::new()
            .max_recursion_depth(MAX_RECURSION)
            .enable_optional_syntax(true)
            .parse(&source);
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

/// Bounds the work of the parser by scanning the characters outside of literals and comments.
fn check(text: &str) -> Result<(), String> {
    if text.chars().count() > MAX_LENGTH {
        let size = text.chars().count();
        return Err(format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {size}, limit {MAX_LENGTH}"
        ));
    }
    let (mut marks, mut open) = (0_usize, 0_usize);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match literals::quoted(rest) {
            Some((_, length)) => length,
            None if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            None => {
                match character {
                    '(' | '[' | '{' => {
                        open += 1;
                        marks += 1;
                    }
                    ')' | ']' | '}' => open = open.saturating_sub(1),
                    // Commas separate; they do not nest.
                    '_' | ',' => {}
                    other if other.is_ascii_punctuation() => marks += 1,
                    _ => {}
                }
                let word = rest.find(|it: char| !(it.is_alphanumeric() || it == '_'));
                word.unwrap_or(rest.len()).max(character.len_utf8())
            }
        };
        if open > MAX_BRACKETS {
            return Err(format!(
                "expression is nested deeper than {MAX_BRACKETS} levels"
            ));
        }
        if marks > MAX_MARKS {
            return Err(format!("expression has more than {MAX_MARKS} operators"));
        }
        rest = rest.get(length..).unwrap_or_default();
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
            many("[", 251),
            many("!", 10_000),
            format!("a{}", many(".b", 5_000)),
            format!("a{}", many(".b", 1_400)),
            format!("1{}", many("+1", 1_400)),
            format!("true{}", many("?1:true", 700)),
            many("-", 1_001),
            format!("r'\\' == '' || {}", many("(", 8_000)),
            many("a", 100_001),
        ] {
            let short: String = text.chars().take(10).collect();
            assert!(parse(&text).is_err(), "{short}");
        }
        for text in [
            many("a", 20_000),
            format!("{}1{}", many("[", 240), many("]", 240)),
            format!("{}1{}", many("f(", 240), many(")", 240)),
            format!("1{}", many("+1", 280)),
            format!("a in [0{}]", many(",1", 2_000)),
        ] {
            let short: String = text.chars().take(10).collect();
            assert!(parse(&text).is_ok(), "{short}");
        }
        assert!(parse(&format!("a{}", many("&& a", 300))).is_ok());
        assert!(parse(&format!("'{}' == a", many("(", 5_000))).is_ok());
    }
}
