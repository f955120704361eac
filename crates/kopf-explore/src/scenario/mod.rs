//! Scenarios: what the user does while the operator runs.

mod derive;
mod parse;
mod variation;

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

pub use self::derive::derive;
pub use self::parse::{InvalidScenario, RawStep, parse, parse_steps};
pub use self::variation::{Variation, variations};

/// A reference to an object by its API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `v1`, `apps/v1`, `example.com/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; `default` for namespaced kinds if it is absent.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Target {
    /// Returns the reference to a whole object: `None` without `apiVersion`, `kind` or name.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |pointer: &str| object.pointer(pointer)?.as_str().map(str::to_owned);
        Some(Self {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }

    fn to_value(&self) -> Value {
        let mut value = json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name,
        });
        if let (Some(namespace), Some(map)) = (&self.namespace, value.as_object_mut()) {
            map.insert("namespace".to_owned(), json!(namespace));
        }
        value
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind.to_lowercase())?;
        if let Some(namespace) = self.namespace.as_deref().filter(|name| *name != "default") {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// An action of the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Creates or changes an object by a server-side apply of the whole manifest.
    Apply(Value),
    /// Changes an object by a JSON merge patch.
    Patch {
        /// The object.
        target: Target,
        /// The patch.
        merge: Value,
        /// The subresource, such as `status`.
        subresource: Option<String>,
    },
    /// Deletes an object.
    Delete(Target),
    /// Waits until a CEL expression is true.
    Wait {
        /// The expression, over `object` and `objects`.
        condition: String,
        /// The value of `object`; null while it does not exist.
        target: Option<Target>,
    },
    /// Waits.
    Sleep(Duration),
    /// Asks the operator to exit, and starts it again.
    Restart,
    /// Makes simulated workloads fail, or recover.
    Simulate {
        /// The failure; `None` ends all failures.
        behaviour: Option<String>,
        /// The prefix of the names of failing objects.
        name_prefix: String,
        /// The namespace of failing objects; all if it is absent.
        namespace: Option<String>,
    },
}

/// One step of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The action.
    pub action: Action,
    /// `true` if the next step waits until the operator has nothing more to do.
    pub settle: bool,
}

impl Step {
    /// Returns a step after which the operator settles.
    pub fn new(action: Action) -> Self {
        let settle = !matches!(action, Action::Wait { .. } | Action::Sleep(_));
        Self { action, settle }
    }

    /// Returns the step in the form of a scenario file.
    pub fn to_value(&self) -> Value {
        let mut value = match &self.action {
            Action::Apply(object) => json!({ "apply": object }),
            Action::Patch {
                target,
                merge,
                subresource,
            } => {
                let mut patch = target.to_value();
                if let Some(map) = patch.as_object_mut() {
                    map.insert("merge".to_owned(), merge.clone());
                    if let Some(name) = subresource {
                        map.insert("subresource".to_owned(), json!(name));
                    }
                }
                json!({ "patch": patch })
            }
            Action::Delete(target) => json!({ "delete": target.to_value() }),
            Action::Wait { condition, target } => {
                let mut wait = json!({ "for": condition });
                if let (Some(target), Some(map)) = (target, wait.as_object_mut()) {
                    map.insert("object".to_owned(), target.to_value());
                }
                json!({ "wait": wait })
            }
            Action::Sleep(time) => json!({ "sleep": format!("{}ms", time.as_millis()) }),
            Action::Restart => json!({ "restart": "operator" }),
            Action::Simulate {
                behaviour,
                name_prefix,
                namespace,
            } => {
                let behaviour = behaviour.as_deref().unwrap_or("recover");
                let mut simulate = json!({ "behaviour": behaviour, "namePrefix": name_prefix });
                if let (Some(namespace), Some(map)) = (namespace, simulate.as_object_mut()) {
                    map.insert("namespace".to_owned(), json!(namespace));
                }
                json!({ "simulate": simulate })
            }
        };
        let usual = Self::new(self.action.clone()).settle;
        if let Some(map) = value.as_object_mut().filter(|_| usual != self.settle) {
            map.insert("settle".to_owned(), json!(self.settle));
        }
        value
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Apply(object) => match Target::of(object) {
                Some(target) => write!(f, "apply {target}"),
                None => f.write_str("apply"),
            },
            Action::Patch { target, .. } => write!(f, "patch {target}"),
            Action::Delete(target) => write!(f, "delete {target}"),
            Action::Wait { condition, .. } => write!(f, "wait for {condition}"),
            Action::Sleep(time) => write!(f, "sleep {time:?}"),
            Action::Restart => f.write_str("restart the operator"),
            Action::Simulate { behaviour, .. } => {
                write!(f, "simulate {}", behaviour.as_deref().unwrap_or("recover"))
            }
        }
    }
}

/// The steps of the user.
///
/// ```
/// let text = "
/// steps:
/// - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: '1'}}
/// - patch: {apiVersion: v1, kind: ConfigMap, name: a, merge: {data: {size: '2'}}}
/// - delete: {apiVersion: v1, kind: ConfigMap, name: a}
/// ";
/// let scenario = kopf_explore::scenario::parse("scenario.yaml", text)?;
/// assert_eq!(scenario.steps[2].to_string(), "delete configmap/a");
/// # Ok::<(), kopf_explore::scenario::InvalidScenario>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenario {
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Returns the scenario without one step, counted from 1.
    #[must_use]
    pub fn without(&self, step: usize) -> Self {
        let mut steps = self.steps.clone();
        if step >= 1 && step <= steps.len() {
            steps.remove(step - 1);
        }
        Self { steps }
    }

    /// Returns the first steps.
    #[must_use]
    pub fn until(&self, step: usize) -> Self {
        Self {
            steps: self.steps.iter().take(step).cloned().collect(),
        }
    }

    /// Returns the first of the steps that are done without a pause before this one, counted from 1.
    pub fn first_of_group(&self, step: usize) -> usize {
        let settles = |step: usize| {
            let index = step.checked_sub(1);
            let step = index.and_then(|index| self.steps.get(index));
            step.is_none_or(|step| step.settle)
        };
        (1..step)
            .rev()
            .take_while(|step| !settles(*step))
            .last()
            .unwrap_or(step)
    }

    /// Returns the first applied object of a kind outside of the built-in groups, or any first one.
    pub fn subject(&self) -> Option<&Value> {
        let applied = || {
            self.steps.iter().filter_map(|step| match &step.action {
                Action::Apply(object) => Some(object),
                _ => None,
            })
        };
        let is_custom = |object: &&Value| {
            let version = object.get("apiVersion").and_then(Value::as_str);
            version.is_some_and(|version| {
                version.split('/').next().is_some_and(|group| {
                    version.contains('/') && group.contains('.') && !group.ends_with(".k8s.io")
                })
            })
        };
        applied().find(is_custom).or_else(|| applied().next())
    }

    /// Returns the scenario in the form of a file.
    pub fn to_yaml(&self) -> String {
        let steps: Vec<Value> = self.steps.iter().map(Step::to_value).collect();
        // Values of JSON can always be written as YAML.
        serde_saphyr::to_string(&json!({ "steps": steps })).unwrap_or_default()
    }
}
