//! Levels of log records and k8s-events.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The level of a record in the log and in k8s-events, ordered by severity.
///
/// The numbers are those of Python's `logging`. Every integer is a level.
///
/// ```
/// use kopf_core::wording::Level;
///
/// assert_eq!(Level::from(20), Level::Info);
/// assert!(Level::from(25) > Level::Info && Level::from(25) < Level::Warning);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// 10: details for troubleshooting.
    Debug,
    /// 20: normal operations.
    Info,
    /// 30: possible problems.
    Warning,
    /// 40: failures.
    Error,
    /// Any other number.
    Other(i32),
}

impl Level {
    /// Returns the name in logs. Levels between two named ones have the name of the lower one.
    pub fn as_str(self) -> &'static str {
        match self.rounded() {
            Self::Debug | Self::Other(_) => "DEBUG",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }

    /// Returns the number of the level.
    pub fn number(self) -> i32 {
        match self {
            Self::Debug => 10,
            Self::Info => 20,
            Self::Warning => 30,
            Self::Error => 40,
            Self::Other(number) => number,
        }
    }

    /// Returns the nearest named level that is not above; `Debug` for levels below it.
    #[must_use]
    pub fn rounded(self) -> Self {
        match self.number() {
            40.. => Self::Error,
            30..40 => Self::Warning,
            20..30 => Self::Info,
            _ => Self::Debug,
        }
    }
}

impl From<i32> for Level {
    fn from(number: i32) -> Self {
        match number {
            10 => Self::Debug,
            20 => Self::Info,
            30 => Self::Warning,
            40 => Self::Error,
            other => Self::Other(other),
        }
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.number() == other.number()
    }
}

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number().cmp(&other.number())
    }
}

impl Hash for Level {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number().hash(state);
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_numbered_as_in_the_original() {
        assert!(Level::Debug < Level::Info && Level::Info < Level::Warning);
        assert!(Level::Warning < Level::Error);
        assert_eq!(Level::Info.number(), 20);
        assert_eq!(format!("[{:8}]", Level::Info), "[INFO    ]");
    }

    #[test]
    fn any_integer_is_a_level() {
        for (number, name) in [
            (i32::MIN, "DEBUG"),
            (5, "DEBUG"),
            (15, "DEBUG"),
            (25, "INFO"),
            (39, "WARNING"),
            (50, "ERROR"),
            (i32::MAX, "ERROR"),
        ] {
            assert_eq!(Level::from(number).to_string(), name);
            assert_eq!(Level::from(number).number(), number);
        }
        assert_eq!(Level::Other(20), Level::Info);
        assert!(Level::from(50) > Level::Error);
    }
}
