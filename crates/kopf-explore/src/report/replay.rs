//! Files that repeat one finding: a scenario, a deviation, and how the operator is run.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use crate::deviation::Deviation;
use crate::oracle::Oracle;
use crate::scenario::{InvalidScenario, RawStep, Scenario, Step, parse_steps};

/// A file cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidReplay {
    /// It is not a file of a finding.
    #[error("{name} is not a file of a finding: {why}")]
    Form {
        /// The name of the file.
        name: String,
        /// The reason.
        why: String,
    },
    /// Its steps are invalid.
    #[error(transparent)]
    Steps(#[from] InvalidScenario),
}

/// How an operator is run, in a file of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setup {
    /// The folder in which the command is run, relative to that of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The command of the operator.
    pub command: Vec<String>,
    /// The manifests, as paths relative to the folder of the file.
    pub manifests: Vec<String>,
    /// The simulated kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulate: Option<String>,
    /// The time without changes after which the operator counts as settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<String>,
    /// Maximum time of one step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Maximum time to exit after SIGTERM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<String>,
    /// The number of processes of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u16>,
    /// Fields that are not compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Oracles that are turned off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Oracle>,
    /// Expressions that hold after every commit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub always: Vec<String>,
    /// Expressions that hold at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finally: Vec<String>,
}

/// A finding that can be repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// How the operator is run.
    pub setup: Setup,
    /// The steps of the user.
    pub scenario: Scenario,
    /// The deviation; `None` for an undisturbed run.
    pub deviation: Option<Deviation>,
    /// The complaints, for readers.
    pub effect: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    setup: Setup,
    steps: Vec<Spanned<RawStep>>,
    deviation: Option<Deviation>,
    #[serde(default)]
    effect: Vec<String>,
}

impl Replay {
    /// Parses a file.
    pub fn parse(name: &str, text: &str) -> Result<Self, InvalidReplay> {
        let raw: Raw = serde_saphyr::from_str(text).map_err(|error| InvalidReplay::Form {
            name: name.to_owned(),
            why: error.without_snippet().to_string(),
        })?;
        Ok(Self {
            setup: raw.setup,
            scenario: parse_steps(name, raw.steps)?,
            deviation: raw.deviation,
            effect: raw.effect,
        })
    }

    /// Returns the content of a file.
    pub fn to_yaml(&self) -> String {
        let steps: Vec<Value> = self.scenario.steps.iter().map(Step::to_value).collect();
        let value = json!({
            "effect": self.effect,
            "setup": self.setup,
            "steps": steps,
            "deviation": self.deviation,
        });
        // Values of JSON can always be written as YAML.
        let yaml = serde_saphyr::to_string(&value).unwrap_or_default();
        format!("# kopf explore --replay FILE [-- COMMAND]\n{yaml}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_written() {
        let text = "steps:\n- delete: {apiVersion: v1, kind: Pod, name: a}\n";
        let replay = Replay {
            setup: Setup {
                command: vec!["python3".to_owned(), "op.py".to_owned()],
                folder: Some("..".to_owned()),
                limit: Some("5s".to_owned()),
                grace: Some("2s".to_owned()),
                without: vec![Oracle::Modest],
                always: vec!["object != null".to_owned()],
                finally: vec!["true".to_owned()],
                ..Setup::default()
            },
            scenario: crate::scenario::parse("s", text).unwrap(),
            deviation: Some(Deviation::Overlap { step: 1 }),
            effect: vec!["it broke: \"badly\"".to_owned()],
        };
        let yaml = replay.to_yaml();
        assert_eq!(Replay::parse("f", &yaml).unwrap(), replay, "{yaml}");
    }

    #[test]
    fn scenarios_are_not_replays() {
        let error = Replay::parse("s.yaml", "steps: []\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("s.yaml is not a file of a finding"),
            "{error}"
        );
    }
}
