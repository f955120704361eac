//! Servers that undo the writes of the operator: its reaction is bounded, and slows down.

use std::time::Duration;

use kopf_core::object::{Moment, Rules, StandardRules};

use super::explorer::Model;
use super::handlers::Handlers;
use super::process::Operator;
use super::server::Hostility;
use super::world::{Step, Universe, World};
use super::{DELETING, NO_HANDLERS, NONE, standard};

/// Only handlers of changes, without a finalizer.
const SIMPLE: Handlers = Handlers {
    changing: &["a"],
    ..NO_HANDLERS
};

/// Own writes are not taken for settled, because children matter.
const OWNING: Handlers = Handlers {
    owns: true,
    ..DELETING
};

/// The standard rules without delays.
struct Hasty(StandardRules);

impl Rules for Hasty {
    fn echo_timeout(&self) -> Duration {
        self.0.echo_timeout()
    }

    fn failure_delay(&self, _: u32) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn backoff(&self, _: u32) -> Duration {
        Duration::ZERO
    }
}

/// Lets the operator work on a hostile server for ten minutes, and returns the moments of all
/// requests; at most 1000 of them.
fn requests<R: Rules>(rules: R, handlers: Handlers, hostility: Hostility) -> Vec<Moment> {
    let universe = Universe {
        operator: Operator::new(rules, handlers, None),
    };
    let mut world: World = universe.begin(NONE);
    world.server.hostility = hostility;
    let mut requests = Vec::new();
    let end = Moment::default().after(Duration::from_secs(600));
    while world.now < end && requests.len() < 1000 {
        // Events and responses are immediate: time passes only if nothing else can happen.
        let steps = universe.steps(&world);
        let Some(step) = steps
            .into_iter()
            .min_by_key(|step| *step == Step::TimePasses)
        else {
            break;
        };
        if step == Step::Apply {
            requests.push(world.now);
        }
        // The properties do not hold on such servers.
        let _ = universe.make(&mut world, &step);
    }
    requests
}

#[test]
fn requests_to_a_hostile_server_become_rarer() {
    for (handlers, hostility) in [
        (DELETING, Hostility::StripsFinalizers),
        (SIMPLE, Hostility::StripsAnnotations),
        (OWNING, Hostility::StripsAnnotations),
        (SIMPLE, Hostility::IgnoresWrites),
        (DELETING, Hostility::IgnoresWrites),
    ] {
        let requests = requests(standard(), handlers, hostility);
        assert!(
            requests.len() <= 80,
            "{hostility:?}: {} requests",
            requests.len()
        );
        let early = requests
            .iter()
            .filter(|at| **at < Moment::new(Duration::from_secs(60)))
            .count();
        assert!(
            early * 2 > requests.len() / 4,
            "{hostility:?}: {early} of {}",
            requests.len()
        );
        println!(
            "{hostility:?}: {} requests in ten minutes, {early} in the first",
            requests.len()
        );
    }
}

#[test]
fn without_backoff_the_requests_are_endless() {
    for hostility in [Hostility::StripsFinalizers, Hostility::StripsAnnotations] {
        let requests = requests(Hasty(standard()), OWNING, hostility);
        assert_eq!(requests.len(), 1000, "{hostility:?} is not noticed");
    }
}

#[test]
fn object_is_handled_without_the_finalizer() {
    let universe = Universe {
        operator: Operator::new(standard(), DELETING, None),
    };
    let mut world = universe.begin(NONE);
    world.server.hostility = Hostility::StripsFinalizers;
    for _ in 0..200 {
        let steps = universe.steps(&world);
        let Some(step) = steps
            .into_iter()
            .min_by_key(|step| *step == Step::TimePasses)
        else {
            break;
        };
        if step == Step::HandlerSucceeds {
            return;
        }
        let _ = universe.make(&mut world, &step);
    }
    panic!("the handler is never called");
}
