//! The result of an exploration, and the news while it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::deviation::Deviation;
use crate::journal::Journal;
use crate::oracle::Complaint;
use crate::scenario::Scenario;

/// A bug, or what looks like one.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The number in the report, from 1.
    pub number: usize,
    /// The deviation; `None` if an undisturbed run violates an invariant.
    pub deviation: Option<Deviation>,
    /// The complaints of the oracles.
    pub complaints: Vec<Complaint>,
    /// Other deviations with the same effect.
    pub also: Vec<Deviation>,
    /// The steps that are needed.
    #[serde(skip)]
    pub scenario: Scenario,
    /// The journal of the run.
    #[serde(skip)]
    pub journal: Journal,
    /// The end of the output of the run.
    #[serde(skip)]
    pub output: String,
}

/// A finding that did not repeat.
#[derive(Debug, Clone, Serialize)]
pub struct UnstableFinding {
    /// The deviation.
    pub deviation: Deviation,
    /// The complaints of the first run.
    pub complaints: Vec<Complaint>,
}

/// A plan whose run could not be done, so that nothing is known about it.
#[derive(Debug, Clone, Serialize)]
pub struct FailedPlan {
    /// The deviation.
    pub deviation: Deviation,
    /// The reason.
    pub why: String,
}

/// The result of an exploration.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// The findings.
    pub findings: Vec<Finding>,
    /// Findings that did not repeat.
    pub unstable: Vec<UnstableFinding>,
    /// Plans whose runs could not be done.
    pub failed: Vec<FailedPlan>,
    /// The number of plans.
    pub plans: usize,
    /// The plans that were run to their end.
    pub done: usize,
    /// The plans whose point did not occur.
    pub not_reached: usize,
    /// The variations that the API server rejects.
    pub not_admitted: usize,
    /// The number of runs, with repetitions.
    pub runs: usize,
    /// `true` if not all plans were run.
    pub is_partial: bool,
    /// The masked fields, as learned from the reference runs.
    pub masked: Vec<String>,
    /// A need of the operator that the sandboxes do not meet, with the advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet: Option<String>,
    /// The number of writes of the operator in the reference.
    pub writes: usize,
    /// The duration.
    pub elapsed: Duration,
}

/// The result of repeating a finding.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Replayed {
    /// It repeats.
    Found(Finding),
    /// Nothing is wrong; the journal tells what happened.
    Clean(Finding),
    /// The point of the deviation did not occur.
    NotReached(Finding),
    /// The API server rejects the variation.
    NotAdmitted,
}

/// News for a progress display.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum News {
    /// Reference runs have begun.
    Referencing {
        /// Their number.
        runs: usize,
    },
    /// The plans are known.
    Planned {
        /// Their number.
        plans: usize,
    },
    /// A plan is done.
    Done {
        /// The plans that are done.
        done: usize,
        /// The findings so far.
        findings: usize,
    },
    /// A finding is confirmed.
    Found(Box<Finding>),
    /// Findings are reduced.
    Reducing,
}

/// The indices of findings by their effects.
#[derive(Debug)]
pub(crate) struct Groups(BTreeMap<String, usize>);

impl Groups {
    /// Returns the groups of the findings so far.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let findings = outcome.findings.iter().enumerate();
        Self(findings.map(|(index, one)| (effect(one), index)).collect())
    }

    /// Adds a finding. Returns `None` if another one has the same effect.
    pub(crate) fn add<'a>(
        &mut self,
        outcome: &'a mut Outcome,
        mut finding: Finding,
    ) -> Option<&'a Finding> {
        let effect = effect(&finding);
        if let Some(index) = self.0.get(&effect) {
            if let Some(known) = outcome.findings.get_mut(*index) {
                known.also.extend(finding.deviation);
            }
            return None;
        }
        self.0.insert(effect, outcome.findings.len());
        finding.number = outcome.findings.len() + 1;
        outcome.findings.push(finding);
        outcome.findings.last()
    }
}

/// Returns a text that is equal for findings with the same effect.
fn effect(finding: &Finding) -> String {
    let all: BTreeSet<String> = finding
        .complaints
        .iter()
        .map(Complaint::signature)
        .collect();
    all.into_iter().collect::<Vec<_>>().join("; ")
}
