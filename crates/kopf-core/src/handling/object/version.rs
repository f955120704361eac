//! Versions of an object, as far as they can be compared.

use serde_json::Value;

use super::state::Snapshot;
use crate::body::Body;
use crate::cause::EventType;

/// One version of an object.
#[derive(Clone, Debug)]
pub struct Version {
    /// The type of the event that has brought it.
    pub event: EventType,
    /// The object.
    pub body: Body,
}

impl Version {
    /// Returns the parts that express the intentions of users.
    pub fn snapshot(&self) -> Snapshot {
        let generation = self.body.metadata().get("generation");
        Snapshot {
            generation: generation.and_then(Value::as_i64),
            deleting: self.body.is_deleting(),
        }
    }
}

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
