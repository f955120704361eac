//! Durations as texts: `"90s"`, `"5m"`, `"1h30m"`.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote_spanned};
use syn::{Expr, Lit, LitStr};

use crate::literals::{self, expanded, is_negative, wrong};

/// The forms of durations, for messages.
const FORMS: &str =
    "a non-negative number of seconds, a Duration, or a text such as \"90s\", \"5m\" or \"1h30m\"";

/// Units with their milliseconds, from the largest.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Expands `duration!("5m")`.
pub(crate) fn expand(text: TokenStream) -> TokenStream {
    let duration = syn::parse2::<LitStr>(text.clone()).ok();
    let duration = duration.and_then(|text| literal(&text));
    duration.unwrap_or_else(|| {
        let message = "expected a text such as \"500ms\", \"90s\", \"5m\", \"1h30m\" or \"7d\"";
        syn::Error::new_spanned(text, message).to_compile_error()
    })
}

/// Returns the duration of an option, converted if it is a text.
pub(crate) fn option(name: &str, value: &Expr) -> syn::Result<TokenStream> {
    let duration = match literals::literal(value) {
        Some(Lit::Str(text)) => literal(text),
        Some(Lit::Int(_) | Lit::Float(_)) if !is_negative(value) => Some(value.to_token_stream()),
        None => Some(value.to_token_stream()),
        Some(_) => None,
    };
    duration.ok_or_else(|| wrong(name, FORMS, value))
}

/// Returns the duration of an option that must not be zero.
pub(crate) fn period(name: &str, value: &Expr) -> syn::Result<TokenStream> {
    let is_zero = match literals::literal(value) {
        Some(Lit::Str(text)) => milliseconds(&text.value()) == Some(0),
        Some(Lit::Int(number)) => number.base10_parse::<u64>().is_ok_and(|number| number == 0),
        _ => false,
    };
    if is_zero {
        let message =
            format!("`{name}` must be greater than 0; omit it to be called for changes only");
        return Err(syn::Error::new_spanned(value, message));
    }
    option(name, value)
}

fn literal(text: &LitStr) -> Option<TokenStream> {
    let milliseconds = milliseconds(&text.value())?;
    Some(quote_spanned!(expanded(text.span())=>
        ::core::time::Duration::from_millis(#milliseconds)
    ))
}

/// Parses numbers with units, each unit at most once, the largest first.
fn milliseconds(text: &str) -> Option<u64> {
    let mut units = UNITS.iter();
    let mut rest = text;
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|letter: char| letter.is_ascii_digit());
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        let (_, factor) = units.find(|(name, _)| *name == unit)?;
        let part = number.parse::<u64>().ok()?.checked_mul(*factor)?;
        sum = sum.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("0s", Some(0)),
            ("90s", Some(90_000)),
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1d2h3m4s5ms", Some(93_784_005)),
            ("", None),
            ("5", None),
            ("m", None),
            ("-5m", None),
            ("1.5h", None),
            ("5 m", None),
            ("5m5m", None),
            ("30m1h", None),
            ("5min", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text:?}");
        }
    }

    #[test]
    fn periods_are_not_zero() {
        let text = |text: &str| {
            let period = period("every", &syn::parse_str(text).unwrap());
            period.map(drop).map_err(|error| error.to_string())
        };
        for accepted in ["\"5m\"", "300", "0.5", "LIMIT"] {
            assert_eq!(text(accepted), Ok(()));
        }
        for zero in ["\"0s\"", "0", "\"0h0m\""] {
            let expected = "`every` must be greater than 0; omit it to be called for changes only";
            assert_eq!(text(zero), Err(expected.to_owned()));
        }
        assert!(text("\"often\"").is_err());
    }

    #[test]
    fn durations_are_numbers_texts_or_expressions() {
        let text = |text: &str| {
            option("option", &syn::parse_str(text).unwrap()).map(|tokens| tokens.to_string())
        };
        for unchanged in ["3", "2.5", "LIMIT", "delay", "| Spec (spec) : Spec | 3"] {
            assert_eq!(text(unchanged).unwrap(), unchanged);
        }
        assert_eq!(
            text("\"5m\"").unwrap(),
            ":: core :: time :: Duration :: from_millis (300000u64)"
        );
        for refused in ["\"3\"", "\"often\"", "true", "-1", "-0.5"] {
            let error = text(refused).unwrap_err().to_string();
            assert!(
                error.starts_with("`option` must be a non-negative"),
                "{error}"
            );
        }
    }
}
