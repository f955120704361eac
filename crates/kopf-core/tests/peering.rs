//! Comparison with the recorded peering of two operators of the original, with a freeze.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests, too"
)]

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use kopf_core::peering::{Assessment, Peer, Verdict, listed, removing, touching};
use serde_json::Value;

const FIRST: &str = "someone@somewhere/20261115004119/19y";

fn recorded(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/p01-peering");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

fn entries(file: &str) -> Vec<Value> {
    serde_json::from_str(&recorded(file)).unwrap()
}

/// Returns the status of the peering object at a moment of the recording.
fn status(after: &str) -> Value {
    let entries = entries("objects.json");
    let found = entries.iter().find(|entry| entry["after"] == after);
    found.unwrap()["peering"].clone()
}

/// Returns a moment at which all of them were alive.
fn then(status: &Value) -> Timestamp {
    let records = status.as_object().unwrap().iter();
    let peers = records.map(|(name, record)| Peer::read(name, record, Timestamp::MIN).unwrap());
    let last = peers.map(|peer| peer.lastseen).max().unwrap();
    last + SignedDuration::from_millis(5)
}

#[test]
fn patches_match_the_recording() {
    let calls = entries("calls.json");
    let calls: Vec<_> = calls
        .iter()
        .filter(|call| call["resource"] == "kopfpeerings")
        .collect();
    assert_eq!(calls.len(), 8);
    for call in calls {
        let (name, record) = call["body"]["status"]
            .as_object()
            .unwrap()
            .iter()
            .next()
            .unwrap();
        let patch = if record.is_null() {
            removing([name.as_str()])
        } else {
            touching(&Peer::read(name, record, Timestamp::MIN).unwrap())
        };
        assert_eq!(patch, call["body"]);
    }
}

#[test]
fn decisions_match_the_recording() {
    for (after, priority, expected) in [
        ("first operator runs", 10, "clear"),
        ("second with --dev runs too", 10, "outranked"),
        ("second with --dev runs too", 666, "conflict"),
        ("second has exited", 10, "clear"),
        ("frozen", 10, "outranked"),
        ("resumed", 10, "clear"),
    ] {
        let status = status(after);
        let found = Assessment::of(&status, FIRST, priority, then(&status));
        let verdict = match found.verdict {
            Verdict::Clear => "clear",
            Verdict::Outranked(_) => "outranked",
            Verdict::Conflict(_) => "conflict",
        };
        assert_eq!(verdict, expected, "{after}");
        assert!(found.dead.is_empty() && found.garbage.is_empty(), "{after}");
    }
}

#[test]
fn peers_are_formatted_as_in_the_recorded_log() {
    let log = recorded("log.txt");
    for after in ["second with --dev runs too", "frozen"] {
        let status = status(after);
        let found = Assessment::of(&status, FIRST, 10, then(&status));
        let Verdict::Outranked(peers) = found.verdict else {
            panic!("{found:?}");
        };
        let line = format!("Pausing operations in favour of {}.", listed(&peers));
        assert!(log.contains(&line), "{line}");
    }
}
