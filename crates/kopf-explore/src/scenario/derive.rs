//! Scenarios from one object: it is created, changed, reverted and deleted.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Action, Scenario, Step, Target, variations};
use crate::object::Segment;

/// Maximum number of changed fields. Each adds a step to every run; all others are varied by
/// `respec`.
const MOST_CHANGES: usize = 3;

/// Returns a scenario from an object and the schema of its kind: `None` without `apiVersion`, `kind`
/// or name.
///
/// ```
/// use serde_json::json;
///
/// let object = json!({
///     "apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"}, "spec": {"size": 1},
/// });
/// let scenario = kopf_explore::scenario::derive(&object, None).unwrap();
/// let steps: Vec<String> = scenario.steps.iter().map(ToString::to_string).collect();
/// assert_eq!(steps, ["apply shop/a", "apply shop/a", "apply shop/a", "delete shop/a"]);
/// ```
pub fn derive(object: &Value, schema: Option<&Value>) -> Option<Scenario> {
    let target = Target::of(object)?;
    let mut steps = vec![Step::new(Action::Apply(object.clone()))];
    let mut seen = BTreeSet::new();
    let mut variations = variations(object, schema);
    // A change of a given field is what users do most.
    variations.sort_by_key(|variation| variation.path.find(object).is_none());
    for variation in variations {
        let Some(Segment::Field(name)) = variation.path.0.get(1) else {
            continue;
        };
        // Removals and items of lists come with `respec`.
        if variation.value.is_some() && seen.len() < MOST_CHANGES && seen.insert(name.clone()) {
            steps.push(Step::new(Action::Apply(variation.applied(object))));
        }
    }
    if steps.len() > 1 {
        steps.push(Step::new(Action::Apply(object.clone())));
    }
    steps.push(Step::new(Action::Delete(target)));
    Some(Scenario { steps })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn given_fields_are_changed_before_missing_ones() {
        let schema = json!({"properties": {"spec": {"properties": {
            "a": {"type": "boolean"}, "b": {"type": "boolean"}, "c": {"type": "boolean"},
            "storage": {"type": "string"},
        }}}});
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "x"}, "spec": {"storage": "1Gi"},
        });
        let scenario = derive(&object, Some(&schema)).unwrap();
        let changed = scenario.steps.iter().filter_map(|step| match &step.action {
            Action::Apply(object) => object.get("spec").cloned(),
            _ => None,
        });
        assert_eq!(
            changed.collect::<Vec<_>>(),
            [
                json!({"storage": "1Gi"}),
                json!({"storage": "2Gi"}),
                json!({"storage": "1Gi", "a": true}),
                json!({"storage": "1Gi", "b": true}),
                json!({"storage": "1Gi"}),
            ]
        );
    }
}
