//! Wrong rules, each of which the explorer must find a counterexample for.

use std::time::Duration;

use kopf_core::object::{
    Consistency, DeletionBlockers, Facts, FinalizerChange, Plan, Rules, StandardRules, plan,
};

use super::explorer::{Explored, explore};
use super::operator::{Handlers, Operator};
use super::world::{Budget, Universe};
use super::{CHANGING, DAEMON, DELETING, DELETING_TWICE, NONE, standard};

/// The standard rules, with one of them replaced.
struct Mutant {
    rules: StandardRules,
    mutation: Mutation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    NoEchoWait,
    FinalizerRemovedEarly,
    RunnersNotAwaited,
    UnsentForgotten,
    CarriedOnInconsistency,
    LostUpdates,
    NewestStored,
    OutcomeForgotten,
    ErasedEarly,
    RefusalNotRecorded,
}

impl Rules for Mutant {
    fn echo_timeout(&self) -> Duration {
        if self.mutation == Mutation::NoEchoWait {
            return Duration::ZERO;
        }
        self.rules.echo_timeout()
    }

    fn failure_delay(&self, failures: u32) -> Option<Duration> {
        self.rules.failure_delay(failures)
    }

    fn keeps_unsent(&self) -> bool {
        self.mutation != Mutation::UnsentForgotten
    }

    fn plan(
        &self,
        facts: &Facts,
        change: Option<FinalizerChange>,
        consistency: Consistency,
    ) -> Plan {
        let consistency = match self.mutation {
            Mutation::CarriedOnInconsistency => Consistency::Seen,
            _ => consistency,
        };
        plan(facts, change, consistency)
    }

    fn releases(&self, blockers: &DeletionBlockers) -> bool {
        let blockers = match self.mutation {
            Mutation::FinalizerRemovedEarly => DeletionBlockers {
                handlers: false,
                ..*blockers
            },
            Mutation::RunnersNotAwaited => DeletionBlockers {
                runners: false,
                ..*blockers
            },
            _ => *blockers,
        };
        self.rules.releases(&blockers)
    }
}

fn counterexample(mutation: Mutation, handlers: Handlers, budget: Budget) -> String {
    let rules = Mutant {
        rules: standard(),
        mutation,
    };
    let mut operator = Operator::new(rules, handlers);
    operator.lost_updates = mutation == Mutation::LostUpdates;
    operator.mutation = Some(mutation);
    let universe = Universe { operator };
    match explore(&universe, universe.begin(budget), 400_000) {
        Explored::Violated { property, .. } => property,
        other => panic!("{mutation:?} is not noticed: {other:?}"),
    }
}

#[test]
fn every_wrong_rule_has_a_counterexample() {
    let retried = Budget {
        deletions: 1,
        retries: 1,
        ..NONE
    };
    for (mutation, handlers, budget, expected) in [
        (
            Mutation::NoEchoWait,
            CHANGING,
            Budget { edits: 1, ..NONE },
            "own writes first",
        ),
        (
            Mutation::CarriedOnInconsistency,
            CHANGING,
            Budget { edits: 1, ..NONE },
            "own writes first",
        ),
        (
            Mutation::FinalizerRemovedEarly,
            DELETING,
            retried,
            "finalizer",
        ),
        (Mutation::RunnersNotAwaited, DAEMON, retried, "finalizer"),
        (
            Mutation::UnsentForgotten,
            CHANGING,
            Budget {
                failures: 1,
                ..NONE
            },
            "durable progress",
        ),
        (
            Mutation::LostUpdates,
            CHANGING,
            Budget { edits: 1, ..NONE },
            "at least once",
        ),
        (
            Mutation::NewestStored,
            CHANGING,
            Budget { edits: 1, ..NONE },
            "at least once",
        ),
        (
            Mutation::OutcomeForgotten,
            DELETING,
            Budget {
                deletions: 1,
                beats: 1,
                ..NONE
            },
            "durable progress",
        ),
        (
            Mutation::ErasedEarly,
            DELETING_TWICE,
            Budget {
                deletions: 1,
                crashes: 1,
                ..NONE
            },
            "durable progress",
        ),
        (
            Mutation::RefusalNotRecorded,
            DELETING,
            Budget {
                deletions: 1,
                failures: 1,
                ..NONE
            },
            "recorded refusals",
        ),
    ] {
        let property = counterexample(mutation, handlers, budget);
        assert!(property.starts_with(expected), "{mutation:?}: {property}");
        println!("{mutation:?}: {property}");
    }
}
