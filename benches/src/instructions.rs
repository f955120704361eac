//! Instructions and allocations of an operator per object, event, review and call, counted by Valgrind.
//!
//! Unlike times, they do not depend on the load of the machine. Each figure is the difference of two runs with
//! different counts, so it contains neither the start nor the exit of the process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::operators::sibling;
use crate::report::{Report, Target, print_status};
use crate::servers::root;

/// Growth over the recorded figures that fails the run.
const TOLERANCE: f64 = 1.03;

/// The scenarios, with the counts of both runs.
const SCENARIOS: [(&str, u32, u32); 8] = [
    ("created", 320, 960),
    ("subhandlers", 320, 640),
    ("unchanged", 640, 3200),
    ("other-shard", 640, 3200),
    ("resumed", 640, 3200),
    ("review", 500, 2500),
    ("timer", 640, 3200),
    ("raw", 320, 960),
];

/// The figures of one unit of a scenario.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Figures {
    instructions: u64,
    allocations: u64,
    bytes: u64,
}

impl Figures {
    /// Returns what exceeds the recorded figures.
    fn excesses(self, recorded: Self) -> Vec<String> {
        let rows = [
            ("instructions", self.instructions, recorded.instructions),
            ("allocations", self.allocations, recorded.allocations),
            ("allocated bytes", self.bytes, recorded.bytes),
        ];
        let above = rows.into_iter().filter(|(_, found, recorded)| {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let (found, recorded) = (*found as f64, *recorded as f64);
            found > recorded * TOLERANCE
        });
        above
            .map(|(what, found, recorded)| format!("{found} {what} instead of {recorded}"))
            .collect()
    }
}

/// Measures all scenarios. Fails if a figure exceeds the recorded one, unless they are recorded now.
pub(crate) async fn measure(report: &mut Report, record: bool) -> Result<()> {
    let recorded = if record { BTreeMap::new() } else { recorded()? };
    let mut measured = BTreeMap::new();
    let mut excesses = Vec::new();
    for (scenario, less, more) in SCENARIOS {
        print_status(format_args!("Instructions: {scenario}…"));
        let figures = figures(scenario, less, more).await?;
        add(report, scenario, figures);
        if let Some(recorded) = recorded.get(scenario) {
            let found = figures.excesses(*recorded).into_iter();
            excesses.extend(found.map(|excess| format!("{scenario}: {excess}")));
        }
        measured.insert(scenario, figures);
    }
    if record {
        let text = serde_json::to_string_pretty(&measured)?;
        return std::fs::write(path(), text + "\n").context("cannot write the figures");
    }
    ensure!(
        excesses.is_empty(),
        "more than {TOLERANCE} times the recorded figures: {}",
        excesses.join("; ")
    );
    Ok(())
}

fn path() -> PathBuf {
    root().join("benches/instructions.json")
}

fn recorded() -> Result<BTreeMap<String, Figures>> {
    let path = path();
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("invalid {}", path.display()))
}

fn add(report: &mut Report, scenario: &str, figures: Figures) {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rows = [
        ("instructions", figures.instructions as f64 / 1000.0, "k"),
        ("allocations", figures.allocations as f64, ""),
        ("allocated bytes", figures.bytes as f64, ""),
    ];
    for (what, value, unit) in rows {
        report.add(format!("{what}, {scenario}"), value, unit, Target::None);
    }
}

async fn figures(scenario: &str, less: u32, more: u32) -> Result<Figures> {
    let small = totals(scenario, less).await?;
    let large = totals(scenario, more).await?;
    let units = u64::from(more - less);
    let each = |large: u64, small: u64| {
        let difference = large.checked_sub(small);
        let difference = difference.context("the longer run has the smaller figure")?;
        Ok::<_, anyhow::Error>(difference / units)
    };
    Ok(Figures {
        instructions: each(large.instructions, small.instructions)?,
        allocations: each(large.allocations, small.allocations)?,
        bytes: each(large.bytes, small.bytes)?,
    })
}

/// Returns the figures of a whole process.
async fn totals(scenario: &str, count: u32) -> Result<Figures> {
    let instructions = valgrind("callgrind", scenario, count).await?;
    let memory = valgrind("dhat", scenario, count).await?;
    let total = after(&memory, "Total:")?;
    Ok(Figures {
        instructions: number(after(&instructions, "Collected :")?)?,
        allocations: number(after(total, "bytes in")?)?,
        bytes: number(total)?,
    })
}

/// Runs a scenario in Valgrind, and returns the summary.
async fn valgrind(tool: &str, scenario: &str, count: u32) -> Result<String> {
    let output = Command::new("valgrind")
        .arg(format!("--tool={tool}"))
        .arg(format!("--{tool}-out-file=/dev/null"))
        .arg(sibling("bench-counted")?)
        .args([scenario, &count.to_string()])
        .kill_on_drop(true)
        .output();
    let output = output
        .await
        .context("cannot run valgrind: is it installed?")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("{scenario} has failed under {tool}:\n{text}");
    }
    Ok(text)
}

fn after<'a>(text: &'a str, mark: &str) -> Result<&'a str> {
    let rest = text.split_once(mark).map(|(_, rest)| rest);
    rest.with_context(|| format!("there is no {mark:?} in the output of valgrind:\n{text}"))
}

/// Returns the number at the beginning of a text, with or without commas.
fn number(text: &str) -> Result<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',');
    let digits = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    let digits = digits.replace(',', "");
    digits
        .parse()
        .with_context(|| format!("{digits:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_valgrind_are_read() {
        let summary = "==1== Total:     1,234,567 bytes in 8,901 blocks\n==1== At t-gmax: 0";
        let total = after(summary, "Total:").unwrap();
        assert_eq!(number(total).unwrap(), 1_234_567);
        assert_eq!(number(after(total, "bytes in").unwrap()).unwrap(), 8_901);
        let collected = after("==1== Collected : 2210455\n", "Collected :").unwrap();
        assert_eq!(number(collected).unwrap(), 2_210_455);
        assert!(after(summary, "Collected").is_err());
        assert!(number(" many").is_err());
    }

    #[test]
    fn growth_beyond_the_tolerance_is_an_excess() {
        let figures = |instructions| Figures {
            instructions,
            allocations: 10,
            bytes: 100,
        };
        assert!(figures(1030).excesses(figures(1000)).is_empty());
        let excesses = figures(1031).excesses(figures(1000));
        assert_eq!(excesses, ["1031 instructions instead of 1000"]);
    }
}
