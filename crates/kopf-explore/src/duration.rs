//! Durations in options and scenarios.

use std::time::Duration;

/// The longest duration.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses a duration: `500ms`, `3s`, `2m`, `1h`, or a number of seconds.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(kopf_explore::duration::parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
/// assert!(kopf_explore::duration::parse_duration("soon").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || {
        format!(
            "invalid duration {text:?}: expected a number with a unit, such as 500ms, 3s or 2m, and at most a year"
        )
    };
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(invalid()),
    };
    let number: f64 = number.parse().map_err(|_| invalid())?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| invalid())?;
    // Longer ones cannot be added to the current time.
    (time <= LONGEST).then_some(time).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("3"), Ok(Duration::from_secs(3)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_secs(600)));
        for text in ["", "s", "-1s", "3 weeks", "1e999h", "..s", "99999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
