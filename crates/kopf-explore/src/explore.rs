//! The whole exploration: reference runs, plans in parallel, confirmation, reduction.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::deviation::Deviation;
use crate::mask::View;
use crate::needs::unmet;
use crate::object::field_differences;
use crate::oracle::{Complaint, Evidence, judge};
use crate::outcome::{FailedPlan, Finding, Groups, News, Outcome, Replayed, UnstableFinding};
use crate::plan::{Plan, plans};
use crate::record::{End, NonDeterministic, Record, Reference};
use crate::run::{Expectation, Known, RunError, Task, Timing, World, perform};
use crate::scenario::{Action, Scenario, Step, Variation};
use crate::settings::Settings;

/// Runs that cannot be done before the exploration is given up.
const MOST_FAILURES: usize = 10;
/// The part of the time in which plans are run, if findings are to be reduced.
const EXPLORING: f64 = 0.85;
/// Lines of output in errors.
const OUTPUT_LINES: usize = 15;

/// No verdict is possible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// A run cannot be done.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The undisturbed runs differ.
    #[error(transparent)]
    NonDeterministic(#[from] NonDeterministic),
    /// An undisturbed run does not reach its end.
    #[error("{what}")]
    Reference {
        /// The failure, in one sentence.
        what: String,
        /// The next step of the user.
        advice: String,
        /// The end of the operator's output.
        output: Vec<String>,
    },
    /// The exploration was interrupted during the reference runs.
    #[error("interrupted")]
    Interrupted,
}

/// The receiver of news.
pub type Listener<'a> = &'a (dyn Fn(News) + Sync);

/// An exploration.
#[derive(Debug, Clone)]
pub struct Exploration {
    /// The operator and its surroundings.
    pub world: World,
    /// The steps of the user.
    pub scenario: Scenario,
    /// Variations of the object of the scenario.
    pub variations: Vec<Variation>,
    /// The settings.
    pub settings: Settings,
    /// The folder of the files of all runs.
    pub folder: PathBuf,
}

/// The verdict about one plan.
enum Verdict {
    Clean,
    NotReached,
    NotAdmitted,
    Unstable(Vec<Complaint>),
    Confirmed(Box<Record>, Vec<Complaint>),
}

struct Judged {
    plan: Plan,
    verdict: Result<Verdict, RunError>,
    runs: usize,
}

impl Exploration {
    /// Explores until all plans are done, the time is over, or the token is cancelled.
    pub async fn run(
        &self,
        stop: &CancellationToken,
        listener: Listener<'_>,
    ) -> Result<Outcome, ExploreError> {
        let began = Instant::now();
        let references = self.settings.references.max(1);
        listener(News::Referencing { runs: references });
        let learned = self.references(&self.scenario, references);
        let (reference, records) = tokio::select! {
            learned = learned => learned?,
            () = stop.cancelled() => return Err(ExploreError::Interrupted),
        };
        let reference = Arc::new(reference);
        let mut outcome = self.begin(&reference, &records);
        drop(records);
        let all = plans(
            &reference,
            &self.scenario,
            &self.variations,
            &self.settings.only,
            self.settings.seed,
        );
        outcome.plans = all.len();
        listener(News::Planned { plans: all.len() });
        let chosen = self.settings.plans.unwrap_or(all.len()).min(all.len());
        let chosen: Vec<Plan> = all.into_iter().take(chosen).collect();
        let count = chosen.len();
        let deadline = self.settings.time.map(|time| Instant::now() + time);
        self.explore(&reference, chosen, stop, listener, &mut outcome)
            .await;
        outcome.is_partial = outcome.done < count;
        if self.settings.reduce && !stop.is_cancelled() && !outcome.findings.is_empty() {
            listener(News::Reducing);
            tokio::select! {
                () = self.reduce(&mut outcome.findings) => {}
                () = stop.cancelled() => {}
                () = until(deadline) => {}
            }
        }
        outcome.elapsed = began.elapsed();
        Ok(outcome)
    }

    /// Repeats one plan, with its reference runs; without a deviation, only these.
    pub async fn replay(
        &self,
        deviation: Option<&Deviation>,
        stop: &CancellationToken,
    ) -> Result<Replayed, ExploreError> {
        tokio::select! {
            found = self.repeat(deviation) => found,
            () = stop.cancelled() => Err(ExploreError::Interrupted),
        }
    }

    async fn repeat(&self, deviation: Option<&Deviation>) -> Result<Replayed, ExploreError> {
        // The other steps of a variation are the deviation.
        let scenario = match deviation {
            Some(Deviation::Respec { .. }) => self.scenario.until(1),
            _ => self.scenario.clone(),
        };
        let (reference, records) = self.references(&scenario, 2).await?;
        let Some(deviation) = deviation else {
            let mut outcome = self.begin(&reference, &records);
            let record = records.into_iter().next().unwrap_or_default();
            return Ok(match outcome.findings.pop() {
                Some(finding) => Replayed::Found(finding),
                None => Replayed::Clean(self.finding(1, None, record, Vec::new())),
            });
        };
        let known = Known::default();
        let (record, complaints) = self
            .disturbed(&self.scenario, &Arc::new(reference), deviation, &known, 0)
            .await?;
        let Some(record) = record else {
            return Ok(Replayed::NotAdmitted);
        };
        let (is_reached, is_clean) = (record.is_reached, complaints.is_empty());
        let finding = self.finding(1, Some(deviation), *record, complaints);
        Ok(match (is_reached, is_clean) {
            (false, _) => Replayed::NotReached(finding),
            (true, true) => Replayed::Clean(finding),
            (true, false) => Replayed::Found(finding),
        })
    }

    /// Does undisturbed runs and learns from them. The last one waits twice as long for quiet: what
    /// happens only there, such as a late timer, is seen as a difference.
    pub(crate) async fn references(
        &self,
        scenario: &Scenario,
        runs: usize,
    ) -> Result<(Reference, Vec<Record>), ExploreError> {
        let jobs = self.settings.jobs.clamp(1, runs.max(1));
        let records: Vec<Result<Record, RunError>> = futures::stream::iter(0..runs)
            .map(|number| {
                let mut task = self.task(scenario, None, Expectation::Nothing, number as u64 + 1);
                if number > 0 && number + 1 == runs {
                    task.timing.settle *= 2;
                }
                self.perform(task)
            })
            .buffered(jobs)
            .collect()
            .await;
        let mut complete = Vec::new();
        for record in records {
            let record = record?;
            if let Some(error) = incomplete(&record, &self.settings, self.unmet(&record)) {
                return Err(error);
            }
            complete.push(record);
        }
        let reference = Reference::learn(&complete, &self.settings.ignore)?;
        Ok((reference, complete))
    }

    /// Returns what the operator needs and its sandbox does not have.
    fn unmet(&self, record: &Record) -> Option<String> {
        let has_simulation = self.world.simulation.is_some();
        if has_simulation { None } else { unmet(record) }
    }

    fn task<'a>(
        &'a self,
        scenario: &'a Scenario,
        deviation: Option<Deviation>,
        expectation: Expectation,
        seed: u64,
    ) -> Task<'a> {
        Task {
            world: &self.world,
            scenario,
            deviation,
            expectation,
            timing: Timing {
                settle: self.settings.settle,
                limit: self.settings.limit,
                grace: self.settings.grace,
            },
            ignored: &self.settings.ignore,
            known: Known::default(),
            replicas: self.settings.replicas,
            seed: self.settings.seed.wrapping_mul(1000).wrapping_add(seed),
        }
    }

    async fn perform(&self, task: Task<'_>) -> Result<Record, RunError> {
        let folder = tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(&self.folder)?;
        perform(&task, folder.path()).await
    }

    fn begin(&self, reference: &Reference, records: &[Record]) -> Outcome {
        let writes = reference.points.iter();
        let writes = writes.filter(|point| crate::journal::is_write(&point.site.verb));
        let mut outcome = Outcome {
            masked: reference.mask.fields().map(ToString::to_string).collect(),
            writes: writes.count(),
            unmet: records.first().and_then(|record| self.unmet(record)),
            runs: records.len(),
            ..Outcome::default()
        };
        if let Some(record) = records.first() {
            let evidence = Evidence {
                reference,
                record,
                deviation: None,
                settle: self.settings.settle,
            };
            let complaints = judge(evidence, &self.settings.invariants, &self.settings.without);
            if !complaints.is_empty() {
                outcome
                    .findings
                    .push(self.finding(1, None, record.clone(), complaints));
            }
        }
        outcome
    }

    fn finding(
        &self,
        number: usize,
        deviation: Option<&Deviation>,
        record: Record,
        complaints: Vec<Complaint>,
    ) -> Finding {
        let reverted = match deviation {
            Some(Deviation::Respec { variation }) => reverted(&self.scenario, variation),
            _ => None,
        };
        Finding {
            number,
            deviation: deviation.cloned(),
            complaints,
            also: Vec::new(),
            scenario: reverted.unwrap_or_else(|| self.scenario.clone()),
            journal: record.journal.trimmed(),
            output: record.output,
        }
    }

    async fn explore(
        &self,
        reference: &Arc<Reference>,
        chosen: Vec<Plan>,
        stop: &CancellationToken,
        listener: Listener<'_>,
        outcome: &mut Outcome,
    ) {
        let known = Known::default();
        let mut groups = Groups::of(outcome);
        let began = Instant::now();
        let time = self.settings.time;
        // Findings are reduced in the rest.
        let most = time.filter(|_| self.settings.reduce);
        let almost = until(most.map(|time| began + time.mul_f64(EXPLORING)));
        let over = until(time.map(|time| began + time));
        tokio::pin!(almost, over);
        let mut is_almost_over = false;
        let runs = futures::stream::iter(chosen)
            .map(|plan| self.judged(reference, plan, &known))
            .buffer_unordered(self.settings.jobs.max(1));
        tokio::pin!(runs);
        loop {
            let judged = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = &mut over => break,
                () = &mut almost, if !is_almost_over => {
                    is_almost_over = true;
                    if outcome.findings.is_empty() {
                        continue;
                    }
                    break;
                }
                judged = runs.next() => judged,
            };
            let Some(judged) = judged else {
                break;
            };
            self.count(judged, &known, &mut groups, listener, outcome);
            let is_enough = self.settings.fail_fast && !outcome.findings.is_empty();
            if is_enough || outcome.failed.len() >= MOST_FAILURES {
                break;
            }
        }
    }

    /// Adds the verdict about a plan to the outcome.
    fn count(
        &self,
        judged: Judged,
        known: &Known,
        groups: &mut Groups,
        listener: Listener<'_>,
        outcome: &mut Outcome,
    ) {
        outcome.runs += judged.runs;
        outcome.done += 1;
        let deviation = judged.plan.deviation;
        match judged.verdict {
            Err(error) => outcome.failed.push(FailedPlan {
                deviation,
                why: error.describe(),
            }),
            Ok(Verdict::Clean) => {}
            Ok(Verdict::NotReached) => outcome.not_reached += 1,
            Ok(Verdict::NotAdmitted) => outcome.not_admitted += 1,
            Ok(Verdict::Unstable(complaints)) => outcome.unstable.push(UnstableFinding {
                deviation,
                complaints,
            }),
            Ok(Verdict::Confirmed(record, complaints)) => {
                for complaint in &complaints {
                    known.add(complaint.signature());
                }
                let finding = self.finding(0, Some(&deviation), *record, complaints);
                if let Some(finding) = groups.add(outcome, finding) {
                    listener(News::Found(Box::new(finding.clone())));
                }
            }
        }
        listener(News::Done {
            done: outcome.done,
            findings: outcome.findings.len(),
        });
    }

    /// Runs a plan, and again if something is wrong.
    async fn judged(&self, reference: &Arc<Reference>, plan: Plan, known: &Known) -> Judged {
        let mut runs = 0;
        let verdict = self.verdict(reference, &plan, known, &mut runs).await;
        Judged {
            plan,
            verdict,
            runs,
        }
    }

    async fn verdict(
        &self,
        reference: &Arc<Reference>,
        plan: &Plan,
        known: &Known,
        runs: &mut usize,
    ) -> Result<Verdict, RunError> {
        let seed = plan.number as u64 * 10;
        let deviation = &plan.deviation;
        *runs += 1;
        let (record, first) = self
            .disturbed(&self.scenario, reference, deviation, known, seed)
            .await?;
        let Some(record) = record else {
            return Ok(Verdict::NotAdmitted);
        };
        if !record.is_reached {
            return Ok(Verdict::NotReached);
        }
        if first.is_empty() {
            return Ok(Verdict::Clean);
        }
        *runs += 1;
        let (again, second) = self
            .disturbed(&self.scenario, reference, deviation, known, seed + 1)
            .await?;
        let repeated: Vec<Complaint> = second
            .into_iter()
            .filter(|one| first.iter().any(|other| other.oracle == one.oracle))
            .collect();
        Ok(match again {
            Some(again) if again.is_reached && !repeated.is_empty() => {
                Verdict::Confirmed(again, repeated)
            }
            _ => Verdict::Unstable(first),
        })
    }

    /// Does one disturbed run. There is no record if the API server rejects a variation.
    pub(crate) async fn disturbed(
        &self,
        scenario: &Scenario,
        reference: &Arc<Reference>,
        deviation: &Deviation,
        known: &Known,
        seed: u64,
    ) -> Result<(Option<Box<Record>>, Vec<Complaint>), RunError> {
        let judged = |record: Record| {
            let evidence = Evidence {
                reference,
                record: &record,
                deviation: Some(deviation),
                settle: self.settings.settle,
            };
            let complaints = judge(evidence, &self.settings.invariants, &self.settings.without);
            (Some(Box::new(record)), complaints)
        };
        let Deviation::Respec { variation } = deviation else {
            let expectation = Expectation::Reference(Arc::clone(reference));
            let mut task = self.task(scenario, Some(deviation.clone()), expectation, 100 + seed);
            task.known = known.clone();
            return Ok(judged(self.perform(task).await?));
        };
        let Some(reverted) = reverted(scenario, variation) else {
            return Ok((None, Vec::new()));
        };
        let creation = Scenario {
            steps: reverted.steps.get(1).cloned().into_iter().collect(),
        };
        let nothing = Expectation::Reverted(Arc::clone(reference), View::new());
        let task = self.task(&creation, None, nothing, 100 + seed);
        let created = self.perform(task).await?;
        if let End::StepFailed { .. } = created.end {
            return Ok((None, Vec::new()));
        }
        let state = created.states.first().cloned().flatten();
        let Some(state) = state.filter(|_| created.end == End::Complete) else {
            return Ok(judged(created));
        };
        let view = reference.without_history(reference.mask.view(&state));
        let expectation = Expectation::Reverted(Arc::clone(reference), view);
        let mut task = self.task(&reverted, None, expectation, 101 + seed);
        task.known = known.clone();
        let record = self.perform(task).await?;
        if let End::StepFailed { .. } = record.end {
            // The field is immutable.
            return Ok((None, Vec::new()));
        }
        Ok(judged(record))
    }
}

/// Waits until a moment; without one, for ever.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Returns the steps of a variation: creation, change, reversal.
fn reverted(scenario: &Scenario, variation: &Variation) -> Option<Scenario> {
    let object = scenario.subject()?;
    let steps = [object.clone(), variation.applied(object), object.clone()];
    Some(Scenario {
        steps: steps.map(|object| Step::new(Action::Apply(object))).into(),
    })
}

/// Returns why an undisturbed run is not a reference.
fn incomplete(record: &Record, settings: &Settings, unmet: Option<String>) -> Option<ExploreError> {
    let (what, advice) = match &record.end {
        End::Complete => return None,
        End::NotStarted { why } => (
            format!("cannot start the operator: {why}"),
            "check the command after --".to_owned(),
        ),
        End::NoRequests => (
            format!("the operator sent no request within {:?}", settings.limit),
            "it must read KUBECONFIG, or use the default loading rules of its client; \
             increase --limit if it starts slowly"
                .to_owned(),
        ),
        End::Exited { step, status } => (
            format!("the operator exited without any fault in step {step}: {status}"),
            "run it on `kopf sandbox` first; if it binds a port, use --jobs 1 or {port} in the command"
                .to_owned(),
        ),
        End::NotQuiet { step } => (
            format!(
                "the operator does not settle without any fault in step {step}: {}",
                restless(record)
            ),
            "exclude fields that change all the time by --ignore PATH, or increase --settle or --limit"
                .to_owned(),
        ),
        End::NotReady { step } => (
            format!("the operator is not ready in step {step}"),
            "increase --limit".to_owned(),
        ),
        End::StepFailed { step, why } => (
            format!("step {step} of the scenario failed without any fault: {why}"),
            "correct the scenario; --print-scenario shows a derived one".to_owned(),
        ),
        End::NotConverged { .. } => ("the operator does not settle".to_owned(), String::new()),
    };
    let lines: Vec<&str> = record.output.lines().collect();
    let start = lines.len().saturating_sub(OUTPUT_LINES);
    let output = lines.get(start..).unwrap_or_default();
    Some(ExploreError::Reference {
        what,
        advice: match unmet {
            Some(unmet) => format!("{unmet}; or {advice}"),
            None => advice,
        },
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    })
}

/// Names the object and the fields that changed last.
fn restless(record: &Record) -> String {
    let last = record
        .journal
        .commits()
        .filter(|(_, commit)| !crate::object::is_housekeeping(&commit.key.resource))
        .last();
    let Some((_, commit)) = last else {
        return "nothing changes, but the operator is not ready".to_owned();
    };
    let fields = match (&commit.before, &commit.after) {
        (Some(before), Some(after)) => field_differences(before, after)
            .iter()
            .map(|difference| difference.path.to_string())
            .filter(|path| !path.starts_with("metadata.managedFields"))
            .filter(|path| path != "metadata.resourceVersion")
            .take(5)
            .collect::<Vec<_>>()
            .join(", "),
        _ => "it is created and deleted".to_owned(),
    };
    format!("{} changes last ({fields})", commit.key)
}

/// Creates a folder for the files of runs, which is removed with its value.
pub fn working_folder(parent: Option<&Path>) -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("kopf-explore-");
    match parent {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    }
}
