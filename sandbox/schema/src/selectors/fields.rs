//! Field selectors: the `fieldSelector` parameter.

use std::fmt;

/// A conjunction of terms. Without terms, it matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    /// Sorted, so that equal selectors are printed equally.
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    negated: bool,
}

impl FieldSelector {
    /// Parses the `fieldSelector` parameter. The error is the message of the 400 response.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = split_terms(text);
        // Of several errors, the real server reports the first one in this order.
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts {
            if part.is_empty() {
                continue;
            }
            let Some((field, negated, value)) = split_term(part) else {
                return Err(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ));
            };
            terms.push(Term {
                field: field.to_owned(),
                value: unescape(value)?,
                negated,
            });
        }
        terms.sort_by_cached_key(ToString::to_string);
        Ok(Self { terms })
    }

    /// Returns the names of the fields, as written in the selector.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// Returns the value that a field must have, or `None` if several are possible.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let required = |term: &&Term| term.field == field && !term.negated;
        self.terms
            .iter()
            .find(required)
            .map(|term| term.value.as_str())
    }

    /// Returns `true` if an object matches. `lookup` returns the value of a field; absent ones are
    /// empty.
    pub fn matches(&self, lookup: impl Fn(&str) -> Option<String>) -> bool {
        self.terms.iter().all(|term| {
            let value = lookup(&term.field).unwrap_or_default();
            (value == term.value) != term.negated
        })
    }

    /// Returns `true` if it matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{term}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.negated { "!=" } else { "=" };
        write!(f, "{}{operator}", self.field)?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                write!(f, "\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

/// Splits at unescaped commas; escapes are kept.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c: char| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
    .collect()
}

/// Splits a term into the field, `true` for `!=`, and the escaped value. Fields have no escapes.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let equals = term.find('=')?;
    let field = term.get(..equals)?;
    let value = term.get(equals + 1..)?;
    match field.strip_suffix('!') {
        Some(field) => Some((field, true, value)),
        None => Some((field, false, value.strip_prefix('=').unwrap_or(value))),
    }
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                other => {
                    let next = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{next}"
                    ));
                }
            },
            // Printed as a number, as by the real server.
            ',' | '=' => {
                let code = u32::from(c);
                return Err(format!(
                    "invalid field selector: unescaped character in value: {code}"
                ));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selects(selector: &str) -> bool {
        FieldSelector::parse(selector)
            .unwrap()
            .matches(|field| match field {
                "a" => Some("b".to_owned()),
                "odd" => Some("x,y=\\".to_owned()),
                _ => None,
            })
    }

    #[test]
    fn equality_and_inequality_are_supported() {
        for good in [
            "",
            "a=b",
            "a==b",
            "a!=c",
            "x=",
            "x!=y",
            "a=b,x!=1",
            r"odd=x\,y\=\\",
            ",a=b,",
        ] {
            assert!(selects(good), "{good}");
        }
        for bad in ["a=c", "a!=b", "x!=", "a=", "a=b,x=1"] {
            assert!(!selects(bad), "{bad}");
        }
    }

    #[test]
    fn errors_match_a_real_server() {
        let cases = [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=c,a", "invalid selector: 'b=c,a'; can't understand 'a'"),
            (
                r"a=\x",
                r"invalid field selector: invalid escape sequence: \x",
            ),
            (
                r"a=b\",
                r"invalid field selector: invalid escape sequence: \",
            ),
            (
                "a=b=c",
                "invalid field selector: unescaped character in value: 61",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(FieldSelector::parse(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn selectors_with_one_value_are_exact() {
        let selector = FieldSelector::parse("metadata.name=x,status.phase!=y").unwrap();
        assert_eq!(
            selector.fields().collect::<Vec<_>>(),
            ["metadata.name", "status.phase"]
        );
        assert_eq!(selector.exact("metadata.name"), Some("x"));
        assert_eq!(selector.exact("status.phase"), None);
    }

    proptest! {
        #[test]
        fn printed_selectors_survive_a_round_trip(text in "[ab,=!\\\\\\PC]{0,24}") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                let again = FieldSelector::parse(&selector.to_string());
                prop_assert_eq!(again, Ok(selector));
            }
        }
    }
}
