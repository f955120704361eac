//! The end of a deletion in the model: the outcome is kept until the object is gone.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::object::{Erasure, Facts, Finalizer, Fingerprint, Release, Rules};
use kopf_core::patch::Patch;
use kopf_core::progress::ProgressStorage as _;
use serde_json::Value;

use super::mutations::Mutation;
use super::operator::{Cycle, Operator, Process, pending};
use super::server::FINALIZER;

/// The outcome of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept(pub(super) Release);

impl Eq for Kept {}

impl Hash for Kept {
    fn hash<H: Hasher>(&self, state: &mut H) {
        format!("{:?}", self.0).hash(state);
    }
}

/// Returns the facts of an object whose deletion is handled; `None` for other objects.
pub(super) fn released(
    process: &Process,
    event: EventType,
    value: &Value,
    exiting: Option<Duration>,
) -> Option<Facts> {
    let Kept(release) = process.release.as_ref()?;
    let is_left = release.is_left(event, &Body::new(value.clone()), FINALIZER);
    is_left.then(|| Facts {
        event,
        deleting: true,
        finalizer: Finalizer::Released,
        reason: None,
        exiting,
        outdated: false,
        patch: pending(&process.merge),
        fingerprint: Fingerprint::default(),
        uncertain: false,
    })
}

impl<R: Rules> Operator<R> {
    /// Keeps the outcome of a deletion.
    pub(super) fn keep(
        &self,
        process: &mut Process,
        cycle: &Cycle,
        erasure: Option<Erasure>,
        patch: &mut Patch,
    ) {
        let Some(erasure) = erasure else { return };
        if self.has(Mutation::ErasedEarly) {
            patch.merge_from(Patch {
                merge: erasure.on_object.clone(),
                ..Patch::default()
            });
        }
        if !self.has(Mutation::OutcomeForgotten) {
            let release = Release::new(&cycle.state, &cycle.owned, erasure);
            process.release = Some(Kept(release));
        }
    }

    /// Begins to record the outcome of a deletion whose finalizer could not be removed.
    pub(super) fn record(&self, process: &mut Process) {
        if let (Some(Kept(release)), Some((_, body))) = (&process.release, &process.newest)
            && !release.is_recorded()
        {
            let mut patch = Patch::default();
            let body = Body::new(Value::clone(body));
            release.record(&self.progress, &body, &mut patch).unwrap();
            process.record = Some(Value::Object(patch.merge));
        }
    }

    /// Continues from the version on which the outcome of a deletion is recorded.
    pub(crate) fn note_recorded(&self, process: &mut Process, object: Arc<Value>) {
        if let Some(Kept(release)) = &mut process.release {
            let body = Body::new(Value::clone(&object));
            release.note_recorded(&self.progress, &body).unwrap();
        }
        process.newest = Some((EventType::Modified, object));
    }

    /// Returns `true` if the object has a record of the success of a handler.
    pub(crate) fn is_recorded(&self, handler: &str, object: &Value) -> bool {
        let record = self.progress.fetch(handler, &Body::new(object.clone()));
        record.unwrap().is_some_and(|record| record.success)
    }
}
