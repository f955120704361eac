//! Reports: text, JSON, JUnit, an HTML page, and files to replay findings.

mod junit;
mod page;
mod replay;
mod text;

use std::io;
use std::path::Path;

use serde_json::{Value, json};

pub use self::junit::junit;
pub use self::page::{journal_lines, page};
pub use self::replay::{InvalidReplay, Replay, Setup};
pub use self::text::{Line, Mark, lines_of, summary};

use crate::outcome::{Finding, Outcome};

/// Returns an outcome as JSON.
pub fn json(outcome: &Outcome) -> Value {
    let findings: Vec<Value> = outcome
        .findings
        .iter()
        .map(|finding| {
            let mut value = serde_json::to_value(finding).unwrap_or_default();
            if let Some(map) = value.as_object_mut() {
                let steps = finding.scenario.steps.iter();
                let steps: Vec<Value> = steps.map(crate::scenario::Step::to_value).collect();
                map.insert("description".to_owned(), json!(title(finding)));
                map.insert("steps".to_owned(), Value::Array(steps));
            }
            value
        })
        .collect();
    let mut value = serde_json::to_value(outcome).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.insert("findings".to_owned(), Value::Array(findings));
        map.insert("elapsed".to_owned(), json!(outcome.elapsed.as_secs_f64()));
    }
    value
}

/// Returns what was injected, in one sentence.
pub fn title(finding: &Finding) -> String {
    match &finding.deviation {
        Some(deviation) => deviation.to_string(),
        None => "nothing goes wrong: the undisturbed run itself".to_owned(),
    }
}

/// Writes all files of a report into a folder: `index.html`, `report.json`, and for each finding a
/// file to replay it and the output of the operator.
pub fn write(folder: &Path, outcome: &Outcome, replays: &[Replay]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("index.html"), page(outcome))?;
    std::fs::write(folder.join("report.json"), format!("{:#}\n", json(outcome)))?;
    for (finding, replay) in outcome.findings.iter().zip(replays) {
        let name = format!("finding-{}", finding.number);
        std::fs::write(folder.join(format!("{name}.yaml")), replay.to_yaml())?;
        std::fs::write(folder.join(format!("{name}.log")), &finding.output)?;
    }
    Ok(())
}
