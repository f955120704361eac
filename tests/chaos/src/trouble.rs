//! What goes wrong: everything that a network, a server and a cluster can do to an operator.

use std::time::Duration;

use kopf_sandbox::fault::{Fault, Faults, Verb};

use crate::chance::Chance;
use crate::cluster::USER;

/// Some troubles at once, until the next time.
pub(crate) fn stir(faults: &Faults, chance: &mut Chance) -> Vec<&'static str> {
    faults.clear();
    (0..chance.number(2..5))
        .map(|_| strike(faults, chance))
        .collect()
}

fn strike(faults: &Faults, chance: &mut Chance) -> &'static str {
    let (name, fault, probability) = match chance.number(0..18) {
        0 => (
            "slow answers",
            Fault::latency_between(Duration::ZERO, Duration::from_millis(400)),
            0.5,
        ),
        1 => ("500", Fault::error(500), 0.2),
        2 => ("503", Fault::error(503), 0.2),
        3 => ("504 of patches", Fault::error(504).verb(Verb::Patch), 0.3),
        4 => ("429", Fault::error(429).retry_after(1), 0.2),
        5 => ("409 of patches", Fault::error(409).verb(Verb::Patch), 0.2),
        6 => ("422 of patches", Fault::error(422).verb(Verb::Patch), 0.2),
        7 => ("410 of watches", Fault::error(410).verb(Verb::Watch), 0.5),
        8 => (
            "403 of listings",
            Fault::error(403).verb(Verb::List).times(2),
            0.5,
        ),
        9 => ("resets", Fault::reset(), 0.1),
        10 => (
            "half-open patches",
            Fault::half_open().verb(Verb::Patch),
            0.05,
        ),
        11 => (
            "half-open listings",
            Fault::half_open().verb(Verb::List).times(1),
            0.5,
        ),
        12 => (
            "late events",
            Fault::delay_events(Duration::from_millis(300)),
            0.3,
        ),
        13 => ("cut watches", Fault::cut_watch(), 0.1),
        14 => ("frozen watches", Fault::freeze_watch(), 0.05),
        // Nobody can notice that on a living stream: it ends with the operator's life.
        15 => (
            "dropped events",
            Fault::drop_events().kind("kopfexamples.kopf.dev"),
            0.1,
        ),
        16 => (
            "forgotten versions",
            Fault::compact().verb(Verb::Watch),
            0.5,
        ),
        _ => (
            "no definitions",
            Fault::error(403).kind("customresourcedefinitions.apiextensions.k8s.io"),
            0.5,
        ),
    };
    faults.inject(fault.user(USER).probability(probability));
    name
}

/// One sudden blow to everything that is open.
pub(crate) fn blow(faults: &Faults, chance: &mut Chance) {
    match chance.number(0..4) {
        0 => faults.kill_watches(),
        1 => faults.compact(),
        2 => faults.reset_connections(),
        _ => {}
    }
}
