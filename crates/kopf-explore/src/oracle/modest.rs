//! The operator does not send a multiple of the requests, or invalid ones.

use super::{Complaint, Evidence, Oracle};
use crate::object::is_housekeeping;
use crate::point::Site;
use crate::record::WINDOW;

/// The rate of requests may be this multiple of that of the undisturbed run, and some more.
const TIMES: usize = 5;
const MORE: usize = 100;

/// Codes of requests that no disturbance makes necessary: malformed, forbidden, invalid.
const WRONG: [u16; 6] = [400, 401, 403, 405, 415, 422];

pub(super) fn judge(evidence: Evidence<'_>) -> Vec<Complaint> {
    let (record, reference) = (evidence.record, evidence.reference);
    let mut complaints = Vec::new();
    let requests: Vec<_> = record
        .journal
        .operator_requests()
        .filter(|(_, request)| !is_housekeeping(&request.key.resource))
        .collect();
    let (peak, step) = record.journal.peak(WINDOW);
    if peak > reference.peak * TIMES + MORE {
        let summary = format!(
            "the operator sent {peak} requests within {WINDOW:?}; the undisturbed run has at most {}",
            reference.peak
        );
        complaints.push(Complaint::new(Oracle::Modest, step, summary));
    }
    let responses = record.journal.responses();
    for (step, request) in requests {
        let Some(response) = responses.get(&request.number) else {
            continue;
        };
        // The code of a JSON patch whose precondition fails, as it does if the patch is sent again.
        let is_conflict = request.verb == "patch" && response.code == 422;
        if response.is_injected || !WRONG.contains(&response.code) || is_conflict {
            continue;
        }
        let site = Site::of(request, reference.mask.names()).to_string();
        if !reference.failures.contains(&(site.clone(), response.code)) {
            let summary = format!("the {site} was rejected with {}", response.code);
            complaints.push(Complaint::new(Oracle::Modest, step, summary));
            break;
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::journal::{Actor, Entry, Happening, Request, Response};
    use crate::object::ObjectKey;
    use crate::record::{Record, Reference};

    fn judged(requests: u64, apart: Duration) -> Vec<Complaint> {
        let mut record = Record::default();
        for number in 0..requests {
            record.journal.push(Entry {
                at: apart * u32::try_from(number).unwrap(),
                step: 2,
                what: Happening::Request(Request {
                    number,
                    actor: Actor::Operator(1),
                    verb: "get".to_owned(),
                    key: ObjectKey::new("", "pods", Some("default"), "a"),
                    subresource: None,
                    is_dry: false,
                }),
            });
        }
        judge(Evidence {
            reference: &Reference::default(),
            record: &record,
            deviation: None,
            settle: Duration::ZERO,
        })
    }

    #[test]
    fn invalid_requests_count_and_not_conflicts_of_patches() {
        let judged = |verb: &str| {
            let mut record = Record::default();
            let request = Happening::Request(Request {
                number: 1,
                actor: Actor::Operator(1),
                verb: verb.to_owned(),
                key: ObjectKey::new("", "pods", Some("default"), "a"),
                subresource: None,
                is_dry: false,
            });
            let response = Happening::Response(Response {
                number: 1,
                code: 422,
                is_injected: false,
            });
            for what in [request, response] {
                record.journal.push(Entry {
                    at: Duration::ZERO,
                    step: 1,
                    what,
                });
            }
            judge(Evidence {
                reference: &Reference::default(),
                record: &record,
                deviation: None,
                settle: Duration::ZERO,
            })
        };
        assert_eq!(judged("create").len(), 1);
        assert!(judged("patch").is_empty());
    }

    #[test]
    fn rate_counts_and_not_the_number() {
        assert!(judged(1000, Duration::from_secs(1)).is_empty());
        let storm = judged(1000, Duration::from_millis(20));
        assert_eq!(storm.len(), 1);
        assert!(
            storm[0].summary.contains("501 requests within 10s"),
            "{storm:?}"
        );
    }
}
