//! The row of a pod, whose status summarises its containers.

use serde_json::{Value, json};

use super::duration;
use super::object::Object;

/// Returns the cells of a pod.
pub(super) fn pod(pod: Object<'_>) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts != 0 => {
            format!(
                "{} ({} ago)",
                summary.restarts,
                duration::age(time, pod.now)
            )
        }
        _ => summary.restarts.to_string(),
    };
    vec![
        pod.name(),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        pod.age(),
        json!(pod.text_or("/status/podIPs/0/ip", "<none>")),
        json!(pod.text_or("/spec/nodeName", "<none>")),
        json!(pod.text_or("/status/nominatedNodeName", "<none>")),
        readiness_gates(pod),
    ]
}

/// Returns the conditions that mark finished pods, so that clients can hide them.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let message = match pod.pointer("/status/phase").and_then(Value::as_str)? {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    let reason = pod.pointer("/status/phase")?;
    let condition =
        json!({ "type": "Completed", "status": "True", "reason": reason, "message": message });
    Some(json!([condition]))
}

fn readiness_gates(pod: Object<'_>) -> Value {
    let gates = pod.list("/spec/readinessGates");
    if gates.is_empty() {
        return json!("<none>");
    }
    let open = pod
        .items("/spec/readinessGates")
        .filter(|gate| pod.condition("/status/conditions", gate.text("/conditionType")))
        .count();
    json!(format!("{open}/{}", gates.len()))
}

struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<jiff::Timestamp>,
}

/// Returns `true` for sidecars: init containers that are restarted as long as the pod lives.
fn is_sidecar(pod: Object<'_>, name: &str) -> bool {
    pod.items("/spec/initContainers").any(|container| {
        container.text("/name") == name && container.text("/restartPolicy") == "Always"
    })
}

impl Summary {
    fn of(pod: Object<'_>) -> Self {
        let phase = pod.text("/status/phase");
        let mut reason = pod.text_or("/status/reason", phase).to_owned();
        let gated = pod.items("/status/conditions").any(|condition| {
            condition.text("/type") == "PodScheduled"
                && condition.text("/reason") == "SchedulingGated"
        });
        if gated {
            "SchedulingGated".clone_into(&mut reason);
        }
        let sidecars = pod
            .items("/spec/initContainers")
            .filter(|container| container.text("/restartPolicy") == "Always")
            .count();
        let mut summary = Self {
            ready: 0,
            total: pod.list("/spec/containers").len() + sidecars,
            reason,
            restarts: 0,
            last_restart: None,
        };
        let sidecar_restarts = summary.add_init_containers(pod);
        let initialized = pod.condition("/status/conditions", "Initialized");
        if sidecar_restarts.finished || initialized {
            summary.restarts = sidecar_restarts.count;
            summary.last_restart = sidecar_restarts.last;
            summary.add_containers(pod);
        }
        if pod.is_deleted() {
            if pod.text("/status/reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    fn add_init_containers(&mut self, pod: Object<'_>) -> SidecarRestarts {
        let mut sidecars = SidecarRestarts {
            finished: true,
            count: 0,
            last: None,
        };
        let expected = pod.list("/spec/initContainers").len();
        for (index, status) in pod.items("/status/initContainerStatuses").enumerate() {
            let is_sidecar = is_sidecar(pod, status.text("/name"));
            let restarts = status.integer("/restartCount");
            let terminated = status.time("/lastState/terminated/finishedAt");
            self.restarts = self.restarts.saturating_add(restarts);
            self.last_restart = self.last_restart.max(terminated);
            if is_sidecar {
                sidecars.count = sidecars.count.saturating_add(restarts);
                sidecars.last = sidecars.last.max(terminated);
            }
            let ended = status.has("/state/terminated");
            if ended && status.integer("/state/terminated/exitCode") == 0 {
                continue;
            }
            if is_sidecar && status.is_true("/started") {
                self.ready += usize::from(status.is_true("/ready"));
                continue;
            }
            let waiting = status.text("/state/waiting/reason");
            self.reason = if ended {
                format!("Init:{}", ending(status))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{expected}")
            };
            sidecars.finished = false;
            break;
        }
        sidecars
    }

    fn add_containers(&mut self, pod: Object<'_>) {
        let mut is_running = false;
        let mut failure = None;
        for status in pod.items("/status/containerStatuses").rev() {
            self.restarts = self
                .restarts
                .saturating_add(status.integer("/restartCount"));
            let terminated = status.time("/lastState/terminated/finishedAt");
            self.last_restart = self.last_restart.max(terminated);
            let waiting = status.text("/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if status.has("/state/terminated") {
                self.reason = ending(status);
                if status.integer("/state/terminated/exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if status.is_true("/ready") && status.has("/state/running") {
                is_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if is_running && pod.condition("/status/conditions", "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if is_running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

struct SidecarRestarts {
    /// All init containers have succeeded, or are running sidecars.
    finished: bool,
    count: i64,
    last: Option<jiff::Timestamp>,
}

/// Returns the reason of a container's end.
fn ending(status: Object<'_>) -> String {
    let signal = status.integer("/state/terminated/signal");
    match status.text("/state/terminated/reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", status.integer("/state/terminated/exitCode")),
        reason => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(object: &Value) -> (String, String, String) {
        let now = "2030-01-01T00:10:00Z".parse().unwrap();
        let cells = pod(Object { value: object, now });
        let text = |index: usize| cells[index].as_str().unwrap().to_owned();
        (text(1), text(2), text(3))
    }

    fn triple(ready: &str, status: &str, restarts: &str) -> (String, String, String) {
        (ready.to_owned(), status.to_owned(), restarts.to_owned())
    }

    #[test]
    fn pod_status_summarises_containers() {
        let running = json!({
            "spec": { "containers": [{ "name": "a" }, { "name": "b" }] },
            "status": { "phase": "Running", "containerStatuses": [
                { "ready": true, "restartCount": 2, "state": { "running": {} },
                  "lastState": { "terminated": { "finishedAt": "2030-01-01T00:09:55Z" } } },
                { "restartCount": 1, "state": { "waiting": { "reason": "CrashLoopBackOff" } } },
            ] },
        });
        assert_eq!(
            status_of(&running),
            triple("1/2", "CrashLoopBackOff", "3 (5s ago)")
        );
        let failed = json!({
            "spec": { "containers": [{ "name": "a" }] },
            "status": { "phase": "Failed", "containerStatuses": [
                { "state": { "terminated": { "exitCode": 3 } } },
            ] },
        });
        assert_eq!(status_of(&failed), triple("0/1", "ExitCode:3", "0"));
        assert_eq!(conditions(&failed).unwrap()[0]["reason"], "Failed");
        assert_eq!(conditions(&running), None);
    }

    #[test]
    fn pod_status_includes_init_containers_and_sidecars() {
        let spec = json!({
            "containers": [{ "name": "a" }],
            "initContainers": [{ "name": "s", "restartPolicy": "Always" }, { "name": "i" }],
        });
        let starting = json!({
            "spec": spec,
            "status": { "phase": "Pending", "initContainerStatuses": [
                { "name": "s", "started": true, "ready": true, "restartCount": 1,
                  "state": { "running": {} } },
                { "name": "i", "state": { "waiting": { "reason": "PodInitializing" } } },
            ] },
        });
        assert_eq!(status_of(&starting), triple("1/2", "Init:1/2", "1"));
        let broken = json!({
            "spec": spec,
            "status": { "phase": "Pending", "initContainerStatuses": [
                { "name": "i", "state": { "terminated": { "exitCode": 1, "signal": 9 } } },
            ] },
        });
        assert_eq!(status_of(&broken), triple("0/2", "Init:Signal:9", "0"));
    }

    #[test]
    fn deleted_pods_have_the_status_terminating() {
        let deleted = json!({
            "metadata": { "deletionTimestamp": "2030-01-01T00:00:00Z" },
            "status": { "phase": "Running" },
        });
        assert_eq!(status_of(&deleted).1, "Terminating");
        assert_eq!(
            status_of(&json!({ "status": { "phase": "Pending" } })).1,
            "Pending"
        );
    }
}
