//! Log levels by logger, as set by the variable `RUST_LOG`.

use std::str::FromStr;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;

use super::names::logger_name;

/// Directives such as `info,my_operator=debug,hyper=off`: a default level, and levels of loggers
/// and their children. A logger without a level is enabled at all levels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct Directives {
    /// The level of loggers without a directive.
    pub(super) default: Option<LevelFilter>,
    /// The longest names first, because they are more specific.
    named: Vec<(String, LevelFilter)>,
}

impl Directives {
    /// Returns the level for a record; `None` if no directive names its logger. Loggers of the
    /// framework can be named as in the log (`kopf::watching`) and by their modules.
    pub(super) fn level(&self, metadata: &Metadata<'_>) -> Option<LevelFilter> {
        if self.named.is_empty() {
            return None;
        }
        let (target, name) = (metadata.target(), logger_name(metadata.target()));
        let is_named = |named: &str| is_below(target, named) || is_below(&name, named);
        let found = self.named.iter().find(|(named, _)| is_named(named));
        found.map(|(_, level)| *level)
    }

    /// Returns the most verbose level of all directives.
    pub(super) fn max(&self) -> LevelFilter {
        let named = self.named.iter().map(|(_, level)| *level);
        named.chain(self.default).max().unwrap_or(LevelFilter::OFF)
    }
}

fn is_below(target: &str, name: &str) -> bool {
    let rest = target.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

impl FromStr for Directives {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut directives = Self::default();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((name, level)) => {
                    let (name, level) = (name.trim(), level.trim());
                    let parsed = LevelFilter::from_str(level);
                    let parsed = parsed.map_err(|_| format!("invalid level {level:?}"))?;
                    directives.named.push((name.to_owned(), parsed));
                }
                None => match LevelFilter::from_str(part) {
                    Ok(level) => directives.default = Some(level),
                    Err(_) => directives.named.push((part.to_owned(), LevelFilter::TRACE)),
                },
            }
        }
        // Of equal names, the last one has precedence.
        directives.named.reverse();
        directives
            .named
            .sort_by_key(|(name, _)| usize::MAX - name.len());
        Ok(directives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Directives {
        text.parse().unwrap()
    }

    #[test]
    fn directives_are_parsed() {
        let directives =
            parse(" info, my_operator=debug,my_operator::pods=off,hyper ,x=warn,x=error");
        assert_eq!(directives.default, Some(LevelFilter::INFO));
        assert_eq!(
            directives.named,
            [
                ("my_operator::pods".to_owned(), LevelFilter::OFF),
                ("my_operator".to_owned(), LevelFilter::DEBUG),
                ("hyper".to_owned(), LevelFilter::TRACE),
                ("x".to_owned(), LevelFilter::ERROR),
                ("x".to_owned(), LevelFilter::WARN),
            ]
        );
        assert_eq!(directives.max(), LevelFilter::TRACE);
        assert_eq!(parse(""), Directives::default());
        assert_eq!(parse("").max(), LevelFilter::OFF);
        let error = "my_operator=loud".parse::<Directives>().unwrap_err();
        assert!(error.contains("\"loud\""), "{error}");
    }

    #[test]
    fn loggers_are_matched_by_whole_names() {
        assert!(is_below("a::b", "a") && is_below("a", "a"));
        assert!(!is_below("ab", "a") && !is_below("a", "a::b"));
    }
}
