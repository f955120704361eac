//! Tests of one replica and one Lease.

use std::time::Duration;

use super::*;

fn at(seconds: u64) -> Moment {
    Moment::new(Duration::from_secs(seconds))
}

fn record(holder: &str, version: &str) -> LeaseRecord {
    LeaseRecord {
        version: version.to_owned(),
        holder: holder.to_owned(),
        duration: Duration::from_secs(15),
        acquired: None,
        renewed: None,
        transitions: 0,
    }
}

fn candidate() -> Candidate {
    Candidate::new("me", Timing::default())
}

fn leader(began: u64) -> Candidate {
    let mut me = candidate();
    me.observe(None, at(began)).unwrap();
    me.claim(Timestamp::UNIX_EPOCH);
    me.accepted(record("me", "1"), at(began));
    me
}

#[test]
fn deleted_lease_is_free_after_the_own_duration() {
    let mut me = candidate();
    let edited = LeaseRecord {
        duration: Duration::from_secs(3_600),
        ..record("other", "1")
    };
    me.observe(Some(edited), at(0)).unwrap();
    me.observe(None, at(5)).unwrap();
    me.observe(None, at(19)).unwrap();
    assert_eq!(me.available_at(), Some(at(20)));
    assert_eq!(me.intent(at(19)), None);
    assert_eq!(me.intent(at(20)), Some(Intent::Create));
    let mut me = leader(0);
    me.observe(None, at(1)).unwrap();
    assert_eq!(me.intent(at(1)), Some(Intent::Create), "it was its own");
    assert_eq!(me.valid_until(), Some(at(10)), "it creates the Lease again");
    let mut me = candidate();
    me.observe(Some(record("", "1")), at(0)).unwrap();
    me.observe(None, at(1)).unwrap();
    assert_eq!(me.available_at(), Some(at(16)), "another one may have it");
    let mut me = leader(0);
    me.resigned();
    me.observe(None, at(1)).unwrap();
    assert_eq!(me.available_at(), Some(at(16)), "another one may have it");
}

#[test]
fn absent_and_released_leases_are_taken_immediately() {
    let mut me = candidate();
    assert_eq!(me.intent(at(0)), None, "it is not read yet");
    me.observe(None, at(0)).unwrap();
    assert_eq!(me.intent(at(0)), Some(Intent::Create));
    me.observe(Some(record("", "5")), at(1)).unwrap();
    let version = "5".to_owned();
    assert_eq!(me.intent(at(1)), Some(Intent::Update { version }));
}

#[test]
fn held_leases_are_taken_when_they_are_unchanged_for_their_duration() {
    let mut me = candidate();
    me.observe(Some(record("other", "1")), at(100)).unwrap();
    assert_eq!(me.intent(at(114)), None);
    me.observe(Some(record("other", "1")), at(114)).unwrap();
    assert!(me.intent(at(115)).is_some());
    me.observe(Some(record("other", "2")), at(115)).unwrap();
    assert_eq!(me.intent(at(129)), None, "it was renewed");
    assert_eq!(me.other_holder(), Some("other"));
}

#[test]
fn holder_stays_the_holder_until_it_sees_another_one() {
    let mut me = leader(100);
    assert_eq!(me.valid_until(), Some(at(110)));
    assert!(me.intent(at(200)).is_some(), "it goes on renewing");
    me.accepted(record("me", "2"), at(195));
    assert_eq!(me.valid_until(), Some(at(205)), "from the beginning");
}

#[test]
fn holder_that_sees_another_one_steps_down() {
    let mut me = leader(100);
    me.observe(Some(record("other", "2")), at(101)).unwrap();
    assert_eq!(me.valid_until(), None);
    let mut me = leader(100);
    me.observe(Some(record("", "2")), at(101)).unwrap();
    assert_eq!(me.valid_until(), None, "another client has released it");
    let mut me = leader(100);
    me.observe(None, at(110)).unwrap();
    assert_eq!(me.valid_until(), None, "others may have held it meanwhile");
}

#[test]
fn conflicts_do_not_restart_the_time_of_other_holders() {
    let mut me = candidate();
    me.observe(Some(record("other", "1")), at(0)).unwrap();
    me.conflicted();
    assert_eq!(me.intent(at(15)), None, "it must be read again");
    me.observe(Some(record("other", "1")), at(15)).unwrap();
    assert!(me.intent(at(15)).is_some());
}

#[test]
fn replica_is_never_the_other_holder() {
    let me = leader(100);
    assert_eq!(me.other_holder(), None);
    let mut me = candidate();
    me.observe(Some(record("", "1")), at(0)).unwrap();
    assert_eq!(me.other_holder(), None);
}

#[test]
fn edited_fields_of_the_own_lease_are_restored() {
    let mut me = leader(100);
    me.conflicted();
    let edited = LeaseRecord {
        duration: Duration::from_secs(3_600),
        ..record("me", "2")
    };
    me.observe(Some(edited), at(101)).unwrap();
    assert!(me.intent(at(101)).is_some());
    assert_eq!(me.claim(Timestamp::UNIX_EPOCH)["leaseDurationSeconds"], 15);
}

#[test]
fn foreign_edit_of_the_own_lease_does_not_end_it() {
    let mut me = leader(100);
    me.conflicted();
    assert!(me.valid_until().is_some());
    me.observe(Some(record("me", "2")), at(101)).unwrap();
    assert_eq!(me.valid_until(), Some(at(110)));
    let version = "2".to_owned();
    assert_eq!(me.intent(at(101)), Some(Intent::Update { version }));
}

#[test]
fn identity_of_another_process_is_an_error() {
    let error = candidate().observe(Some(record("me", "1")), at(0));
    assert!(error.unwrap_err().to_string().contains("\"me\""));
}

#[test]
fn lost_response_to_a_claim_is_not_another_process() {
    let mut me = candidate();
    me.observe(None, at(0)).unwrap();
    me.claim(Timestamp::UNIX_EPOCH);
    me.conflicted();
    me.observe(Some(record("me", "1")), at(1)).unwrap();
    assert_eq!(me.valid_until(), None, "when it began is not known");
    assert!(me.intent(at(1)).is_some());
}

#[test]
fn only_the_holder_releases() {
    let me = leader(0);
    assert_eq!(
        me.release(Timestamp::UNIX_EPOCH).unwrap()["holderIdentity"],
        ""
    );
    let mut me = candidate();
    me.observe(Some(record("other", "1")), at(0)).unwrap();
    assert_eq!(me.release(Timestamp::UNIX_EPOCH), None);
}
