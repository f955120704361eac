//! Rows of the groups `apps`, `batch`, `autoscaling` and `policy`.

use serde_json::{Value, json};

use super::duration;
use super::object::Object;

const CONTAINERS: &str = "/spec/template/spec/containers";

pub(super) fn cells(kind: &str, object: Object<'_>) -> Option<Vec<Value>> {
    let [names, images] = object.containers(CONTAINERS);
    let number = |pointer: &str| json!(object.integer(pointer));
    Some(match kind {
        "Deployment" => {
            let selector = object.plain_selector("/spec/selector");
            vec![
                object.name(),
                readiness(object),
                number("/status/updatedReplicas"),
                number("/status/availableReplicas"),
                object.age(),
                names,
                images,
                json!(selector.as_deref().unwrap_or("<invalid>")),
            ]
        }
        "StatefulSet" => vec![
            object.name(),
            readiness(object),
            object.age(),
            names,
            images,
        ],
        "ReplicaSet" => vec![
            object.name(),
            number("/spec/replicas"),
            number("/status/replicas"),
            number("/status/readyReplicas"),
            object.age(),
            names,
            images,
            object.selector("/spec/selector"),
        ],
        "DaemonSet" => vec![
            object.name(),
            number("/status/desiredNumberScheduled"),
            number("/status/currentNumberScheduled"),
            number("/status/numberReady"),
            number("/status/updatedNumberScheduled"),
            number("/status/numberAvailable"),
            object.labels("/spec/template/spec/nodeSelector"),
            object.age(),
            names,
            images,
            object.selector("/spec/selector"),
        ],
        "ControllerRevision" => {
            let (name, controller) = (object.name(), controller(object));
            vec![name, controller, number("/revision"), object.age()]
        }
        "Job" => job(object),
        "CronJob" => cron_job(object),
        "HorizontalPodAutoscaler" => autoscaler(object),
        "PodDisruptionBudget" => budget(object),
        _ => return None,
    })
}

fn budget(object: Object<'_>) -> Vec<Value> {
    let limit = |pointer| object.printed(pointer).unwrap_or_else(|| "N/A".to_owned());
    vec![
        object.name(),
        json!(limit("/spec/minAvailable")),
        json!(limit("/spec/maxUnavailable")),
        json!(object.integer("/status/disruptionsAllowed")),
        object.age(),
    ]
}

/// Returns the number of ready replicas of all.
fn readiness(object: Object<'_>) -> Value {
    let ready = object.integer("/status/readyReplicas");
    ratio(ready, object.integer("/spec/replicas"))
}

fn ratio(part: i64, whole: i64) -> Value {
    json!(format!("{part}/{whole}"))
}

fn controller(object: Object<'_>) -> Value {
    let owner = object
        .items("/metadata/ownerReferences")
        .find(|owner| owner.is_true("/controller"));
    let Some(owner) = owner else {
        return json!("<none>");
    };
    let kind = owner.text("/kind").to_lowercase();
    let name = owner.text("/name");
    json!(match owner.text("/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()),
        None => format!("{kind}/{name}"),
    })
}

fn job(object: Object<'_>) -> Vec<Value> {
    let succeeded = object.integer("/status/succeeded");
    let parallelism = object.integer("/spec/parallelism");
    let completions = match object.get("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let taken = object.time("/status/startTime").map(|start| {
        duration::age(
            start,
            object.time("/status/completionTime").unwrap_or(object.now),
        )
    });
    let is = |condition: &str| object.condition("/status/conditions", condition);
    let status = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if object.is_deleted() {
        "Terminating"
    } else {
        let told = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        told.into_iter()
            .find(|condition| is(condition))
            .unwrap_or("Running")
    };
    let [names, images] = object.containers(CONTAINERS);
    vec![
        object.name(),
        json!(status),
        json!(completions),
        json!(taken.unwrap_or_default()),
        object.age(),
        names,
        images,
        object.selector("/spec/selector"),
    ]
}

fn cron_job(object: Object<'_>) -> Vec<Value> {
    let suspended = match object.get("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let template = "/spec/jobTemplate/spec";
    let [names, images] = object.containers(&format!("{template}/template/spec/containers"));
    vec![
        object.name(),
        json!(object.text("/spec/schedule")),
        json!(object.text_or("/spec/timeZone", "<none>")),
        json!(suspended),
        json!(object.size("/status/active")),
        json!(
            object
                .since("/status/lastScheduleTime")
                .as_deref()
                .unwrap_or("<none>")
        ),
        object.age(),
        names,
        images,
        object.selector(&format!("{template}/selector")),
    ]
}

fn autoscaler(object: Object<'_>) -> Vec<Value> {
    let target = object.of(object.get("/spec/scaleTargetRef").unwrap_or(&Value::Null));
    vec![
        object.name(),
        json!(format!("{}/{}", target.text("/kind"), target.text("/name"))),
        json!(metrics(object)),
        json!(
            object
                .printed("/spec/minReplicas")
                .unwrap_or_else(|| "<unset>".to_owned())
        ),
        json!(object.integer("/spec/maxReplicas")),
        json!(object.integer("/status/currentReplicas")),
        object.age(),
    ]
}

fn metrics(object: Object<'_>) -> String {
    // The `v1` version supports no other metric.
    if let Some(wanted) = object.printed("/spec/targetCPUUtilizationPercentage") {
        let current = object.printed("/status/currentCPUUtilizationPercentage");
        let current = current.map_or_else(|| "<unknown>".to_owned(), |current| current + "%");
        return format!("cpu: {current}/{wanted}%");
    }
    let current = object.list("/status/currentMetrics");
    let texts: Vec<String> = object
        .items("/spec/metrics")
        .enumerate()
        .map(|(index, spec)| metric(spec, object.of(current.get(index).unwrap_or(&Value::Null))))
        .collect();
    match texts.as_slice() {
        [] => "<none>".to_owned(),
        [one, two, _, ..] => format!("{one}, {two} + {} more...", texts.len() - 2),
        few => few.join(", "),
    }
}

fn metric(spec: Object<'_>, status: Object<'_>) -> String {
    let source = match spec.text("/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = |field: &str| spec.printed(&format!("/{source}/target/{field}"));
    let current = |field: &str| status.printed(&format!("/{source}/current/{field}"));
    let known = |value: Option<String>| value.unwrap_or_else(|| "<unknown>".to_owned());
    let average = wanted("averageValue");
    match source {
        "pods" => format!(
            "{}/{}",
            known(current("averageValue")),
            average.unwrap_or_else(|| "0".to_owned())
        ),
        "external" | "object" => match average {
            Some(wanted) => format!("{}/{wanted} (avg)", known(current("averageValue"))),
            None => format!(
                "{}/{}",
                known(current("value")),
                wanted("value").unwrap_or_else(|| "0".to_owned())
            ),
        },
        _ => {
            let name = spec.text(&format!("/{source}/name"));
            if let Some(wanted) = average {
                return format!("{name}: {}/{wanted}", known(current("averageValue")));
            }
            let percent = |value: Option<String>| value.map(|value| value + "%");
            let wanted = percent(wanted("averageUtilization"));
            format!(
                "{name}: {}/{}",
                known(percent(current("averageUtilization"))),
                wanted.as_deref().unwrap_or("<auto>")
            )
        }
    }
}
