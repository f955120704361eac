//! The eviction of pods, within their disruption budgets.

use std::cell::Cell;
use std::sync::Arc;

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::selectors::LabelSelector;
use serde_json::{Value, json};

use super::special::success;
use super::{Call, Payload};
use crate::cluster::{Cluster, collection};
use crate::request::options::DeleteOptions;
use crate::status::{ApiError, Result};
use crate::store::{Key, Stored};

/// The time after which a client retries if the status of a budget is outdated, in seconds.
const RETRY_SECONDS: u32 = 10;

impl Cluster {
    /// Handles `POST …/pods/NAME/eviction`: deletes the pod, unless a disruption budget forbids it.
    pub async fn evict(&self, call: &Call, eviction: &Value) -> Result<Payload> {
        let sent = eviction.get("deleteOptions").unwrap_or(&Value::Null);
        let mut options = DeleteOptions::read(sent)?;
        options.dry_run |= call.options.dry_run;
        let pod = self.store.get(&collection(&call.kind), &call.key());
        let pod = pod.ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
        if let Some((kind, budget)) = self.budget(&pod.value())?
            && !options.dry_run
        {
            self.use_budget(&kind, &budget.key, &call.name)?;
        }
        self.delete(call, options).await?;
        Ok(success())
    }

    /// Counts an eviction. Concurrent ones may have used up the budget since it was read.
    fn use_budget(&self, kind: &Arc<Kind>, key: &Key, pod: &str) -> Result<()> {
        let now = self.clock.seconds();
        let outcome = Cell::new(Ok(true));
        self.modify(kind, key, |budget| {
            let allowed = check_budget(budget, true);
            let is_allowed = allowed.is_ok();
            outcome.set(allowed);
            if is_allowed {
                let status = meta::entry(budget, "status");
                let left = number(status.get("disruptionsAllowed")) - 1;
                status.insert("disruptionsAllowed".to_owned(), json!(left));
                let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
                if let Some(disrupted) = disrupted.as_object_mut() {
                    disrupted.insert(pod.to_owned(), json!(now));
                }
            }
        });
        outcome.into_inner().map(drop)
    }

    /// Returns the budget from which an eviction is taken, or `None` if no budget limits it.
    ///
    /// # Errors
    ///
    /// 429 if the budget allows no eviction, 500 if several budgets apply.
    fn budget(&self, pod: &Value) -> Result<Option<(Arc<Kind>, Arc<Stored>)>> {
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        if meta::is_terminating(pod) || matches!(phase, Some("Pending" | "Succeeded" | "Failed")) {
            return Ok(None);
        }
        let Some(kind) = self.built_in("policy", "poddisruptionbudgets") else {
            return Ok(None);
        };
        let listed = self.store.list(&collection(&kind), meta::namespace(pod));
        let mut applying = listed
            .objects
            .into_iter()
            .map(|stored| (stored.value(), stored))
            .filter(|(budget, _)| selects(budget, pod));
        let Some((budget, stored)) = applying.next() else {
            return Ok(None);
        };
        if applying.next().is_some() {
            return Err(ApiError::without_reason(
                500,
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let is_counted = match self.simulated_budget(&budget) {
            // Its status is not stored, so nothing is counted.
            Some(simulated) => check_budget(&simulated, is_ready(pod)).map(|_| false)?,
            None => check_budget(&budget, is_ready(pod))?,
        };
        Ok(is_counted.then_some((kind, stored)))
    }

    /// Returns a budget with the status that the disruption controller would write. `None` without
    /// a simulation, and if clients write the status.
    fn simulated_budget(&self, budget: &Value) -> Option<Value> {
        if self.workloads.is_none() || budget.pointer("/status/observedGeneration").is_some() {
            return None;
        }
        let pods = self.built_in("", "pods")?;
        let listed = self.store.list(&collection(&pods), meta::namespace(budget));
        let listed = listed.objects.iter().map(|stored| stored.value());
        let selected: Vec<Value> = listed.filter(|pod| selects(budget, pod)).collect();
        let healthy = selected
            .iter()
            .filter(|pod| is_ready(pod) && !meta::is_terminating(pod))
            .count();
        let spec = budget.get("spec")?;
        let desired = desired_healthy(spec, i64::try_from(selected.len()).ok()?);
        let healthy = i64::try_from(healthy).ok()?;
        let mut budget = budget.clone();
        budget["status"] = json!({
            "observedGeneration": meta::generation(&budget), "currentHealthy": healthy,
            "desiredHealthy": desired, "disruptionsAllowed": (healthy - desired).max(0),
        });
        Some(budget)
    }
}

fn selects(budget: &Value, pod: &Value) -> bool {
    budget
        .pointer("/spec/selector")
        .filter(|selector| !selector.is_null())
        .and_then(|selector| LabelSelector::from_object(selector, "spec.selector").ok())
        .is_some_and(|selector| selector.matches(meta::labels(pod)))
}

/// Returns the number of pods that must stay healthy. Percentages are rounded up.
fn desired_healthy(spec: &Value, expected: i64) -> i64 {
    let count = |value: &Value| match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            (expected * percent + 99) / 100
        }
        other => number(Some(other)),
    };
    match spec.get("maxUnavailable") {
        Some(unavailable) => (expected - count(unavailable)).max(0),
        None => spec.get("minAvailable").map_or(0, count),
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn number(value: Option<&Value>) -> i64 {
    value.and_then(Value::as_i64).unwrap_or_default()
}

/// Rejects an eviction that a budget does not allow. Returns `false` if the eviction of an
/// unhealthy pod does not count.
fn check_budget(budget: &Value, is_ready: bool) -> Result<bool> {
    let status = |field: &str| number(budget.pointer(&format!("/status/{field}")));
    let (healthy, desired) = (status("currentHealthy"), status("desiredHealthy"));
    let policy = budget.pointer("/spec/unhealthyPodEvictionPolicy");
    let always = policy.is_some_and(|policy| policy == "AlwaysAllow");
    if !is_ready && (always || (healthy >= desired && desired > 0)) {
        return Ok(false);
    }
    let name = meta::name(budget);
    if status("observedGeneration") < meta::generation(budget) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(violation(&why).with_retry_after(RETRY_SECONDS));
    }
    if status("disruptionsAllowed") > 0 {
        return Ok(true);
    }
    Err(violation(&if healthy <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }))
}

fn violation(why: &str) -> ApiError {
    ApiError::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        json!({ "causes": [{ "reason": "DisruptionBudget", "message": why }] }),
    )
}
