//! Namespaces that an operator serves: patterns with globs, exclusions and commas.
//!
//! Patterns match names, regardless of the existence of namespaces.

mod glob;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use glob::Glob;
use regex::Regex;

/// A pattern of namespaces: comma-separated globs (`*`, `?`, `[seq]`, `[!seq]`), `!glob` excludes.
///
/// Evaluated from left to right: the first glob selects, an exclusion removes from the selection,
/// and each further glob restores excluded names that the first one selected. If the first is an
/// exclusion, `*` is implied before it.
///
/// ```
/// use kopf_core::namespace::NamespacePattern;
///
/// let pattern: NamespacePattern = "myapp-*, !*-pr-*, *pr-123".parse().unwrap();
/// assert!(pattern.matches("myapp-live"));
/// assert!(pattern.matches("myapp-pr-123"));
/// assert!(!pattern.matches("myapp-pr-456"));
/// assert!(!pattern.matches("otherapp-pr-123"));
/// ```
#[derive(Clone, Debug)]
pub struct NamespacePattern {
    text: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Globs(Vec<Rule>),
    Regex(Regex),
    Predicate(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Globs(rules) => f.debug_tuple("Globs").field(rules).finish(),
            Self::Regex(regex) => f.debug_tuple("Regex").field(regex).finish(),
            Self::Predicate(_) => f.write_str("Predicate"),
        }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    excludes: bool,
    glob: Glob,
}

/// The reason why a pattern is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An empty glob, which matches no namespace.
    #[error("the namespace pattern {pattern:?} has an empty part")]
    Empty {
        /// The whole pattern.
        pattern: String,
    },
    /// Names of namespaces have no spaces.
    #[error(
        "invalid namespace pattern {pattern:?}: separate several patterns by commas, not by spaces"
    )]
    Spaces {
        /// The whole pattern.
        pattern: String,
    },
    /// The regular expression is malformed.
    #[error("the namespace pattern {pattern:?} is not a regular expression")]
    Regex {
        /// The given expression.
        pattern: String,
        /// The error of the regular expression.
        #[source]
        source: Box<regex::Error>,
    },
}

impl NamespacePattern {
    /// Parses a pattern of the command line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut rules = Vec::new();
        for part in text.split(',').map(str::trim) {
            let glob = part.trim_start_matches('!');
            let excludes = glob.len() < part.len();
            if glob.is_empty() {
                return Err(Error::Empty {
                    pattern: text.to_owned(),
                });
            }
            if glob.contains(char::is_whitespace) {
                return Err(Error::Spaces {
                    pattern: text.to_owned(),
                });
            }
            if excludes && rules.is_empty() {
                rules.push(Rule {
                    excludes: false,
                    glob: Glob::new("*"),
                });
            }
            rules.push(Rule {
                excludes,
                glob: Glob::new(glob),
            });
        }
        Ok(Self {
            text: text.trim().to_owned(),
            kind: Kind::Globs(rules),
        })
    }

    /// Creates a pattern from a regular expression, which must match the whole name.
    pub fn regex(regex: &str) -> Result<Self, Error> {
        // Anchored, because `a|ab` alone prefers `a` and would not match all of `ab`.
        let anchored = format!(r"\A(?:{regex})\z");
        Ok(Self {
            text: regex.to_owned(),
            kind: Kind::Regex(Regex::new(&anchored).map_err(|source| Error::Regex {
                pattern: regex.to_owned(),
                source: Box::new(source),
            })?),
        })
    }

    /// Creates a pattern from a function of names. The label represents it in logs.
    ///
    /// ```
    /// use kopf_core::namespace::NamespacePattern;
    ///
    /// let short = NamespacePattern::predicate("short names", |name| name.len() < 10);
    /// assert!(short.matches("default"));
    /// assert!(!short.matches("kube-system"));
    /// ```
    pub fn predicate(
        label: impl Into<String>,
        predicate: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            text: label.into(),
            kind: Kind::Predicate(Arc::new(predicate)),
        }
    }

    /// Returns `true` if a namespace of this name matches.
    pub fn matches(&self, name: &str) -> bool {
        let rules = match &self.kind {
            Kind::Regex(regex) => return regex.is_match(name),
            Kind::Predicate(predicate) => return predicate(name),
            Kind::Globs(rules) => rules,
        };
        let mut rules = rules.iter();
        let first = rules.next().is_some_and(|rule| rule.glob.matches(name));
        rules.fold(first, |matched, rule| {
            if rule.excludes {
                matched && !rule.glob.matches(name)
            } else {
                matched || (first && rule.glob.matches(name))
            }
        })
    }

    /// Returns the only matching namespace, if the pattern is a plain name.
    pub fn literal(&self) -> Option<&str> {
        match &self.kind {
            Kind::Globs(_) if !self.text.contains(['!', '*', '?', ',', '[']) => Some(&self.text),
            _ => None,
        }
    }
}

impl FromStr for NamespacePattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for NamespacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The scope in which an operator watches objects.
#[derive(Clone, Debug)]
pub enum Scope {
    /// The whole cluster, with one stream per resource.
    Cluster,
    /// The namespaces that match any of the patterns, with one stream per resource and namespace.
    Namespaces(Vec<NamespacePattern>),
}

impl Scope {
    /// Returns `true` if objects of this namespace are served.
    pub fn matches(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespaces(patterns) => patterns.iter().any(|p| p.matches(namespace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        NamespacePattern::parse(pattern).unwrap().matches(name)
    }

    #[test]
    fn exclusions_and_restorations_apply_from_left_to_right() {
        let pattern = "myapp-*, !*-pr-*, *pr-123";
        for (name, expected) in [
            ("myapp-test", true),
            ("myapp-pr-123", true),
            ("myapp-pr-456", false),
            ("otherapp-pr-123", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{name}");
        }
    }

    #[test]
    fn leading_exclusion_implies_everything() {
        let pattern = "!*-pr-*, *pr-123";
        for (name, expected) in [
            ("anything", true),
            ("otherapp-pr-123", true),
            ("myapp-pr-456", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{name}");
        }
    }

    #[test]
    fn further_globs_add_nothing_new() {
        assert!(matches("a*,b*", "a1"));
        assert!(!matches("a*,b*", "b1"));
    }

    #[test]
    fn only_plain_names_are_literal() {
        let literal = |text: &str| {
            NamespacePattern::parse(text)
                .unwrap()
                .literal()
                .map(str::to_owned)
        };
        assert_eq!(literal(" ns ").as_deref(), Some("ns"));
        for text in ["ns*", "!ns", "a,b", "n?", "n[s]"] {
            assert_eq!(literal(text), None, "{text}");
        }
    }

    #[test]
    fn spaces_do_not_separate_patterns() {
        for text in ["a b", "a,!b c", "a\tb"] {
            let error = NamespacePattern::parse(text).unwrap_err().to_string();
            assert!(error.contains("by commas"), "{error}");
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
        assert!(NamespacePattern::parse(" a , !b ").is_ok());
    }

    #[test]
    fn empty_parts_are_rejected() {
        for text in ["", " ", "a,,b", "!", "a,!"] {
            let error = NamespacePattern::parse(text).unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn regexes_match_the_whole_name() {
        let pattern = NamespacePattern::regex("a|ab").unwrap();
        assert!(pattern.matches("a"));
        assert!(pattern.matches("ab"));
        assert!(!pattern.matches("abc"));
        assert!(!pattern.matches("xab"));
        assert_eq!(pattern.literal(), None);
        let error = NamespacePattern::regex("a(").unwrap_err();
        assert!(error.to_string().contains("a("), "{error}");
    }

    #[test]
    fn any_pattern_of_the_scope_suffices() {
        let patterns = ["a*", "b"].map(|text| text.parse().unwrap());
        let scope = Scope::Namespaces(patterns.into());
        assert!(scope.matches("a1") && scope.matches("b") && !scope.matches("c"));
        assert!(Scope::Cluster.matches("c"));
    }
}
