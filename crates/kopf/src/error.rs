//! Errors of handlers.

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::time::Duration;

use kopf_core::outcome::HandlerError;

use crate::chain;
use crate::seconds::IntoDuration;

/// The result of handlers: `Ok` is stored in the status of the object, [`Error`] determines
/// retries.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The default delay after a temporary error.
const DEFAULT_DELAY: Duration = Duration::from_secs(60);

/// The default status code of denials.
const DEFAULT_CODE: u16 = 500;

/// An error of a handler.
///
/// - [`temporary`] errors are retried after their delay;
/// - [`permanent`] errors are not retried: the handler has failed;
/// - [`denied`] errors reject admission requests; they are permanent;
/// - any other error, converted by `?`, is *arbitrary*: the option `errors` of the handler applies.
///   By default, the handler is retried after its `backoff`.
///
/// It can be converted from every error type. Therefore, it does not implement `std::error::Error`,
/// which would conflict with the conversion from itself.
///
/// ```
/// fn check(text: &str) -> kopf::Result<u32> {
///     if text.is_empty() {
///         return Err(kopf::permanent("there is no number"));
///     }
///     let number: u32 = text.parse()?; // any error type
///     if number < 10 {
///         return Err(kopf::temporary("the number is too small yet").delay(30));
///     }
///     Ok(number)
/// }
///
/// assert!(check("5").unwrap_err().is_temporary());
/// assert!(check("").unwrap_err().is_permanent());
/// assert_eq!(check("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct Error(Box<Kind>);

enum Kind {
    Temporary {
        message: String,
        delay: Duration,
    },
    Permanent {
        message: String,
    },
    Denied {
        message: String,
        code: u16,
    },
    Arbitrary(Box<dyn StdError + Send + Sync>),
    /// An error of sub-handlers from the engine, passed on unchanged.
    Engine(HandlerError),
}

/// Creates an error that is retried, by default after 60 seconds.
///
/// ```
/// let error = kopf::temporary("the volume is not bound yet").delay(10);
/// assert_eq!(error.to_string(), "the volume is not bound yet");
/// ```
pub fn temporary(message: impl Display) -> Error {
    Error::new(Kind::Temporary {
        message: message.to_string(),
        delay: DEFAULT_DELAY,
    })
}

/// Creates an error that is not retried: the handler has failed.
///
/// ```
/// use kopf::prelude::*;
///
/// fn size(spec: &Value) -> kopf::Result<&str> {
///     spec["size"].as_str().ok_or_else(|| kopf::permanent("size must be set"))
/// }
///
/// assert!(size(&json!({})).unwrap_err().is_permanent());
/// ```
pub fn permanent(message: impl Display) -> Error {
    Error::new(Kind::Permanent {
        message: message.to_string(),
    })
}

/// Creates an error that rejects an admission request. The client receives the message. In other
/// handlers, it is equivalent to [`permanent`].
///
/// ```
/// let error = kopf::denied("There is no place left.").code(409);
/// assert!(error.is_denied() && error.is_permanent());
/// assert_eq!(error.to_string(), "There is no place left.");
/// ```
pub fn denied(message: impl Display) -> Error {
    Error::new(Kind::Denied {
        message: message.to_string(),
        code: DEFAULT_CODE,
    })
}

impl Error {
    fn new(kind: Kind) -> Self {
        Self(Box::new(kind))
    }

    /// Creates an arbitrary error with a message only.
    ///
    /// ```
    /// assert_eq!(kopf::Error::message("no response").to_string(), "no response");
    /// ```
    pub fn message(message: impl Display) -> Self {
        Self::boxed(message.to_string().into())
    }

    /// Creates an arbitrary error of a type that is known only at run time.
    ///
    /// ```
    /// fn parse() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     Err("something is missing".into())
    /// }
    ///
    /// fn handler() -> kopf::Result<()> {
    ///     parse().map_err(kopf::Error::boxed)
    /// }
    ///
    /// assert_eq!(handler().unwrap_err().to_string(), "something is missing");
    /// ```
    pub fn boxed(error: Box<dyn StdError + Send + Sync>) -> Self {
        Self::new(Kind::Arbitrary(error))
    }

    /// Sets the delay before the next attempt, in seconds or as a [`Duration`]; 0 retries
    /// immediately.
    ///
    /// It has an effect on temporary errors only. Invalid durations (negative, NaN) are 0.
    ///
    /// ```
    /// let error = kopf::temporary("not ready yet").delay(10);
    /// assert!(error.is_temporary());
    /// ```
    #[must_use]
    pub fn delay(mut self, delay: impl IntoDuration) -> Self {
        if let Kind::Temporary { delay: current, .. } = &mut *self.0 {
            *current = delay.into_duration().unwrap_or_default();
        }
        self
    }

    /// Sets the status code for the client. Default: 500.
    ///
    /// It has an effect on [`denied`] errors only.
    ///
    /// ```
    /// let error = kopf::denied("There is no place left.").code(409);
    /// assert!(error.is_denied());
    /// ```
    #[must_use]
    pub fn code(mut self, code: u16) -> Self {
        if let Kind::Denied { code: current, .. } = &mut *self.0 {
            *current = code;
        }
        self
    }

    /// Returns `true` for errors made by [`denied`].
    ///
    /// ```
    /// assert!(kopf::denied("no").is_denied());
    /// assert!(!kopf::permanent("never").is_denied());
    /// ```
    pub fn is_denied(&self) -> bool {
        matches!(*self.0, Kind::Denied { .. })
    }

    /// Returns `true` for errors made by [`temporary`].
    ///
    /// ```
    /// assert!(kopf::temporary("later").is_temporary());
    /// ```
    pub fn is_temporary(&self) -> bool {
        matches!(*self.0, Kind::Temporary { .. })
    }

    /// Returns `true` for errors made by [`permanent`] or [`denied`].
    ///
    /// ```
    /// assert!(kopf::permanent("never").is_permanent());
    /// assert!(kopf::denied("no").is_permanent());
    /// ```
    pub fn is_permanent(&self) -> bool {
        matches!(*self.0, Kind::Permanent { .. } | Kind::Denied { .. })
    }

    /// Returns the error that `?` converted, if it has this type.
    ///
    /// ```
    /// let error: kopf::Error = "x".parse::<u32>().unwrap_err().into();
    /// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    /// ```
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        match &*self.0 {
            Kind::Arbitrary(error) => error.downcast_ref(),
            _ => None,
        }
    }

    pub(crate) fn from_engine(error: HandlerError) -> Self {
        Self::new(Kind::Engine(error))
    }

    pub(crate) fn into_engine(self) -> HandlerError {
        match *self.0 {
            Kind::Temporary { message, delay } => HandlerError::Temporary {
                message,
                delay: Some(delay),
            },
            Kind::Permanent { message } => HandlerError::Permanent { message },
            Kind::Denied { message, code } => HandlerError::denied(message, Some(code)),
            Kind::Arbitrary(error) => chain::arbitrary(&*error),
            Kind::Engine(error) => error,
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self::boxed(Box::new(error))
    }
}

/// Unwraps errors that were converted by `?`.
impl From<Error> for Box<dyn StdError + Send + Sync> {
    fn from(error: Error) -> Self {
        match *error.0 {
            Kind::Arbitrary(error) => error,
            Kind::Temporary { message, .. }
            | Kind::Permanent { message }
            | Kind::Denied { message, .. } => message.into(),
            Kind::Engine(error) => error.into(),
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Temporary { message, .. }
            | Kind::Permanent { message }
            | Kind::Denied { message, .. } => f.write_str(message),
            Kind::Arbitrary(error) => Display::fmt(error, f),
            Kind::Engine(error) => Display::fmt(error, f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Temporary { message, delay } => {
                write!(f, "temporary error (delay {delay:?}): {message}")
            }
            Kind::Permanent { message } => write!(f, "permanent error: {message}"),
            Kind::Denied { message, code } => write!(f, "denied with {code}: {message}"),
            Kind::Arbitrary(error) => f.write_str(&chain::texts(&**error).join("\ncaused by: ")),
            Kind::Engine(error) => fmt::Debug::fmt(error, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::num::ParseIntError);

    fn outer() -> Error {
        Outer("x".parse::<u32>().unwrap_err()).into()
    }

    #[test]
    fn temporary_errors_are_retried_after_a_minute_by_default() {
        let HandlerError::Temporary { message, delay } = temporary("later").into_engine() else {
            panic!("not temporary");
        };
        assert_eq!(
            (message.as_str(), delay),
            ("later", Some(Duration::from_secs(60)))
        );
        for (error, expected) in [
            (temporary("later").delay(5), Duration::from_secs(5)),
            (temporary("later").delay(0.5), Duration::from_millis(500)),
            (temporary("later").delay(0), Duration::ZERO),
            (temporary("later").delay(-3), Duration::ZERO),
            (temporary("later").delay(f64::NAN), Duration::ZERO),
        ] {
            let HandlerError::Temporary { delay, .. } = error.into_engine() else {
                panic!("not temporary");
            };
            assert_eq!(delay, Some(expected));
        }
    }

    #[test]
    fn permanent_errors_have_no_delay() {
        let error = permanent("never").delay(5);
        assert!(error.is_permanent() && !error.is_temporary());
        assert!(matches!(
            error.into_engine(),
            HandlerError::Permanent { .. }
        ));
    }

    #[test]
    fn denials_have_codes() {
        let engine = |error: Error| match error.into_engine() {
            HandlerError::Denied { message, code } => (message, code),
            other => panic!("not denied: {other}"),
        };
        let denial = |code| ("no".to_owned(), code);
        assert_eq!(engine(denied("no")), denial(500));
        assert_eq!(engine(denied("no").code(418)), denial(418));
        assert_eq!(engine(denied("no").code(0)), denial(500), "0 is not a code");
        assert!(!permanent("never").code(418).is_denied());
        assert_eq!(
            format!("{:?}", denied("no").code(409)),
            "denied with 409: no"
        );
    }

    #[test]
    fn arbitrary_errors_keep_their_causes() {
        let HandlerError::Arbitrary {
            message, details, ..
        } = outer().into_engine()
        else {
            panic!("not arbitrary");
        };
        assert_eq!(message, "outer");
        assert_eq!(
            details.as_deref(),
            Some("outer\ncaused by: invalid digit found in string")
        );
        assert_eq!(
            format!("{:?}", outer()),
            "outer\ncaused by: invalid digit found in string"
        );
        assert!(outer().downcast_ref::<Outer>().is_some());
        let boxed: Box<dyn StdError + Send + Sync> = outer().into();
        assert!(boxed.is::<Outer>());
        assert!(outer().downcast_ref::<std::io::Error>().is_none());
    }
}
