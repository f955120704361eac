//! Status conditions of the object.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kopf_core::body::Body;
use kopf_core::conditions::{self, Change, Condition, ConditionStatus, InvalidCondition};
use kopf_core::patch::PatchFn;
use kopf_core::sync::Mutex;
use kopf_engine::clock::Clock;
use kopf_engine::invocation::SharedPatch;
use serde_json::Value;

use super::{Context, Declared, Extract, Rejection};

/// The conditions of the object: `status.conditions`, as defined by the Kubernetes API conventions.
/// Cheap to clone.
///
/// Changes are written with the [`Patch`](crate::Patch) of the handler; a set without changes is
/// not written. `lastTransitionTime` changes only with the status; `observedGeneration` is the
/// generation that the handler was called with. The order of the list and conditions of other types
/// are preserved, even those that other clients add concurrently.
///
/// ```
/// use kopf::Conditions;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// async fn create_fn(conditions: Conditions) -> kopf::Result<()> {
///     conditions.set("Ready", false, "Deploying", "0 of 3 replicas are ready")?;
///     // …
///     conditions.set("Ready", true, "Deployed", "3 of 3 replicas are ready")?;
///     Ok(())
/// }
/// ```
///
/// In unit tests of handlers, [`Conditions::of`] creates conditions, and [`applied`](Self::applied)
/// returns the changed list:
///
/// ```
/// use kopf::Conditions;
/// use kopf::prelude::*;
///
/// let conditions = Conditions::of(&json!({"metadata": {"generation": 3}}));
/// conditions.set("Ready", true, "Deployed", "")?;
/// assert_eq!(conditions.applied()?[0]["observedGeneration"], 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Conditions(Arc<Pending>);

struct Pending {
    body: Body,
    patch: SharedPatch,
    clock: Clock,
    /// The changes of this call. The patch has one function for all of them.
    changes: Arc<Mutex<Vec<Change>>>,
}

impl Conditions {
    /// Returns the conditions of an arbitrary object, for tests.
    pub fn of(object: &Value) -> Self {
        Self::new(
            Body::new(object.clone()),
            SharedPatch::default(),
            Clock::system(),
        )
    }

    fn new(body: Body, patch: SharedPatch, clock: Clock) -> Self {
        Self(Arc::new(Pending {
            body,
            patch,
            clock,
            changes: Arc::default(),
        }))
    }

    /// Sets a condition. The status is a `bool`, an `Option<bool>` (`None` is `Unknown`), or a
    /// [`ConditionStatus`].
    ///
    /// # Errors
    /// If the type, the reason or the message violates the API conventions: see
    /// [`Condition::new`](kopf_core::conditions::Condition::new).
    pub fn set(
        &self,
        type_: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<(), InvalidCondition> {
        let now: Timestamp = self.0.clock.now();
        let condition = Condition::new(type_, status.into(), reason, message, now)?;
        let generation = self.0.body.metadata().get("generation");
        let generation = generation.and_then(Value::as_i64);
        self.push(Change::Set(condition.observed(generation)));
        Ok(())
    }

    /// Removes a condition.
    pub fn remove(&self, type_: impl Into<String>) {
        let type_ = type_.into();
        self.push(Change::Remove { type_ });
    }

    /// Returns the condition of this type at the time of the call, without the changes of this
    /// handler.
    pub fn get(&self, type_: &str) -> Option<&Value> {
        conditions::find(self.0.body.value(), type_)
    }

    /// Returns `true` if the condition had the status `True` when the handler was called.
    pub fn is_true(&self, type_: &str) -> bool {
        self.get(type_).is_some_and(|one| one["status"] == "True")
    }

    /// Returns the whole list with the current changes.
    ///
    /// # Errors
    /// If `status.conditions` of the object is not a list.
    pub fn applied(&self) -> Result<Value, conditions::Malformed> {
        let mut body = self.0.body.value().clone();
        conditions::apply(&self.changes(), &mut body)?;
        let list = body
            .get_mut("status")
            .and_then(|status| status.get_mut("conditions"));
        Ok(list.map_or_else(|| Value::Array(Vec::new()), Value::take))
    }

    fn push(&self, change: Change) {
        let mut changes = self.changes();
        changes.push(change);
        let is_first = changes.len() == 1;
        drop(changes);
        if is_first {
            let changes = Arc::clone(&self.0.changes);
            let function = PatchFn::new("conditions", move |body| {
                let changes = changes.lock();
                Ok(conditions::apply(&changes, body)?)
            });
            self.0.patch.with(|patch| patch.add_fn(function));
        }
    }

    fn changes(&self) -> std::sync::MutexGuard<'_, Vec<Change>> {
        self.0.changes.lock()
    }
}

impl fmt::Debug for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Conditions").field(&*self.changes()).finish()
    }
}

impl Extract for Conditions {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let body = context.object("Conditions")?.clone();
        let patch = context.call("Conditions")?.patch.clone();
        Ok(Self::new(body, patch, context.operator().clock))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Conditions")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_changes_of_a_call_are_one_function_of_the_patch() {
        let object = json!({"metadata": {"generation": 4}, "status": {"conditions": [
            {"type": "Old", "status": "True"}, {"type": "Known", "status": "False"},
        ]}});
        let conditions = Conditions::of(&object);
        assert_eq!(conditions.get("Known").unwrap()["status"], "False");
        assert!(conditions.is_true("Old") && !conditions.is_true("Known"));
        conditions
            .set("Ready", ConditionStatus::Unknown, "Waiting", "")
            .unwrap();
        conditions
            .clone()
            .set("Ready", true, "Done", "text")
            .unwrap();
        conditions.remove("Old");
        assert!(conditions.set("Ready", true, "", "").is_err());
        let functions = conditions.0.patch.with(|patch| patch.fns.clone());
        assert_eq!(functions.len(), 1);
        let mut body = object;
        functions[0].call(&mut body).unwrap();
        assert_eq!(body["status"]["conditions"], conditions.applied().unwrap());
        assert_eq!(body["status"]["conditions"][1]["reason"], "Done");
        assert_eq!(body["status"]["conditions"][1]["observedGeneration"], 4);
        assert_eq!(body["status"]["conditions"].as_array().unwrap().len(), 2);
    }
}
