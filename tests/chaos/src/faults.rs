//! Random faults of the network and of the API server.

use std::time::Duration;

use kopf_sandbox::fault::{Fault, Faults, Verb};

use crate::cluster::USER;
use crate::random::Random;

/// Replaces all faults with two to four random ones. Returns their names.
pub(crate) fn replace(faults: &Faults, random: &mut Random) -> Vec<&'static str> {
    faults.clear();
    (0..random.number(2..5))
        .map(|_| inject_one(faults, random))
        .collect()
}

fn inject_one(faults: &Faults, random: &mut Random) -> &'static str {
    let (name, fault, probability) = match random.number(0..18) {
        0 => (
            "slow responses",
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
            "403 of lists",
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
            "half-open lists",
            Fault::half_open().verb(Verb::List).times(1),
            0.5,
        ),
        12 => (
            "delayed events",
            Fault::delay_events(Duration::from_millis(300)),
            0.3,
        ),
        13 => ("cut watches", Fault::cut_watch(), 0.1),
        14 => ("frozen watches", Fault::freeze_watch(), 0.05),
        // An operator cannot detect dropped events on an open stream. The next round lists again.
        15 => (
            "dropped events",
            Fault::drop_events().kind("kopfexamples.kopf.dev"),
            0.1,
        ),
        16 => (
            "compacted versions",
            Fault::compact().verb(Verb::Watch),
            0.5,
        ),
        _ => (
            "403 of CRDs",
            Fault::error(403).kind("customresourcedefinitions.apiextensions.k8s.io"),
            0.5,
        ),
    };
    faults.inject(fault.user(USER).probability(probability));
    name
}

/// Closes all watches or connections, or compacts the history; or does nothing.
pub(crate) fn interrupt(faults: &Faults, random: &mut Random) {
    match random.number(0..4) {
        0 => faults.kill_watches(),
        1 => faults.compact(),
        2 => faults.reset_connections(),
        _ => {}
    }
}
