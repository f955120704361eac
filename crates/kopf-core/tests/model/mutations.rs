//! Wrong rules, each of which the explorer must find a counterexample for.

use std::time::Duration;

use kopf_core::object::{
    Consistency, DeletionBlockers, Facts, FinalizerChange, Plan, Rules, StandardRules, plan,
};

use super::explorer::{Explored, explore};
use super::handlers::Handlers;
use super::process::Operator;
use super::world::{Budget, Universe};
use super::{
    CHANGING, DAEMON, DELETING, DELETING_TWICE, MARKING, NONE, OPAQUE, OWNING, RECONCILING,
    standard,
};

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
    /// The finalizer is neither added nor removed before changes are handled.
    FinalizerUndecided,
    /// Every own write counts as one that needs no further cycle.
    EverythingSettled,
    /// Transformations are not repeated after a conflict.
    CarriedForgotten,
    /// Events that are replaced by newer ones do not count as echoes.
    ForgetfulQueue,
    /// Deadlines of a paused operator start handlers.
    PauseIgnored,
    /// Results are not written before another replica takes over.
    LeftUnwritten,
    /// The end of a deletion is not recorded before another replica takes over.
    LeftUnrecorded,
    /// Handlers that were woken up by a child stay so after another replica has taken over.
    LeftAwake,
    /// Changed children do not trigger reconcile handlers.
    ChildForgotten,
    /// The requests of reconcile handlers for another call are dropped.
    RequestForgotten,
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
        let change = change.filter(|_| self.mutation != Mutation::FinalizerUndecided);
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
    let operator = Operator::new(rules, handlers, Some(mutation));
    let universe = Universe { operator };
    let mut world = universe.begin(budget);
    world.server.is_opaque = mutation == Mutation::ForgetfulQueue;
    match explore(&universe, world, 400_000) {
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
        (
            Mutation::FinalizerUndecided,
            DELETING,
            Budget {
                deletions: 1,
                ..NONE
            },
            "finalizer",
        ),
        (
            Mutation::EverythingSettled,
            CHANGING,
            Budget { edits: 1, ..NONE },
            "at least once",
        ),
        (
            Mutation::CarriedForgotten,
            MARKING,
            Budget { beats: 1, ..NONE },
            "transformations",
        ),
        (Mutation::ForgetfulQueue, CHANGING, OPAQUE, "at least once"),
        (
            Mutation::PauseIgnored,
            CHANGING,
            Budget {
                retries: 1,
                pauses: 1,
                ..NONE
            },
            "pause",
        ),
        (
            Mutation::LeftUnwritten,
            CHANGING,
            Budget {
                failures: 1,
                handovers: 1,
                ..NONE
            },
            "durable progress",
        ),
        (
            Mutation::LeftUnrecorded,
            DELETING,
            Budget {
                deletions: 1,
                others: 1,
                handovers: 1,
                ..NONE
            },
            "durable progress",
        ),
        (
            Mutation::LeftAwake,
            OWNING,
            Budget {
                retries: 1,
                children: 1,
                handovers: 1,
                ..NONE
            },
            "delays",
        ),
        (
            Mutation::ChildForgotten,
            RECONCILING,
            Budget {
                children: 1,
                ..NONE
            },
            "triggers",
        ),
        (
            Mutation::RequestForgotten,
            RECONCILING,
            Budget {
                requeues: 1,
                ..NONE
            },
            "triggers",
        ),
    ] {
        let property = counterexample(mutation, handlers, budget);
        assert!(property.starts_with(expected), "{mutation:?}: {property}");
        println!("{mutation:?}: {property}");
    }
}
