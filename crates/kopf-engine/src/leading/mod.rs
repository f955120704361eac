//! Several replicas of one operator: the effects of `kopf_core::leading` and `kopf_core::sharding`.
//!
//! ```text
//! Election, or Sharding ──(Leases)──► API server
//!      │ tenures
//!      ▼
//! Assignments ──► streams: which objects are handled here
//!      └─ Pass ─► handlers and patches: each checks that its tenure is valid
//! ```
//!
//! A replica without a Lease watches, indexes and reviews, and does nothing else. Handlers and patches
//! depend on a [`Pass`]; the check is in [`execution`](crate::execution) and in
//! [`patching`](crate::patching). When a Lease is released, its passes are waited for. When it is lost,
//! handlers that run may end, but nothing of them is written.

mod assignment;
mod election;
mod holdings;
mod leases;
mod reporting;
mod shards;
mod tenure;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kopf_client::Client;
use kopf_core::leading::Namesake;
use kopf_core::settings::{Leading, Replication, Settings};
use tokio_util::sync::CancellationToken;

pub(crate) use self::assignment::{Assignment, Assignments};
use self::election::Election;
use self::leases::Leases;
pub(crate) use self::leases::namespace;
use self::shards::Sharding;
pub(crate) use self::tenure::Pass;
use crate::clock::Clock;
use crate::metrics::Metrics;

/// Time limit for releasing a Lease. If it fails, the Lease expires.
const RELEASING: Duration = Duration::from_secs(3);

/// Errors of replicas that end the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The replicas cannot be told apart.
    #[error(transparent)]
    Namesake(#[from] Namesake),
    /// The namespace of the Leases is not known, because there are no credentials.
    #[error("the namespace of the Leases is not known")]
    Namespace(#[source] Box<kopf_client::Error>),
}

/// The parameters of one replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) settings: Arc<Settings>,
    pub(crate) identity: String,
    pub(crate) assignments: Assignments,
    pub(crate) clock: Clock,
}

/// Returns the first assignment of an operator with these settings.
pub(crate) fn first_assignment(leading: &Leading) -> Assignments {
    match leading.replication() {
        Replication::Single => Assignments::everything(),
        Replication::Elected => Assignments::none_of(1),
        Replication::Sharded(count) => Assignments::none_of(count),
    }
}

/// Keeps the metrics of the replica current. Never returns.
pub(crate) async fn measure(assignments: &Assignments, metrics: &Metrics) {
    loop {
        let current = assignments.current();
        metrics.leading(current.is_first());
        metrics.shards(current.len());
        assignments.changed_since(&current).await;
    }
}

/// Returns the identity of a replica. It is never used twice, not even by a restarted container.
pub(crate) fn replica_identity(operator: &str) -> String {
    let random = RandomState::new().hash_one(operator);
    format!("{operator}_{random:016x}")
}

/// Returns the identity in peerings: replicas are one peer.
pub(crate) fn peer_identity(operator: &str, leading: &Leading) -> String {
    match leading.replication() {
        Replication::Single => operator.to_owned(),
        Replication::Elected | Replication::Sharded(_) => {
            let namespace = leading.namespace.as_deref().unwrap_or_default();
            format!("replicas/{namespace}/{}", leading.name)
        }
    }
}

/// Takes part in the group until the operator exits, and leaves it when everything is written.
///
/// # Errors
///
/// Another process has the same identity, or the login has failed. Failing requests are repeated.
pub(crate) async fn run(
    client: Client,
    replica: Replica,
    halt: CancellationToken,
) -> Result<(), Error> {
    let found = halt
        .run_until_cancelled(Leases::new(&client, &replica.settings))
        .await;
    let leases = match found {
        None => return Ok(()),
        Some(leases) => leases.map_err(|error| Error::Namespace(Box::new(error)))?,
    };
    match replica.settings.leading.replication() {
        Replication::Single => {
            halt.cancelled().await;
            Ok(())
        }
        Replication::Elected => Election::new(leases, replica).run(halt).await,
        Replication::Sharded(count) => Sharding::new(leases, replica, count).run(halt).await,
    }
}
