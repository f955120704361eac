//! Simulation of replicas that share objects: crashes, frozen processes, partitions, joins, slow
//! requests, and Leases that users edit and delete, in virtual time, by seeds.
//!
//! Checked at every step: a shard is valid in at most one replica; no handler is called again for a
//! change that is recorded as handled. Checked in the end, when the faults are over: every change is
//! handled. Without faults, but with requests of up to five seconds: each shard is always valid in one
//! replica, and stays there.
//!
//! `KOPF_SIMULATION_SEEDS` sets the number of schedules; 1,000 in the extended checks.
#![allow(
    clippy::unwrap_used,
    reason = "helper functions of tests are tests, too"
)]

mod chance;
mod replica;
mod server;
mod world;

use world::{Latency, Mistake, World};

fn seeds() -> u64 {
    let given = std::env::var("KOPF_SIMULATION_SEEDS").ok();
    given.and_then(|seeds| seeds.parse().ok()).unwrap_or(150)
}

#[test]
fn no_object_is_handled_by_two_replicas_and_nothing_is_lost() {
    let mut calls = 0;
    let mut moves = 0;
    let mut deletions = 0;
    for seed in 0..seeds() {
        let world = World::run(seed, Mistake::None);
        assert_eq!(world.violations, Vec::<String>::new(), "seed {seed}");
        calls += world.calls;
        moves += world.moves;
        deletions += world.deletions;
    }
    assert!(calls > seeds() * 20, "handlers were called {calls} times");
    assert!(moves > seeds() * 5, "shards were taken {moves} times");
    assert!(deletions > seeds() / 2, "{deletions} Leases were deleted");
}

#[test]
fn slow_renewals_keep_a_sole_holder() {
    for seconds in 1..=9 {
        let (world, _) = World::run_slow(1, 1, Latency::Exactly(seconds * 1_000));
        assert_eq!(world.violations, Vec::<String>::new(), "{seconds} s");
        assert_eq!(world.moves, 0, "no shard is lost: {seconds} s");
        assert!(world.calls > 20, "{} calls: {seconds} s", world.calls);
    }
}

#[test]
fn slow_replicas_always_have_one_that_handles() {
    for replicas in 1..=4 {
        for latency in [Latency::Exactly(5_000), Latency::UpTo(5_000)] {
            for seed in 0..seeds().div_ceil(10) {
                let (world, gap) = World::run_slow(seed, replicas, latency);
                let case = format!("{replicas} replicas, {latency:?}, seed {seed}");
                assert_eq!(world.violations, Vec::<String>::new(), "{case}");
                assert_eq!(gap, 0, "milliseconds without a valid replica: {case}");
                assert_eq!(world.moves, 0, "no shard is lost: {case}");
            }
        }
    }
}

/// Each of these rules is needed: without it, some schedule goes wrong.
#[test]
fn wrong_rules_are_refuted() {
    for mistake in [
        Mistake::TrustsTheLeaseDuration,
        Mistake::ReleasesBeforeHandlersEnd,
        Mistake::HandlesBeforeListing,
        Mistake::WritesWithoutChecking,
    ] {
        let is_refuted = (0..seeds()).any(|seed| !World::run(seed, mistake).violations.is_empty());
        assert!(is_refuted, "{mistake:?} goes unnoticed");
    }
}
