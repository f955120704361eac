//! Priorities of pods, by their priority class or by the default one.

use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::{Rejected, child, text};

/// Sets the priority of a new pod. `classes` are all priority classes.
pub fn apply(pod: &mut Value, classes: &[Value]) -> Result<(), Rejected> {
    let name = text(pod, "/spec/priorityClassName").to_owned();
    let class = if name.is_empty() {
        default_class(classes)
    } else {
        let found = classes.iter().find(|class| meta::name(class) == name);
        Some(found.ok_or_else(|| format!("no PriorityClass with name {name} was found"))?)
    };
    let priority = class.map_or(0, value);
    let policy = class.map_or("PreemptLowerPriority", |class| {
        text(class, "/preemptionPolicy")
    });
    let Some(spec) = child(pod, "spec") else {
        return Ok(());
    };
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != priority
    {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), json!(meta::name(class)));
    }
    spec.insert("priority".to_owned(), json!(priority));
    if policy.is_empty() {
        return Ok(());
    }
    match spec.get("preemptionPolicy").and_then(Value::as_str) {
        Some(given) if given != policy => Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )),
        _ => {
            spec.insert("preemptionPolicy".to_owned(), json!(policy));
            Ok(())
        }
    }
}

/// Checks that a priority class is the only default one. `classes` are the stored ones.
pub fn check_class(class: &Value, classes: &[Value]) -> Result<(), Rejected> {
    if class.get("globalDefault") != Some(&json!(true)) {
        return Ok(());
    }
    match default_class(classes) {
        Some(other) if meta::name(other) != meta::name(class) => Err(format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            meta::name(other)
        )),
        _ => Ok(()),
    }
}

fn default_class(classes: &[Value]) -> Option<&Value> {
    let defaults = classes
        .iter()
        .filter(|class| class.get("globalDefault") == Some(&json!(true)));
    defaults.min_by_key(|class| value(class))
}

fn value(class: &Value) -> i64 {
    class.get("value").and_then(Value::as_i64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes() -> Vec<Value> {
        vec![
            json!({ "metadata": { "name": "high" }, "value": 1000, "preemptionPolicy": "Never" }),
            json!({ "metadata": { "name": "usual" }, "value": 5, "globalDefault": true,
                    "preemptionPolicy": "PreemptLowerPriority" }),
        ]
    }

    #[test]
    fn priority_is_set_by_the_class() {
        let mut pod = json!({ "spec": { "priorityClassName": "high" } });
        apply(&mut pod, &classes()).unwrap();
        assert_eq!(
            (&pod["spec"]["priority"], &pod["spec"]["preemptionPolicy"]),
            (&json!(1000), &json!("Never"))
        );
        let mut unnamed = json!({ "spec": {} });
        apply(&mut unnamed, &classes()).unwrap();
        assert_eq!(unnamed["spec"]["priorityClassName"], "usual");
        assert_eq!(unnamed["spec"]["priority"], 5);
        let mut bare = json!({});
        apply(&mut bare, &[]).unwrap();
        assert_eq!(
            bare["spec"],
            json!({ "priority": 0, "preemptionPolicy": "PreemptLowerPriority" })
        );
    }

    #[test]
    fn unknown_classes_and_other_numbers_are_rejected() {
        assert!(
            apply(
                &mut json!({ "spec": { "priorityClassName": "none" } }),
                &classes()
            )
            .is_err()
        );
        assert!(apply(&mut json!({ "spec": { "priority": 7 } }), &classes()).is_err());
    }

    #[test]
    fn only_one_class_is_the_default() {
        let second = json!({ "metadata": { "name": "second" }, "globalDefault": true });
        assert!(check_class(&second, &classes()).is_err());
        assert!(check_class(&classes()[1], &classes()).is_ok());
    }
}
