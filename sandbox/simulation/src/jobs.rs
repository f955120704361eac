//! Jobs: pods are created until enough have succeeded, or too many have failed.

use std::time::Duration;

use jiff::Timestamp;
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::Client;
use super::fields::{
    Condition, conditions, count, counts, flag, is_active, is_true, list, number, text,
};
use super::simulator::Simulator;
use super::{PODS, Resource, Simulated, pods, templates};

const JOBS: Resource = Resource::new("batch", "jobs");
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The delay after the first failure, and the maximum, in seconds.
const FIRST_BACK_OFF: i64 = 10;
const LONGEST_BACK_OFF: i64 = 360;

/// The counted pods of a job.
struct Progress {
    active: Vec<Value>,
    succeeded: i64,
    failed: i64,
    /// Indices of an indexed job that have succeeded, and those with an active pod.
    completed: Vec<i64>,
    taken: Vec<i64>,
    last_failure: Option<Timestamp>,
}

/// The end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Running,
    Complete,
    Failed {
        reason: &'static str,
        message: &'static str,
    },
}

pub(super) async fn reconcile(cluster: &Cluster, simulator: &Simulator, key: &Key) -> Result<()> {
    let client = Client::new(cluster, "job-controller");
    let Some(job) = client
        .get(JOBS, key)
        .filter(|job| !meta::is_terminating(job))
    else {
        return Ok(());
    };
    let now = cluster.clock.now();
    if is_true(&job, "Complete") || is_true(&job, "Failed") {
        return expire(client, simulator, &job, now).await;
    }
    let progress = Progress::of(client, &job);
    let verdict = progress.verdict(&job, now);
    let suspended = flag(&job, "/spec/suspend");
    if verdict != Verdict::Running || suspended {
        for pod in &progress.active {
            client.delete(PODS, pod).await?;
        }
    } else if let Some(delay) = progress.back_off(now) {
        simulator.wake(Simulated::Jobs, key, delay);
    } else {
        progress.create_pods(client, &job).await?;
    }
    if let Some(left) = deadline(&job, now).filter(|_| verdict == Verdict::Running) {
        let seconds = u64::try_from(left.max(1)).unwrap_or(1);
        simulator.wake(Simulated::Jobs, key, Duration::from_secs(seconds));
    }
    let progress = Progress::of(client, &job);
    let status = progress.status(&job, verdict, &client.now());
    client.set_status(JOBS, &job, status).await
}

/// Returns the seconds until the deadline of a started job.
fn deadline(job: &Value, now: Timestamp) -> Option<i64> {
    let limit = job.pointer("/spec/activeDeadlineSeconds")?.as_i64()?;
    let started: Timestamp = text(job, "/status/startTime").parse().ok()?;
    let elapsed = now.as_second() - started.as_second();
    Some(limit.saturating_sub(elapsed))
}

/// Deletes a finished job after its TTL.
async fn expire(
    client: Client<'_>,
    simulator: &Simulator,
    job: &Value,
    now: Timestamp,
) -> Result<()> {
    let Some(time) = job
        .pointer("/spec/ttlSecondsAfterFinished")
        .and_then(Value::as_i64)
    else {
        return Ok(());
    };
    let ended = list(job, "/status/conditions")
        .iter()
        .filter(|it| matches!(it["type"].as_str(), Some("Complete" | "Failed")))
        .find_map(|it| it["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok());
    let left = ended.map_or(0, |ended| time - (now.as_second() - ended.as_second()));
    if left <= 0 {
        return client.delete(JOBS, job).await;
    }
    let seconds = u64::try_from(left).unwrap_or(1);
    let key = super::client::key_of(job);
    simulator.wake(Simulated::Jobs, &key, Duration::from_secs(seconds));
    Ok(())
}

fn is_indexed(job: &Value) -> bool {
    text(job, "/spec/completionMode") == "Indexed"
}

impl Progress {
    fn of(client: Client<'_>, job: &Value) -> Self {
        let owned = client.owned(PODS, job);
        let phase = |wanted: &'static str| {
            owned
                .iter()
                .filter(move |pod| text(pod, "/status/phase") == wanted)
        };
        let index = |pod: &Value| templates::label(pod, INDEX).parse::<i64>().ok();
        let mut completed: Vec<i64> = phase("Succeeded").filter_map(index).collect();
        completed.sort_unstable();
        completed.dedup();
        let succeeded = if is_indexed(job) {
            count(&completed)
        } else {
            count(phase("Succeeded"))
        };
        let active: Vec<Value> = owned.iter().filter(|pod| is_active(pod)).cloned().collect();
        let finished = |pod: &Value| {
            let statuses = list(pod, "/status/containerStatuses").iter();
            let times = statuses.filter_map(|status| {
                text(status, "/state/terminated/finishedAt")
                    .parse::<Timestamp>()
                    .ok()
            });
            times.max()
        };
        Self {
            // Deleted pods stay counted.
            succeeded: succeeded.max(number(job, "/status/succeeded", 0)),
            failed: count(phase("Failed")).max(number(job, "/status/failed", 0)),
            taken: active.iter().filter_map(index).collect(),
            last_failure: phase("Failed").filter_map(finished).max(),
            active,
            completed,
        }
    }

    fn verdict(&self, job: &Value, now: Timestamp) -> Verdict {
        let limit = number(job, "/spec/backoffLimit", 6);
        let restarts: i64 = self.active.iter().map(pods::restarts).sum();
        if self.failed > limit || restarts > limit {
            return Verdict::Failed {
                reason: "BackoffLimitExceeded",
                message: "Job has reached the specified backoff limit",
            };
        }
        if deadline(job, now).is_some_and(|left| left <= 0) {
            return Verdict::Failed {
                reason: "DeadlineExceeded",
                message: "Job was active longer than specified deadline",
            };
        }
        let complete = match job.pointer("/spec/completions").and_then(Value::as_i64) {
            Some(completions) => self.succeeded >= completions,
            None => self.succeeded > 0 && self.active.is_empty(),
        };
        if complete {
            Verdict::Complete
        } else {
            Verdict::Running
        }
    }

    /// Returns the delay before a new pod after a failure.
    fn back_off(&self, now: Timestamp) -> Option<Duration> {
        let last = self.last_failure?;
        let doubled = u32::try_from(self.failed - 1).unwrap_or_default().min(10);
        let delay = (FIRST_BACK_OFF << doubled).min(LONGEST_BACK_OFF);
        let left = delay - (now.as_second() - last.as_second());
        let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
        Some(Duration::from_secs(left))
    }

    async fn create_pods(&self, client: Client<'_>, job: &Value) -> Result<()> {
        let parallelism = number(job, "/spec/parallelism", 1);
        let completions = job.pointer("/spec/completions").and_then(Value::as_i64);
        let wanted = match completions {
            Some(completions) => parallelism.min(completions - self.succeeded),
            // With a work queue, no pods are added after the first success.
            None if self.succeeded > 0 => 0,
            None => parallelism,
        };
        let missing = wanted - count(&self.active);
        let mut free = (0..completions.unwrap_or_default())
            .filter(|index| !self.completed.contains(index) && !self.taken.contains(index));
        for _ in 0..missing.max(0) {
            let index = if is_indexed(job) { free.next() } else { None };
            client.create(PODS, pod(job, index)).await?;
        }
        Ok(())
    }

    fn status(&self, job: &Value, verdict: Verdict, now: &str) -> Value {
        let active = if verdict == Verdict::Running {
            count(&self.active)
        } else {
            0
        };
        let ready = count(self.active.iter().filter(|pod| is_true(pod, "Ready")));
        let mut status = counts([
            ("active", active),
            ("succeeded", self.succeeded),
            ("failed", self.failed),
        ]);
        status.insert(
            "ready".to_owned(),
            json!(if verdict == Verdict::Running {
                ready
            } else {
                0
            }),
        );
        status.insert("terminating".to_owned(), json!(0));
        status.insert("uncountedTerminatedPods".to_owned(), json!({}));
        if is_indexed(job) && !self.completed.is_empty() {
            status.insert(
                "completedIndexes".to_owned(),
                json!(intervals(&self.completed)),
            );
        }
        let suspended = flag(job, "/spec/suspend");
        match job.pointer("/status/startTime") {
            Some(started) => status.insert("startTime".to_owned(), started.clone()),
            None if !suspended => status.insert("startTime".to_owned(), json!(now)),
            None => None,
        };
        if verdict == Verdict::Complete {
            status.insert("completionTime".to_owned(), json!(now));
        }
        let conditions = updated_conditions(job, verdict, now);
        if !conditions.is_empty() {
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        Value::Object(status)
    }
}

fn updated_conditions(job: &Value, verdict: Verdict, now: &str) -> Vec<Value> {
    let mut all = conditions(job);
    let suspended = flag(job, "/spec/suspend");
    let mut set = |kind: &str, holds: bool, reason: &str, message: &str| {
        let condition = Condition {
            kind,
            holds,
            reason,
            message,
        };
        condition.set(&mut all, now);
        for condition in all.iter_mut().filter(|it| it["type"] == kind) {
            if condition.get("lastProbeTime").is_none() {
                condition["lastProbeTime"] = condition["lastTransitionTime"].clone();
            }
        }
    };
    if suspended {
        set("Suspended", true, "JobSuspended", "Job suspended");
    } else if super::fields::condition(job, "Suspended").is_some() {
        set("Suspended", false, "JobResumed", "Job resumed");
    }
    match verdict {
        Verdict::Running => {}
        Verdict::Complete => {
            let message = "Reached expected number of succeeded pods";
            for kind in ["SuccessCriteriaMet", "Complete"] {
                set(kind, true, "CompletionsReached", message);
            }
        }
        Verdict::Failed { reason, message } => {
            for kind in ["FailureTarget", "Failed"] {
                set(kind, true, reason, message);
            }
        }
    }
    all
}

fn pod(job: &Value, index: Option<i64>) -> Value {
    let template = job.pointer("/spec/template").cloned().unwrap_or_default();
    let mut pod = templates::pod(job, &template);
    if let Some(index) = index {
        let text = index.to_string();
        templates::set_label(&mut pod, INDEX, &text);
        templates::set_annotation(&mut pod, INDEX, &text);
        meta::set(
            &mut pod,
            "generateName",
            format!("{}-{index}-", meta::name(job)),
        );
        pod["spec"]["hostname"] = json!(format!("{}-{index}", meta::name(job)));
    }
    pod
}

/// Formats sorted numbers, e.g. `0-2,5`.
fn intervals(numbers: &[i64]) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let parts = parts.into_iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_formatted_as_intervals() {
        assert_eq!(intervals(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(intervals(&[]), "");
    }
}
