//! A Lease of another process, as this one has seen it.

use std::time::Duration;

use super::record::LeaseRecord;
use crate::moment::Moment;

/// The newest seen version of a Lease, and when it was renewed by the clock of this process.
///
/// The recorded duration counts only if the holder has written it: it was seen before and after a
/// renewal. A holder writes its own values with every renewal, so a value that another client has
/// edited is never seen twice.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    record: LeaseRecord,
    /// When the last renewal was seen.
    at: Moment,
    is_confirmed: bool,
}

impl Sighting {
    pub(crate) fn new(record: LeaseRecord, now: Moment) -> Self {
        Self {
            record,
            at: now,
            is_confirmed: false,
        }
    }

    /// Notes a version of the same Lease. Versions without a renewal, such as those with edited labels or
    /// durations, do not extend it.
    pub(crate) fn update(&mut self, record: LeaseRecord, now: Moment) {
        let before = &self.record;
        let is_same_holder = record.holder == before.holder;
        let is_renewal = match (&record.renewed, &before.renewed) {
            (None, None) => record.version != before.version,
            (newer, older) => newer != older,
        };
        if !is_same_holder || record.duration != before.duration {
            self.is_confirmed = false;
        } else if is_renewal {
            self.is_confirmed = true;
        }
        if !is_same_holder || is_renewal {
            self.at = now;
        }
        self.record = record;
    }

    pub(crate) fn record(&self) -> &LeaseRecord {
        &self.record
    }

    /// Returns the time at which the Lease is abandoned unless it is renewed. `own` is the duration of
    /// this process, which applies to durations that the holder has not confirmed.
    pub(crate) fn expires_at(&self, own: Duration) -> Moment {
        let recorded = self.record.duration;
        let is_usable = self.is_confirmed && !recorded.is_zero();
        self.at.after(if is_usable { recorded } else { own })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Duration = Duration::from_secs(15);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn record(renewed: &str, duration: Duration) -> LeaseRecord {
        LeaseRecord {
            version: String::new(),
            holder: "other".to_owned(),
            duration,
            acquired: None,
            renewed: Some(renewed.to_owned()),
            transitions: 0,
        }
    }

    #[test]
    fn durations_of_the_holder_count_when_it_has_renewed_with_them() {
        let long = Duration::from_secs(60);
        let mut lease = Sighting::new(record("1", long), at(0));
        assert_eq!(lease.expires_at(OWN), at(15), "it could be an edit");
        lease.update(record("2", long), at(2));
        assert_eq!(lease.expires_at(OWN), at(62));
        lease.update(record("3", long), at(4));
        assert_eq!(lease.expires_at(OWN), at(64));
        let mut short = Sighting::new(record("1", Duration::from_secs(5)), at(0));
        short.update(record("2", Duration::from_secs(5)), at(2));
        assert_eq!(short.expires_at(OWN), at(7));
    }

    #[test]
    fn edited_durations_count_as_the_own_one() {
        for edited in [HOUR, Duration::from_secs((1 << 31) - 1), Duration::ZERO] {
            let mut lease = Sighting::new(record("1", OWN), at(0));
            lease.update(record("2", OWN), at(2));
            lease.update(record("2", edited), at(3));
            assert_eq!(lease.expires_at(OWN), at(17), "the edit is not a renewal");
            // The holder renews between two reads, and the edit follows.
            lease.update(record("3", edited), at(4));
            lease.update(record("3", HOUR / 2), at(5));
            assert_eq!(lease.expires_at(OWN), at(19));
        }
        let mut lease = Sighting::new(record("1", OWN), at(0));
        lease.update(record("2", HOUR), at(2));
        assert_eq!(
            lease.expires_at(OWN),
            at(17),
            "an edit just after a renewal"
        );
    }

    #[test]
    fn edits_of_other_fields_do_not_extend_a_lease() {
        let mut lease = Sighting::new(record("1", OWN), at(0));
        lease.update(
            LeaseRecord {
                version: "2".to_owned(),
                ..record("1", OWN)
            },
            at(9),
        );
        assert_eq!(lease.expires_at(OWN), at(15));
    }

    #[test]
    fn without_times_every_version_is_a_renewal() {
        let version = |version: &str| LeaseRecord {
            version: version.to_owned(),
            renewed: None,
            ..record("", OWN)
        };
        let mut lease = Sighting::new(version("1"), at(0));
        lease.update(version("1"), at(5));
        assert_eq!(lease.expires_at(OWN), at(15));
        lease.update(version("2"), at(9));
        assert_eq!(lease.expires_at(OWN), at(24));
    }
}
