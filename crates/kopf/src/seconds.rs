//! Conversion of durations: numbers of seconds or `Duration`s.

use std::time::Duration;

/// A duration argument: a number of seconds, or a [`Duration`], such as by
/// [`kopf::duration!`](crate::duration!).
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
    label = "a number of seconds, a `Duration` or `kopf::duration!(\"5m\")` is expected here"
)]
pub trait IntoDuration {
    /// Converts the value. Negative numbers and NaN are errors.
    fn into_duration(self) -> Result<Duration, InvalidDuration>;
}

/// A number that is not a duration: negative or NaN.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("invalid duration {0}: must be zero or a positive number of seconds")]
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
            // Exceeds the range of `Duration`, or is infinite.
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
    fn too_long_durations_become_the_maximum() {
        for forever in [1e20, 1e308, f64::INFINITY] {
            assert_eq!(forever.into_duration(), Ok(Duration::MAX));
        }
        assert_eq!(f32::INFINITY.into_duration(), Ok(Duration::MAX));
        assert_eq!(u64::MAX.into_duration(), Ok(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn negative_numbers_and_nan_are_rejected() {
        assert!((-5).into_duration().is_err());
        assert!((-0.5).into_duration().is_err());
        assert!(f64::NAN.into_duration().is_err());
        assert!(f64::NEG_INFINITY.into_duration().is_err());
        let message = (-5).into_duration().unwrap_err().to_string();
        assert!(message.starts_with("invalid duration -5"));
    }
}
