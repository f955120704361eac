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
#[error("{0} is not a number of seconds: it must be finite and not negative")]
pub struct InvalidDuration(f64);

impl IntoDuration for Duration {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        Ok(self)
    }
}

impl IntoDuration for f64 {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        Duration::try_from_secs_f64(self).map_err(|_| InvalidDuration(self))
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
    fn what_is_no_duration_is_refused() {
        assert!((-5).into_duration().is_err());
        assert!((-0.5).into_duration().is_err());
        assert!(f64::NAN.into_duration().is_err());
        assert!(f64::INFINITY.into_duration().is_err());
        let message = (-5).into_duration().unwrap_err().to_string();
        assert!(message.starts_with("-5 is not a number of seconds"));
    }
}
