//! Oracles: verdicts about a run, from its record and the reference alone.

mod alive;
mod converged;
mod modest;
mod quiet;
mod safe;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::deviation::{Deviation, Family};
use crate::invariant::Invariant;
use crate::mask::Difference;
use crate::record::{Record, Reference};

/// The rules by which a run is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Oracle {
    /// The objects become those of the reference.
    Converged,
    /// The operator stops writing.
    Quiet,
    /// Nothing is left behind by deletions.
    Released,
    /// Nothing is deleted that the reference keeps.
    Safe,
    /// The process does not exit or panic.
    Alive,
    /// The operator does not send a multiple of the requests, or invalid ones.
    Modest,
    /// The invariants of the user hold.
    Invariants,
}

impl Oracle {
    /// All oracles.
    pub const ALL: [Self; 7] = [
        Self::Converged,
        Self::Quiet,
        Self::Released,
        Self::Safe,
        Self::Alive,
        Self::Modest,
        Self::Invariants,
    ];

    /// Returns the name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Quiet => "quiet",
            Self::Released => "released",
            Self::Safe => "safe",
            Self::Alive => "alive",
            Self::Modest => "modest",
            Self::Invariants => "invariants",
        }
    }
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of an oracle is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown oracle {0:?}: must be one of {list}", list = Oracle::ALL.map(Oracle::name).join(", "))]
pub struct UnknownOracle(String);

impl FromStr for Oracle {
    type Err = UnknownOracle;

    fn from_str(text: &str) -> Result<Self, UnknownOracle> {
        let found = Self::ALL.into_iter().find(|oracle| oracle.name() == text);
        found.ok_or_else(|| UnknownOracle(text.to_owned()))
    }
}

/// One thing that is wrong with a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Complaint {
    /// The violated rule.
    pub oracle: Oracle,
    /// The step after which it was noticed, from 1; 0 before the first one.
    pub step: usize,
    /// The violation, in one sentence.
    pub summary: String,
    /// The differences from the reference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Further lines: the end of a log, examples of requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Complaint {
    pub(crate) fn new(oracle: Oracle, step: usize, summary: impl Into<String>) -> Self {
        Self {
            oracle,
            step,
            summary: summary.into(),
            differences: Vec::new(),
            details: Vec::new(),
        }
    }

    /// Returns a text that is equal for findings with the same effect: the rule, and the objects and
    /// fields.
    pub fn signature(&self) -> String {
        let mut parts = vec![self.oracle.name().to_owned()];
        for difference in &self.differences {
            match difference {
                Difference::Missing { key } => parts.push(format!("-{key}")),
                Difference::Unexpected { key, .. } => parts.push(format!("+{key}")),
                Difference::Changed { key, fields } => {
                    let paths = fields.iter().map(|field| field.path.any_item().to_string());
                    parts.push(format!("{key}:{}", paths.collect::<Vec<_>>().join(",")));
                }
            }
        }
        if self.differences.is_empty() {
            // Revisions and counts differ between runs.
            parts.push(
                self.summary
                    .replace(|character: char| character.is_ascii_digit(), "#"),
            );
        }
        parts.join(" ")
    }
}

/// The input of all oracles.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The undisturbed runs.
    pub reference: &'a Reference,
    /// The judged run.
    pub record: &'a Record,
    /// Its deviation; `None` for an undisturbed run.
    pub deviation: Option<&'a Deviation>,
    /// The time without changes after which the operator counts as settled.
    pub settle: Duration,
}

impl Evidence<'_> {
    fn is_respec(&self) -> bool {
        let family = self.deviation.map(Deviation::family);
        family == Some(Family::Respec)
    }
}

/// Returns everything that is wrong with a run.
pub fn judge(
    evidence: Evidence<'_>,
    invariants: &[Invariant],
    without: &[Oracle],
) -> Vec<Complaint> {
    let mut complaints = converged::judge(evidence);
    complaints.extend(quiet::judge(evidence));
    complaints.extend(safe::judge(evidence, !complaints.is_empty()));
    complaints.extend(alive::judge(evidence));
    complaints.extend(modest::judge(evidence));
    for invariant in invariants {
        let record = evidence.record;
        if let Some(violation) = invariant.check(&record.journal, &record.initial) {
            let summary = format!(
                "the invariant is violated at {}: {}",
                violation.place, violation.text
            );
            let mut complaint = Complaint::new(Oracle::Invariants, violation.step, summary);
            complaint.details.extend(violation.error);
            complaints.push(complaint);
        }
    }
    complaints.retain(|complaint| !without.contains(&complaint.oracle));
    complaints
}
