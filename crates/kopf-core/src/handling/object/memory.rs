//! The knowledge of one process about an object: the machine with the data of its decisions.

use super::action::Action;
use super::attempted::AttemptedEssences;
use super::echo::{Covered, Overdue};
use super::input::Input;
use super::machine::{Actions, Machine};
use super::moment::Moment;
use super::plan::PendingPatch;
use super::reconciling::Reconcilers;
use super::releasing::Release;
use super::rules::Rules;
use super::version::{Version, reaches};
use crate::body::Body;
use crate::cause::{EventType, Sighting};
use crate::handler::HandlerId;
use crate::patch::{Patch, PatchFn};

/// The memory of a process about an object, with or without pending work.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The first event of the object was an item of a listing. Never changes.
    pub noticed_by_listing: bool,
    /// The object was completely handled once in this process.
    pub fully_handled_once: bool,
    /// Transformations that conflicted with a newer version of the object.
    pub carried: Vec<PatchFn>,
    /// The outcome of the deletion, if all its handlers have finished.
    pub release: Option<Box<Release>>,
    /// The versions up to the last own write, if there was no pending work after it.
    pub covered: Option<Covered>,
    /// The last own write, if its event is late.
    pub overdue: Option<Box<Overdue>>,
    /// Attempted essences that are too large for the object.
    pub attempted: Option<Box<AttemptedEssences>>,
    /// The reconcile handlers of the object; `None` until its first version is observed.
    pub reconcilers: Option<Box<Reconcilers>>,
}

impl Memory {
    /// Returns the memory of a new object.
    pub fn new(noticed_by_listing: bool) -> Self {
        Self {
            noticed_by_listing,
            ..Self::default()
        }
    }

    /// Returns `true` if nothing but the flags and the covered versions has to be kept.
    pub fn is_plain(&self) -> bool {
        let Self {
            noticed_by_listing: _,
            fully_handled_once: _,
            covered: _,
            carried,
            release,
            overdue,
            attempted,
            reconcilers,
        } = self;
        carried.is_empty()
            && release.is_none()
            && overdue.is_none()
            && attempted.is_none()
            && reconcilers.is_none()
    }

    /// Returns the familiarity of this process with the object.
    pub fn sighting(&self) -> Sighting {
        if self.noticed_by_listing && !self.fully_handled_once {
            Sighting::Initial
        } else {
            Sighting::Later
        }
    }
}

/// One object that this process handles. Replacing it forgets everything: when the object is gone,
/// and when another replica takes over.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// The state of handling.
    pub machine: Machine,
    /// The part that outlives the pending work.
    pub memory: Memory,
    /// The newest version.
    pub newest: Option<Version>,
    /// The patch of event handlers and child handlers, which the next cycle writes.
    pub patch: Patch,
    /// Child handlers have contributed to that patch.
    pub is_patched_by_children: bool,
    /// The handlers to call before their time because a child of the object has changed.
    pub woken: Vec<HandlerId>,
}

impl Object {
    /// Begins to handle an object.
    pub fn new(mut memory: Memory, newest: Option<Version>) -> Self {
        let mut machine = Machine::default();
        machine.restore_overdue(memory.overdue.take().map(|overdue| *overdue));
        Self {
            machine,
            memory,
            newest,
            ..Self::default()
        }
    }

    /// Returns what outlives the pending work.
    pub fn rest(mut self) -> (Memory, Option<Version>) {
        self.memory.overdue = self.machine.take_overdue().map(Box::new);
        (self.memory, self.newest)
    }

    /// Makes one step of the machine, and applies its actions to the data of the object.
    pub fn step(&mut self, input: Input, rules: &impl Rules, now: Moment) -> Actions {
        match &input {
            Input::Written(_) => self.memory.carried.clear(),
            Input::NotFound => {
                self.newest = None;
                self.memory.carried.clear();
            }
            _ => {}
        }
        let actions = self.machine.step(input, rules, now);
        for action in &actions {
            match action {
                Action::DropUnsent => self.memory.carried.clear(),
                Action::Cover(covered) => self.memory.covered = *covered,
                Action::Forget => {
                    let machine = std::mem::take(&mut self.machine);
                    *self = Self {
                        machine,
                        ..Self::default()
                    };
                }
                _ => {}
            }
        }
        actions
    }

    /// Returns `true` if a version becomes the newest one: it is not older than an own write whose
    /// event is late.
    pub fn admits(&self, event: EventType, version: Option<&str>, now: Moment) -> bool {
        let is_outdated = |version| self.machine.is_outdated(version, now);
        event == EventType::Deleted || !version.is_some_and(is_outdated)
    }

    /// Continues from the response to the last write, unless the newest version is as new.
    pub fn adopt(&mut self, version: Option<&str>, body: impl FnOnce() -> Option<Body>) {
        let newest = self.newest.as_ref();
        let known = newest.and_then(|newest| newest.body.resource_version());
        let is_known = match (known, version) {
            (Some(known), Some(version)) => reaches(known, version),
            _ => false,
        };
        if !is_known && let Some(body) = body() {
            let event = EventType::Modified;
            let newest = Version { event, body };
            self.machine.adopt(newest.snapshot());
            self.newest = Some(newest);
        }
    }

    /// Records the handlers that a changed child wakes up.
    pub fn wake<'a>(&mut self, ids: impl Iterator<Item = &'a HandlerId>) {
        for id in ids {
            if !self.woken.contains(id) {
                self.woken.push(HandlerId::clone(id));
            }
        }
    }

    /// Records the reconcile handlers that a changed child triggers. Before the first version is observed,
    /// all children are new, and the handlers will be called anyway.
    /// Handlers of a deletion are woken up.
    pub fn trigger_by_child<'a>(&mut self, ids: impl Iterator<Item = &'a HandlerId>) {
        let newest = self.newest.as_ref();
        if newest.is_some_and(|newest| newest.body.is_deleting()) {
            self.wake(ids);
        } else if let Some(reconcilers) = &mut self.memory.reconcilers {
            ids.for_each(|id| reconcilers.trigger_by_child(id));
        }
    }

    /// Turns the last outcome of a reconcile handler into a permanent failure: its changes are too large.
    pub fn fail_reconciliation(&mut self, id: &str, now: Moment) {
        if let Some(reconcilers) = &mut self.memory.reconcilers {
            reconcilers.fail(id, now);
        }
    }

    pub(super) fn take_woken(&mut self) -> Vec<HandlerId> {
        std::mem::take(&mut self.woken)
    }

    /// Adds the patch of child handlers.
    pub fn patch_by_children(&mut self, patch: Patch) {
        self.is_patched_by_children |= !patch.is_empty();
        self.patch.merge_from(patch);
    }

    pub(super) fn take_patch(&mut self) -> Patch {
        self.is_patched_by_children = false;
        std::mem::take(&mut self.patch)
    }

    /// Returns the patch that exists before change handlers are called.
    pub(super) fn pending_patch(&self) -> PendingPatch {
        if !self.memory.carried.is_empty() {
            PendingPatch::Carried
        } else if !self.woken.is_empty() && self.is_patched_by_children {
            PendingPatch::First
        } else {
            PendingPatch::new(self.patch.is_empty())
        }
    }

    /// Returns the input for a paused operator, and for an object that is left to another replica.
    /// Carried transformations wait.
    pub fn pause(&self) -> Input {
        Input::Paused(PendingPatch::new(self.patch.is_empty()))
    }

    /// Returns `true` if a paused object can be left to another replica: all results are written,
    /// or the server rejects them.
    pub fn can_be_left(&self) -> bool {
        !self.machine.has_unsent() || self.machine.is_rejected()
    }

    /// Keeps the transformations that conflicted with a newer version.
    pub fn carry(&mut self, functions: Vec<PatchFn>) {
        self.memory.carried = functions;
        let carried = &mut self.memory.carried;
        carried.retain(PatchFn::is_repeated_after_conflict);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::{Covered, StandardRules};

    fn rules() -> StandardRules {
        StandardRules {
            echo_timeout: std::time::Duration::from_secs(5),
            error_delays: Vec::new(),
            touching: false,
        }
    }

    fn version(version: &str) -> Version {
        let body = Body::new(json!({"metadata": {"resourceVersion": version}}));
        let event = EventType::Modified;
        Version { event, body }
    }

    /// Returns an object with all data that it can have.
    fn busy() -> Object {
        let mut object = Object::new(Memory::new(true), Some(version("5")));
        object.wake([HandlerId::from("fn")].iter());
        let mut patch = Patch::default();
        patch.add_fn(PatchFn::new("count", |_| Ok(())));
        object.carry(patch.fns.clone());
        object.patch_by_children(patch);
        object.memory.fully_handled_once = true;
        object.memory.covered = Covered::new("5", Moment::default());
        object
    }

    /// A child wakes a delayed handler up, and another replica takes over before it is called.
    #[test]
    fn woken_handlers_are_delayed_again_after_a_hand_over() {
        let object = busy();
        assert_eq!(object.woken, ["fn".into()]);
        let taken_back = Object::new(Memory::new(true), None);
        assert!(taken_back.woken.is_empty());
        let (memory, newest) = object.rest();
        let resumed = Object::new(memory, newest);
        assert!(resumed.woken.is_empty() && resumed.patch.is_empty());
    }

    #[test]
    fn nothing_is_known_of_an_object_that_has_vanished() {
        let mut object = busy();
        let actions = object.step(Input::Vanished, &rules(), Moment::default());
        assert_eq!(actions, [Action::Forget]);
        assert!(object.newest.is_none() && object.patch.is_empty());
        assert!(object.woken.is_empty() && !object.is_patched_by_children);
        assert!(object.memory.is_plain() && object.memory.covered.is_none());
        assert!(!object.memory.noticed_by_listing && !object.memory.fully_handled_once);
    }

    #[test]
    fn only_newer_responses_are_adopted() {
        for (known, expected) in [("4", "5"), ("5", "5"), ("6", "6")] {
            let mut object = Object::new(Memory::default(), Some(version(known)));
            object.adopt(Some("5"), || Some(version("5").body));
            let newest = object.newest.unwrap();
            assert_eq!(newest.body.resource_version(), Some(expected));
        }
    }

    #[test]
    fn carried_transformations_go_before_woken_handlers() {
        let mut object = busy();
        assert_eq!(object.pending_patch(), PendingPatch::Carried);
        object.memory.carried.clear();
        assert_eq!(object.pending_patch(), PendingPatch::First);
        object.take_woken();
        assert_eq!(object.pending_patch(), PendingPatch::Some);
        object.take_patch();
        assert_eq!(object.pending_patch(), PendingPatch::Empty);
    }
}
