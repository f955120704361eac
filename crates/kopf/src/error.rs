//! What handlers fail with.

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::time::Duration;

use kopf_core::outcome::HandlerError;

use crate::chain;
use crate::seconds::IntoDuration;

/// The result of handlers: `Ok` goes to the status of the object, [`Error`] says what is next.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How long a handler waits after a temporary error, unless the error says otherwise.
const DEFAULT_DELAY: Duration = Duration::from_secs(60);

/// What the API server is told, unless the error says otherwise.
const DEFAULT_CODE: u16 = 500;

/// Why a handler could not do its work.
///
/// - [`temporary`] errors are retried after their delay;
/// - [`permanent`] errors are not retried, the handler has failed;
/// - [`denied`] ones say that something is not to be done; they are permanent;
/// - any other error, which comes by `?`, is *arbitrary*: what follows is said by the option
///   `errors` of the handler, and by default it is retried after the handler's `backoff`.
///
/// It is made from every error type, and therefore it is not an error type itself (there would be
/// two ways to make it from itself).
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
    /// What the engine says about sub-handlers, passed on as it is.
    Engine(HandlerError),
}

/// An error that is worth another attempt, by default in 60 seconds.
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

/// An error that no further attempt can help: the handler has failed.
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

/// An answer of handlers for admission: it is not to be done. The message is shown to the one who
/// wanted it. In other handlers, it is the same as [`permanent`].
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

    /// An arbitrary error with nothing but a message.
    pub fn message(message: impl Display) -> Self {
        Self::boxed(message.to_string().into())
    }

    /// An arbitrary error of a type that is known at run time only.
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

    /// When the next attempt is due: in seconds or as a [`Duration`]; 0 is "at once".
    ///
    /// Only temporary errors have a delay: others stay as they are. What is no duration (negative,
    /// not a number) is 0.
    #[must_use]
    pub fn delay(mut self, delay: impl IntoDuration) -> Self {
        if let Kind::Temporary { delay: current, .. } = &mut *self.0 {
            *current = delay.into_duration().unwrap_or_default();
        }
        self
    }

    /// The status code for the one who asks; by default, 500.
    ///
    /// Only [`denied`] errors have a code: others stay as they are.
    #[must_use]
    pub fn code(mut self, code: u16) -> Self {
        if let Kind::Denied { code: current, .. } = &mut *self.0 {
            *current = code;
        }
        self
    }

    /// Whether it was made by [`denied`].
    pub fn is_denied(&self) -> bool {
        matches!(*self.0, Kind::Denied { .. })
    }

    /// Whether it was made by [`temporary`].
    pub fn is_temporary(&self) -> bool {
        matches!(*self.0, Kind::Temporary { .. })
    }

    /// Whether it was made by [`permanent`] or [`denied`].
    pub fn is_permanent(&self) -> bool {
        matches!(*self.0, Kind::Permanent { .. } | Kind::Denied { .. })
    }

    /// The error that `?` was used on, if it is of that type.
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

/// For those who keep errors in boxes: what came by `?` is unpacked.
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
    fn temporary_errors_wait_a_minute_by_default() {
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
        assert_eq!(engine(denied("no").code(0)), denial(500), "it is no code");
        assert!(!permanent("never").code(418).is_denied());
        assert_eq!(
            format!("{:?}", denied("no").code(409)),
            "denied with 409: no"
        );
    }

    #[test]
    fn other_errors_keep_their_causes_for_the_log() {
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
