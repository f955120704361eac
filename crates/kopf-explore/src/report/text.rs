//! The report for terminals.

use std::fmt::Write as _;

use serde_json::Value;

use super::title;
use crate::mask::Difference;
use crate::outcome::{Finding, Outcome};

/// Fields of one object in a report.
const MOST_FIELDS: usize = 8;
/// Maximum length of a value in a report.
const LONGEST_VALUE: usize = 100;
/// Other deviations that are named.
const MOST_OTHERS: usize = 3;

/// The emphasis of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// A heading.
    Heading,
    /// A normal line.
    Plain,
    /// A value of the reference.
    Expected,
    /// A value that was found instead.
    Found,
    /// A less important line.
    Faint,
}

/// A line of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The emphasis.
    pub mark: Mark,
    /// The text.
    pub text: String,
}

fn line(mark: Mark, text: impl Into<String>) -> Line {
    Line {
        mark,
        text: text.into(),
    }
}

/// Returns the paragraph of a finding.
pub fn lines_of(finding: &Finding) -> Vec<Line> {
    let oracles: Vec<&str> = finding
        .complaints
        .iter()
        .map(|complaint| complaint.oracle.name())
        .collect();
    let mut lines = vec![
        line(
            Mark::Heading,
            format!("Finding {}: not {}", finding.number, oracles.join(", not ")),
        ),
        line(Mark::Plain, format!("  If {},", title(finding))),
    ];
    for complaint in &finding.complaints {
        lines.push(line(Mark::Plain, format!("  then {}", complaint.summary)));
        for difference in &complaint.differences {
            lines.extend(lines_of_difference(difference));
        }
        for detail in &complaint.details {
            lines.push(line(Mark::Faint, format!("    | {detail}")));
        }
    }
    let steps: Vec<String> = finding
        .scenario
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| format!("{}. {step}", index + 1))
        .collect();
    lines.push(line(Mark::Faint, format!("  Steps: {}", steps.join("  "))));
    if !finding.also.is_empty() {
        let others = finding.also.iter().take(MOST_OTHERS);
        let count = finding.also.len();
        lines.push(line(
            Mark::Faint,
            format!(
                "  Same effect of {count} other {}:",
                plural(count, "deviation")
            ),
        ));
        lines.extend(others.map(|other| line(Mark::Faint, format!("    {other}"))));
    }
    lines
}

fn lines_of_difference(difference: &Difference) -> Vec<Line> {
    match difference {
        Difference::Missing { key } => {
            vec![line(Mark::Expected, format!("    - {key} is missing"))]
        }
        Difference::Unexpected {
            key,
            is_terminating,
        } => {
            let text = if *is_terminating {
                format!("    + {key} is still being deleted")
            } else {
                format!("    + {key} exists, but should not")
            };
            vec![line(Mark::Found, text)]
        }
        Difference::Changed { key, fields } => {
            let mut lines = Vec::new();
            for field in fields.iter().take(MOST_FIELDS) {
                let path = &field.path;
                lines.push(line(
                    Mark::Expected,
                    format!("    - {key} {path}: {}", value(field.expected.as_ref())),
                ));
                lines.push(line(
                    Mark::Found,
                    format!("    + {key} {path}: {}", value(field.found.as_ref())),
                ));
            }
            if fields.len() > MOST_FIELDS {
                let more = fields.len() - MOST_FIELDS;
                lines.push(line(Mark::Faint, format!("      and {more} more fields")));
            }
            lines
        }
    }
}

/// Returns a value in one line, shortened.
pub(super) fn value(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "(absent)".to_owned();
    };
    let text = value.to_string();
    if text.chars().count() <= LONGEST_VALUE {
        return text;
    }
    text.chars().take(LONGEST_VALUE).chain(['…']).collect()
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        noun.to_owned()
    } else {
        format!("{noun}s")
    }
}

/// Returns the last lines of a report: numbers of plans and findings.
pub fn summary(outcome: &Outcome) -> Vec<Line> {
    let mut lines = Vec::new();
    for unstable in &outcome.unstable {
        let complaints = unstable.complaints.iter();
        let complaints: Vec<&str> = complaints.map(|one| one.summary.as_str()).collect();
        lines.push(line(
            Mark::Faint,
            format!(
                "Not repeatable: if {}, then {}",
                unstable.deviation,
                complaints.join("; ")
            ),
        ));
    }
    for failed in &outcome.failed {
        lines.push(line(
            Mark::Faint,
            format!("Not run: if {}: {}", failed.deviation, failed.why),
        ));
    }
    let findings = outcome.findings.len();
    let count = match findings {
        0 => "nothing found".to_owned(),
        count => format!("{count} {}", plural(count, "finding")),
    };
    let seconds = outcome.elapsed.as_secs();
    let mut text = format!(
        "{count} in {} of {} {} ({} {}, {seconds} s)",
        outcome.done,
        outcome.plans,
        plural(outcome.plans, "plan"),
        outcome.runs,
        plural(outcome.runs, "run"),
    );
    // Writing to a string cannot fail.
    if outcome.not_reached > 0 {
        let _ = write!(text, ", {} not reached", outcome.not_reached);
    }
    if !outcome.failed.is_empty() {
        let _ = write!(text, ", {} not run", outcome.failed.len());
    }
    if outcome.not_admitted > 0 {
        let _ = write!(text, ", {} not admitted", outcome.not_admitted);
    }
    if outcome.is_partial {
        text.push_str(", stopped early");
    }
    lines.push(line(Mark::Heading, text));
    if let Some(unmet) = &outcome.unmet {
        lines.push(line(Mark::Faint, format!("note: {unmet}")));
    }
    lines
}
