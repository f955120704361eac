//! The Leases of a group of replicas, as found by their labels.

use kopf_core::leading::LeaseRecord;
pub(super) use kopf_core::leading::{GROUP_LABEL as GROUP, ROLE_LABEL as ROLE};
use kopf_core::sharding::{Listed, Role};
use serde_json::Value;

/// Label with the number of shards.
pub(super) const SHARDS: &str = "kopf.dev/shards";
/// Label with the index of the shard of a Lease.
pub(super) const SHARD: &str = "kopf.dev/shard";

/// The number of shards of an election: none of the groups with shards has it.
pub(super) const WITHOUT_SHARDS: u32 = 0;

/// Returns the label selector of the Leases of a group, for a URL.
pub(super) fn selector(name: &str) -> String {
    format!("{GROUP}%3D{name}")
}

/// Parses a listed Lease; `None` if it does not belong to a group. The leader of an election is a
/// member [without shards](WITHOUT_SHARDS).
pub(super) fn listed(item: &Value) -> Option<Listed> {
    let metadata = &item["metadata"];
    let label = |key: &str| metadata["labels"][key].as_str();
    let role = match label(ROLE)? {
        "member" | "leader" => Role::Member,
        "shard" => Role::Shard(label(SHARD)?.parse().ok()?),
        _ => return None,
    };
    Some(Listed {
        name: metadata["name"].as_str()?.to_owned(),
        role,
        shards: match label(SHARDS) {
            Some(count) => count.parse().ok()?,
            None => WITHOUT_SHARDS,
        },
        record: LeaseRecord::parse(item).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn listed_leases_are_classified_by_their_labels() {
        let lease = |labels: Value| {
            listed(&json!({
                "metadata": {"name": "x", "resourceVersion": "1", "labels": labels},
                "spec": {"holderIdentity": "a"},
            }))
        };
        let member = lease(json!({ROLE: "member", SHARDS: "4"})).unwrap();
        assert_eq!((member.role, member.shards), (Role::Member, 4));
        let shard = lease(json!({ROLE: "shard", SHARDS: "4", SHARD: "3"})).unwrap();
        assert_eq!(shard.role, Role::Shard(3));
        let leader = lease(json!({ROLE: "leader"})).unwrap();
        assert_eq!((leader.role, leader.shards), (Role::Member, WITHOUT_SHARDS));
        assert!(lease(json!({})).is_none());
        assert!(lease(json!({ROLE: "shard", SHARDS: "4", SHARD: "x"})).is_none());
    }
}
