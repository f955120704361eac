//! Runtime classes of pods: they must exist, and add overhead and scheduling fields to the pod.

use serde_json::{Value, json};

use super::{Rejected, child, text};

const OTHER_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Returns the name of the runtime class of a pod.
pub fn name(pod: &Value) -> Option<&str> {
    pod.pointer("/spec/runtimeClassName")?.as_str()
}

/// Sets the fields of a pod by its runtime class. `class` is `None` if it does not exist.
pub fn apply(pod: &mut Value, class: Option<&Value>) -> Result<(), Rejected> {
    let Some(name) = name(pod) else {
        return match pod.pointer("/spec/overhead") {
            Some(Value::Object(overhead)) if !overhead.is_empty() => Err(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                    .to_owned(),
            ),
            _ => Ok(()),
        };
    };
    let Some(class) = class else {
        return Err(format!("pod rejected: RuntimeClass {name:?} not found"));
    };
    set_overhead(pod, class)?;
    set_scheduling(pod, class)
}

fn set_overhead(pod: &mut Value, class: &Value) -> Result<(), Rejected> {
    let Some(overhead) = class.pointer("/overhead/podFixed").cloned() else {
        return Ok(());
    };
    match pod.pointer("/spec/overhead") {
        Some(Value::Object(given)) if !given.is_empty() && json!(given) != overhead => {
            Err(OTHER_OVERHEAD.to_owned())
        }
        _ => {
            if let Some(spec) = child(pod, "spec") {
                spec.insert("overhead".to_owned(), overhead);
            }
            Ok(())
        }
    }
}

fn set_scheduling(pod: &mut Value, class: &Value) -> Result<(), Rejected> {
    let Some(scheduling) = class.get("scheduling").filter(|it| it.is_object()) else {
        return Ok(());
    };
    let Some(spec) = child(pod, "spec") else {
        return Ok(());
    };
    let wanted = scheduling.get("nodeSelector").and_then(Value::as_object);
    if let Some(wanted) = wanted {
        let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        for (key, value) in wanted {
            match selector.get(key) {
                Some(given) if given != value => {
                    return Err(format!(
                        "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                        text(value, ""),
                        text(given, ""),
                    ));
                }
                _ => selector[key] = value.clone(),
            }
        }
    }
    let more = scheduling.get("tolerations").and_then(Value::as_array);
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if let (Some(more), Some(tolerations)) = (more, tolerations.as_array_mut()) {
        for toleration in more {
            if !tolerations.contains(toleration) {
                tolerations.push(toleration.clone());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduling_of_the_class_is_added() {
        let class = json!({ "scheduling": {
            "nodeSelector": { "a": "1" }, "tolerations": [{ "key": "k" }],
        } });
        let mut pod = json!({ "spec": { "runtimeClassName": "c", "nodeSelector": { "b": "2" } } });
        apply(&mut pod, Some(&class)).unwrap();
        assert_eq!(pod["spec"]["nodeSelector"], json!({ "a": "1", "b": "2" }));
        assert_eq!(pod["spec"]["tolerations"], json!([{ "key": "k" }]));
        let mut other =
            json!({ "spec": { "runtimeClassName": "c", "nodeSelector": { "a": "2" } } });
        assert!(
            apply(&mut other, Some(&class))
                .unwrap_err()
                .starts_with("conflict")
        );
    }

    #[test]
    fn overhead_needs_a_class_that_defines_it() {
        let class = json!({ "overhead": { "podFixed": { "cpu": "1" } } });
        let mut pod = json!({ "spec": { "runtimeClassName": "c" } });
        apply(&mut pod, Some(&class)).unwrap();
        assert_eq!(pod["spec"]["overhead"], json!({ "cpu": "1" }));
        assert!(apply(&mut pod, None).is_err());
        let mut without = json!({ "spec": { "overhead": { "cpu": "1" } } });
        assert!(apply(&mut without, None).is_err());
    }
}
