//! The weight of regular expressions: an estimate of their compiled size, and of the steps of a
//! search per byte.
//!
//! A pattern of ten bytes such as `\p{L}{999}` can be megabytes when it is compiled. The limits are
//! far above the patterns of known CRDs, and keep the time of a request below a second.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Maximum weight of one pattern.
pub(crate) const MAX_WEIGHT: u64 = 200_000;
/// Maximum weight of all patterns of a CRD.
pub(crate) const MAX_TOTAL: u64 = 1_000_000;
/// Maximum product of the weight of patterns and the lengths of texts in one object.
pub(crate) const MAX_STEPS: u64 = 100_000_000;

/// Ranges of characters of a large Unicode class.
const CLASS: usize = 650;

/// The error of a pattern that is above the limits. The text is that of a real server.
pub(crate) const TOO_LARGE: &str = "expression too large";

/// Returns the weight of a pattern in the syntax of the crate `regex`; `None` if it is malformed or
/// too large to be parsed.
pub(crate) fn weight(pattern: &str) -> Option<u64> {
    if parsing(pattern) > MAX_WEIGHT {
        return Some(u64::MAX);
    }
    let parsed = regex_syntax::parse(pattern).ok()?;
    Some(of(&parsed))
}

/// Returns an estimate of the time of parsing, from the text alone: classes of characters become
/// lists of ranges.
fn parsing(pattern: &str) -> u64 {
    let count = |part: &str| pattern.matches(part).count();
    let classes = count("\\p") + count("\\P");
    // Without case, even a small negated class is compared with all letters.
    let negated = if count("(?") > 0 { CLASS } else { 10 };
    let cost = pattern.len() + CLASS * classes + negated * count("[^");
    cost.try_into().unwrap_or(u64::MAX)
}

fn of(part: &Hir) -> u64 {
    let sum = |parts: &[Hir]| parts.iter().map(of).fold(1, u64::saturating_add);
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(text) => text.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            of(&repetition.sub).saturating_mul(u64::from(most.max(1)))
        }
        HirKind::Capture(capture) => of(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => sum(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_patterns_are_light() {
        for pattern in [
            r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$",
            r"^([0-9]{1,3}\.){3}[0-9]{1,3}(/[0-9]{1,2})?$",
        ] {
            let weight = weight(pattern).unwrap();
            assert!(weight < 100, "{pattern}: {weight}");
        }
        let letters = weight(r"^\p{L}{1,63}$").unwrap();
        assert!(letters < MAX_WEIGHT, "{letters}");
    }

    #[test]
    fn large_patterns_are_heavy() {
        let many = r"\p{L}".repeat(200_000);
        let folded = format!("(?i){}", "[^a]".repeat(200_000));
        for pattern in [r"((a{100}){100}){100}", r"\p{L}{999}", &many, &folded] {
            let weight = weight(pattern).unwrap();
            assert!(weight > MAX_WEIGHT, "{weight}");
        }
        assert_eq!(weight("("), None);
    }
}
