//! Equality of JSON values for handling.
//!
//! The API server may return `1.0` as `1`, so numbers are compared by value instead of notation.
//! Other values are compared strictly: `true` is not `1`, and a key with null differs from an
//! absent key (only the [diff](crate::diff) treats these as equal).

use serde_json::{Number, Value};

/// Compares values deeply, with numbers compared by value.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => equal_numbers(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            // Both maps are sorted by key, so equal maps agree pair by pair.
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((k, a), (l, b))| k == l && equal(a, b))
        }
        _ => a == b,
    }
}

/// Compares numbers exactly, without rounding.
fn equal_numbers(a: &Number, b: &Number) -> bool {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a == b,
        _ => false,
    }
}

/// Returns the number as an integer if it is a whole one in range, in any notation.
fn integer(number: &Number) -> Option<i128> {
    if let Some(value) = number.as_i128() {
        return Some(value);
    }
    let value = number.as_f64()?;
    // Beyond that, it cannot equal a 64-bit integer.
    let sensible = value.fract() == 0.0 && value.abs() < 1e20;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole and far below i128::MAX"
    )]
    sensible.then_some(value as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_compared_by_value() {
        for (a, b) in [
            ("1", "1.0"),
            ("-0.0", "0"),
            ("1e3", "1000"),
            ("18446744073709551615", "18446744073709551615"),
            ("1e300", "1.0e300"),
            ("[{\"a\": [1]}]", "[{\"a\": [1.0]}]"),
        ] {
            let (a, b) = (
                serde_json::from_str(a).unwrap(),
                serde_json::from_str(b).unwrap(),
            );
            assert!(equal(&a, &b), "{a} {b}");
        }
        for (a, b) in [
            ("1", "1.5"),
            ("1", "2"),
            ("9007199254740993", "9007199254740992.0"),
            ("18446744073709551615", "18446744073709551616.0"),
            ("1e300", "1e301"),
        ] {
            let (a, b) = (
                serde_json::from_str(a).unwrap(),
                serde_json::from_str(b).unwrap(),
            );
            assert!(!equal(&a, &b), "{a} {b}");
        }
    }

    #[test]
    fn types_and_nulls_are_distinguished() {
        assert!(!equal(&json!(true), &json!(1)));
        assert!(!equal(&json!("1"), &json!(1)));
        assert!(!equal(&json!({"a": null}), &json!({})));
        assert!(!equal(&json!({"a": null}), &json!({"b": null})));
        assert!(!equal(&json!([1, 2]), &json!([2, 1])));
        assert!(!equal(&json!([1]), &json!([1, 1])));
        assert!(equal(
            &json!({"a": {"b": [null, "x"]}}),
            &json!({"a": {"b": [null, "x"]}})
        ));
    }
}
