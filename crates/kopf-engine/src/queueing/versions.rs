//! Comparison of resource versions, as far as they can be compared.

/// Whether an event of version `seen` tells that a write of version `awaited` is seen: it is that
/// version, or a newer one.
pub(crate) fn covers(seen: &str, awaited: &str) -> bool {
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
    fn versions_that_are_numbers_are_ordered_and_others_only_equal() {
        for (seen, awaited, expected) in [
            ("5", "5", true),
            ("10", "9", true),
            ("9", "10", false),
            ("abc", "abc", true),
            ("abd", "abc", false),
            ("", "1", false),
            ("99999999999999999999999", "99999999999999999999998", true),
        ] {
            assert_eq!(covers(seen, awaited), expected, "{seen} {awaited}");
        }
    }
}
