//! Reduction: steps that a finding does not need are dropped.

use std::sync::Arc;

use crate::deviation::Deviation;
use crate::explore::Exploration;
use crate::oracle::Complaint;
use crate::outcome::Finding;
use crate::run::Known;
use crate::scenario::Scenario;

/// Findings that are reduced by runs.
const MOST_REDUCED: usize = 5;
/// Attempts to drop a step of one finding.
const MOST_ATTEMPTS: usize = 6;

impl Exploration {
    /// Drops steps that findings do not need.
    pub(crate) async fn reduce(&self, findings: &mut [Finding]) {
        // Without runs first: there may be no time for them.
        for finding in findings.iter_mut() {
            if let Some(deviation) = droppable(finding) {
                let noticed = finding.complaints.iter().map(|one| one.step).max();
                let last = noticed.unwrap_or_default().max(deviation.step());
                finding.scenario = self.scenario.until(last.max(1));
            }
        }
        for finding in findings.iter_mut().take(MOST_REDUCED) {
            if droppable(finding).is_none() {
                continue;
            }
            let mut attempts = 0;
            let mut candidate = 1;
            while candidate <= finding.scenario.steps.len() && attempts < MOST_ATTEMPTS {
                attempts += 1;
                match self.shorter(finding, candidate).await {
                    Some((scenario, deviation, complaints)) => {
                        finding.scenario = scenario;
                        finding.deviation = Some(deviation);
                        finding.complaints = complaints;
                    }
                    None => candidate += 1,
                }
            }
        }
    }

    /// Tries a finding without one step.
    async fn shorter(
        &self,
        finding: &Finding,
        step: usize,
    ) -> Option<(Scenario, Deviation, Vec<Complaint>)> {
        let deviation = finding.deviation.as_ref()?.without_step(step)?;
        let scenario = finding.scenario.without(step);
        if scenario.steps.is_empty() {
            return None;
        }
        let (reference, _) = self.references(&scenario, 2).await.ok()?;
        let reference = Arc::new(reference);
        let known = Known::default();
        let (record, complaints) = self
            .disturbed(&scenario, &reference, &deviation, &known, 7)
            .await
            .ok()?;
        let is_same = finding.complaints.iter().all(|one| {
            let mut others = complaints.iter();
            others.any(|other| other.oracle == one.oracle)
        });
        let is_reached = record.is_some_and(|record| record.is_reached);
        (is_same && is_reached).then_some((scenario, deviation, complaints))
    }
}

/// Returns the deviation of a finding if it can do with fewer steps.
fn droppable(finding: &Finding) -> Option<&Deviation> {
    let deviation = finding.deviation.as_ref()?;
    (!matches!(deviation, Deviation::Respec { .. })).then_some(deviation)
}
