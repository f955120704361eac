//! Durations in Go's format: `1h15m30.5s`.

/// Checks the `timeout` parameter of a request. The error is the server's message.
pub fn check_timeout(value: &str) -> Result<(), String> {
    check(value).map_err(|why| format!("invalid timeout specified in the request URL - {why}"))
}

/// Checks that a string is a duration. The error is that of Go's parser.
pub fn check(value: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {value:?}");
    let mut rest = value.strip_prefix(['-', '+']).unwrap_or(value);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let number = leading(rest, |c| c.is_ascii_digit() || c == '.');
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        rest = rest.get(number.len()..).unwrap_or_default();
        let unit = leading(rest, |c| c != '.' && !c.is_ascii_digit());
        match unit {
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => {}
            "" => return Err(format!("time: missing unit in duration {value:?}")),
            unknown => {
                return Err(format!(
                    "time: unknown unit {unknown:?} in duration {value:?}"
                ));
            }
        }
        rest = rest.get(unit.len()..).unwrap_or_default();
    }
    Ok(())
}

fn leading(text: &str, wanted: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_without_units_are_rejected() {
        for good in ["0", "5s", "1h15m30.5s", "-1ms", ".5s", "1.s", "3µs"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", "time: invalid duration \"\""),
            ("invalid", "time: invalid duration \"invalid\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("1.2.3s", "time: invalid duration \"1.2.3s\""),
            (".s", "time: invalid duration \".s\""),
        ] {
            assert_eq!(check(bad), Err(why.to_owned()), "{bad}");
        }
    }
}
