//! Which namespaces an operator serves: patterns with globs, exclusions and commas.
//!
//! Used by observation to decide on namespaces as they come and go. It knows names only, never
//! whether a namespace exists.

mod glob;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use glob::Glob;
use regex::Regex;

/// A pattern of namespaces: comma-separated globs (`*`, `?`, `[seq]`, `[!seq]`), `!glob` excludes.
///
/// Read from left to right: the first glob selects, an exclusion removes from what is selected,
/// and each further glob takes back what was excluded, but adds nothing that the first one has not
/// selected. If the first is an exclusion, `*` is implied before it.
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

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A glob without a single character matches no namespace at all.
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
    /// The regular expression is not one.
    #[error("the namespace pattern {pattern:?} is not a regular expression")]
    Regex {
        /// The expression as given.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: Box<regex::Error>,
    },
}

impl NamespacePattern {
    /// Reads a pattern as it is given on the command line.
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

    /// Takes a regular expression; it has to match the whole name.
    pub fn regex(regex: &str) -> Result<Self, Error> {
        // Anchored, because `a|ab` alone prefers `a` and would miss that it can match all of `ab`.
        let anchored = format!(r"\A(?:{regex})\z");
        Ok(Self {
            text: regex.to_owned(),
            kind: Kind::Regex(Regex::new(&anchored).map_err(|source| Error::Regex {
                pattern: regex.to_owned(),
                source: Box::new(source),
            })?),
        })
    }

    /// Takes a function that decides about names. The label stands for it in logs.
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

    /// Whether a namespace of this name is meant.
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

    /// The one namespace that is meant, if the pattern is a plain name.
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

/// Where an operator looks for objects.
#[derive(Clone, Debug)]
pub enum Scope {
    /// In the whole cluster, with one stream per kind.
    Cluster,
    /// In the namespaces that match any of the patterns, with one stream per kind and namespace.
    Namespaces(Vec<NamespacePattern>),
}

impl Scope {
    /// Whether objects of this namespace are served.
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
    fn exclusions_and_returns_are_read_from_left_to_right() {
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
    fn a_leading_exclusion_implies_everything_before_it() {
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
    fn empty_parts_are_refused() {
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
    fn any_pattern_of_the_scope_is_enough() {
        let patterns = ["a*", "b"].map(|text| text.parse().unwrap());
        let scope = Scope::Namespaces(patterns.into());
        assert!(scope.matches("a1") && scope.matches("b") && !scope.matches("c"));
        assert!(Scope::Cluster.matches("c"));
    }
}
