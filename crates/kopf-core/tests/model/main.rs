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

mod coverage;
mod explorer;
mod handlers;
mod hostile;
mod mutations;
mod process;
mod properties;
mod server;
mod world;

use std::time::Duration;

use kopf_core::object::StandardRules;

use coverage::Coverage;
use explorer::{Explored, explore};
use handlers::Handlers;
use process::Operator;
use world::{Budget, Universe, World};

/// Returns the rules with the default settings.
fn standard() -> StandardRules {
    StandardRules {
        echo_timeout: Duration::from_secs(5),
        error_delays: [1, 1, 2, 3, 5, 8, 13, 21].map(Duration::from_secs).to_vec(),
        touching: false,
    }
}

const NO_HANDLERS: Handlers = Handlers {
    changing: &[],
    resuming: &[],
    deleting: &[],
    reconciling: &[],
    holding: &[],
    daemon: false,
    owns: false,
    marks: false,
};

const CHANGING: Handlers = Handlers {
    changing: &["a", "b"],
    ..NO_HANDLERS
};

const DELETING: Handlers = Handlers {
    changing: &["a"],
    deleting: &["d"],
    ..NO_HANDLERS
};

const DAEMON: Handlers = Handlers {
    daemon: true,
    ..DELETING
};

const DELETING_TWICE: Handlers = Handlers {
    deleting: &["d", "e"],
    ..DELETING
};

const RESUMING: Handlers = Handlers {
    changing: &["a"],
    resuming: &["r"],
    ..NO_HANDLERS
};

const OWNING: Handlers = Handlers {
    changing: &["a"],
    owns: true,
    ..NO_HANDLERS
};

const MARKING: Handlers = Handlers {
    changing: &["a"],
    marks: true,
    ..NO_HANDLERS
};

const RECONCILING: Handlers = Handlers {
    reconciling: &["s"],
    owns: true,
    ..NO_HANDLERS
};

const RECONCILING_TOO: Handlers = Handlers {
    changing: &["a"],
    reconciling: &["s"],
    ..NO_HANDLERS
};

const RECONCILING_TWICE: Handlers = Handlers {
    reconciling: &["s", "t"],
    ..NO_HANDLERS
};

const HOLDING: Handlers = Handlers {
    changing: &["a"],
    deleting: &["d"],
    holding: &["s"],
    ..NO_HANDLERS
};

const HOLDING_ALONE: Handlers = Handlers {
    holding: &["s"],
    ..NO_HANDLERS
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
    rejections: 0,
    batches: 0,
    garbled: 0,
    broken: 0,
    pauses: 0,
    handovers: 0,
    children: 0,
    retries: 0,
    requeues: 0,
    beats: 0,
    others: 0,
    delays: 2,
};

/// Events do not come later than the deadlines, because versions cannot be compared.
const OPAQUE: Budget = Budget {
    edits: 1,
    beats: 1,
    retries: 1,
    batches: 2,
    delays: 0,
    ..NONE
};

const EXPLORATIONS: [Exploration; 27] = [
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
    Exploration {
        name: "transformations amid edits and writes of another client",
        handlers: MARKING,
        budget: Budget {
            edits: 1,
            beats: 2,
            failures: 1,
            ..NONE
        },
    },
    Exploration {
        name: "rejected writes amid edits and deletions",
        handlers: DELETING,
        budget: Budget {
            edits: 1,
            deletions: 1,
            rejections: 2,
            ..NONE
        },
    },
    Exploration {
        name: "events that are replaced by newer ones",
        handlers: CHANGING,
        budget: Budget {
            edits: 1,
            beats: 1,
            batches: 2,
            retries: 1,
            ..NONE
        },
    },
    Exploration {
        name: "unreadable events and failing filters",
        handlers: DAEMON,
        budget: Budget {
            deletions: 1,
            garbled: 1,
            broken: 1,
            ..NONE
        },
    },
    Exploration {
        name: "pauses amid edits and retries",
        handlers: CHANGING,
        budget: Budget {
            edits: 1,
            retries: 1,
            failures: 1,
            pauses: 1,
            ..NONE
        },
    },
    Exploration {
        name: "changes of the replica amid edits and retries",
        handlers: CHANGING,
        budget: Budget {
            edits: 1,
            retries: 1,
            failures: 1,
            handovers: 1,
            ..NONE
        },
    },
    Exploration {
        name: "changes of the replica amid a deletion",
        handlers: DELETING_TWICE,
        budget: Budget {
            deletions: 1,
            beats: 1,
            handovers: 1,
            others: 1,
            ..NONE
        },
    },
    Exploration {
        name: "children amid retries and changes of the replica",
        handlers: OWNING,
        budget: Budget {
            retries: 2,
            children: 2,
            handovers: 1,
            ..NONE
        },
    },
    Exploration {
        name: "reconciliation amid edits, retries and crashes",
        handlers: RECONCILING,
        budget: Budget {
            edits: 2,
            retries: 1,
            crashes: 1,
            ..NONE
        },
    },
    Exploration {
        name: "reconciliation amid children and requests",
        handlers: RECONCILING,
        budget: Budget {
            edits: 1,
            children: 1,
            requeues: 1,
            retries: 1,
            ..NONE
        },
    },
    Exploration {
        name: "reconciliation amid failing writes and pauses",
        handlers: RECONCILING,
        budget: Budget {
            edits: 1,
            retries: 1,
            failures: 1,
            rejections: 1,
            pauses: 1,
            ..NONE
        },
    },
    Exploration {
        name: "reconciliation amid changes of the replica",
        handlers: RECONCILING,
        budget: Budget {
            edits: 1,
            retries: 1,
            children: 1,
            handovers: 1,
            ..NONE
        },
    },
    Exploration {
        name: "reconciliation together with changes",
        handlers: RECONCILING_TOO,
        budget: Budget {
            edits: 1,
            retries: 2,
            requeues: 1,
            ..NONE
        },
    },
    Exploration {
        name: "reconciliation by two handlers",
        handlers: RECONCILING_TWICE,
        budget: Budget {
            edits: 1,
            retries: 1,
            relistings: 1,
            ..NONE
        },
    },
    Exploration {
        name: "reconciliation of a deletion with other handlers",
        handlers: HOLDING,
        budget: Budget {
            edits: 1,
            deletions: 1,
            retries: 1,
            ..NONE
        },
    },
    Exploration {
        name: "reconciliation of a deletion amid crashes and failing writes",
        handlers: HOLDING_ALONE,
        budget: Budget {
            deletions: 1,
            retries: 2,
            crashes: 1,
            failures: 1,
            ..NONE
        },
    },
];

fn universe(rules: StandardRules, handlers: Handlers) -> Universe<StandardRules> {
    Universe {
        operator: Operator::new(rules, handlers, None),
    }
}

/// Returns the bound of states and the factor of disturbances.
fn depth() -> (usize, u8) {
    match std::env::var("KOPF_MODEL_DEPTH").as_deref() {
        Ok("deep") => (3_000_000, 1),
        _ => (400_000, 0),
    }
}

/// Explores a world, and returns the number of its states.
fn check(name: &str, universe: &Universe<StandardRules>, world: World, bound: usize) -> usize {
    match explore(universe, world, bound) {
        Explored::Violated { property, steps } => panic!("{name}: {property}: {steps:#?}"),
        Explored::Complete { states } => {
            println!("{states:>9} states: {name}");
            states
        }
        Explored::Bounded { states } => {
            println!("{states:>9} states (bound reached): {name}");
            states
        }
    }
}

#[test]
fn every_interleaving_satisfies_the_guarantees() {
    let (bound, more) = depth();
    let mut total = 0;
    let mut coverage = Coverage::default();
    for Exploration {
        name,
        handlers,
        budget,
    } in EXPLORATIONS
    {
        let universe = universe(standard(), handlers);
        let budget = Budget {
            edits: budget.edits + more * u8::from(budget.edits > 0),
            crashes: budget.crashes + more * u8::from(budget.crashes > 0),
            ..budget
        };
        total += check(name, &universe, universe.begin(budget), bound);
        coverage.merge_from(universe.operator.coverage.take());
    }
    let touching = StandardRules {
        touching: true,
        ..standard()
    };
    let universe = universe(touching, CHANGING);
    let budget = Budget {
        edits: 1,
        retries: 1,
        failures: 1,
        ..NONE
    };
    let name = "delays that end by a write";
    total += check(name, &universe, universe.begin(budget), bound);
    coverage.merge_from(universe.operator.coverage.take());
    println!("{total:>9} states in all");
    let missing = coverage.missing();
    assert!(missing.is_empty(), "never occurs: {missing:?}");
}

#[test]
fn versions_that_are_no_numbers_satisfy_the_guarantees() {
    let universe = universe(standard(), CHANGING);
    let mut world = universe.begin(OPAQUE);
    world.server.is_opaque = true;
    check("opaque versions", &universe, world, depth().0);
}
