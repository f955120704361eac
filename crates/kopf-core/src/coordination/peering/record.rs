//! Records of operators in the status of a peering object.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::literal::Text;
use crate::timestamp;

/// The default lifetime of a record, in seconds.
const LIFETIME: i64 = 60;

/// One operator: `status.<identity>` of a peering object.
///
/// ```
/// use kopf_core::peering::Peer;
/// use kopf_core::timestamp;
/// use serde_json::json;
///
/// let now = timestamp::parse("2026-01-02T03:04:05.678901Z")?;
/// let record = json!({"priority": 100, "lifetime": 60,
///                     "lastseen": "2026-01-02T03:04:05.678901+00:00"});
/// let peer = Peer::read("me@here", &record, now).unwrap();
/// assert_eq!(peer.priority, 100);
/// assert!(!peer.is_dead(now));
/// assert_eq!(peer.to_value(), record);
/// # Ok::<_, timestamp::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The identity.
    pub identity: String,
    /// The priority; operators with a lower one pause.
    pub priority: i64,
    /// The lifetime since it was last seen, in seconds.
    pub lifetime: i64,
    /// The time at which it was last seen.
    pub lastseen: Timestamp,
}

impl Peer {
    /// Returns an operator that is seen now. Lifetimes are rounded up to whole seconds.
    pub fn new(
        identity: impl Into<String>,
        priority: i64,
        lifetime: Duration,
        now: Timestamp,
    ) -> Self {
        let seconds = lifetime
            .as_secs()
            .saturating_add(u64::from(lifetime.subsec_nanos() > 0));
        Self {
            identity: identity.into(),
            priority,
            lifetime: i64::try_from(seconds).unwrap_or(i64::MAX),
            lastseen: now,
        }
    }

    /// Parses a record. All fields are optional, and unknown ones are ignored. `None` if a field is
    /// invalid.
    pub fn read(identity: &str, record: &Value, now: Timestamp) -> Option<Self> {
        let record = record.as_object()?;
        let given = |key: &str| record.get(key).filter(|value| !value.is_null());
        Some(Self {
            identity: identity.to_owned(),
            priority: given("priority").map_or(Some(0), integer)?,
            lifetime: given("lifetime").map_or(Some(LIFETIME), integer)?,
            lastseen: match given("lastseen") {
                Some(text) => timestamp::parse(text.as_str()?).ok()?,
                None => now,
            },
        })
    }

    /// Returns the record for writing.
    pub fn to_value(&self) -> Value {
        json!({
            "priority": self.priority,
            "lifetime": self.lifetime,
            "lastseen": timestamp::format(self.lastseen),
        })
    }

    /// Returns the end of its lifetime.
    pub fn deadline(&self) -> Timestamp {
        let lifetime = SignedDuration::from_secs(self.lifetime);
        self.lastseen
            .checked_add(lifetime)
            .unwrap_or(if self.lifetime < 0 {
                Timestamp::MIN
            } else {
                Timestamp::MAX
            })
    }

    /// Returns `true` if its lifetime is over.
    pub fn is_dead(&self, now: Timestamp) -> bool {
        self.deadline() <= now
    }
}

/// Formats a peer as in the original's logs.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lastseen = timestamp::format(self.lastseen);
        write!(
            f,
            "<Peer {}: priority={}, lifetime={}, lastseen={}>",
            self.identity,
            self.priority,
            self.lifetime,
            Text(&lastseen)
        )
    }
}

/// Parses an integer. Records of other programs and people contain fractions and strings.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            // Out of range, or with a fraction: the cast saturates and truncates.
            #[expect(clippy::cast_possible_truncation, reason = "it is meant to")]
            number.as_f64().map(|number| number as i64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        timestamp::parse(text).unwrap()
    }

    #[test]
    fn record_format_matches_the_original() {
        let now = at("2026-11-15T00:41:19.603453Z");
        let peer = Peer::new("x", 10, Duration::from_secs(60), now);
        assert_eq!(
            peer.to_value().to_string(),
            r#"{"lastseen":"2026-11-15T00:41:19.603453+00:00","lifetime":60,"priority":10}"#
        );
        assert_eq!(
            peer.to_string(),
            "<Peer x: priority=10, lifetime=60, lastseen='2026-11-15T00:41:19.603453+00:00'>"
        );
    }

    #[test]
    fn lifetimes_are_whole_seconds() {
        let now = Timestamp::UNIX_EPOCH;
        let lifetime = |duration| Peer::new("x", 0, duration, now).lifetime;
        assert_eq!(lifetime(Duration::from_millis(1)), 1);
        assert_eq!(lifetime(Duration::from_millis(59_001)), 60);
        assert_eq!(lifetime(Duration::MAX), i64::MAX);
    }

    #[test]
    fn all_fields_are_optional() {
        let now = at("2026-01-02T03:04:05Z");
        let empty = Peer::read("x", &json!({}), now).unwrap();
        assert_eq!(empty, Peer::new("x", 0, Duration::from_secs(60), now));
        let nulls = json!({"priority": null, "lifetime": null, "lastseen": null, "new": [1]});
        assert_eq!(Peer::read("x", &nulls, now), Some(empty));
        let naive = json!({"lastseen": "2026-01-02T00:00:00", "lifetime": "5", "priority": 1.9});
        let naive = Peer::read("x", &naive, now).unwrap();
        assert_eq!(naive.deadline(), at("2026-01-02T00:00:05Z"));
        assert_eq!(naive.priority, 1);
    }

    #[test]
    fn malformed_record_is_rejected() {
        let now = Timestamp::UNIX_EPOCH;
        for garbage in [
            json!(null),
            json!("x"),
            json!([]),
            json!(5),
            json!({"priority": "high"}),
            json!({"lifetime": {}}),
            json!({"lastseen": 5}),
            json!({"lastseen": "yesterday"}),
        ] {
            assert_eq!(Peer::read("x", &garbage, now), None, "{garbage}");
        }
    }

    #[test]
    fn peer_is_dead_at_its_deadline() {
        let now = at("2026-01-02T03:04:05Z");
        let peer = Peer::new("x", 0, Duration::from_secs(60), now);
        assert!(!peer.is_dead(at("2026-01-02T03:05:04.999999Z")));
        assert!(peer.is_dead(at("2026-01-02T03:05:05Z")));
        let endless = Peer {
            lifetime: i64::MAX,
            ..peer.clone()
        };
        assert_eq!(endless.deadline(), Timestamp::MAX);
        let negative = Peer {
            lifetime: i64::MIN,
            ..peer
        };
        assert!(negative.is_dead(now));
    }

    proptest! {
        #[test]
        fn random_records_never_panic(priority in any::<f64>(), lifetime in any::<i64>(), text in any::<String>()) {
            let now = Timestamp::MAX;
            for record in [
                json!({"priority": priority, "lifetime": lifetime}),
                json!({"priority": text, "lifetime": text, "lastseen": text}),
            ] {
                if let Some(peer) = Peer::read("x", &record, now) {
                    peer.is_dead(Timestamp::MIN);
                    let _ = peer.to_string();
                }
            }
        }
    }
}
