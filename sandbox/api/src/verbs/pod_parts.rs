//! The subresources `ephemeralcontainers` and `resize` of pods: parts of a pod with their own
//! rules.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::Call;

/// A part of a pod that has a subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPart {
    EphemeralContainers,
    Resources,
}

impl PodPart {
    /// Returns the part of a call.
    pub fn of(call: &Call) -> Option<Self> {
        if !call.kind.group.is_empty() || &*call.kind.plural != "pods" {
            return None;
        }
        match call.subresource.as_deref()? {
            "ephemeralcontainers" => Some(Self::EphemeralContainers),
            "resize" => Some(Self::Resources),
            _ => None,
        }
    }

    /// Returns the current pod with this part of the new one. Other changes are dropped, as by a real server.
    pub(crate) fn merged(self, current: &Value, new: &Value) -> Value {
        let mut merged = current.clone();
        match self {
            Self::EphemeralContainers => {
                let containers = new.pointer("/spec/ephemeralContainers").cloned();
                let spec = kopf_sandbox_schema::object::meta::entry(&mut merged, "spec");
                match containers {
                    Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers),
                    None => spec.remove("ephemeralContainers"),
                };
            }
            Self::Resources => {
                for field in ["/spec/containers", "/spec/initContainers"] {
                    take_resources(merged.pointer_mut(field), new.pointer(field));
                }
            }
        }
        merged
    }

    /// Returns the errors of this part.
    pub fn problems(self, object: &Value, old: &Value) -> Vec<FieldError> {
        match self {
            Self::EphemeralContainers => ephemeral_problems(object, old),
            Self::Resources => {
                let others = |pod: &Value| -> Vec<Value> {
                    containers(Some(pod), "/spec/containers")
                        .iter()
                        .map(without_sizes)
                        .collect()
                };
                let same = others(object) == others(old);
                let why = "only cpu and memory resources are mutable";
                (!same)
                    .then(|| FieldError::forbidden("spec", why))
                    .into_iter()
                    .collect()
            }
        }
    }
}

fn containers<'a>(pod: Option<&'a Value>, field: &str) -> &'a [Value] {
    let list = pod
        .and_then(|pod| pod.pointer(field))
        .and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn take_resources(merged: Option<&mut Value>, new: Option<&Value>) {
    let new = new.and_then(Value::as_array);
    let merged = merged.and_then(Value::as_array_mut);
    for container in merged.into_iter().flatten() {
        let same = new.into_iter().flatten();
        let Some(same) = same
            .into_iter()
            .find(|other| other["name"] == container["name"])
        else {
            continue;
        };
        for field in ["resources", "resizePolicy"] {
            if let (Some(value), Some(container)) = (same.get(field), container.as_object_mut()) {
                container.insert(field.to_owned(), value.clone());
            }
        }
    }
}

/// Returns a container without CPU and memory.
fn without_sizes(container: &Value) -> Value {
    let mut container = container.clone();
    for field in ["/resources/requests", "/resources/limits"] {
        let amounts = container.pointer_mut(field).and_then(Value::as_object_mut);
        if let Some(amounts) = amounts {
            amounts.retain(|resource, _| resource != "cpu" && resource != "memory");
        }
    }
    let empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    if let Some(resources) = container
        .get_mut("resources")
        .and_then(Value::as_object_mut)
    {
        resources.retain(|_, value| !empty(value));
    }
    container
}

fn ephemeral_problems(object: &Value, old: &Value) -> Vec<FieldError> {
    const FIELD: &str = "/spec/ephemeralContainers";
    let mut errors = Vec::new();
    let new = containers(Some(object), FIELD);
    for before in containers(Some(old), FIELD) {
        let name = before["name"].as_str().unwrap_or_default();
        let why = match new
            .iter()
            .find(|container| container["name"] == before["name"])
        {
            Some(container) if container == before => continue,
            Some(_) => format!("existing ephemeral containers {name:?} may not be changed\n"),
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
        };
        errors.push(FieldError::forbidden("spec.ephemeralContainers", &why));
    }
    let others = containers(Some(object), "/spec/containers");
    for (position, container) in new.iter().enumerate() {
        let path = format!("spec.ephemeralContainers[{position}]");
        for field in ["name", "image"] {
            if container[field].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("{path}.{field}"), ""));
            }
        }
        let earlier = new.iter().take(position).chain(others);
        if earlier
            .into_iter()
            .any(|other| other["name"] == container["name"])
        {
            errors.push(FieldError::duplicate(
                format!("{path}.name"),
                &container["name"],
            ));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({ "spec": { "nodeName": "n", "containers": [
            { "name": "a", "image": "i", "resources": { "requests": { "cpu": "1" } } },
        ]}})
    }

    #[test]
    fn only_the_part_of_the_subresource_changes() {
        let mut new = pod();
        new["spec"]["nodeName"] = json!("other");
        new["spec"]["containers"][0]["image"] = json!("other");
        new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
        let mut expected = pod();
        expected["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
        assert_eq!(PodPart::Resources.merged(&pod(), &new), expected);
        assert!(PodPart::Resources.problems(&expected, &pod()).is_empty());
        expected["spec"]["containers"][0]["resources"]["requests"]["disk"] = json!("2");
        assert_eq!(PodPart::Resources.problems(&expected, &pod()).len(), 1);
    }

    #[test]
    fn ephemeral_containers_are_only_added() {
        let with = |containers: Value| {
            let mut pod = pod();
            pod["spec"]["ephemeralContainers"] = containers;
            pod
        };
        let part = PodPart::EphemeralContainers;
        let one = with(json!([{ "name": "d", "image": "i" }]));
        assert!(part.problems(&one, &pod()).is_empty());
        assert_eq!(part.problems(&pod(), &one).len(), 1);
        assert_eq!(
            part.problems(&with(json!([{ "name": "d", "image": "x" }])), &one)
                .len(),
            1
        );
        assert_eq!(
            part.problems(&with(json!([{ "name": "a", "image": "i" }])), &pod())
                .len(),
            1
        );
    }
}
