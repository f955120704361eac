//! The `spec` of a Lease, as client-go writes it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::timestamp;

/// A Lease, as far as elections depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// `metadata.resourceVersion`: writes are conditional on it.
    pub version: String,
    /// `spec.holderIdentity`; empty if the Lease is released.
    pub holder: String,
    /// `spec.leaseDurationSeconds`; zero if it is absent.
    pub duration: Duration,
    /// `spec.acquireTime`, as it is written.
    pub acquired: Option<String>,
    /// `spec.renewTime`, as it is written.
    pub renewed: Option<String>,
    /// `spec.leaseTransitions`.
    pub transitions: i32,
}

/// A response that is not a Lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse the Lease: `{field}` is missing")]
pub struct Malformed {
    field: &'static str,
}

impl LeaseRecord {
    /// Parses a Lease. Missing and unreadable fields of the spec count as unset.
    ///
    /// # Errors
    ///
    /// There is no `metadata.resourceVersion`: writes could not be conditional.
    pub fn parse(object: &Value) -> Result<Self, Malformed> {
        let version = object["metadata"]["resourceVersion"].as_str();
        let spec = &object["spec"];
        let text = |field: &str| spec[field].as_str().map(str::to_owned);
        let number = |field: &str| spec[field].as_i64().unwrap_or_default();
        Ok(Self {
            version: version.map(str::to_owned).ok_or(Malformed {
                field: "metadata.resourceVersion",
            })?,
            holder: text("holderIdentity").unwrap_or_default(),
            duration: Duration::from_secs(
                u64::try_from(number("leaseDurationSeconds")).unwrap_or_default(),
            ),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: i32::try_from(number("leaseTransitions")).unwrap_or_default(),
        })
    }

    /// Returns `true` if no process holds the Lease.
    pub fn is_released(&self) -> bool {
        self.holder.is_empty()
    }
}

/// Returns the fields of a Lease that is taken or renewed by this identity.
pub(super) fn held(
    before: Option<&LeaseRecord>,
    identity: &str,
    seconds: i32,
    now: Timestamp,
) -> Map<String, Value> {
    let now = timestamp::format(now);
    let own = before.filter(|record| record.holder == identity);
    let acquired = own.and_then(|record| record.acquired.clone());
    let transitions = match (before, own) {
        (_, Some(record)) => record.transitions,
        (Some(record), None) => record.transitions.saturating_add(1),
        (None, None) => 0,
    };
    fields(json!({
        "holderIdentity": identity,
        "leaseDurationSeconds": seconds,
        "acquireTime": acquired.unwrap_or_else(|| now.clone()),
        "renewTime": now,
        "leaseTransitions": transitions,
    }))
}

/// Returns the fields of a released Lease: others take it immediately.
pub(super) fn released(before: &LeaseRecord, now: Timestamp) -> Map<String, Value> {
    let now = timestamp::format(now);
    fields(json!({
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": before.transitions,
    }))
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05.678901Z".parse().unwrap()
    }

    fn parse(spec: &Value) -> LeaseRecord {
        let metadata = json!({"resourceVersion": "7"});
        LeaseRecord::parse(&json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn taken_leases_count_transitions() {
        let created = held(None, "me", 15, now());
        assert_eq!(created["leaseTransitions"], 0);
        assert_eq!(created["acquireTime"], "2026-01-02T03:04:05.678901+00:00");
        let other = parse(&json!({"holderIdentity": "other", "leaseTransitions": 3}));
        let taken = held(Some(&other), "me", 15, now());
        assert_eq!(taken["leaseTransitions"], 4);
        assert_eq!(taken["holderIdentity"], "me");
        assert_eq!(taken["leaseDurationSeconds"], 15);
    }

    #[test]
    fn renewed_leases_keep_the_time_of_acquisition() {
        let own = parse(&json!({"holderIdentity": "me", "leaseTransitions": 3,
                               "acquireTime": "2020-01-01T00:00:00.000000Z"}));
        let renewed = held(Some(&own), "me", 15, now());
        assert_eq!(renewed["leaseTransitions"], 3);
        assert_eq!(renewed["acquireTime"], "2020-01-01T00:00:00.000000Z");
        assert_ne!(renewed["renewTime"], renewed["acquireTime"]);
        let left = released(&own, now());
        assert_eq!(left["holderIdentity"], "");
        assert_eq!(left["leaseDurationSeconds"], 1);
        assert_eq!(left["leaseTransitions"], 3);
    }

    #[test]
    fn unreadable_fields_count_as_unset() {
        let record = parse(&json!({"leaseDurationSeconds": -5, "leaseTransitions": "x"}));
        assert!(record.is_released());
        assert_eq!(record.duration, Duration::ZERO);
        assert_eq!(record.transitions, 0);
        let error = LeaseRecord::parse(&json!({})).unwrap_err().to_string();
        assert!(error.contains("metadata.resourceVersion"), "{error}");
    }
}
