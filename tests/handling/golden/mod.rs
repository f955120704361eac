//! Equivalents of the recorded operators of the original: the same handlers and user actions must
//! have the same effects.
//!
//! Compared are: the writes to each object, with their type, content and order; the object after
//! every recorded step; the main lines of the log. Not compared are times, uids, versions, names of
//! groups and namespaces, rejected writes, and touches of objects, which are disabled by default.

mod normalized;
mod recording;
mod twins;

use serde_json::Value;

use self::normalized::{Line, Write};
use self::recording::Recording;
use crate::stage::Stage;

/// Returns the recorded object after this step.
pub(crate) fn recorded_object(recording: &str, step: &str) -> Value {
    Recording::load(recording).object(step).clone()
}

/// A recording and the stage of its equivalent.
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

    /// Waits until the object is equal to the recorded one after this step.
    pub(crate) async fn reaches(&self, step: &str) {
        let expected = self.recording.object(step);
        let name = expected["metadata"]["name"].as_str().unwrap_or("obj");
        let normalized = normalized::of_object(expected);
        let what = format!("as recorded after {step:?}: {normalized:#}");
        self.stage
            .until(name, &what, |object| {
                normalized::of_object(object) == normalized
            })
            .await;
    }

    /// Waits until the object is equal to the recorded one after this step and the operator has
    /// settled.
    pub(crate) async fn settles(&self, step: &str) {
        self.reaches(step).await;
        self.stage.settled().await;
    }

    /// Compares all writes to the objects and their Kubernetes events.
    pub(crate) fn compare_writes(&self) {
        let ours = normalized::of_calls(&self.stage.recorder.calls());
        let theirs = self.recording.writes();
        for object in ["obj", "obj2", "events"] {
            let of = |writes: &[Write]| -> Vec<Write> {
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

    /// Compares writes and logs ignoring their order: that of concurrent handlers varies, and so do
    /// conflicts between them.
    pub(crate) fn compare_all_without_order(&self) {
        let sorted = |texts: Vec<String>| {
            let mut texts = texts;
            texts.sort();
            texts.dedup_by(|one, other| one == other && one.contains("the finalizer"));
            texts
        };
        let written =
            |writes: Vec<Write>| sorted(writes.iter().map(|w| format!("{w:?}")).collect());
        let ours = written(normalized::of_calls(&self.stage.recorder.calls()));
        let theirs = written(self.recording.writes());
        assert!(
            ours == theirs,
            "the writes differ; ours: {ours:#?}\ntheirs: {theirs:#?}"
        );
        let logged = |lines: Vec<Line>| sorted(lines.into_iter().map(|line| line.text).collect());
        let ours = logged(normalized::of_records(&self.stage.log.records()));
        let theirs = logged(self.recording.lines());
        assert!(
            ours == theirs,
            "the logs differ; ours: {ours:#?}\ntheirs: {theirs:#?}"
        );
    }

    /// Compares the logs of the objects.
    pub(crate) fn compare_log(&self) {
        let ours: Vec<Line> = normalized::of_records(&self.stage.log.records());
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
