//! Quantities of resources: `500m`, `1Gi`, `1e3`. Parsing and canonical form.

const WRONG_FORMAT: &str = "quantities must match the regular expression \
     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

/// The exponent of the smallest unit: quantities are rounded up to billionths.
const NANO: i32 = -9;

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// Returns the canonical form of a quantity, e.g. `500m` for `0.5` and `1Gi` for `1024Mi`.
///
/// Numbers that are out of range are returned as written.
pub fn canonical(text: &str) -> Result<String, &'static str> {
    match parse(text)? {
        Parsed::Amount(nanos, format) if nanos < 0 => Ok(format!("-{}", shown(-nanos, format))),
        Parsed::Amount(0, _) => Ok("0".to_owned()),
        Parsed::Amount(nanos, format) => Ok(shown(nanos, format)),
        Parsed::TooLarge => Ok(text.trim().to_owned()),
    }
}

/// Returns a quantity in billionths, or `None` if it is malformed or out of range.
pub fn nanos(text: &str) -> Option<i128> {
    match parse(text) {
        Ok(Parsed::Amount(nanos, _)) => Some(nanos),
        _ => None,
    }
}

/// Formats an amount in billionths in the format of another quantity.
pub fn shown_like(nanos: i128, other: &str) -> String {
    let format = match parse(other) {
        Ok(Parsed::Amount(_, format)) => format,
        _ => Format::Decimal,
    };
    match nanos {
        0 => "0".to_owned(),
        nanos if nanos < 0 => format!("-{}", shown(-nanos, format)),
        nanos => shown(nanos, format),
    }
}

/// A well-formed quantity.
enum Parsed {
    /// In billionths.
    Amount(i128, Format),
    TooLarge,
}

fn parse(text: &str) -> Result<Parsed, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err(WRONG_FORMAT);
    }
    let (sign, rest) = match text.as_bytes().first() {
        Some(b'-') => (-1, text.get(1..).unwrap_or_default()),
        Some(b'+') => (1, text.get(1..).unwrap_or_default()),
        _ => (1, text),
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = suffix
        .bytes()
        .take_while(|b| b"eEinumkKMGTP".contains(b))
        .count();
    let tail = suffix.get(letters..).unwrap_or_default();
    let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
    if digits(tail) != tail.len() {
        return Err(WRONG_FORMAT);
    }
    let (shift, factor, format) = suffix_meaning(suffix)?;

    let number = format!("{whole}{fraction}");
    let number = number.trim_start_matches('0');
    if number.is_empty() {
        return Ok(Parsed::Amount(0, format));
    }
    let scale = shift.saturating_sub(i32::try_from(fraction.len()).unwrap_or(i32::MAX));
    let amount = number
        .parse::<i128>()
        .ok()
        .and_then(|n| n.checked_mul(factor));
    match amount.and_then(|amount| in_nanos(amount, scale)) {
        Some(nanos) => Ok(Parsed::Amount(sign * nanos, format)),
        None => Ok(Parsed::TooLarge),
    }
}

/// Returns the power of ten, the factor and the format of a suffix.
fn suffix_meaning(suffix: &str) -> Result<(i32, i128, Format), &'static str> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((*exponent, 1, Format::Decimal));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((0, 1 << bits, Format::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(WRONG_SUFFIX)?;
    let exponent = exponent.parse::<i32>().map_err(|_| WRONG_SUFFIX)?;
    Ok((exponent, 1, Format::Exponent))
}

/// Returns `amount * 10^scale` in billionths, rounded up.
fn in_nanos(amount: i128, scale: i32) -> Option<i128> {
    let steps = scale.checked_sub(NANO)?;
    if let Ok(up) = u32::try_from(steps) {
        return amount.checked_mul(10_i128.checked_pow(up)?);
    }
    match 10_i128.checked_pow(steps.unsigned_abs()) {
        Some(divisor) => Some(amount / divisor + i128::from(amount % divisor != 0)),
        None => Some(1),
    }
}

fn shown(nanos: i128, format: Format) -> String {
    const ONE: i128 = 1_000_000_000;
    // Small amounts, and those that binary units would round, have a decimal suffix.
    if format == Format::Binary && nanos % ONE == 0 && nanos >= 1024 * ONE {
        let mut amount = nanos / ONE;
        let mut suffix = "";
        for (name, _) in BINARY {
            if amount % 1024 != 0 {
                break;
            }
            amount /= 1024;
            suffix = name;
        }
        return format!("{amount}{suffix}");
    }
    let mut amount = nanos;
    let mut exponent = NANO;
    // There is no suffix above exa, so the thousands stay in the number.
    while amount % 1000 == 0 && (exponent < 18 || format == Format::Exponent) {
        amount /= 1000;
        exponent += 3;
    }
    if format == Format::Exponent {
        return if exponent == 0 {
            amount.to_string()
        } else {
            format!("{amount}e{exponent}")
        };
    }
    let suffix = DECIMAL
        .iter()
        .find(|(_, of)| *of == exponent)
        .map_or("", |(name, _)| name);
    format!("{amount}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_canonicalised() {
        for (given, expected) in [
            ("0", "0"),
            ("0.0", "0"),
            ("Mi", "0"),
            ("1", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("100Mi", "100Mi"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("512", "512"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("-5", "-5"),
            ("1Ki", "1Ki"),
            ("500Ki", "500Ki"),
            ("0.1Ki", "102400m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            (" 2 ", "2"),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for (given, expected) in [
            ("", WRONG_FORMAT),
            ("abc", WRONG_FORMAT),
            ("1 Gi", WRONG_FORMAT),
            ("1Gb", WRONG_FORMAT),
            ("1K", WRONG_SUFFIX),
            ("1mi", WRONG_SUFFIX),
            ("1e", WRONG_SUFFIX),
        ] {
            assert_eq!(canonical(given), Err(expected), "{given}");
        }
    }

    proptest! {
        #[test]
        fn random_quantities_never_panic_and_canonical_forms_are_stable(text in "[-+]?[0-9.]{0,25}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,4}|.{0,8}") {
            if let Ok(once) = canonical(&text) {
                prop_assert_eq!(canonical(&once), Ok(once.clone()));
            }
        }
    }
}
