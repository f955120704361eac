//! The status of a pod in a state of its lifecycle.

use kopf_sandbox_schema::object::meta;
use serde_json::{Map, Value, json};

use super::fields::{Condition, conditions, is_true, list, text};
use super::lifecycle::{Exit, State};

/// A state of a pod, with the inputs of its status.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) state: State,
    pub(super) restarts: i64,
    /// The address for pods without one.
    pub(super) address: &'a str,
    pub(super) host: &'a str,
    pub(super) now: &'a str,
}

/// Returns the status of a pod. Fields and conditions of other writers are kept.
pub(super) fn render(pod: &Value, view: View<'_>) -> Value {
    let mut status = pod
        .get("status")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let phase = match view.state {
        State::Creating | State::Pulling(_) => "Pending",
        State::Ready | State::Unready | State::BackOff(_) => "Running",
        State::Ended(exit) if exit == Exit::SUCCESS => "Succeeded",
        State::Ended(_) => "Failed",
    };
    status.insert("phase".to_owned(), json!(phase));
    status.entry("startTime").or_insert_with(|| json!(view.now));
    status.insert("hostIP".to_owned(), json!(view.host));
    status.insert("hostIPs".to_owned(), json!([{ "ip": view.host }]));
    if view.state != State::Creating && !status.contains_key("podIP") {
        status.insert("podIP".to_owned(), json!(view.address));
        status.insert("podIPs".to_owned(), json!([{ "ip": view.address }]));
    }
    set_containers(pod, view, &mut status);
    status.insert(
        "conditions".to_owned(),
        json!(updated_conditions(pod, view)),
    );
    Value::Object(status)
}

fn set_containers(pod: &Value, view: View<'_>, status: &mut Map<String, Value>) {
    let known = |field: &str, name: &str| -> Value {
        let statuses = list(pod, field).iter();
        let mut same = statuses.filter(|status| status["name"] == name);
        same.next().cloned().unwrap_or_default()
    };
    for (containers, statuses) in [
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ] {
        let rendered: Vec<Value> = list(pod, &format!("/spec/{containers}"))
            .iter()
            .map(|container| {
                let name = container["name"].as_str().unwrap_or_default();
                let known = known(&format!("/status/{statuses}"), name);
                let is_sidecar = container["restartPolicy"] == "Always";
                if containers == "initContainers" && !is_sidecar {
                    container_status(pod, container, &known, initialising(view))
                } else {
                    container_status(pod, container, &known, view)
                }
            })
            .collect();
        if !rendered.is_empty() {
            status.insert(statuses.to_owned(), Value::Array(rendered));
        }
    }
}

/// Returns the view of init containers, which succeed before the others start.
fn initialising(view: View<'_>) -> View<'_> {
    let state = match view.state {
        State::Creating | State::Pulling(_) => view.state,
        _ => State::Ended(Exit::SUCCESS),
    };
    View {
        state,
        restarts: 0,
        ..view
    }
}

fn container_status(pod: &Value, container: &Value, known: &Value, view: View<'_>) -> Value {
    let name = container["name"].as_str().unwrap_or_default();
    let id = format!("sandbox://{}/{name}", meta::uid(pod));
    let terminated = |exit: Exit| {
        json!({ "terminated": {
            "exitCode": exit.code, "reason": exit.reason, "containerID": id,
            "startedAt": view.now, "finishedAt": view.now,
        }})
    };
    let mut last = known.get("lastState").cloned().unwrap_or_else(|| json!({}));
    let mut state = match view.state {
        State::Creating => waiting("ContainerCreating", ""),
        State::Pulling(reason) => {
            let image = container["image"].as_str().unwrap_or_default();
            let message = format!("failed to pull image {image:?}: simulated");
            waiting(reason, &message)
        }
        State::Ready | State::Unready => json!({ "running": { "startedAt": view.now } }),
        State::BackOff(exit) => {
            if last == json!({}) || known["restartCount"] != view.restarts {
                last = terminated(exit);
            }
            let message = format!("back-off restarting failed container={name}");
            waiting("CrashLoopBackOff", &message)
        }
        State::Ended(exit) => terminated(exit),
    };
    // Timestamps are kept while the state is unchanged.
    for field in ["running", "terminated"] {
        if let (Some(_), Some(before)) =
            (state.get(field), known.pointer(&format!("/state/{field}")))
        {
            state[field] = before.clone();
        }
    }
    let runs = matches!(view.state, State::Ready | State::Unready);
    let pulled = !matches!(view.state, State::Creating | State::Pulling(_));
    let mut status = json!({
        "name": name,
        "image": container["image"],
        "imageID": if pulled { container["image"].clone() } else { json!("") },
        "ready": view.state == State::Ready,
        "started": runs,
        "restartCount": view.restarts,
        "state": state,
        "lastState": last,
    });
    if view.state == State::Ended(Exit::SUCCESS)
        && list(pod, "/spec/initContainers").contains(container)
    {
        status["ready"] = json!(true);
    }
    if pulled {
        status["containerID"] = json!(id);
    }
    status
}

fn waiting(reason: &str, message: &str) -> Value {
    let mut waiting = json!({ "reason": reason });
    if !message.is_empty() {
        waiting["message"] = json!(message);
    }
    json!({ "waiting": waiting })
}

fn updated_conditions(pod: &Value, view: View<'_>) -> Vec<Value> {
    let mut all = conditions(pod);
    let names: Vec<&str> = list(pod, "/spec/containers")
        .iter()
        .filter_map(|container| container["name"].as_str())
        .collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let started = !matches!(view.state, State::Creating | State::Pulling(_));
    let (reason, message) = match view.state {
        State::Ready => ("", ""),
        State::Ended(exit) if exit == Exit::SUCCESS => ("PodCompleted", ""),
        State::Ended(_) => ("PodFailed", ""),
        _ => ("ContainersNotReady", unready.as_str()),
    };
    let initialised = started || list(pod, "/spec/initContainers").is_empty();
    let completed = view.state == State::Ended(Exit::SUCCESS);
    let gates = list(pod, "/spec/readinessGates");
    let gates_open = gates
        .iter()
        .all(|gate| is_true(pod, text(gate, "/conditionType")));
    let containers_ready = view.state == State::Ready;
    let (ready_reason, ready_message) = if containers_ready && !gates_open {
        ("ReadinessGatesNotReady", "a readiness gate is not open")
    } else {
        (reason, message)
    };
    let sandboxed = started && !matches!(view.state, State::Ended(_));
    let initialisation = match (completed, initialised) {
        (true, _) => "PodCompleted",
        (false, true) => "",
        (false, false) => "ContainersNotInitialized",
    };
    let ready = containers_ready && gates_open;
    let wanted = [
        ("PodReadyToStartContainers", sandboxed, "", ""),
        ("Initialized", initialised, initialisation, ""),
        ("Ready", ready, ready_reason, ready_message),
        ("ContainersReady", containers_ready, reason, message),
        ("PodScheduled", true, "", ""),
    ];
    for (kind, holds, reason, message) in wanted {
        let condition = Condition {
            kind,
            holds,
            reason,
            message,
        };
        condition.set(&mut all, view.now);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": { "name": "web", "uid": "u" },
            "spec": {
                "initContainers": [{ "name": "init", "image": "i" }],
                "containers": [{ "name": "app", "image": "a" }],
            },
            "status": { "phase": "Pending", "qosClass": "BestEffort" },
        })
    }

    fn view(state: State, now: &str) -> View<'_> {
        View {
            state,
            restarts: 0,
            address: "10.244.0.2",
            host: "10.0.1.1",
            now,
        }
    }

    #[test]
    fn ready_pods_have_addresses_and_keep_their_times() {
        let mut pod = pod();
        pod["status"] = render(&pod, view(State::Ready, "first"));
        let again = render(&pod, view(State::Ready, "second"));
        assert_eq!(pod["status"], again);
        assert_eq!(again["phase"], "Running");
        assert_eq!(again["podIP"], "10.244.0.2");
        assert_eq!(again["qosClass"], "BestEffort");
        assert_eq!(
            again["initContainerStatuses"][0]["state"]["terminated"]["exitCode"],
            0
        );
        assert!(is_true(&pod, "Ready") && is_true(&pod, "Initialized"));
    }

    #[test]
    fn crashed_containers_have_a_reason() {
        let exit = Exit {
            code: 137,
            reason: "OOMKilled",
        };
        let status = render(
            &pod(),
            View {
                restarts: 3,
                ..view(State::BackOff(exit), "t")
            },
        );
        let app = &status["containerStatuses"][0];
        assert_eq!(app["state"]["waiting"]["reason"], "CrashLoopBackOff");
        assert_eq!(app["lastState"]["terminated"]["exitCode"], 137);
        assert_eq!(app["restartCount"], 3);
        assert_eq!(status["phase"], "Running");
    }

    #[test]
    fn pods_with_closed_readiness_gates_are_not_ready() {
        let mut pod = pod();
        pod["spec"]["readinessGates"] = json!([{ "conditionType": "dev/gate" }]);
        pod["status"] = render(&pod, view(State::Ready, "t"));
        assert!(!is_true(&pod, "Ready") && is_true(&pod, "ContainersReady"));
    }
}
