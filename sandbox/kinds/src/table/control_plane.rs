//! Rows of control plane and device kinds: `apiregistration`, `flowcontrol`, `resource`, and
//! component statuses.

use serde_json::{Value, json};

use super::object::Object;

pub(super) fn cells(kind: &str, object: Object<'_>) -> Option<Vec<Value>> {
    let text = |pointer: &str| json!(object.text(pointer));
    Some(match kind {
        "ComponentStatus" => {
            let healthy = condition(object, "/conditions", "Healthy");
            let part = |field: &str| json!(healthy.map_or("", |it| it.text(field)));
            let status = match healthy.map(|it| it.text("/status")) {
                Some("True") => "Healthy",
                Some(_) => "Unhealthy",
                None => "Unknown",
            };
            vec![
                object.name(),
                json!(status),
                part("/message"),
                part("/error"),
            ]
        }
        "APIService" => vec![
            object.name(),
            json!(service(object)),
            json!(availability(object)),
            object.age(),
        ],
        "FlowSchema" => {
            let dangling = condition(object, "/status/conditions", "Dangling");
            vec![
                object.name(),
                text("/spec/priorityLevelConfiguration/name"),
                json!(object.integer("/spec/matchingPrecedence")),
                json!(object.text_or("/spec/distinguisherMethod/type", "<none>")),
                object.age(),
                json!(dangling.map_or("?", |it| it.text("/status"))),
            ]
        }
        "PriorityLevelConfiguration" => {
            let number = |pointer: &str| match object.get(pointer) {
                Some(number) => number.clone(),
                None => json!("<none>"),
            };
            let queuing = "/spec/limited/limitResponse/queuing";
            vec![
                object.name(),
                text("/spec/type"),
                number("/spec/limited/nominalConcurrencyShares"),
                number(&format!("{queuing}/queues")),
                number(&format!("{queuing}/handSize")),
                number(&format!("{queuing}/queueLengthLimit")),
                object.age(),
            ]
        }
        "ResourceClaim" => vec![object.name(), json!(claim_state(object)), object.age()],
        "ResourceSlice" => vec![
            object.name(),
            text("/spec/nodeName"),
            text("/spec/driver"),
            text("/spec/pool/name"),
            object.age(),
        ],
        _ => return None,
    })
}

fn condition<'a>(object: Object<'a>, pointer: &str, kind: &str) -> Option<Object<'a>> {
    object.items(pointer).find(|it| it.text("/type") == kind)
}

fn service(object: Object<'_>) -> String {
    if !object.has("/spec/service") {
        return "Local".to_owned();
    }
    let part = |name: &str| object.text(name);
    format!(
        "{}/{}",
        part("/spec/service/namespace"),
        part("/spec/service/name")
    )
}

fn availability(object: Object<'_>) -> String {
    let Some(available) = condition(object, "/status/conditions", "Available") else {
        return "Unknown".to_owned();
    };
    let (status, reason) = (available.text("/status"), available.text("/reason"));
    if status == "True" || reason.is_empty() {
        status.to_owned()
    } else {
        format!("{status} ({reason})")
    }
}

fn claim_state(object: Object<'_>) -> String {
    let mut states = Vec::new();
    if object.is_deleted() {
        states.push("deleted");
    }
    if object.has("/status/allocation") {
        states.push("allocated");
        if object.size("/status/reservedFor") > 0 {
            states.push("reserved");
        }
    } else if !object.is_deleted() {
        states.push("pending");
    }
    states.join(",")
}
