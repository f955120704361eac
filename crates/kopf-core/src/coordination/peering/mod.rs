//! Peering: several operators for the same objects, of which one works and the others pause.
//!
//! The operators write records into the status of a peering object, and read those of the others.
//! The engine performs the decisions of this module: it pauses and resumes, writes and waits.

mod identity;
mod record;

use std::fmt::{self, Display};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use identity::{descriptive_host, generated_identity, manual_identity};
pub use record::Peer;

/// The plural name of peering objects for cluster-wide operators.
pub const CLUSTER_PLURAL: &str = "clusterkopfpeerings";
/// The plural name of peering objects for namespaced operators.
pub const NAMESPACED_PLURAL: &str = "kopfpeerings";
/// The API groups of peering objects. If both exist, both are used.
pub const GROUPS: [&str; 2] = ["kopf.dev", "zalando.org"];
/// The API version of peering objects.
pub const VERSION: &str = "v1";

/// The time before the end of its lifetime at which a record is renewed, in seconds: random, so
/// that operators that were started together do not write together.
const AHEAD: std::ops::RangeInclusive<u64> = 5..=10;

/// The effect of the peers on this operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may work.
    Clear,
    /// It must pause: these peers have a higher priority.
    Outranked(Vec<Peer>),
    /// It must pause, and so must the others: these peers have the same priority.
    Conflict(Vec<Peer>),
}

/// The assessment of a peering object by one of its operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The effect on this operator.
    pub verdict: Verdict,
    /// All valid records, including that of this operator.
    pub peers: Vec<Peer>,
    /// Expired records of others, to be removed.
    pub dead: Vec<String>,
    /// Keys with invalid records, which are ignored.
    pub garbage: Vec<String>,
    /// The time at which the first relevant record expires.
    pub deadline: Option<Timestamp>,
}

impl Assessment {
    /// Assesses the status of a peering object.
    ///
    /// ```
    /// use kopf_core::peering::{Assessment, Verdict};
    /// use kopf_core::timestamp;
    /// use serde_json::json;
    ///
    /// let status = json!({"me": {}, "dev": {"priority": 666}, "crashed": {"lifetime": 0}});
    /// let now = timestamp::parse("2026-01-02T03:04:05Z")?;
    /// let found = Assessment::of(&status, "me", 0, now);
    /// assert!(matches!(found.verdict, Verdict::Outranked(peers) if peers[0].identity == "dev"));
    /// assert_eq!(found.dead, ["crashed"]);
    /// # Ok::<_, timestamp::Error>(())
    /// ```
    pub fn of(status: &Value, identity: &str, priority: i64, now: Timestamp) -> Self {
        let mut peers = Vec::new();
        let mut garbage = Vec::new();
        for (key, record) in status.as_object().into_iter().flatten() {
            match Peer::read(key, record, now) {
                Some(peer) => peers.push(peer),
                None => garbage.push(key.clone()),
            }
        }
        let others = || peers.iter().filter(|peer| peer.identity != identity);
        let live = || others().filter(|peer| !peer.is_dead(now));
        let higher: Vec<_> = live()
            .filter(|peer| peer.priority > priority)
            .cloned()
            .collect();
        let same: Vec<_> = live()
            .filter(|peer| peer.priority == priority)
            .cloned()
            .collect();
        Self {
            deadline: higher.iter().chain(&same).map(Peer::deadline).min(),
            // The own record is rewritten at any age.
            dead: others()
                .filter(|peer| peer.is_dead(now))
                .map(|peer| peer.identity.clone())
                .collect(),
            verdict: if !higher.is_empty() {
                Verdict::Outranked(higher)
            } else if !same.is_empty() {
                Verdict::Conflict(same)
            } else {
                Verdict::Clear
            },
            peers,
            garbage,
        }
    }

    /// Returns the assessment for operators that share the objects: others of the same priority are
    /// ignored.
    #[must_use]
    pub fn sharing(mut self) -> Self {
        if matches!(self.verdict, Verdict::Conflict(_)) {
            self.verdict = Verdict::Clear;
            self.deadline = None;
        }
        self
    }
}

/// Returns the merge-patch that renews the record of an operator.
pub fn touching(peer: &Peer) -> Value {
    let record = Map::from_iter([(peer.identity.clone(), peer.to_value())]);
    json!({"status": record})
}

/// Returns the merge-patch that removes records: the own one on exit, and those of dead peers.
pub fn removing<'a>(identities: impl IntoIterator<Item = &'a str>) -> Value {
    let records = identities
        .into_iter()
        .map(|name| (name.to_owned(), Value::Null));
    json!({"status": records.collect::<Map<_, _>>()})
}

/// Returns the interval of renewals: slightly less than the lifetime, and at least one second.
pub fn keepalive_interval(lifetime: Duration, random: u64) -> Duration {
    let span = AHEAD.end() - AHEAD.start() + 1;
    let ahead = Duration::from_secs(AHEAD.start() + random % span);
    lifetime.saturating_sub(ahead).max(Duration::from_secs(1))
}

/// Formats peers as in the original's logs.
pub fn listed(peers: &[Peer]) -> impl Display + '_ {
    struct Listed<'a>(&'a [Peer]);
    impl Display for Listed<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("[")?;
            for (position, peer) in self.0.iter().enumerate() {
                let separator = if position == 0 { "" } else { ", " };
                write!(f, "{separator}{peer}")?;
            }
            f.write_str("]")
        }
    }
    Listed(peers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::timestamp;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn assess(status: &Value, priority: i64) -> Assessment {
        Assessment::of(status, "me", priority, timestamp::parse(NOW).unwrap())
    }

    /// Returns a record that was seen this many seconds ago.
    fn seen(seconds: i64, priority: i64) -> Value {
        let now = timestamp::parse(NOW).unwrap();
        let lastseen = now - jiff::SignedDuration::from_secs(seconds);
        json!({"priority": priority, "lifetime": 60, "lastseen": timestamp::format(lastseen)})
    }

    fn names(peers: &[Peer]) -> Vec<&str> {
        peers.iter().map(|peer| &*peer.identity).collect()
    }

    #[test]
    fn higher_priority_pauses_this_operator() {
        let status = json!({"me": seen(0, 5), "a": seen(10, 6), "b": seen(0, 5), "c": seen(0, 7)});
        let found = assess(&status, 5);
        let Verdict::Outranked(peers) = &found.verdict else {
            panic!("{found:?}");
        };
        assert_eq!(names(peers), ["a", "c"]);
        let deadline = timestamp::format(found.deadline.unwrap());
        assert_eq!(
            deadline, "2026-01-02T03:04:55.000000+00:00",
            "of the first one"
        );
        assert!(found.dead.is_empty());
    }

    #[test]
    fn equal_priorities_are_in_conflict() {
        let found = assess(
            &json!({"me": seen(0, 5), "b": seen(0, 5), "c": seen(0, 4)}),
            5,
        );
        let Verdict::Conflict(peers) = &found.verdict else {
            panic!("{found:?}");
        };
        assert_eq!(names(peers), ["b"]);
        assert!(found.deadline.is_some());
        assert_eq!(names(&found.peers), ["b", "c", "me"]);
    }

    #[test]
    fn lower_and_dead_peers_are_ignored() {
        let status = json!({"me": seen(0, 5), "low": seen(0, 4), "late": seen(60, 9)});
        let found = assess(&status, 5);
        assert_eq!(found.verdict, Verdict::Clear);
        assert_eq!(found.dead, ["late"]);
        assert_eq!(found.deadline, None);
    }

    #[test]
    fn own_record_is_never_dead() {
        let found = assess(&json!({"me": seen(600, 5)}), 5);
        assert_eq!(found.verdict, Verdict::Clear);
        assert!(found.dead.is_empty());
    }

    #[test]
    fn malformed_records_are_reported_and_kept() {
        let found = assess(
            &json!({"conditions": [], "note": "x", "low": seen(0, 1)}),
            5,
        );
        assert_eq!(found.verdict, Verdict::Clear);
        assert_eq!(found.garbage, ["conditions", "note"]);
        assert!(found.dead.is_empty());
        for status in [json!(null), json!("x"), json!([1])] {
            assert_eq!(assess(&status, 5).verdict, Verdict::Clear);
        }
    }

    #[test]
    fn patches_are_those_of_the_original() {
        let now = timestamp::parse("2026-11-15T00:41:28.796254Z").unwrap();
        let peer = Peer::new("me@here", 100, Duration::from_secs(60), now);
        assert_eq!(
            touching(&peer),
            json!({"status": {"me@here": {"priority": 100, "lifetime": 60,
                   "lastseen": "2026-11-15T00:41:28.796254+00:00"}}})
        );
        assert_eq!(
            removing(["a", "b"]),
            json!({"status": {"a": null, "b": null}})
        );
    }

    #[test]
    fn records_are_renewed_before_they_expire() {
        let interval =
            |lifetime, random| keepalive_interval(Duration::from_secs(lifetime), random).as_secs();
        let all: std::collections::BTreeSet<_> = (0..100).map(|n| interval(60, n)).collect();
        assert_eq!(all, (50..=55).collect());
        assert_eq!(interval(5, 0), 1, "never in haste");
        assert_eq!(interval(0, 0), 1);
    }

    #[test]
    fn peers_are_listed_as_in_the_original() {
        let now = timestamp::parse("2026-11-15T00:41:28.796254Z").unwrap();
        let peer = |name| Peer::new(name, 1, Duration::from_secs(2), now);
        assert_eq!(listed(&[]).to_string(), "[]");
        assert_eq!(
            listed(&[peer("a"), peer("b")]).to_string(),
            "[<Peer a: priority=1, lifetime=2, lastseen='2026-11-15T00:41:28.796254+00:00'>, \
             <Peer b: priority=1, lifetime=2, lastseen='2026-11-15T00:41:28.796254+00:00'>]"
        );
    }

    proptest! {
        #[test]
        fn operator_never_pauses_for_itself(priority in any::<i64>(), age in 0i64..1_000) {
            let found = assess(&json!({"me": seen(age, priority)}), priority);
            prop_assert_eq!(found.verdict, Verdict::Clear);
        }
    }
}
