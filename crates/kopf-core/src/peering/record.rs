//! What an operator says about itself in the status of a peering object.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::literal::Text;
use crate::timestamp;

/// What a record without a lifetime has, in seconds.
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
    /// Its name among the others.
    pub identity: String,
    /// Those of a lower priority pause.
    pub priority: i64,
    /// For how many seconds it counts as alive since it was last seen.
    pub lifetime: i64,
    /// When it was last seen.
    pub lastseen: Timestamp,
}

impl Peer {
    /// An operator that is seen now. Lifetimes are whole seconds; a part of one is taken for one.
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

    /// Reads a record. All fields are optional, and unknown ones are ignored. Nothing if a field is
    /// there and makes no sense: then it is not a record.
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

    /// The record as it is written.
    pub fn to_value(&self) -> Value {
        json!({
            "priority": self.priority,
            "lifetime": self.lifetime,
            "lastseen": timestamp::format(self.lastseen),
        })
    }

    /// Until when it counts as alive.
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

    /// Whether it has not been seen for too long.
    pub fn is_dead(&self, now: Timestamp) -> bool {
        self.deadline() <= now
    }
}

/// As in the original's logs.
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

/// Numbers come from other programs and from hands: with a fraction, or as texts.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            // Beyond the range, or with a fraction: casting saturates, and cuts.
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
    fn a_record_is_written_as_the_original_writes_it() {
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
    fn everything_is_optional() {
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
    fn garbage_is_no_record() {
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
    fn it_dies_at_its_deadline() {
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
        fn no_record_panics(priority in any::<f64>(), lifetime in any::<i64>(), text in any::<String>()) {
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
