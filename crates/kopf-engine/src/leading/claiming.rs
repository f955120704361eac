//! Requests that take and renew one Lease.

use kopf_core::leading::Candidate;

use super::keeper::Time;
use super::leases::{Lease, Leases};

/// Number of attempts in one round: a conflict is resolved by reading the Lease and writing once more.
const ATTEMPTS: usize = 2;

/// A failure of one round.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Api(#[from] kopf_client::Error),
    #[error(transparent)]
    DuplicateIdentity(#[from] kopf_core::leading::DuplicateIdentity),
}

/// The effect of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimed {
    /// The server has accepted it.
    Accepted,
    /// Another client has changed the Lease.
    Conflict,
    /// Another replica holds the Lease.
    Unavailable,
}

/// Reads the Lease.
pub(super) async fn look(
    leases: &Leases,
    lease: &mut Lease,
    candidate: &mut Candidate,
    time: Time,
) -> Result<(), Failure> {
    let found = leases.read(lease).await?;
    Ok(candidate.observe(found, time.now())?)
}

/// Takes or renews the Lease in its last seen version.
pub(super) async fn claim(
    leases: &Leases,
    lease: &mut Lease,
    candidate: &mut Candidate,
    time: Time,
) -> Result<Claimed, Failure> {
    let began = time.now();
    let Some(intent) = candidate.intent(began) else {
        return Ok(Claimed::Unavailable);
    };
    let spec = candidate.claim(time.utc());
    let Some(record) = leases.write(lease, &intent, spec).await? else {
        candidate.conflicted();
        return Ok(Claimed::Conflict);
    };
    candidate.accepted(record, began);
    Ok(Claimed::Accepted)
}

/// The possible holders of a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holders {
    /// Any replica: the Lease is renewed only while this one holds it.
    Any,
    /// Only this replica: the Lease is taken again if it is lost.
    Own,
}

/// Renews a Lease.
pub(super) async fn renew(
    leases: &Leases,
    lease: &mut Lease,
    candidate: &mut Candidate,
    holders: Holders,
    time: Time,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        if candidate.is_unknown() {
            look(leases, lease, candidate, time).await?;
        }
        if holders == Holders::Any && candidate.valid_until().is_none() {
            break;
        }
        match claim(leases, lease, candidate, time).await? {
            Claimed::Accepted => break,
            Claimed::Conflict => {}
            Claimed::Unavailable => candidate.conflicted(),
        }
    }
    Ok(())
}

/// Releases a Lease. Returns `false` if this replica does not hold it.
pub(super) async fn release(
    leases: &Leases,
    lease: &mut Lease,
    candidate: &mut Candidate,
    time: Time,
) -> Result<bool, Failure> {
    let mut is_released = false;
    for _ in 0..ATTEMPTS {
        if candidate.is_unknown() {
            look(leases, lease, candidate, time).await?;
        }
        let spec = candidate.release(time.utc());
        let (Some(spec), Some(intent)) = (spec, candidate.intent(time.now())) else {
            break;
        };
        is_released = leases.write(lease, &intent, spec).await?.is_some();
        if is_released {
            break;
        }
        candidate.conflicted();
    }
    candidate.resigned();
    Ok(is_released)
}
