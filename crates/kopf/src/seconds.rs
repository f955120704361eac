//! Durations as users write them: numbers of seconds or `Duration`s.

use std::time::Duration;

/// What can be used where a duration is wanted: a number of seconds or a [`Duration`].
///
/// ```
/// use std::time::Duration;
/// use kopf::IntoDuration as _;
///
/// assert_eq!(30.into_duration(), Ok(Duration::from_secs(30)));
/// assert_eq!(0.5.into_duration(), Ok(Duration::from_millis(500)));
/// assert_eq!(Duration::from_secs(5).into_duration(), Ok(Duration::from_secs(5)));
/// assert!((-1).into_duration().is_err());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a duration",
    label = "a number of seconds or a `Duration` is expected here"
)]
pub trait IntoDuration {
    /// Converts it, or says that no duration can be like this.
    fn into_duration(self) -> Result<Duration, InvalidDuration>;
}

/// A number that is no duration: negative, or not a number at all.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not a number of seconds: it must be zero or more")]
pub struct InvalidDuration(f64);

impl IntoDuration for Duration {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        Ok(self)
    }
}

impl IntoDuration for f64 {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        match Duration::try_from_secs_f64(self) {
            Ok(duration) => Ok(duration),
            // Longer than anything can last, infinitely so maybe: forever.
            Err(_) if self > 0.0 => Ok(Duration::MAX),
            Err(_) => Err(InvalidDuration(self)),
        }
    }
}

impl IntoDuration for f32 {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        f64::from(self).into_duration()
    }
}

macro_rules! unsigned {
    ($($number:ty),*) => {$(
        impl IntoDuration for $number {
            fn into_duration(self) -> Result<Duration, InvalidDuration> {
                Ok(Duration::from_secs(u64::from(self)))
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64);

impl IntoDuration for i32 {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        let seconds = u64::try_from(self).map_err(|_| InvalidDuration(f64::from(self)))?;
        Ok(Duration::from_secs(seconds))
    }
}

impl IntoDuration for i64 {
    #[expect(clippy::cast_precision_loss, reason = "only shown in the message")]
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        let seconds = u64::try_from(self).map_err(|_| InvalidDuration(self as f64))?;
        Ok(Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_seconds() {
        assert_eq!(60.into_duration(), Ok(Duration::from_secs(60)));
        assert_eq!(60_u32.into_duration(), Ok(Duration::from_secs(60)));
        assert_eq!(60_i64.into_duration(), Ok(Duration::from_secs(60)));
        assert_eq!(0.25.into_duration(), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn what_is_too_long_is_forever() {
        for forever in [1e20, 1e308, f64::INFINITY] {
            assert_eq!(forever.into_duration(), Ok(Duration::MAX));
        }
        assert_eq!(f32::INFINITY.into_duration(), Ok(Duration::MAX));
        assert_eq!(u64::MAX.into_duration(), Ok(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        assert!((-5).into_duration().is_err());
        assert!((-0.5).into_duration().is_err());
        assert!(f64::NAN.into_duration().is_err());
        assert!(f64::NEG_INFINITY.into_duration().is_err());
        let message = (-5).into_duration().unwrap_err().to_string();
        assert!(message.starts_with("-5 is not a number of seconds"));
    }
}
