//! Timestamps in stored records: `2026-01-02T03:04:05.678901+00:00`.
//!
//! Always in UTC with six digits, so that the texts can be sorted. Parsing is lenient: older records
//! have no offset and are in UTC. Timestamps outside of the supported range saturate.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// A text that is not a timestamp.
#[derive(Debug, thiserror::Error)]
#[error("not an ISO-8601 date and time: {text:?}")]
pub struct Error {
    text: String,
    #[source]
    source: jiff::Error,
}

/// Formats a timestamp, truncated to microseconds.
///
/// ```
/// use kopf_core::timestamp;
///
/// let moment = timestamp::parse("2026-01-02T03:04:05Z")?;
/// assert_eq!(timestamp::format(moment), "2026-01-02T03:04:05.000000+00:00");
/// # Ok::<_, timestamp::Error>(())
/// ```
pub fn format(moment: Timestamp) -> String {
    // Every progress record has up to three of them, and `format!` takes ten times as long.
    let moment = Offset::UTC.to_datetime(moment);
    let mut text = String::with_capacity("2026-01-02T03:04:05.678901+00:00".len());
    if moment.year() < 0 {
        text.push('-');
    }
    push(&mut text, u32::from(moment.year().unsigned_abs()), 4);
    for (separator, part) in [
        ('-', moment.month()),
        ('-', moment.day()),
        ('T', moment.hour()),
        (':', moment.minute()),
        (':', moment.second()),
    ] {
        text.push(separator);
        push(&mut text, u32::from(part.unsigned_abs()), 2);
    }
    text.push('.');
    push(
        &mut text,
        moment.subsec_nanosecond().unsigned_abs() / 1_000,
        6,
    );
    text.push_str("+00:00");
    text
}

/// Appends the last decimal digits of a number.
fn push(text: &mut String, number: u32, digits: u32) {
    for place in (0..digits).rev() {
        let digit = number / 10_u32.pow(place) % 10;
        text.push(char::from_digit(digit, 10).unwrap_or('0'));
    }
}

/// Parses a timestamp with an offset, with `Z`, or without any of them (then it is in UTC).
pub fn parse(text: &str) -> Result<Timestamp, Error> {
    let failed = |source| Error {
        text: text.to_owned(),
        source,
    };
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let local = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let naive = local.parse::<DateTime>().map_err(failed)?;
    let saturated = if naive.year() > 0 {
        Timestamp::MAX
    } else {
        Timestamp::MIN
    };
    Ok(Offset::UTC.to_timestamp(naive).unwrap_or(saturated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timestamps_are_formatted_in_utc_with_six_digits() {
        let moment = |seconds, nanoseconds| Timestamp::new(seconds, nanoseconds).unwrap();
        for (moment, expected) in [
            (moment(0, 0), "1970-01-01T00:00:00.000000+00:00"),
            (
                moment(1_767_323_045, 678_901_999),
                "2026-01-02T03:04:05.678901+00:00",
            ),
            (moment(-1, 0), "1969-12-31T23:59:59.000000+00:00"),
            (moment(0, -1), "1969-12-31T23:59:59.999999+00:00"),
        ] {
            assert_eq!(format(moment), expected);
        }
    }

    #[test]
    fn timestamps_of_all_forms_are_parsed() {
        let expected = "2019-12-31T23:59:59.123456+00:00";
        for text in [
            "2019-12-31T23:59:59.123456",
            "2019-12-31T23:59:59.123456Z",
            "2019-12-31T23:59:59.123456+00:00",
            "2020-01-01T01:59:59.123456+02:00",
        ] {
            assert_eq!(format(parse(text).unwrap()), expected, "{text}");
        }
        assert_eq!(
            format(parse("2019-12-31T23:59:59").unwrap()),
            "2019-12-31T23:59:59.000000+00:00"
        );
    }

    #[test]
    fn malformed_timestamp_is_an_error_with_its_text() {
        for text in [
            "",
            "soon",
            "2019-13-31T23:59:59",
            "12",
            "2019-12-31T25:00:00Z",
        ] {
            assert!(parse(text).unwrap_err().to_string().contains(text));
        }
    }

    // What Python writes for its first and last moments, of whatever offset.
    #[test]
    fn timestamps_out_of_range_saturate() {
        for text in [
            "9999-12-31T23:59:59.999999+00:00",
            "9999-12-31T23:59:59.999999",
            "9999-12-31T23:59:59.999999Z",
            "9999-12-31T23:59:59.999999-14:00",
        ] {
            assert_eq!(parse(text).unwrap(), Timestamp::MAX, "{text}");
        }
        assert_eq!(
            parse("-009999-01-01T00:00:00+00:00").unwrap(),
            Timestamp::MIN
        );
        let first = format(parse("0001-01-01T00:00:00+00:00").unwrap());
        assert_eq!(first, "0001-01-01T00:00:00.000000+00:00");
        assert!(parse(&format(Timestamp::MAX)).is_ok());
    }

    proptest! {
        #[test]
        fn any_timestamp_survives_a_round_trip(seconds in -62_000_000_000i64..250_000_000_000, micro in 0..1_000_000) {
            let moment = Timestamp::new(seconds, micro * 1_000).unwrap();
            prop_assert_eq!(parse(&format(moment)).unwrap(), moment);
        }

        #[test]
        fn random_strings_never_panic(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
