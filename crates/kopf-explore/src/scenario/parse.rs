//! Scenario files: YAML with errors that name the line and the field.

use std::path::Path;
use std::time::Duration;

use kopf_sandbox::simulation::Behaviour;
use kopf_sandbox_schema::cel::Expression;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{Action, Scenario, Step, Target};

/// A scenario cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid scenario {source_name}{place}: {why}")]
pub struct InvalidScenario {
    source_name: String,
    place: String,
    why: String,
}

/// A step as written in a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawStep {
    apply: Option<Value>,
    patch: Option<RawPatch>,
    delete: Option<RawTarget>,
    wait: Option<RawWait>,
    sleep: Option<Value>,
    restart: Option<String>,
    simulate: Option<RawSimulate>,
    settle: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawTarget {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawPatch {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    merge: Value,
    subresource: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWait {
    #[serde(rename = "for")]
    condition: String,
    object: Option<RawTarget>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawSimulate {
    behaviour: String,
    #[serde(default)]
    name_prefix: String,
    namespace: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    steps: Vec<Spanned<RawStep>>,
}

impl From<RawTarget> for Target {
    fn from(raw: RawTarget) -> Self {
        Self {
            api_version: raw.api_version,
            kind: raw.kind,
            namespace: raw.namespace,
            name: raw.name,
        }
    }
}

/// Parses a scenario. `name` is that of the file, for messages and for files beside it.
pub fn parse(name: &str, text: &str) -> Result<Scenario, InvalidScenario> {
    let raw: RawScenario = serde_saphyr::from_str(text).map_err(|error| InvalidScenario {
        source_name: name.to_owned(),
        place: String::new(),
        why: error.without_snippet().to_string(),
    })?;
    parse_steps(name, raw.steps)
}

/// Checks the steps of a file.
pub fn parse_steps(name: &str, raw: Vec<Spanned<RawStep>>) -> Result<Scenario, InvalidScenario> {
    let mut steps = Vec::new();
    for (index, step) in raw.into_iter().enumerate() {
        let line = step.referenced.line();
        let checked = check(name, step.value).map_err(|why| InvalidScenario {
            source_name: name.to_owned(),
            place: format!(", line {line}, step {}", index + 1),
            why,
        })?;
        steps.push(checked);
    }
    if steps.is_empty() {
        return Err(InvalidScenario {
            source_name: name.to_owned(),
            place: String::new(),
            why: "steps is empty: expected at least one step, such as apply".to_owned(),
        });
    }
    Ok(Scenario { steps })
}

fn check(source: &str, raw: RawStep) -> Result<Step, String> {
    let settle = raw.settle;
    let mut actions = Vec::new();
    if let Some(value) = raw.apply {
        actions.push(Action::Apply(manifest(source, value)?));
    }
    if let Some(patch) = raw.patch {
        if !patch.merge.is_object() {
            return Err("patch.merge is not a map: expected the changed fields".to_owned());
        }
        actions.push(Action::Patch {
            target: Target {
                api_version: patch.api_version,
                kind: patch.kind,
                namespace: patch.namespace,
                name: patch.name,
            },
            merge: patch.merge,
            subresource: patch.subresource,
        });
    }
    actions.extend(raw.delete.map(|target| Action::Delete(target.into())));
    if let Some(wait) = raw.wait {
        Expression::parse(&wait.condition).map_err(|why| format!("wait.for: {why}"))?;
        actions.push(Action::Wait {
            condition: wait.condition,
            target: wait.object.map(Into::into),
        });
    }
    if let Some(time) = raw.sleep {
        actions.push(Action::Sleep(
            duration(&time).map_err(|why| format!("sleep: {why}"))?,
        ));
    }
    match raw.restart.as_deref() {
        None => {}
        Some("operator") => actions.push(Action::Restart),
        Some(other) => {
            return Err(format!(
                "restart: unknown value {other:?}: must be operator"
            ));
        }
    }
    actions.extend(raw.simulate.map(simulate).transpose()?);
    only_one(actions, settle)
}

/// Returns the step of the only action.
fn only_one(actions: Vec<Action>, settle: Option<bool>) -> Result<Step, String> {
    let mut actions = actions.into_iter();
    match (actions.next(), actions.next()) {
        (Some(action), None) => {
            let step = Step::new(action);
            let settle = settle.unwrap_or(step.settle);
            Ok(Step { settle, ..step })
        }
        (first, _) => {
            let found = if first.is_some() {
                "several actions"
            } else {
                "no action"
            };
            Err(format!(
                "{found}: a step has exactly one of apply, patch, delete, wait, sleep, restart, simulate"
            ))
        }
    }
}

fn simulate(raw: RawSimulate) -> Result<Action, String> {
    let behaviour = (raw.behaviour != "recover").then_some(raw.behaviour);
    if let Some(name) = &behaviour {
        name.parse::<Behaviour>()
            .map_err(|why| format!("simulate.behaviour: {why}, or recover"))?;
    }
    Ok(Action::Simulate {
        behaviour,
        name_prefix: raw.name_prefix,
        namespace: raw.namespace,
    })
}

/// Returns an object, or reads it from a file beside the scenario.
fn manifest(source: &str, value: Value) -> Result<Value, String> {
    let value = match value {
        Value::String(path) => {
            let folder = Path::new(source).parent().unwrap_or_else(|| Path::new(""));
            let path = folder.join(path);
            let text = std::fs::read_to_string(&path)
                .map_err(|why| format!("apply: cannot read {}: {why}", path.display()))?;
            serde_saphyr::from_str(&text)
                .map_err(|why| format!("apply: {}: {why}", path.display()))?
        }
        value => value,
    };
    if Target::of(&value).is_none() {
        return Err(
            "apply: not an object: expected a map with apiVersion, kind and metadata.name, or a file"
                .to_owned(),
        );
    }
    Ok(value)
}

/// Parses `500ms`, `3s`, `2m`, or a number of seconds.
fn duration(value: &Value) -> Result<Duration, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => other.to_string(),
    };
    crate::duration::parse_duration(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse("s.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn all_actions_are_parsed_and_printed() {
        let text = "steps:\n\
            - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n\
            - patch: {apiVersion: v1, kind: ConfigMap, name: a, merge: {data: {x: y}}}\n\
            - wait: {for: 'objects.size() > 1'}\n\
            - sleep: 500ms\n\
            - restart: operator\n\
            - simulate: {behaviour: crash-loop, namePrefix: web}\n\
            - simulate: {behaviour: recover}\n\
            - delete: {apiVersion: v1, kind: ConfigMap, name: a}\n  settle: false\n";
        let scenario = parse("s.yaml", text).unwrap();
        assert_eq!(scenario.steps.len(), 8);
        assert!(!scenario.steps[7].settle);
        assert_eq!(
            scenario.steps[3].action,
            Action::Sleep(Duration::from_millis(500))
        );
        assert_eq!(parse("s.yaml", &scenario.to_yaml()).unwrap(), scenario);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let text = error("steps:\n- sleep: 1s\n- apply: {kind: Pod}\n");
        assert!(text.contains("line 3, step 2: apply"), "{text}");
        let text = error("steps:\n- sleep: often\n");
        assert!(text.contains("line 2") && text.contains("sleep"), "{text}");
        let text = error("steps:\n- aply: {}\n");
        assert!(text.contains("aply") && text.contains("line 2"), "{text}");
        let text = error("steps:\n- wait: {for: '1 +'}\n");
        assert!(text.contains("wait.for"), "{text}");
        let text = error("steps:\n- sleep: 1s\n  restart: operator\n");
        assert!(text.contains("several actions"), "{text}");
        let text = error("steps:\n- simulate: {behaviour: explode}\n");
        assert!(text.contains("explode"), "{text}");
        assert!(error("steps: []\n").contains("empty"));
        assert!(error("- a\n").contains("invalid scenario s.yaml"));
    }
}
