//! Properties of the world that hold for every schedule.

use std::sync::Arc;

use kopf_core::cause::Reason;
use kopf_core::object::{Moment, Rules, State};
use serde_json::Value;

use super::process::Call;
use super::server::number;
use super::world::{Universe, World};

/// Facts about one handler, independently of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// The last call that has returned.
    pub(super) last: Option<Returned>,
    /// The last call that is recorded on the object. A crash undoes the others.
    pub(super) recorded: Option<Returned>,
    /// The object of the current call.
    pub(super) current: Option<Called>,
    /// The time of the next attempt.
    pub(super) delayed: Option<Moment>,
    /// A child has woken the handler up.
    pub(super) is_awake: bool,
    /// A child or the reconcile handler itself has triggered a call that has not begun yet. Crashes do not
    /// change that: the next process resumes the object.
    pub(super) is_owed: bool,
}

impl Known {
    /// Returns the object of the last call, if it has succeeded.
    fn success(&self) -> Option<&Called> {
        let last = self.last.as_ref().filter(|last| last.succeeded);
        last.map(|last| &last.called)
    }
}

/// The object that a handler was called with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Called {
    essence: Arc<Value>,
    generation: Option<i64>,
}

/// A call that has returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Returned {
    pub(super) called: Called,
    pub(super) succeeded: bool,
}

impl<R: Rules> Universe<R> {
    /// Notes that a changed child wakes up handlers, and triggers the reconcile handlers.
    pub(super) fn owe_calls(&self, world: &mut World) {
        for known in world.known.values_mut() {
            known.is_awake = true;
        }
        let handlers = self.operator.handlers;
        for handler in handlers.reconciling.iter().chain(handlers.holding) {
            let known = world.known.entry(Arc::from(*handler)).or_default();
            known.is_owed = true;
        }
    }

    /// Checks a call of a handler that has just begun.
    pub(super) fn call(&self, world: &mut World) -> Result<(), String> {
        let Some(process) = &world.process else {
            return Ok(());
        };
        let Some(Call {
            handler,
            reason,
            body,
        }) = self.operator.call(process)
        else {
            return Ok(());
        };
        let known = world.known.entry(Arc::clone(&handler)).or_default();
        if known.current.is_some() {
            return Ok(());
        }
        if world.is_paused {
            return Err(format!("pause: {handler} is called by a paused operator"));
        }
        let is_early = known.delayed.is_some_and(|delayed| world.now < delayed);
        let is_woken = self.operator.handlers.owns && reason.is_handled();
        if is_woken && is_early && !known.is_awake {
            return Err(format!("delays: {handler} is called before its time"));
        }
        let body = Arc::new(body.value().clone());
        if number(&body) < world.own_version {
            return Err(format!(
                "own writes first: {handler} is called on an outdated version"
            ));
        }
        let called = Called {
            essence: Arc::new(self.operator.essence(&body)),
            generation: body["metadata"]["generation"].as_i64(),
        };
        let is_change = matches!(reason, Reason::Create | Reason::Update);
        if known.success() == Some(&called)
            && is_change
            && !self.operator.handlers.resuming.contains(&&*handler)
        {
            return Err(format!(
                "durable progress: {handler} is called again for the same version"
            ));
        }
        if reason == Reason::Delete && world.deleted.contains(&handler) {
            return Err(format!(
                "durable progress: {handler} is called again for the same deletion"
            ));
        }
        known.current = Some(called);
        known.is_owed = false;
        world.idle_writes = 0;
        Ok(())
    }

    /// Notes the successes of a deletion that are recorded on the object.
    pub(super) fn note_records(&self, world: &mut World) {
        let Some(object) = &world.server.object else {
            return;
        };
        for handler in self.operator.handlers.of_deletion() {
            let is_known = world.recorded.iter().any(|known| **known == *handler);
            if !is_known && self.operator.is_recorded(handler, object) {
                world.recorded.push(Arc::from(handler));
            }
        }
    }

    /// Returns `true` if all handlers of the deletion have succeeded.
    pub(super) fn has_deleted(&self, world: &World) -> bool {
        let mut deleting = self.operator.handlers.of_deletion();
        deleting.all(|handler| world.deleted.iter().any(|done| **done == *handler))
    }

    /// Checks that an object whose changes were handled did not end without handlers of its deletion.
    pub(super) fn check_gone(&self, world: &World) -> Result<(), String> {
        let is_handled = world.known.values().any(|known| known.last.is_some());
        let is_deleted = world.is_released || self.has_deleted(world);
        if world.server.object.is_none() && is_handled && !is_deleted {
            return Err("finalizer: the object ends without its delete handlers".to_owned());
        }
        Ok(())
    }

    /// Checks the final state: everything must be handled.
    pub(super) fn check_final(&self, world: &World) -> Result<(), String> {
        let Some(object) = &world.server.object else {
            return Ok(());
        };
        if world.server.is_deleting() {
            return Err("deletion: the object stays for ever".to_owned());
        }
        if let Some(process) = &world.process
            && !matches!(process.object.machine.state(), State::Idle)
        {
            return Err(format!(
                "quiescence: the machine is {:?}",
                process.object.machine.state()
            ));
        }
        let essence = self.operator.essence(object);
        let handlers = self.operator.handlers;
        let reconciling = handlers.reconciling.iter().chain(handlers.holding);
        for handler in handlers.changing.iter().chain(reconciling) {
            if self.operator.handlers.marks && object["status"]["marks"][handler].is_null() {
                return Err(format!("transformations: that of {handler} is lost"));
            }
            let known = world.known.get(*handler);
            if known.is_some_and(|known| known.is_owed) {
                return Err(format!("triggers: a call of {handler} is missing"));
            }
            let success = known.and_then(Known::success);
            if success.is_none_or(|called| *called.essence != essence) {
                return Err(format!(
                    "at least once: {handler} has not handled the current essence"
                ));
            }
        }
        let own = object["metadata"]["annotations"].as_object();
        let left = own
            .into_iter()
            .flatten()
            .filter(|(key, _)| !key.ends_with("last-handled-configuration"));
        match left.map(|(key, _)| key).next() {
            Some(key) => Err(format!("nothing is leaked: {key} stays on the object")),
            None => Ok(()),
        }
    }
}
