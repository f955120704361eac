//! Twins of the recorded operators of the original: the same handlers and the same play must come
//! to the same.
//!
//! *The same* means: the same writes to each object, in kind, content and order; the same object at
//! every recorded moment; the same main lines of the log. Left out are times, uids, versions, names
//! of groups and namespaces, rejected writes, and the touching of objects, which we do not do
//! by default.

mod likeness;
mod recording;
mod twins;

use serde_json::Value;

use self::likeness::{Likeness, Line};
use self::recording::Recording;
use crate::stage::Stage;

/// The object of a recording after this step, as it was.
pub(crate) fn recorded_object(recording: &str, step: &str) -> Value {
    Recording::load(recording).object(step).clone()
}

/// A recording, and the stage on which its twin plays.
pub(crate) struct Golden<'a> {
    recording: Recording,
    stage: &'a Stage,
}

impl<'a> Golden<'a> {
    pub(crate) fn load(name: &str, stage: &'a Stage) -> Self {
        Self {
            recording: Recording::load(name),
            stage,
        }
    }

    /// Waits until the object is as it was recorded after this step.
    pub(crate) async fn reaches(&self, step: &str) {
        let expected = self.recording.object(step);
        let name = expected["metadata"]["name"].as_str().unwrap_or("obj");
        let likeness = likeness::of_object(expected);
        let what = format!("as recorded after {step:?}: {likeness:#}");
        self.stage
            .until(name, &what, |object| {
                likeness::of_object(object) == likeness
            })
            .await;
    }

    /// Waits until the object is as it was recorded after this step, and the operator has settled.
    pub(crate) async fn settles(&self, step: &str) {
        self.reaches(step).await;
        self.stage.settled().await;
    }

    /// Compares everything that was written, to the objects and to their k8s-events.
    pub(crate) fn compare_writes(&self) {
        let ours = likeness::of_calls(&self.stage.recorder.calls());
        let theirs = self.recording.writes();
        for object in ["obj", "obj2", "events"] {
            let of = |writes: &[Likeness]| -> Vec<Likeness> {
                let writes = writes.iter().filter(|write| write.object == object);
                writes.cloned().collect()
            };
            let (ours, theirs) = (of(&ours), of(&theirs));
            assert!(
                ours == theirs,
                "the writes to {object:?} differ; ours: {ours:#?}\ntheirs: {theirs:#?}"
            );
        }
    }

    /// Compares what was written and logged of the object without its order: that of handlers which
    /// run at the same time is an accident, and so are conflicts between them.
    pub(crate) fn compare_all_without_order(&self) {
        let sorted = |texts: Vec<String>| {
            let mut texts = texts;
            texts.sort();
            texts.dedup_by(|one, other| one == other && one.contains("the finalizer"));
            texts
        };
        let written =
            |writes: Vec<Likeness>| sorted(writes.iter().map(|w| format!("{w:?}")).collect());
        let ours = written(likeness::of_calls(&self.stage.recorder.calls()));
        let theirs = written(self.recording.writes());
        assert!(
            ours == theirs,
            "the writes differ; ours: {ours:#?}\ntheirs: {theirs:#?}"
        );
        let logged = |lines: Vec<Line>| sorted(lines.into_iter().map(|line| line.text).collect());
        let ours = logged(likeness::of_records(&self.stage.log.records()));
        let theirs = logged(self.recording.lines());
        assert!(
            ours == theirs,
            "the logs differ; ours: {ours:#?}\ntheirs: {theirs:#?}"
        );
    }

    /// Compares what was logged of the objects.
    pub(crate) fn compare_log(&self) {
        let ours: Vec<Line> = likeness::of_records(&self.stage.log.records());
        let theirs = self.recording.lines();
        for object in ["obj", "obj2"] {
            let of = |lines: &[Line]| -> Vec<String> {
                let lines = lines.iter().filter(|line| line.object == object);
                lines.map(|line| line.text.clone()).collect()
            };
            let (ours, theirs) = (of(&ours), of(&theirs));
            assert!(
                ours == theirs,
                "the logs of {object:?} differ; ours: {ours:#?}\ntheirs: {theirs:#?}"
            );
        }
    }
}
