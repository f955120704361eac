//! Licence expressions of packages (SPDX), only as much as to say whether a set of licences that
//! we accept satisfies one.

use std::collections::BTreeSet;

/// Whether the accepted licences satisfy the expression: `OR` offers a choice, `AND` demands both.
/// The old form `MIT/Apache-2.0` is a choice. An expression that makes no sense satisfies nothing.
pub(crate) fn satisfied(expression: &str, accepted: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut parser = Parser {
        words: &words,
        accepted,
    };
    matches!(parser.choice(), Some(true)) && parser.words.is_empty()
}

struct Parser<'a> {
    words: &'a [&'a str],
    accepted: &'a BTreeSet<String>,
}

impl Parser<'_> {
    fn next_is(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }

    fn choice(&mut self) -> Option<bool> {
        let mut result = self.demand()?;
        while self.next_is("OR") {
            result |= self.demand()?;
        }
        Some(result)
    }

    fn demand(&mut self) -> Option<bool> {
        let mut result = self.single()?;
        while self.next_is("AND") {
            result &= self.single()?;
        }
        Some(result)
    }

    fn single(&mut self) -> Option<bool> {
        if self.next_is("(") {
            let result = self.choice()?;
            return self.next_is(")").then_some(result);
        }
        let (licence, rest) = self.words.split_first()?;
        if matches!(*licence, ")" | "OR" | "AND" | "WITH") {
            return None;
        }
        self.words = rest;
        if self.next_is("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            return Some(
                self.accepted
                    .contains(&format!("{licence} WITH {exception}")),
            );
        }
        Some(self.accepted.contains(*licence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_table() {
        let accepted = [
            "MIT",
            "Apache-2.0",
            "Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ];
        let accepted = accepted.iter().map(|name| (*name).to_owned()).collect();
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("MIT/Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("GPL-3.0 OR (MIT AND Apache-2.0)", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT)", false),
            ("MIT MIT", false),
        ] {
            assert_eq!(satisfied(expression, &accepted), expected, "{expression:?}");
        }
    }
}
