//! Requests to call a handler once more, although nothing has changed: `kopf retrigger --handler`.
//!
//! A request is the annotation `<prefix>/retrigger-request` with
//! `{"handlers":["<id>"],"requested":"…"}`. It is outside of the essence, so that it is not a change.
//!
//! 1. If the requested handlers have progress records, the records are purged, and the request is
//!    marked as accepted (`"accepted":true`) in the same patch.
//! 2. The requested handlers are called in addition to those of the cause. Without a cause, the reason
//!    is that of the first requested handler.
//! 3. The patch with the final outcome of the requested handlers removes the annotation.
//!
//! Reconcile handlers need no cause: a request is one of their triggers, and is removed at once if it selects
//! no other handlers. After a restart, they are called anyway.
//!
//! An accepted request never purges records again, so a handler that is retried keeps its progress.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::policy::Policy;
use crate::body::Body;
use crate::cause::Reason;
use crate::encoding::to_json_text;
use crate::essence::drop_annotations;
use crate::handler::{Handler, HandlerId, HandlerKind};
use crate::keys::{KeyNaming, safe_char};
use crate::lenient;
use crate::patch::Patch;
use crate::progress::state::State;
use crate::progress::{ProgressRecord, ProgressStorage};
use crate::storage::StorageError;
use crate::timestamp;

/// The name of the annotation, without its prefix.
pub const KEY: &str = "retrigger-request";

/// A request to call handlers once more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The ids of the handlers.
    pub handlers: Vec<String>,
    /// The time of the request, as it is stored. Distinguishes requests for the same handlers.
    pub requested: String,
    /// The state of the request.
    pub stage: Stage,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Progress records of the handlers belong to earlier calls.
    New,
    /// Progress records of the handlers belong to the request.
    Accepted,
}

impl Request {
    /// Requests a call of one handler.
    pub fn new(handler: impl Into<String>, now: Timestamp) -> Self {
        Self {
            handlers: vec![handler.into()],
            requested: timestamp::format(now),
            stage: Stage::New,
        }
    }

    /// Reads the request of an object. An unreadable one is a request for no handlers: it has no
    /// effect and is removed.
    pub fn fetch(naming: &KeyNaming, body: &Body) -> Option<Self> {
        if body.annotations().is_empty() {
            return None;
        }
        let keys = naming.keys(KEY, body);
        let text = keys.iter().find_map(|key| body.annotation(key))?;
        Some(Self::parse(text))
    }

    fn parse(text: &str) -> Self {
        let value = lenient::from_str(text).unwrap_or_default();
        let handlers = value.get("handlers").and_then(Value::as_array);
        let handlers = handlers.into_iter().flatten().filter_map(Value::as_str);
        let requested = value.get("requested").and_then(Value::as_str);
        let is_accepted = value.get("accepted").and_then(Value::as_bool);
        Self {
            handlers: handlers.map(str::to_owned).collect(),
            requested: requested.unwrap_or_default().to_owned(),
            stage: if is_accepted == Some(true) {
                Stage::Accepted
            } else {
                Stage::New
            },
        }
    }

    /// Returns `true` if the object has a request.
    pub fn is_stored(naming: &KeyNaming, body: &Body) -> bool {
        !body.annotations().is_empty()
            && naming
                .keys(KEY, body)
                .iter()
                .any(|key| body.annotation(key).is_some())
    }

    /// Adds the request to the patch.
    pub fn store(&self, naming: &KeyNaming, body: &Body, patch: &mut Patch) {
        let mut value = json!({"handlers": self.handlers, "requested": self.requested});
        if let (Stage::Accepted, Value::Object(fields)) = (self.stage, &mut value) {
            fields.insert("accepted".to_owned(), Value::from(true));
        }
        let text = to_json_text(&value);
        for key in naming.keys(KEY, body) {
            patch
                .annotations_mut()
                .insert(key, Value::from(text.as_str()));
        }
        naming.mark(body, patch);
    }

    /// Adds the removal of any request to the patch.
    pub fn remove(naming: &KeyNaming, body: &Body, patch: &mut Patch) {
        for key in naming.keys(KEY, body) {
            if body.annotations().contains_key(&key) {
                patch.annotations_mut().insert(key, Value::Null);
            }
        }
    }

    /// Removes the annotation from an essence.
    pub fn strip(naming: &KeyNaming, body: &Body, essence: &mut Value) {
        if Self::is_stored(naming, body) {
            let keys = naming.keys(KEY, body);
            drop_annotations(essence, |key| keys.iter().any(|own| own == key));
        }
    }

    /// Returns the same request as accepted.
    #[must_use]
    pub fn accepted(&self) -> Self {
        Self {
            stage: Stage::Accepted,
            ..self.clone()
        }
    }

    /// Returns `true` if the handler is requested and can be called on an object that is not being
    /// deleted. Handlers can be requested by the names of their annotations, such as
    /// `fn.spec.field` for `fn/spec.field`: ids are not always known.
    pub fn selects(&self, id: &str, kind: HandlerKind) -> bool {
        reason(kind).is_some() && self.names(id)
    }

    /// Returns `true` if the request is for this handler.
    pub(super) fn names(&self, id: &str) -> bool {
        self.handlers.iter().any(|name| names(name, id))
    }

    /// Returns a digest that distinguishes requests, but not their states.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.handlers, &self.requested).hash(&mut hasher);
        hasher.finish()
    }

    /// Purges the progress records of the selected handlers and of their sub-handlers, if the request
    /// is new. Returns `true` if there were any, so that they are to be written before the handlers
    /// are called.
    pub fn purge<'a>(
        &self,
        ids: impl Iterator<Item = &'a HandlerId>,
        state: &State,
        storage: &dyn ProgressStorage,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<bool, StorageError> {
        if self.stage == Stage::Accepted {
            return Ok(false);
        }
        let mut is_purged = false;
        for id in ids {
            let Some(record) = state.record(id) else {
                continue;
            };
            storage.purge(id, body, patch)?;
            for sub in &record.subrefs {
                storage.purge(sub, body, patch)?;
            }
            is_purged = true;
        }
        storage.flush()?;
        Ok(is_purged)
    }

    /// Returns `true` if all these handlers have finished.
    pub fn is_fulfilled<'a>(mut records: impl Iterator<Item = Option<&'a ProgressRecord>>) -> bool {
        records.all(|record| record.is_some_and(|record| record.success || record.failure))
    }
}

/// A request with the handlers that it selects.
#[derive(Clone, Debug)]
pub struct Requested {
    request: Request,
    handlers: Vec<HandlerId>,
    /// The reason to call them if nothing has changed.
    reason: Option<Reason>,
    /// Nothing has changed: only the requested handlers are called.
    is_cause: bool,
}

impl Requested {
    /// Reads the request of an object. Requests on objects in deletion are ignored: only deletion
    /// handlers are called for them.
    pub(super) fn detect<F>(policy: &Policy<F>, body: &Body) -> Option<Self> {
        if body.is_deleting() {
            return None;
        }
        let request = Request::fetch(policy.naming(), body)?;
        let mut handlers: Vec<HandlerId> = Vec::new();
        let mut reasons = Vec::new();
        for handler in &policy.handlers.changing {
            if !handlers.contains(&handler.id) && request.selects(&handler.id, handler.kind) {
                handlers.push(HandlerId::clone(&handler.id));
                reasons.push(reason(handler.kind));
            }
        }
        Some(Self {
            request,
            handlers,
            reason: reasons.into_iter().next().flatten(),
            is_cause: false,
        })
    }

    /// Returns the reason to call the requested handlers on an object without changes.
    pub(super) fn cause(&mut self, reason: Reason) -> Option<Reason> {
        let requested = self.reason.filter(|_| reason == Reason::Noop);
        self.is_cause = requested.is_some();
        requested
    }

    /// Returns `true` if the request selects no handlers, except reconcile handlers.
    pub(super) fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// Returns the handlers to call: those that the cause selects and the requested ones.
    pub(super) fn join<F>(
        &self,
        policy: &Policy<F>,
        mut selected: Vec<Arc<Handler<F>>>,
    ) -> Vec<Arc<Handler<F>>> {
        if self.is_cause {
            selected.clear();
        }
        for id in &self.handlers {
            let is_same = |handler: &&Arc<Handler<F>>| handler.id == *id;
            let mut declared = policy.handlers.changing.iter();
            let declared = declared.find(|one| is_same(one) && self.request.selects(id, one.kind));
            if selected.iter().find(is_same).is_none() {
                selected.extend(declared.cloned());
            }
        }
        selected
    }

    /// Purges the records of a new request, and accepts it. Returns `true` if there were any: the
    /// handlers are called only after the records are removed.
    pub(super) fn accept(
        &self,
        naming: &KeyNaming,
        state: &State,
        storage: &dyn ProgressStorage,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<bool, StorageError> {
        let ids = self.handlers.iter();
        let is_purged = self.request.purge(ids, state, storage, body, patch)?;
        if is_purged {
            self.request.accepted().store(naming, body, patch);
        }
        Ok(is_purged)
    }

    /// Adds the new state of the request to the patch with the outcomes of the handlers.
    pub(super) fn conclude(
        &self,
        naming: &KeyNaming,
        state: &State,
        body: &Body,
        patch: &mut Patch,
    ) {
        let records = self.handlers.iter().map(|id| state.record(id));
        if Request::is_fulfilled(records) {
            Request::remove(naming, body, patch);
        } else if self.request.stage == Stage::New {
            self.request.accepted().store(naming, body, patch);
        }
    }

    /// Returns a digest of the request, so that a repeated request does not count as a cycle
    /// without progress.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.request.hash(&mut hasher);
        hasher.finish()
    }
}

/// Returns `true` if the object has a request after a write.
pub(super) fn is_requested(naming: &KeyNaming, before: &Body, after: &Body) -> bool {
    // The response is parsed only in part, and the annotation names depend on the kind.
    let keys = naming.keys(KEY, before);
    keys.iter().any(|key| after.annotation(key).is_some())
}

/// Returns `true` if a name is the id of a handler, or the name of its annotation.
fn names(name: &str, id: &str) -> bool {
    let safe = id.chars().map(safe_char);
    name == id || name.chars().eq(safe)
}

/// Returns the reason with which a handler is called when nothing has changed; `None` if it cannot be
/// called then.
pub fn reason(kind: HandlerKind) -> Option<Reason> {
    match kind {
        HandlerKind::Create => Some(Reason::Create),
        HandlerKind::Update | HandlerKind::Field => Some(Reason::Update),
        HandlerKind::Resume { .. } => Some(Reason::Resume),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::SmartProgressStorage;

    fn body(annotations: &Value) -> Body {
        Body::new(json!({"metadata": {"name": "x", "annotations": annotations}, "spec": {}}))
    }

    fn request(text: &str) -> Request {
        let body = body(&json!({"kopf.zalando.org/retrigger-request": text}));
        Request::fetch(&KeyNaming::default(), &body).unwrap()
    }

    #[test]
    fn stored_requests_survive_a_round_trip() {
        let naming = KeyNaming::new("my-op.example.com", true).unwrap();
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        for request in [
            Request::new("fn/spec.field", now),
            Request::new("fn", now).accepted(),
        ] {
            let mut patch = Patch::default();
            request.store(&naming, &body(&json!({})), &mut patch);
            let annotations = Value::Object(patch.annotations_mut().clone());
            assert_eq!(annotations["my-op.example.com/kopf-managed"], "yes");
            let stored = body(&annotations);
            assert_eq!(Request::fetch(&naming, &stored), Some(request));
            assert!(Request::is_stored(&naming, &stored));
            let mut essence = json!({"metadata": {"annotations": annotations}, "spec": {}});
            Request::strip(&naming, &stored, &mut essence);
            let left = essence["metadata"]["annotations"].as_object().unwrap();
            assert_eq!(left.len(), 1, "only the marker is left: {left:?}");
        }
    }

    #[test]
    fn malformed_request_has_no_effect_and_is_removed() {
        for text in [
            "",
            "{",
            "null",
            "[]",
            "{\"handlers\": {}}",
            "{\"handlers\": [1]}",
        ] {
            assert_eq!(request(text).handlers, Vec::<String>::new(), "{text}");
        }
        let body = body(&json!({"kopf.zalando.org/retrigger-request": "?"}));
        let mut patch = Patch::default();
        Request::remove(&KeyNaming::default(), &body, &mut patch);
        let expected = json!({"kopf.zalando.org/retrigger-request": null});
        assert_eq!(Value::Object(patch.annotations_mut().clone()), expected);
    }

    #[test]
    fn delete_handlers_and_others_are_not_selected() {
        let request = request(r#"{"handlers": ["fn"]}"#);
        assert!(request.selects("fn", HandlerKind::Field));
        assert!(!request.selects("other", HandlerKind::Create));
        assert!(!request.selects("fn/x", HandlerKind::Create));
        assert!(!request.selects("fn", HandlerKind::Delete { optional: true }));
    }

    #[test]
    fn handlers_are_selected_by_the_names_of_their_annotations() {
        let request = request(r#"{"handlers": ["fn.spec.field", "outer._locals_.inner"]}"#);
        assert!(request.selects("fn/spec.field", HandlerKind::Field));
        assert!(request.selects("outer.<locals>.inner", HandlerKind::Create));
        assert!(!request.selects("fn", HandlerKind::Create));
    }

    #[test]
    fn records_are_purged_once() {
        let (storage, id) = (SmartProgressStorage::default(), HandlerId::from("fn"));
        let body = body(&json!({
            "kopf.zalando.org/fn": r#"{"retries": 1, "success": true, "subrefs": ["fn/a"]}"#,
            "kopf.zalando.org/fn.a": r#"{"retries": 1, "success": true}"#,
            "kopf.zalando.org/other": r#"{"retries": 1, "success": true}"#,
        }));
        let state = State::load(&storage, &body, [&id].into_iter()).unwrap();
        let request = request(r#"{"handlers": ["fn", "absent"]}"#);
        let ids = [id, HandlerId::from("absent")];
        let purge = |request: &Request, state: &State, patch: &mut Patch| {
            let purged = request.purge(ids.iter(), state, &storage, &body, patch);
            purged.unwrap()
        };
        let mut patch = Patch::default();
        assert!(purge(&request, &state, &mut patch));
        let expected = json!({"kopf.zalando.org/fn": null, "kopf.zalando.org/fn.a": null});
        assert_eq!(Value::Object(patch.annotations_mut().clone()), expected);

        let mut patch = Patch::default();
        assert!(!purge(&request.accepted(), &state, &mut patch));
        assert!(!purge(&request, &State::default(), &mut patch));
        assert!(patch.is_empty());
    }

    #[test]
    fn requests_are_fulfilled_when_all_handlers_have_finished() {
        let done = ProgressRecord {
            failure: true,
            ..ProgressRecord::default()
        };
        let retried = ProgressRecord::default();
        assert!(Request::is_fulfilled([Some(&done)].into_iter()));
        assert!(!Request::is_fulfilled(
            [Some(&done), Some(&retried)].into_iter()
        ));
        assert!(!Request::is_fulfilled([Some(&done), None].into_iter()));
    }
}
