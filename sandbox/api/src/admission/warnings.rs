//! Limits of the number and the length of warnings.

/// Maximum total length. Longer lists are truncated.
const TOTAL: usize = 4096;
/// Maximum length of one warning in a truncated list.
const EACH: usize = 256;

/// Returns the warnings for the response, in order: without duplicates and values that are invalid
/// in a header, and truncated if they exceed the limits.
pub fn limited(warnings: &[String]) -> Vec<String> {
    let mut kept: Vec<&str> = Vec::new();
    for warning in warnings {
        let fits_header = !warning.is_empty() && !warning.chars().any(char::is_control);
        if fits_header && !kept.contains(&warning.as_str()) {
            kept.push(warning);
        }
    }
    if kept.iter().map(|text| text.chars().count()).sum::<usize>() <= TOTAL {
        return kept.into_iter().map(str::to_owned).collect();
    }
    let mut left = TOTAL;
    let mut cut = Vec::new();
    for warning in kept {
        if left == 0 {
            break;
        }
        let short: String = warning.chars().take(EACH).collect();
        left = left.saturating_sub(short.chars().count());
        cut.push(short);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_warnings_are_unchanged() {
        let long = "x".repeat(1000);
        let warnings = ["a", "b", "a", "", "c\nd", &long].map(str::to_owned);
        assert_eq!(limited(&warnings), ["a", "b", &long]);
    }

    #[test]
    fn too_many_warnings_are_truncated() {
        let warnings: Vec<String> = (0..30)
            .map(|n| format!("{n:02}{}", "é".repeat(500)))
            .collect();
        let cut = limited(&warnings);
        assert_eq!(cut.len(), 16);
        assert!(cut.iter().all(|text| text.chars().count() == 256));
    }
}
