//! Leases of replicated operators: a held Lease shows a running operator.

use std::time::Duration;

use jiff::Timestamp;
use kopf_core::leading::{LeaseRecord, ROLE_LABEL};
use kopf_core::resource::Resource;
use kopf_core::timestamp;

use crate::cluster::{Cluster, Paging, Query};
use crate::time::ago;

/// Upper bound for the number of Leases in memory.
const LIMIT: usize = 1_000;

/// A Lease that is held by a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    /// The Lease, such as `ns/name`.
    lease: String,
    /// The identity of the replica.
    holder: String,
    renewed: Timestamp,
    duration: Duration,
}

impl Leader {
    /// Returns `true` if the Lease has not expired by the clock of this machine.
    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        let end = self.renewed.checked_add(self.duration);
        end.is_ok_and(|end| now < end)
    }

    /// Returns one line for the terminal.
    pub(crate) fn line(&self, now: Timestamp) -> String {
        format!(
            "{} holds the Lease {}, renewed {}",
            self.holder,
            self.lease,
            ago(now, self.renewed)
        )
    }
}

impl Cluster {
    /// Lists the held Leases of operators. Returns none on errors: Leases are optional, and often
    /// not readable.
    pub(crate) async fn leaders(&self) -> Vec<Leader> {
        let resource = leases();
        let query = Query {
            resource: &resource,
            namespace: None,
            labels: Some(ROLE_LABEL),
            fields: None,
        };
        let mut leaders = Vec::new();
        let listed = self.pages(query, |page| {
            for body in page {
                let (namespace, name) = (body.namespace(), body.name());
                let lease = format!(
                    "{}/{}",
                    namespace.unwrap_or_default(),
                    name.unwrap_or_default()
                );
                let record = LeaseRecord::parse(body.value()).ok();
                leaders.extend(record.and_then(|record| leader(lease, record)));
            }
            if leaders.len() < LIMIT {
                Paging::Continue
            } else {
                Paging::Stop
            }
        });
        let _ = listed.await;
        leaders.truncate(LIMIT);
        leaders
    }
}

fn leader(lease: String, record: LeaseRecord) -> Option<Leader> {
    if record.is_released() {
        return None;
    }
    Some(Leader {
        lease,
        holder: record.holder,
        renewed: timestamp::parse(record.renewed.as_deref()?).ok()?,
        duration: record.duration,
    })
}

fn leases() -> Resource {
    Resource {
        group: "coordination.k8s.io".to_owned(),
        version: "v1".to_owned(),
        plural: "leases".to_owned(),
        kind: "Lease".to_owned(),
        namespaced: true,
        ..Resource::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn held_leases_are_alive_until_they_expire() {
        let lease = |holder: &str| {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15,
                              "renewTime": "2026-01-02T03:04:00.000000Z"});
            let object = json!({"metadata": {"resourceVersion": "1"}, "spec": spec});
            leader("ns/op".to_owned(), LeaseRecord::parse(&object).unwrap())
        };
        let moment = |text: &str| timestamp::parse(text).unwrap();
        let now = moment("2026-01-02T03:04:05Z");
        let held = lease("op@host").unwrap();
        assert!(held.is_alive(now) && !held.is_alive(moment("2026-01-02T03:04:15Z")));
        assert_eq!(
            held.line(now),
            "op@host holds the Lease ns/op, renewed 5 s ago"
        );
        assert_eq!(lease(""), None);
    }
}
