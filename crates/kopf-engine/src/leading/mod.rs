//! Replicas of one operator: the effects of `kopf_core::leading` and `kopf_core::sharding`.
//!
//! ```text
//! Election, or Sharding ──(Leases)──► API server
//!      │ tenures
//!      ▼
//! Assignments ──► streams: selection of objects
//!      └─ Pass ─► handlers and patches: checks of the tenure
//! ```
//!
//! A replica without a Lease only watches, indexes and reviews. Handlers and patches require a
//! [`Pass`], which is checked in [`execution`](crate::execution) and [`patching`](crate::patching).
//! A Lease is released after its passes are dropped. While a Lease is not renewed in time, handlers
//! and patches wait, and daemons are stopped before others can take it. When it is lost, running handlers may finish, but their results are not written.

mod assignment;
mod claiming;
mod election;
mod held_shards;
mod keeper;
mod leases;
mod listing;
mod members;
mod reporting;
mod shards;
mod share;
mod tenure;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kopf_client::Client;
use kopf_core::leading::DuplicateIdentity;
use kopf_core::settings::{Leading, Replication, Settings};
use tokio_util::sync::CancellationToken;

pub(crate) use self::assignment::{Assignment, Assignments};
use self::election::Election;
use self::leases::Leases;
pub(crate) use self::leases::namespace;
pub(crate) use self::members::Members;
use self::shards::Sharding;
pub(crate) use self::tenure::{Pass, Tenure};
use crate::clock::Clock;
use crate::invocation::OperatorContext;
use crate::metrics::Metrics;

/// Time limit for releasing a Lease. If it fails, the Lease expires.
const RELEASING: Duration = Duration::from_secs(3);

/// Maximum number of concurrent requests for Leases.
const CONCURRENT_WRITES: usize = 32;

/// Errors of replicas that end the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The identities of replicas are not unique.
    #[error(transparent)]
    DuplicateIdentity(#[from] DuplicateIdentity),
    /// The namespace of the Leases is unknown because there are no credentials.
    #[error("cannot determine the namespace of the Leases")]
    Namespace(#[source] Box<kopf_client::Error>),
}

/// The parameters of one replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) settings: Arc<Settings>,
    pub(crate) identity: String,
    pub(crate) assignments: Assignments,
    pub(crate) members: Members,
    /// `true` if the replicas manage webhook configurations: they must see which of them are alive.
    pub(crate) serves_webhooks: bool,
    pub(crate) clock: Clock,
}

/// Returns the initial assignment of an operator with these settings.
pub(crate) fn first_assignment(leading: &Leading) -> Assignments {
    match leading.replication() {
        Replication::Single => Assignments::everything(),
        Replication::Elected => Assignments::none_of(1),
        Replication::Sharded(count) => Assignments::none_of(count),
    }
}

/// Updates the metrics of the replica. Never returns.
pub(crate) async fn measure(replica: Replication, assignments: &Assignments, metrics: &Metrics) {
    loop {
        let current = assignments.current();
        metrics.leading(current.is_first());
        if let Replication::Sharded(_) = replica {
            metrics.shards(current.len());
        }
        assignments.changed_since(&current).await;
    }
}

/// Returns a unique identity for this replica, different even after a restart of the container.
pub(crate) fn replica_identity(operator: &str) -> String {
    let random = RandomState::new().hash_one(operator);
    format!("{operator}_{random:016x}")
}

/// Returns the identity in peerings, where all replicas are one peer. Waits for credentials if they
/// define the namespace of the Leases.
pub(crate) async fn peer_identity(
    context: &OperatorContext,
    operator: &str,
) -> Result<String, kopf_client::Error> {
    let leading = &context.settings.leading;
    match leading.replication() {
        Replication::Single => Ok(operator.to_owned()),
        Replication::Elected | Replication::Sharded(_) => {
            let namespace = namespace(&context.client, leading).await?;
            Ok(format!("replicas/{namespace}/{}", leading.name))
        }
    }
}

/// Participates in the group until the operator exits, and leaves it when all results are written.
///
/// # Errors
///
/// If another process has the same identity, or the login has failed. Failed requests are retried.
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
