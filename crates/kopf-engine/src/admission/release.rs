//! Release of an owned object when the operator exits.

use std::time::Duration;

use kopf_client::patching::Target;
use kopf_core::admission::{OWNER_ANNOTATION, Owner, hands_over, releases};
use kopf_core::body::Body;
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::info;

use super::object::{merge, read};
use crate::leading::Members;

/// Delays before the checks whether another replica has taken over the webhooks of an exiting one,
/// which needs one watch event and one write: 5 seconds in total.
const HANDOVER_CHECKS: [Duration; 6] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1_500),
    Duration::from_secs(2),
];

/// First delay between conflicting patches; doubled each time.
const CONFLICT_DELAY: Duration = Duration::from_millis(100);

/// The release of an object: the content of this operator and its ownership are removed.
#[derive(Debug)]
pub(super) struct Release<'a> {
    pub(super) target: Target<'a>,
    pub(super) me: &'a Owner,
    /// For logs, such as `The admission webhook NAME`.
    pub(super) title: String,
    pub(super) removal: Removal,
    /// The remaining content, as a merge patch.
    pub(super) remaining: Value,
}

/// The effect of the release on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// Only the ownership is removed.
    Ownership,
    /// Webhooks are removed, which other replicas need.
    Webhooks,
    /// Webhooks are removed, and there are no other replicas.
    LastWebhooks,
}

impl Removal {
    /// Returns the effect on these replicas.
    pub(super) fn of(self, members: &Members) -> Self {
        match self {
            Self::Webhooks if members.is_alone() => Self::LastWebhooks,
            removal => removal,
        }
    }
}

/// Condition for the first patch.
#[derive(Debug)]
pub(super) enum Precondition {
    /// The object has to be read first.
    Unknown,
    /// The object must have this version; `None` if it has none.
    Version(Option<String>),
}

impl Release<'_> {
    /// Releases the object, unless another operator owns it. A replica first offers it to its
    /// group. Conflicts are retried: the caller limits the time.
    pub(super) async fn run(
        self,
        mut precondition: Precondition,
    ) -> Result<(), kopf_client::Error> {
        if hands_over(self.me, self.removal == Removal::Webhooks) {
            let leaving = self.me.leaving().annotation();
            let offer = json!({"metadata": {"annotations": {OWNER_ANNOTATION: leaving}}});
            if !self.patch_own(precondition, offer).await? {
                return Ok(());
            }
            for delay in HANDOVER_CHECKS {
                sleep(delay).await;
                if self.own().await?.is_none() {
                    return Ok(());
                }
            }
            precondition = Precondition::Unknown;
        }
        let mut released = self.remaining.clone();
        released["metadata"] = json!({"annotations": {OWNER_ANNOTATION: null}});
        self.patch_own(precondition, released).await?;
        Ok(())
    }

    /// Merges the payload into the object, repeatedly on conflicts. Returns `false` if the object
    /// does not exist, or another operator owns it.
    async fn patch_own(
        &self,
        mut precondition: Precondition,
        mut payload: Value,
    ) -> Result<bool, kopf_client::Error> {
        let mut delay = CONFLICT_DELAY;
        loop {
            if let Precondition::Version(version) = &precondition {
                payload["metadata"]["resourceVersion"] = json!(version);
                match merge(&self.target, &payload).await {
                    Err(error) if error.is_conflict() => {
                        sleep(delay).await;
                        delay *= 2;
                    }
                    outcome => return outcome.map(|body| body.is_some()),
                }
            }
            let Some(body) = self.own().await? else {
                return Ok(false);
            };
            let version = body.resource_version().map(str::to_owned);
            precondition = Precondition::Version(version);
        }
    }

    /// Reads the object. `None` if it does not exist, or another operator owns it.
    async fn own(&self) -> Result<Option<Body>, kopf_client::Error> {
        let Some(body) = read(&self.target).await? else {
            return Ok(None);
        };
        let owner = body.annotation(OWNER_ANNOTATION).map(Owner::parse);
        if releases(self.me, owner.as_ref()) {
            return Ok(Some(body));
        }
        info!("{} belongs to another operator and is kept.", self.title);
        Ok(None)
    }
}
