//! The operator stops writing.

use std::collections::BTreeMap;

use super::{Complaint, Evidence, Oracle};
use crate::journal::{Happening, Request};
use crate::object::is_housekeeping;
use crate::point::Site;
use crate::record::End;

/// Writes of one kind at the end of a run that are a hot loop, even if they change nothing.
const HOT: usize = 12;

pub(super) fn judge(evidence: Evidence<'_>) -> Option<Complaint> {
    let record = evidence.record;
    if let End::NotQuiet { step } = record.end {
        let late = last_writes(evidence);
        let summary = match late.iter().max_by_key(|(_, count)| **count) {
            Some((site, count)) => format!(
                "the operator does not stop writing after step {step}: {count} times {site} in the last {:?}",
                evidence.settle
            ),
            None => format!("objects do not stop changing after step {step}"),
        };
        return Some(Complaint::new(Oracle::Quiet, step, summary));
    }
    let usual = |site: &Site| {
        evidence
            .reference
            .writes
            .get(site)
            .copied()
            .unwrap_or_default()
    };
    let idle = idle_writes(evidence);
    let is_hot =
        |(step_site, count): &(&(usize, Site), &usize)| **count >= HOT + 2 * usual(&step_site.1);
    let ((step, site), count) = idle
        .iter()
        .filter(is_hot)
        .max_by_key(|(_, count)| **count)?;
    let summary =
        format!("the operator repeats the {site} in step {step} without an effect: {count} times");
    Some(Complaint::new(Oracle::Quiet, *step, summary))
}

fn counts(request: &Request) -> bool {
    request.actor.is_operator() && request.is_write() && !is_housekeeping(&request.key.resource)
}

/// Returns the writes of the operator in the last part of a run, with their numbers.
fn last_writes(evidence: Evidence<'_>) -> BTreeMap<Site, usize> {
    let journal = &evidence.record.journal;
    let mut sites = BTreeMap::new();
    let Some(end) = journal.entries.last().map(|entry| entry.at) else {
        return sites;
    };
    let late = journal
        .entries
        .iter()
        .rev()
        .take_while(|entry| entry.at + evidence.settle >= end);
    for entry in late {
        if let Happening::Request(request) = &entry.what
            && counts(request)
        {
            let site = Site::of(request, evidence.reference.mask.names());
            *sites.entry(site).or_default() += 1;
        }
    }
    sites
}

/// Returns the writes after the last change of each step, with their numbers.
fn idle_writes(evidence: Evidence<'_>) -> BTreeMap<(usize, Site), usize> {
    let mut sites = BTreeMap::new();
    for entry in &evidence.record.journal.entries {
        match &entry.what {
            Happening::Commit(commit) if !is_housekeeping(&commit.key.resource) => {
                sites.retain(|(step, _), _| *step != entry.step);
            }
            Happening::Request(request) if counts(request) => {
                let site = Site::of(request, evidence.reference.mask.names());
                *sites.entry((entry.step, site)).or_default() += 1;
            }
            _ => {}
        }
    }
    sites
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::journal::{Actor, Entry};
    use crate::object::ObjectKey;
    use crate::record::{Record, Reference};

    fn record(writes: u64) -> Record {
        let mut record = Record::default();
        for number in 0..writes {
            record.journal.push(Entry {
                at: Duration::from_millis(10 * number),
                step: 1,
                what: Happening::Request(Request {
                    number,
                    actor: Actor::Operator(1),
                    verb: "update".to_owned(),
                    key: ObjectKey::new("", "pods", Some("default"), "a"),
                    subresource: None,
                    is_dry: false,
                }),
            });
        }
        record
    }

    fn judged(record: &Record) -> Option<Complaint> {
        judge(Evidence {
            reference: &Reference::default(),
            record,
            deviation: None,
            settle: Duration::from_secs(1),
        })
    }

    #[test]
    fn writes_without_end_are_a_hot_loop() {
        assert_eq!(judged(&record(5)), None);
        let summary = judged(&record(200)).unwrap().summary;
        assert!(summary.contains("update of pods/a"), "{summary}");
        assert!(summary.contains("200 times"), "{summary}");
    }
}
