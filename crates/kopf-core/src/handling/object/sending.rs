//! The write of a cycle: its content, and the judgement of the response to it.

use std::sync::Arc;

use serde_json::Value;

use super::echo::{Awaited, Covered};
use super::input::{Effect, Response};
use super::memory::{Memory, Object};
use super::moment::Moment;
use super::plan::FinalizerChange;
use super::policy::Policy;
use super::retriggering;
use super::stamping::{Intent, Stamp};
use crate::body::Body;
use crate::finalizer::{self, Removal};
use crate::patch::Patch;
use crate::settled;
use crate::storage::StorageError;

/// The content of a write.
#[derive(Clone, Debug)]
pub struct WritePlan {
    /// The patch of the object, without the removal of the finalizer.
    pub patch: Patch,
    /// The removal of the finalizer, after the patch.
    pub removal: Option<Removal>,
    /// The removal ends a deletion.
    pub is_release: bool,
    /// The essence that is stored as handled, if there is no pending work after the write.
    settled: Option<Arc<Value>>,
    /// The tracked fields that the patch changes, as far as known.
    intent: Option<Intent>,
}

impl WritePlan {
    /// Plans to write a patch as it is.
    pub fn new(patch: Patch) -> Self {
        Self {
            intent: Intent::of(&patch),
            patch,
            removal: None,
            is_release: false,
            settled: None,
        }
    }

    /// Judges the object in the response to the write.
    ///
    /// - `before`: the version that the write was decided on.
    /// - `after`: the object in the response; a part suffices.
    /// - `whole`: returns the whole object in the response.
    pub fn judge<F>(
        &self,
        policy: &Policy<F>,
        memory: &Memory,
        (before, after): (&Body, &Body),
        whole: impl FnOnce() -> Option<Body>,
    ) -> Response {
        let settled = self.settled.as_deref();
        let is_settled =
            settled.is_some_and(|handled| is_settled(policy, memory, handled, before, after));
        let intent = self.intent.as_ref();
        Response {
            stamp: intent.and_then(|intent| Stamp::detect(policy, intent, before, after, whole)),
            ..judge(before, after, is_settled)
        }
    }

    /// Judges the object in the response to a part of the write, before a conflict.
    pub fn judge_part(before: &Body, after: &Body) -> Response {
        judge(before, after, false)
    }
}

impl Object {
    /// Takes the patch of the cycle together with carried transformations and a change of the
    /// finalizer.
    ///
    /// - `settled`: the essence that the cycle stores as handled.
    ///
    /// Returns an error of the storage beside the plan: a leftover of the original stays then.
    pub fn plan_write<F>(
        &mut self,
        policy: &Policy<F>,
        body: &Body,
        change: Option<FinalizerChange>,
        settled: Option<Arc<Value>>,
    ) -> (WritePlan, Result<(), StorageError>) {
        let persistence = policy.persistence();
        let finalizer = &persistence.finalizer;
        let mut patch = self.take_patch();
        patch.fns.splice(..0, self.memory.carried.iter().cloned());
        if change == Some(FinalizerChange::Add) {
            patch.add_fn(finalizer::add_fn(finalizer));
        }
        let removal = match (change, &self.memory.release) {
            (Some(FinalizerChange::Release), Some(release)) => Some(release.removal(finalizer)),
            (Some(FinalizerChange::Release | FinalizerChange::Drop), _) => {
                Some(Removal::new(finalizer))
            }
            _ => None,
        };
        let untouched = persistence.progress_storage.touch(body, &mut patch, None);
        let plan = WritePlan {
            removal,
            is_release: change == Some(FinalizerChange::Release),
            settled,
            ..WritePlan::new(patch)
        };
        (plan, untouched)
    }
}

fn judge(before: &Body, after: &Body, is_settled: bool) -> Response {
    let version = after.resource_version();
    let ends = after.is_deleting() && after.finalizers().next().is_none();
    let awaited = match version.map(Into::into) {
        Some(version) if !ends => Awaited::Version(version),
        version => Awaited::End(version),
    };
    // API servers respond to the removal of the last finalizer with the former version.
    let ends = matches!(awaited, Awaited::End(_)) && before.finalizers().next().is_some();
    let effect = if !ends && version.is_some() && version == before.resource_version() {
        Effect::None
    } else if is_settled {
        Effect::Settled
    } else {
        Effect::Changed
    };
    Response {
        awaited: Some(awaited),
        effect,
        stamp: None,
    }
}

/// Returns `true` if there is no pending work after the write, so that its event can be skipped.
fn is_settled<F>(
    policy: &Policy<F>,
    memory: &Memory,
    handled: &Value,
    before: &Body,
    after: &Body,
) -> bool {
    let storages = policy.storages();
    let version = after.resource_version().unwrap_or_default();
    memory.fully_handled_once
        && policy.handlers.look_at_essences_only()
        && Covered::new(version, Moment::default()).is_some()
        && !retriggering::is_requested(policy.naming(), before, after)
        && settled::is_settled(handled, before, after, storages.diffbase, storages.progress)
}
