//! Operators that take part in peering.

use jiff::Timestamp;
use kopf_client::discovery::Groups;
use kopf_core::peering::{CLUSTER_PLURAL, GROUPS, NAMESPACED_PLURAL, Peer};
use kopf_core::timestamp;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Paging, Query};
use crate::time::ago;

/// Upper bound for the number of peers in memory.
const LIMIT: usize = 1_000;

/// An operator in a peering object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Participant {
    /// The peering object, such as `default` or `ns/default`.
    pub(crate) peering: String,
    /// The namespace of the peering object; `None` for the whole cluster.
    pub(crate) namespace: Option<String>,
    /// The record.
    pub(crate) peer: Peer,
}

impl Participant {
    /// Returns `true` if the operator may handle objects of a namespace, by its peering.
    pub(crate) fn serves(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }

    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        !self.peer.is_dead(now)
    }

    /// Returns one line for the terminal.
    pub(crate) fn line(&self, now: Timestamp) -> String {
        let state = if self.is_alive(now) { "alive" } else { "dead" };
        format!(
            "{} in {}: priority {}, {state}, seen {}",
            self.peer.identity,
            self.peering,
            self.peer.priority,
            ago(now, self.peer.lastseen)
        )
    }

    pub(crate) fn to_value(&self, now: Timestamp) -> Value {
        json!({
            "identity": self.peer.identity,
            "peering": self.peering,
            "priority": self.peer.priority,
            "lastseen": timestamp::format(self.peer.lastseen),
            "alive": self.is_alive(now),
        })
    }
}

impl Cluster {
    /// Lists all operators that take part in peering. Returns none on errors, as peering is
    /// optional.
    pub(crate) async fn peers(&self) -> Vec<Participant> {
        let groups = Groups::Only(GROUPS.map(str::to_owned).into());
        let Ok(scan) = self.scan(&groups).await else {
            return Vec::new();
        };
        let now = Self::now();
        let mut peers = Vec::new();
        for resource in &scan.resources {
            if ![CLUSTER_PLURAL, NAMESPACED_PLURAL].contains(&resource.plural.as_str()) {
                continue;
            }
            let query = Query {
                resource,
                namespace: None,
                labels: None,
                fields: None,
            };
            let listed = self.pages(query, |page| {
                for body in page {
                    let namespace = body.namespace();
                    let status = body.status();
                    let name = body.name().unwrap_or_default();
                    peers.extend(participants(name, namespace, status, now));
                }
                if peers.len() < LIMIT {
                    Paging::Continue
                } else {
                    Paging::Stop
                }
            });
            // A forbidden listing is the same as no peering.
            let _ = listed.await;
        }
        peers.truncate(LIMIT);
        peers
    }
}

fn participants<'a>(
    name: &'a str,
    namespace: Option<&'a str>,
    status: &'a Value,
    now: Timestamp,
) -> impl Iterator<Item = Participant> + 'a {
    let records = status.as_object().into_iter().flatten();
    records.filter_map(move |(identity, record)| {
        Some(Participant {
            peering: match namespace {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name.to_owned(),
            },
            namespace: namespace.map(str::to_owned),
            peer: Peer::read(identity, record, now)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_participants_and_garbage_does_not() {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let status = json!({
            "op@host": {"priority": 5, "lifetime": 60, "lastseen": "2026-01-02T03:04:00Z"},
            "old@host": {"lifetime": 1, "lastseen": "2026-01-02T03:00:00Z"},
            "garbage": 5,
        });
        let found: Vec<_> = participants("default", Some("ns"), &status, now).collect();
        assert_eq!(found.len(), 2);
        assert!(!found[0].is_alive(now) && found[1].is_alive(now));
        assert_eq!(
            found[1].line(now),
            "op@host in ns/default: priority 5, alive, seen 5 s ago"
        );
        assert!(found[1].serves(Some("ns")) && !found[1].serves(Some("other")));
        let cluster: Vec<_> = participants("default", None, &status, now).collect();
        assert!(cluster[0].serves(Some("ns")) && cluster[0].serves(None));
    }
}
