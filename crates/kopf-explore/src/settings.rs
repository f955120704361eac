//! Settings of an exploration.

use std::time::Duration;

use crate::deviation::Family;
use crate::invariant::Invariant;
use crate::mask::MaskedField;
use crate::oracle::Oracle;

/// The settings of an exploration.
///
/// ```
/// let settings = kopf_explore::Settings::default();
/// assert_eq!(settings.settle.as_secs(), 3);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The time without changes after which the operator counts as settled.
    pub settle: Duration,
    /// Maximum time of one step. It must be longer than the longest delay of a retry.
    pub limit: Duration,
    /// Maximum time to exit after SIGTERM.
    pub grace: Duration,
    /// Maximum time of the whole exploration, without the reference runs.
    pub time: Option<Duration>,
    /// Maximum number of plans.
    pub plans: Option<usize>,
    /// The number of parallel runs.
    pub jobs: usize,
    /// Seed of the order of plans of equal value, and of names and uids.
    pub seed: u64,
    /// The families of deviations; all if it is empty.
    pub only: Vec<Family>,
    /// The oracles that are turned off.
    pub without: Vec<Oracle>,
    /// Fields that are not compared.
    pub ignore: Vec<MaskedField>,
    /// Invariants of the user.
    pub invariants: Vec<Invariant>,
    /// `true` if the exploration ends with the first finding.
    pub fail_fast: bool,
    /// `true` if findings are reduced to the necessary steps.
    pub reduce: bool,
    /// The number of reference runs.
    pub references: usize,
    /// The number of processes of the operator in each run.
    pub replicas: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            settle: Duration::from_secs(3),
            limit: Duration::from_secs(90),
            grace: Duration::from_secs(30),
            time: None,
            plans: None,
            jobs: 4,
            seed: 0,
            only: Vec::new(),
            without: Vec::new(),
            ignore: Vec::new(),
            invariants: Vec::new(),
            fail_fast: false,
            reduce: true,
            references: 3,
            replicas: 1,
        }
    }
}
