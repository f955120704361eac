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

/// The cause of an error: a text, an error of any type, `anyhow::Error`, `eyre::Report`.
type Cause = Box<dyn StdError + Send + Sync>;

/// An error of a handler.
///
/// - [`temporary`] errors are retried after their delay;
/// - [`permanent`] errors are not retried: the handler has failed;
/// - [`denied`] errors reject admission requests; they are permanent;
/// - any other error, converted by `?`, is *arbitrary*: the option `errors` of the handler applies.
///   By default, the handler is retried after its `backoff`.
///
/// It is converted from everything that is `Into<Box<dyn Error + Send + Sync>>`: error types,
/// `anyhow::Error`, `eyre::Report`, strings. Therefore, it does not implement `std::error::Error`,
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
///
/// Logs and Kubernetes events contain the error with all its sources. `{}` formats the error
/// itself, `{:#}` the error with its sources in one line, as with `anyhow`:
///
/// ```
/// # #[derive(Debug)]
/// # struct Unreadable(std::num::ParseIntError);
/// # impl std::fmt::Display for Unreadable {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("cannot read the size") }
/// # }
/// # impl std::error::Error for Unreadable {
/// #     fn source(&self) -> Option<&(dyn std::error::Error + 'static)> { Some(&self.0) }
/// # }
/// let size = "x".parse::<u32>().map_err(Unreadable);
/// let error = kopf::permanent(size.unwrap_err());
/// assert_eq!(error.to_string(), "cannot read the size");
/// assert_eq!(format!("{error:#}"), "cannot read the size: invalid digit found in string");
/// ```
pub struct Error(Box<Failure>);

enum Failure {
    Temporary {
        cause: Cause,
        delay: Duration,
    },
    Permanent(Cause),
    Denied {
        cause: Cause,
        code: u16,
    },
    Arbitrary(Cause),
    /// An error of sub-handlers from the engine, passed on unchanged.
    Engine(HandlerError),
}

/// Creates an error that is retried, by default after 60 seconds. The cause is a text or an error
/// of any type, which remains the source.
///
/// ```
/// fn bind() -> kopf::Result<String> {
///     let claim = std::fs::read_to_string("/claims/one").map_err(kopf::temporary)?;
///     Err(kopf::temporary(format!("{claim} is not bound yet")).delay(10))
/// }
/// # assert!(bind().unwrap_err().is_temporary());
/// ```
///
/// Without a delay, convert it by `?` or `.into()`:
///
/// ```
/// fn wait() -> kopf::Result<()> {
///     Err(kopf::temporary("not ready yet").into())
/// }
/// # assert!(wait().unwrap_err().is_temporary());
/// ```
pub fn temporary(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Temporary {
    Temporary(cause.into())
}

/// Creates an error that is not retried: the handler has failed. The cause is a text or an error
/// of any type, which remains the source.
///
/// ```
/// use kopf::prelude::*;
///
/// fn size(spec: &Value) -> kopf::Result<u64> {
///     let size = spec["size"].as_str().ok_or_else(|| kopf::permanent("size must be set"))?;
///     size.parse().map_err(kopf::permanent)
/// }
///
/// assert!(size(&json!({})).unwrap_err().is_permanent());
/// assert!(size(&json!({"size": "1G"})).unwrap_err().downcast_ref::<std::num::ParseIntError>().is_some());
/// ```
pub fn permanent(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::new(Failure::Permanent(cause.into()))
}

/// Creates an error that rejects an admission request, by default with the code 500. The client
/// receives the message. In other handlers, it is equivalent to [`permanent`].
///
/// ```
/// let error = kopf::denied("There is no place left.").code(409);
/// assert!(error.is_denied() && error.is_permanent());
/// assert_eq!(error.to_string(), "There is no place left.");
/// ```
pub fn denied(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Denied {
    Denied(cause.into())
}

/// An error that is retried, made by [`temporary`]: an [`Error`] once it has its delay, or is
/// converted.
#[derive(Debug)]
#[must_use = "return it: `Err(kopf::temporary(…).delay(…))`"]
pub struct Temporary(Cause);

impl Temporary {
    /// Sets the delay before the next attempt, in seconds or as a [`Duration`]; 0 retries
    /// immediately. Invalid durations (negative, NaN) are 0.
    ///
    /// ```
    /// let error = kopf::temporary("not ready yet").delay(kopf::duration!("5m"));
    /// assert!(error.is_temporary());
    /// ```
    ///
    /// Other errors have no delay:
    ///
    /// ```compile_fail,E0599
    /// kopf::permanent("never").delay(10);
    /// ```
    pub fn delay(self, delay: impl IntoDuration) -> Error {
        Error::new(Failure::Temporary {
            cause: self.0,
            delay: delay.into_duration().unwrap_or_default(),
        })
    }
}

impl From<Temporary> for Error {
    fn from(error: Temporary) -> Self {
        error.delay(DEFAULT_DELAY)
    }
}

/// An error that rejects an admission request, made by [`denied`]: an [`Error`] once it has its
/// code, or is converted.
#[derive(Debug)]
#[must_use = "return it: `Err(kopf::denied(…).code(…))`"]
pub struct Denied(Cause);

impl Denied {
    /// Sets the status code for the client.
    ///
    /// ```
    /// let error = kopf::denied("There is no place left.").code(409);
    /// assert!(error.is_denied());
    /// ```
    ///
    /// Other errors have no code:
    ///
    /// ```compile_fail,E0599
    /// kopf::temporary("not ready yet").code(409);
    /// ```
    pub fn code(self, code: u16) -> Error {
        Error::new(Failure::Denied {
            cause: self.0,
            code,
        })
    }
}

impl From<Denied> for Error {
    fn from(error: Denied) -> Self {
        error.code(DEFAULT_CODE)
    }
}

impl Error {
    fn new(failure: Failure) -> Self {
        Self(Box::new(failure))
    }

    /// Returns the error that it was made of: an arbitrary one, or the source of a [`temporary`],
    /// [`permanent`] or [`denied`] one.
    fn cause(&self) -> std::result::Result<&Cause, &HandlerError> {
        match &*self.0 {
            Failure::Temporary { cause, .. }
            | Failure::Permanent(cause)
            | Failure::Denied { cause, .. }
            | Failure::Arbitrary(cause) => Ok(cause),
            Failure::Engine(error) => Err(error),
        }
    }

    /// Returns `true` for errors made by [`denied`].
    ///
    /// ```
    /// assert!(kopf::denied("no").code(403).is_denied());
    /// assert!(!kopf::permanent("never").is_denied());
    /// ```
    pub fn is_denied(&self) -> bool {
        matches!(*self.0, Failure::Denied { .. })
    }

    /// Returns `true` for errors made by [`temporary`].
    ///
    /// ```
    /// assert!(kopf::temporary("later").delay(1).is_temporary());
    /// ```
    pub fn is_temporary(&self) -> bool {
        matches!(*self.0, Failure::Temporary { .. })
    }

    /// Returns `true` for errors made by [`permanent`] or [`denied`].
    ///
    /// ```
    /// assert!(kopf::permanent("never").is_permanent());
    /// assert!(kopf::denied("no").code(403).is_permanent());
    /// ```
    pub fn is_permanent(&self) -> bool {
        matches!(*self.0, Failure::Permanent(_) | Failure::Denied { .. })
    }

    /// Returns the error that it was made of, if it has this type.
    ///
    /// ```
    /// let error: kopf::Error = "x".parse::<u32>().unwrap_err().into();
    /// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    /// ```
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.cause().ok()?.downcast_ref()
    }

    /// Returns the error that it was made of, for functions that return other errors.
    ///
    /// ```
    /// fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     Err(kopf::permanent("never")).map_err(kopf::Error::into_boxed)
    /// }
    /// # assert_eq!(run().unwrap_err().to_string(), "never");
    /// ```
    pub fn into_boxed(self) -> Box<dyn StdError + Send + Sync> {
        match *self.0 {
            Failure::Temporary { cause, .. }
            | Failure::Permanent(cause)
            | Failure::Denied { cause, .. }
            | Failure::Arbitrary(cause) => cause,
            Failure::Engine(error) => error.into(),
        }
    }

    pub(crate) fn from_engine(error: HandlerError) -> Self {
        Self::new(Failure::Engine(error))
    }

    pub(crate) fn into_engine(self) -> HandlerError {
        match *self.0 {
            Failure::Temporary { cause, delay } => {
                HandlerError::temporary(chain::line(&*cause), Some(delay))
            }
            Failure::Permanent(cause) => HandlerError::permanent(chain::line(&*cause)),
            Failure::Denied { cause, code } => {
                HandlerError::denied(chain::line(&*cause), Some(code))
            }
            Failure::Arbitrary(cause) => HandlerError::arbitrary(chain::line(&*cause)),
            Failure::Engine(error) => error,
        }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::new(Failure::Arbitrary(error.into()))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause() {
            Ok(cause) if f.alternate() => f.write_str(&chain::line(&**cause)),
            Ok(cause) => Display::fmt(cause, f),
            Err(error) => Display::fmt(error, f),
        }
    }
}

/// The sources are on lines of their own.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Failure::Temporary { delay, .. } => write!(f, "temporary error (delay {delay:?}): ")?,
            Failure::Permanent(_) => f.write_str("permanent error: ")?,
            Failure::Denied { code, .. } => write!(f, "denied with {code}: ")?,
            Failure::Arbitrary(_) => {}
            Failure::Engine(error) => return fmt::Debug::fmt(error, f),
        }
        match self.cause() {
            Ok(cause) => f.write_str(&chain::texts(&**cause).join("\ncaused by: ")),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::num::ParseIntError);

    fn outer() -> Outer {
        Outer("x".parse::<u32>().unwrap_err())
    }

    const CHAIN: &str = "outer: invalid digit found in string";

    #[test]
    fn temporary_errors_are_retried_after_a_minute_by_default() {
        for (error, expected) in [
            (temporary("later").into(), Duration::from_secs(60)),
            (temporary("later").delay(5), Duration::from_secs(5)),
            (temporary("later").delay(0.5), Duration::from_millis(500)),
            (temporary("later").delay(0), Duration::ZERO),
            (temporary("later").delay(-3), Duration::ZERO),
            (temporary("later").delay(f64::NAN), Duration::ZERO),
        ] {
            let expected = HandlerError::temporary("later", Some(expected));
            assert_eq!(Error::into_engine(error), expected);
        }
    }

    #[test]
    fn denials_have_codes() {
        let engine = |error: Error| match error.into_engine() {
            HandlerError::Denied { message, code } => (message, code),
            other => panic!("not denied: {other}"),
        };
        let denial = |code| ("no".to_owned(), code);
        assert_eq!(engine(denied("no").into()), denial(500));
        assert_eq!(engine(denied("no").code(418)), denial(418));
        assert_eq!(engine(denied("no").code(0)), denial(500), "0 is not a code");
        assert_eq!(
            format!("{:?}", denied("no").code(409)),
            "denied with 409: no"
        );
    }

    #[test]
    fn sources_are_in_messages_of_the_engine() {
        for (error, expected) in [
            (outer().into(), HandlerError::arbitrary(CHAIN)),
            (permanent(outer()), HandlerError::permanent(CHAIN)),
            (
                temporary(outer()).delay(1),
                HandlerError::temporary(CHAIN, Some(Duration::from_secs(1))),
            ),
            (
                denied(outer()).code(409),
                HandlerError::denied(CHAIN, Some(409)),
            ),
        ] {
            assert_eq!(Error::into_engine(error), expected);
        }
    }

    #[test]
    fn sources_are_kept() {
        for error in [
            outer().into(),
            permanent(outer()),
            temporary(outer()).into(),
            denied(outer()).into(),
        ] {
            let error: Error = error;
            assert!(error.downcast_ref::<Outer>().is_some());
            assert!(error.downcast_ref::<std::io::Error>().is_none());
            assert_eq!(error.to_string(), "outer");
            assert_eq!(format!("{error:#}"), CHAIN);
            let debug = format!("{error:?}");
            assert!(
                debug.ends_with("outer\ncaused by: invalid digit found in string"),
                "{debug}"
            );
            assert!(error.into_boxed().is::<Outer>());
        }
    }

    #[test]
    fn everything_that_becomes_a_boxed_error_is_an_error() {
        fn by_anyhow() -> Result<()> {
            let fails: anyhow::Result<()> = Err(anyhow::Error::new(outer()).context("outermost"));
            fails?;
            Ok(())
        }
        fn by_eyre() -> Result<()> {
            let fails: eyre::Result<()> = Err(eyre::Report::new(outer()).wrap_err("outermost"));
            fails?;
            Ok(())
        }
        fn by_text() -> Result<()> {
            Err("only a text")?;
            Ok(())
        }
        let message = |result: Result<()>| format!("{:#}", result.unwrap_err());
        assert_eq!(message(by_anyhow()), format!("outermost: {CHAIN}"));
        assert_eq!(message(by_eyre()), format!("outermost: {CHAIN}"));
        assert_eq!(message(by_text()), "only a text");
        let error = temporary(anyhow::anyhow!("not {}", "yet")).delay(1);
        assert_eq!(error.to_string(), "not yet");
        let error = permanent(eyre::eyre!("not {}", "ever"));
        assert_eq!(error.to_string(), "not ever");
    }
}
