//! Invariants of the user: CEL expressions that hold after every commit, or at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kopf_sandbox_schema::cel::{Budget, CelValue, Expression, Variables, dynamic};
use serde_json::{Value, json};

use crate::journal::{Commit, Journal};
use crate::object::{ObjectKey, is_housekeeping};

/// The cost of one evaluation, in the units of the API server's own limit.
const COST: u64 = 100_000_000;
/// Maximum number of entries in `history`.
const MOST_HISTORY: usize = 10_000;

/// The moment of an invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// After every commit.
    Always,
    /// At the end of the run.
    Finally,
}

/// An expression that must be true.
///
/// | variable | value |
/// |---|---|
/// | `object` | the committed object; null if it is deleted, and at the end |
/// | `objects` | all objects of the manifests, the scenario and the operator |
/// | `history` | all commits so far: `change`, `resource`, `namespace`, `name`, `actor` |
///
/// ```
/// use kopf_explore::invariant::{Invariant, Moment};
///
/// let few = Invariant::parse(Moment::Always, "objects.filter(o, o.kind == 'Pod').size() <= 3")?;
/// assert!(Invariant::parse(Moment::Finally, "objects.size(").is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct Invariant {
    moment: Moment,
    text: String,
    expression: Expression,
}

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The expression.
    pub text: String,
    /// The step, from 1; 0 before the first one.
    pub step: usize,
    /// The commit, or the end of the run.
    pub place: String,
    /// The error of the evaluation, if it failed.
    pub error: Option<String>,
}

impl Invariant {
    /// Parses an invariant.
    pub fn parse(moment: Moment, text: &str) -> Result<Self, String> {
        let expression =
            Expression::parse(text).map_err(|why| format!("invalid expression {text:?}: {why}"))?;
        Ok(Self {
            moment,
            text: text.to_owned(),
            expression,
        })
    }

    /// Returns the moment.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// Returns the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first violation in a run.
    pub fn check(
        &self,
        journal: &Journal,
        initial: &BTreeMap<ObjectKey, Arc<Value>>,
    ) -> Option<Violation> {
        let mut world = World {
            objects: initial.clone(),
            history: Vec::new(),
        };
        let mut last = 0;
        for (step, commit) in journal.commits() {
            if is_housekeeping(&commit.key.resource) {
                continue;
            }
            last = step;
            world.add(commit);
            if self.moment == Moment::Always
                && let Err(error) = self.evaluate(&world, commit.after.as_deref())
            {
                let place = format!("revision {} of {}", commit.revision, commit.key);
                return Some(self.violation(step, place, error));
            }
        }
        if self.moment == Moment::Finally
            && let Err(error) = self.evaluate(&world, None)
        {
            return Some(self.violation(last, "the end".to_owned(), error));
        }
        None
    }

    fn violation(&self, step: usize, place: String, error: Option<String>) -> Violation {
        Violation {
            text: self.text.clone(),
            step,
            place,
            error,
        }
    }

    /// Fails if the expression is not true, with the error of its evaluation, if any.
    fn evaluate(&self, world: &World, object: Option<&Value>) -> Result<(), Option<String>> {
        let mut variables = Variables::default();
        variables.add("object", object.map_or(CelValue::Null, dynamic));
        if self.expression.uses("objects") {
            let objects = world.objects.values().map(|object| Value::clone(object));
            variables.add("objects", dynamic(&Value::Array(objects.collect())));
        }
        if self.expression.uses("history") {
            variables.add("history", dynamic(&Value::Array(world.history.clone())));
        }
        let mut budget = Budget::of(COST);
        match self.expression.boolean_within(&variables, &mut budget) {
            Ok(true) => Ok(()),
            Ok(false) => Err(None),
            Err(error) => Err(Some(error)),
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Evaluates a condition over the current objects.
pub fn holds(
    condition: &Expression,
    object: Option<&Value>,
    objects: &BTreeMap<ObjectKey, Arc<Value>>,
) -> Result<bool, String> {
    let mut variables = Variables::default();
    variables.add("object", object.map_or(CelValue::Null, dynamic));
    if condition.uses("objects") {
        let objects = objects.values().map(|object| Value::clone(object));
        variables.add("objects", dynamic(&Value::Array(objects.collect())));
    }
    condition.boolean_within(&variables, &mut Budget::of(COST))
}

struct World {
    objects: BTreeMap<ObjectKey, Arc<Value>>,
    history: Vec<Value>,
}

impl World {
    fn add(&mut self, commit: &Commit) {
        match &commit.after {
            Some(object) => {
                self.objects.insert(commit.key.clone(), Arc::clone(object));
            }
            None => {
                self.objects.remove(&commit.key);
            }
        }
        if self.history.len() < MOST_HISTORY {
            self.history.push(json!({
                "change": commit.change, "resource": commit.key.resource,
                "namespace": commit.key.namespace, "name": commit.key.name,
                "actor": if commit.actor.is_operator() { "operator" } else { "other" },
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::journal::{Actor, Change, Entry, Happening};

    fn journal(sizes: &[i64]) -> Journal {
        let mut journal = Journal::default();
        for (index, size) in sizes.iter().enumerate() {
            let object = json!({"kind": "ConfigMap", "data": {"size": size}});
            journal.push(Entry {
                at: Duration::ZERO,
                step: index + 1,
                what: Happening::Commit(Commit {
                    revision: index as u64,
                    change: Change::Changed,
                    key: ObjectKey::new("", "configmaps", Some("default"), "a"),
                    actor: Actor::Operator(1),
                    before: None,
                    after: Some(Arc::new(object)),
                }),
            });
        }
        journal
    }

    #[test]
    fn always_is_checked_after_each_commit() {
        let invariant = Invariant::parse(Moment::Always, "object.data.size < 3").unwrap();
        assert_eq!(invariant.check(&journal(&[1, 2]), &BTreeMap::new()), None);
        let violation = invariant.check(&journal(&[1, 5, 2]), &BTreeMap::new());
        assert_eq!(violation.unwrap().step, 2);
    }

    #[test]
    fn finally_sees_all_objects_and_the_history() {
        let text = "objects.size() == 1 && history.size() == 2";
        let invariant = Invariant::parse(Moment::Finally, text).unwrap();
        assert_eq!(invariant.check(&journal(&[1, 5]), &BTreeMap::new()), None);
        assert!(invariant.check(&journal(&[1]), &BTreeMap::new()).is_some());
    }

    #[test]
    fn failed_evaluations_are_violations() {
        let invariant = Invariant::parse(Moment::Always, "object.spec.x == 1").unwrap();
        let violation = invariant.check(&journal(&[1]), &BTreeMap::new()).unwrap();
        assert!(violation.error.is_some());
    }
}
