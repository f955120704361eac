//! The process does not exit by itself, panic, or ignore SIGTERM.

use super::{Complaint, Evidence, Oracle};
use crate::deviation::{Deviation, Family};
use crate::journal::{Happening, ProcessChange};
use crate::record::End;

/// Texts of panics, which are bugs whatever the deviation.
const PANICS: [&str; 5] = [
    "panicked at ",
    "panic: ",
    "fatal error: ",
    "SIGSEGV",
    "Segmentation fault",
];
/// Texts of unhandled errors, which are usual if requests fail.
const UNHANDLED: [&str; 2] = ["Traceback (most recent call last)", "Exception in thread"];
/// Lines of output in a report.
const LINES: usize = 12;

pub(super) fn judge(evidence: Evidence<'_>) -> Vec<Complaint> {
    let record = evidence.record;
    let mut complaints = Vec::new();
    match &record.end {
        End::Exited { step, status } => {
            let summary = format!("the operator exited by itself in step {step}: {status}");
            let mut complaint = Complaint::new(Oracle::Alive, *step, summary);
            complaint.details = last_lines(&record.output);
            complaints.push(complaint);
        }
        End::NoRequests => {
            let summary = "the operator sent no requests";
            let mut complaint = Complaint::new(Oracle::Alive, 0, summary);
            complaint.details = last_lines(&record.output);
            complaints.push(complaint);
        }
        End::NotStarted { why } => {
            let summary = format!("the operator cannot be started again: {why}");
            let mut complaint = Complaint::new(Oracle::Alive, 0, summary);
            complaint.details = last_lines(&record.output);
            complaints.push(complaint);
        }
        End::NotReady { step } => {
            let summary = format!("the operator did not watch its resources again in step {step}");
            let mut complaint = Complaint::new(Oracle::Alive, *step, summary);
            complaint.details = last_lines(&record.output);
            complaints.push(complaint);
        }
        _ => {}
    }
    let stuck = record.journal.entries.iter().find(|entry| {
        matches!(
            entry.what,
            Happening::Process {
                change: ProcessChange::Stuck,
                ..
            }
        )
    });
    if let Some(entry) = stuck {
        let summary = "the operator did not exit after SIGTERM within the grace period";
        complaints.push(Complaint::new(Oracle::Alive, entry.step, summary));
    }
    if complaints.is_empty() {
        complaints.extend(panic(evidence));
    }
    complaints
}

/// Finds the text of a panic that the undisturbed runs do not have.
fn panic(evidence: Evidence<'_>) -> Option<Complaint> {
    let (output, known) = (&evidence.record.output, &evidence.reference.output);
    let is_respec = evidence
        .deviation
        .is_some_and(|deviation| deviation.family() == Family::Respec);
    let unhandled: &[&str] = if is_respec { &UNHANDLED } else { &[] };
    let marks = PANICS.iter().chain(unhandled);
    let mark = marks
        .copied()
        .find(|mark| output.contains(mark) && !known.contains(mark))?;
    let step = evidence.deviation.map_or(0, Deviation::step);
    let summary = format!(
        "the output has an unhandled error that the undisturbed run has not: {}",
        mark.trim()
    );
    let mut complaint = Complaint::new(Oracle::Alive, step, summary);
    let start = output.find(mark).unwrap_or_default();
    let lines = output.get(start..).unwrap_or_default().lines();
    complaint.details = lines.take(LINES).map(str::to_owned).collect();
    Some(complaint)
}

fn last_lines(output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().collect();
    let start = lines.len().saturating_sub(LINES);
    let last = lines.get(start..).unwrap_or_default();
    last.iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::{Record, Reference};

    fn judged(output: &str, known: &str) -> Vec<Complaint> {
        let reference = Reference {
            output: known.to_owned(),
            ..Reference::default()
        };
        let record = Record {
            output: output.to_owned(),
            ..Record::default()
        };
        judge(Evidence {
            reference: &reference,
            record: &record,
            deviation: None,
            settle: Duration::ZERO,
        })
    }

    #[test]
    fn panics_are_reported_unless_they_are_usual() {
        let panic = "ok\nthread 'main' panicked at src/main.rs:1\n";
        assert_eq!(judged(panic, "").len(), 1);
        assert!(judged(panic, panic).is_empty());
        assert!(judged("Traceback (most recent call last)\n", "").is_empty());
    }
}
