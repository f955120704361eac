//! How important a message is.

use std::fmt;

/// The level of a message in logs and in events, ordered by importance.
///
/// The numbers are those of the original's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// What only those want to know who look for a mistake.
    Debug = 10,
    /// What happens, as expected.
    Info = 20,
    /// What should be looked at, some day.
    Warning = 30,
    /// What has failed.
    Error = 40,
}

impl Level {
    /// The name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
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
        assert_eq!(Level::Info as u8, 20);
        assert_eq!(format!("[{:8}]", Level::Info), "[INFO    ]");
    }
}
