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
    for variation in variations(object, schema) {
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
