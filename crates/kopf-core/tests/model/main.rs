//! Model checking of the machine: every interleaving of events, edits, deletions, retries, faults
//! and crashes, up to a bound, satisfies the guarantees of the user guide as far as one object goes.
//!
//! `KOPF_MODEL_DEPTH=deep` explores larger bounds (`make extended`).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unused_self,
    clippy::single_match_else,
    reason = "a test, which prints how many states it has visited"
)]

mod attempts;
mod explorer;
mod hostile;
mod mutations;
mod operator;
mod releasing;
mod server;
mod world;

use std::time::Duration;

use kopf_core::object::StandardRules;

use explorer::{Explored, explore};
use operator::{Handlers, Operator};
use world::{Budget, Universe};

/// Returns the rules with the default settings.
fn standard() -> StandardRules {
    StandardRules {
        echo_timeout: Duration::from_secs(5),
        error_delays: [1, 1, 2, 3, 5, 8, 13, 21].map(Duration::from_secs).to_vec(),
        touching: false,
    }
}

const CHANGING: Handlers = Handlers {
    changing: &["a", "b"],
    resuming: &[],
    deleting: &[],
    daemon: false,
};

const DELETING: Handlers = Handlers {
    changing: &["a"],
    resuming: &[],
    deleting: &["d"],
    daemon: false,
};

const DAEMON: Handlers = Handlers {
    changing: &["a"],
    resuming: &[],
    deleting: &["d"],
    daemon: true,
};

const DELETING_TWICE: Handlers = Handlers {
    changing: &["a"],
    resuming: &[],
    deleting: &["d", "e"],
    daemon: false,
};

const RESUMING: Handlers = Handlers {
    changing: &["a"],
    resuming: &["r"],
    deleting: &[],
    daemon: false,
};

/// One exploration: a name, the handlers, and what may happen.
struct Exploration {
    name: &'static str,
    handlers: Handlers,
    budget: Budget,
}

const NONE: Budget = Budget {
    edits: 0,
    deletions: 0,
    crashes: 0,
    relistings: 0,
    failures: 0,
    retries: 0,
    beats: 0,
    others: 0,
    delays: 2,
};

const EXPLORATIONS: [Exploration; 11] = [
    Exploration {
        name: "edits while another handler is retried",
        handlers: CHANGING,
        budget: Budget {
            edits: 2,
            retries: 1,
            ..NONE
        },
    },
    Exploration {
        name: "a crash amid edits and retries",
        handlers: CHANGING,
        budget: Budget {
            edits: 1,
            retries: 1,
            crashes: 1,
            ..NONE
        },
    },
    Exploration {
        name: "failing writes and lost connections",
        handlers: CHANGING,
        budget: Budget {
            edits: 1,
            failures: 1,
            relistings: 1,
            ..NONE
        },
    },
    Exploration {
        name: "deletion amid edits and retries",
        handlers: DELETING,
        budget: Budget {
            edits: 1,
            deletions: 1,
            retries: 1,
            ..NONE
        },
    },
    Exploration {
        name: "deletion with crashes and failing writes",
        handlers: DELETING,
        budget: Budget {
            deletions: 1,
            crashes: 1,
            failures: 1,
            ..NONE
        },
    },
    Exploration {
        name: "deletion with a daemon",
        handlers: DAEMON,
        budget: Budget {
            deletions: 1,
            retries: 1,
            failures: 1,
            ..NONE
        },
    },
    Exploration {
        name: "changes amid writes of another client",
        handlers: CHANGING,
        budget: Budget {
            edits: 1,
            retries: 1,
            beats: 2,
            ..NONE
        },
    },
    Exploration {
        name: "deletion amid writes of another client",
        handlers: DELETING_TWICE,
        budget: Budget {
            deletions: 1,
            beats: 2,
            failures: 1,
            ..NONE
        },
    },
    Exploration {
        name: "deletion amid crashes and other finalizers",
        handlers: DELETING_TWICE,
        budget: Budget {
            deletions: 1,
            crashes: 1,
            others: 1,
            ..NONE
        },
    },
    Exploration {
        name: "deletion amid failing writes and other finalizers",
        handlers: DAEMON,
        budget: Budget {
            deletions: 1,
            failures: 1,
            beats: 1,
            others: 1,
            // With two of them, an event is later than the minute for which it counts as outdated.
            delays: 1,
            ..NONE
        },
    },
    Exploration {
        name: "resuming amid edits and crashes",
        handlers: RESUMING,
        budget: Budget {
            edits: 2,
            crashes: 1,
            retries: 1,
            ..NONE
        },
    },
];

fn universe(handlers: Handlers) -> Universe<StandardRules> {
    Universe {
        operator: Operator::new(standard(), handlers),
    }
}

/// Returns the bound of states and the factor of disturbances.
fn depth() -> (usize, u8) {
    match std::env::var("KOPF_MODEL_DEPTH").as_deref() {
        Ok("deep") => (3_000_000, 1),
        _ => (400_000, 0),
    }
}

#[test]
fn every_interleaving_satisfies_the_guarantees() {
    let (bound, more) = depth();
    let mut total = 0;
    for Exploration {
        name,
        handlers,
        budget,
    } in EXPLORATIONS
    {
        let universe = universe(handlers);
        let budget = Budget {
            edits: budget.edits + more * u8::from(budget.edits > 0),
            crashes: budget.crashes + more * u8::from(budget.crashes > 0),
            ..budget
        };
        match explore(&universe, universe.begin(budget), bound) {
            Explored::Violated { property, steps } => panic!("{name}: {property}: {steps:#?}"),
            Explored::Complete { states } => {
                total += states;
                println!("{states:>9} states: {name}");
            }
            Explored::Bounded { states } => {
                total += states;
                println!("{states:>9} states (bound reached): {name}");
            }
        }
    }
    println!("{total:>9} states in all");
}
