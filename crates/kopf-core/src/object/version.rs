//! Resource versions, as far as they can be compared.

/// Returns `true` if seeing the version `seen` proves that `awaited` was reached: it is the same
/// version, or both are numbers and `seen` is not smaller.
pub fn reaches(seen: &str, awaited: &str) -> bool {
    if seen == awaited {
        return true;
    }
    match (seen.parse::<u128>(), awaited.parse::<u128>()) {
        (Ok(seen), Ok(awaited)) => seen >= awaited,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_versions_are_ordered_and_others_compare_equal_only() {
        for (seen, awaited, expected) in [
            ("5", "5", true),
            ("10", "9", true),
            ("9", "10", false),
            ("abc", "abc", true),
            ("abd", "abc", false),
            ("", "1", false),
            ("99999999999999999999999", "99999999999999999999998", true),
        ] {
            assert_eq!(reaches(seen, awaited), expected, "{seen} {awaited}");
        }
    }
}
