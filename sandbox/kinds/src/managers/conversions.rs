//! Objects in the versions of their field managers, for kinds that a webhook converts.

use kopf_sandbox_store::sync::Mutex;
use serde_json::Value;

/// Conversions of one request: completed ones, and those that a [`Tracker`](super::Tracker) is
/// missing.
///
/// Tracking is a pure function and cannot call a webhook. It records missing conversions here; the
/// caller performs them and tracks again.
#[derive(Debug, Default)]
pub struct Conversions {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    done: Vec<Done>,
    missing: Vec<(Value, String)>,
}

#[derive(Debug)]
struct Done {
    object: Value,
    version: String,
    converted: Value,
}

impl Conversions {
    /// Returns an object in another version, or records that the conversion is missing.
    pub(super) fn find(&self, object: &Value, version: &str) -> Option<Value> {
        let mut state = self.state.lock();
        let done = state
            .done
            .iter()
            .find(|done| done.version == version && done.object == *object);
        if let Some(done) = done {
            return Some(done.converted.clone());
        }
        let known = |(other, of): &(Value, String)| of == version && other == object;
        if !state.missing.iter().any(known) {
            state.missing.push((object.clone(), version.to_owned()));
        }
        None
    }

    /// Removes and returns the missing conversions, each an object and a version.
    pub fn take_missing(&self) -> Vec<(Value, String)> {
        let mut state = self.state.lock();
        std::mem::take(&mut state.missing)
    }

    pub fn add(&self, object: Value, version: String, converted: Value) {
        let mut state = self.state.lock();
        state.done.push(Done {
            object,
            version,
            converted,
        });
    }

    pub fn clear(&self) {
        *self.state.lock() = State::default();
    }
}
