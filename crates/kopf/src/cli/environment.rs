//! The environment variables of the command line, with the original's names and formats.
//!
//! An empty variable counts as unset.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

/// The source of variables: the process, or a table in tests.
pub(super) struct Environment<'a> {
    read: &'a dyn Fn(&str) -> Option<OsString>,
}

impl<'a> Environment<'a> {
    pub(super) fn new(read: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { read }
    }

    /// Reads a string.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, EnvironmentError> {
        let Some(value) = (self.read)(name).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let value = value.into_string();
        value.map(Some).map_err(|value| EnvironmentError {
            name: name.to_owned(),
            value: value.to_string_lossy().into_owned(),
            expected: "valid UTF-8".to_owned(),
        })
    }

    /// Reads a boolean: `true`, `false`, or one of their aliases.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, EnvironmentError> {
        let Some(value) = self.text(name)? else {
            return Ok(None);
        };
        match value.trim().to_ascii_lowercase().as_str() {
            "1" | "on" | "t" | "true" | "y" | "yes" => Ok(Some(true)),
            "" | "0" | "f" | "false" | "n" | "no" | "off" => Ok(Some(false)),
            _ => Err(EnvironmentError {
                name: name.to_owned(),
                value,
                expected: "true or false".to_owned(),
            }),
        }
    }

    /// Reads several values, separated by whitespace.
    pub(super) fn words(&self, name: &str) -> Result<Vec<String>, EnvironmentError> {
        let text = self.text(name)?.unwrap_or_default();
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }

    /// Parses a value.
    pub(super) fn parsed<T: FromStr>(
        &self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, EnvironmentError> {
        let Some(value) = self.text(name)? else {
            return Ok(None);
        };
        let parsed = value.trim().parse();
        parsed.map(Some).map_err(|_| EnvironmentError {
            name: name.to_owned(),
            value,
            expected: expected.to_owned(),
        })
    }
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// An invalid environment variable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value '{value}' for the environment variable {name}: must be {expected}")]
pub struct EnvironmentError {
    name: String,
    value: String,
    expected: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<R>(value: Option<&str>, ask: impl FnOnce(&Environment<'_>) -> R) -> R {
        let read = |name: &str| {
            assert_eq!(name, "X");
            value.map(OsString::from)
        };
        ask(&Environment::new(&read))
    }

    #[test]
    fn flags_have_aliases() {
        for (text, expected) in [
            ("true", Some(true)),
            ("TRUE", Some(true)),
            ("1", Some(true)),
            ("yes", Some(true)),
            ("on", Some(true)),
            ("false", Some(false)),
            ("0", Some(false)),
            ("No", Some(false)),
            ("", None),
        ] {
            assert_eq!(
                with(Some(text), |e| e.flag("X")).unwrap(),
                expected,
                "{text:?}"
            );
        }
        assert_eq!(with(None, |e| e.flag("X")).unwrap(), None);
        let error = with(Some("maybe"), |e| e.flag("X")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid value 'maybe' for the environment variable X: must be true or false"
        );
    }

    #[test]
    fn words_are_separated_by_any_whitespace() {
        assert_eq!(
            with(Some(" a\tb,!c\n d "), |e| e.words("X")).unwrap(),
            ["a", "b,!c", "d"]
        );
        assert!(with(Some(" "), |e| e.words("X")).unwrap().is_empty());
    }

    #[test]
    fn invalid_values_are_rejected() {
        assert_eq!(
            with(Some("5"), |e| e.parsed::<u16>("X", "a port")).unwrap(),
            Some(5)
        );
        let error = with(Some("x"), |e| e.parsed::<u16>("X", "a port")).unwrap_err();
        assert!(error.to_string().ends_with("must be a port"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn invalid_utf8_is_rejected() {
        use std::os::unix::ffi::OsStringExt as _;
        let read = |_: &str| Some(OsString::from_vec(vec![0xff]));
        assert!(Environment::new(&read).text("X").is_err());
    }
}
