//! The times and outcomes of calls of handlers in the model.

use std::time::Duration;

use jiff::Timestamp;
use kopf_core::object::Moment;
use kopf_core::outcome::{Outcome as Attempt, Verdict};

/// Returns the time of a moment.
pub(super) fn timestamp(now: Moment) -> Timestamp {
    let start = Timestamp::from_second(1_700_000_000).unwrap();
    start + now.since(Moment::default())
}

/// Returns the outcome of a call.
pub(super) fn attempt(succeeds: bool) -> Attempt {
    Attempt {
        is_final: succeeds,
        delay: (!succeeds).then_some(Duration::from_secs(10)),
        value: None,
        error: (!succeeds).then(|| "not yet".to_owned()),
        subrefs: std::collections::BTreeSet::new(),
        verdict: if succeeds {
            Verdict::Succeeded
        } else {
            Verdict::FailedTemporarily
        },
        details: None,
        attachment: None,
    }
}
