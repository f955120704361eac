//! Changes of the operator's state on one object.

use kopf_core::body::Body;
use kopf_core::field::{self, FieldPath};
use kopf_core::keys::MARKER;
use kopf_core::object::retriggering::{Request, Stage};
use kopf_core::patch::Patch;
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::paint::harmless;
use crate::recognition;
use crate::storages::{Storages, own_annotations};

/// The fields of `status.kopf` with the state of operators.
const STATUS: [&str; 3] = ["progress", "dummy", "last-handled-configuration"];

/// A patch of one object and of its status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) metadata: Map<String, Value>,
    pub(crate) status: Map<String, Value>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.metadata.is_empty() && self.status.is_empty()
    }
}

/// Returns `true` if an object has state or a finalizer that [`release`](crate::release) removes.
pub(crate) fn is_held(body: &Body, storages: &Storages) -> bool {
    let operators = storages.recognised(body);
    let mut changes = operators
        .iter()
        .map(|one| remove_state(body, one, Extent::Everything));
    changes.any(|changes| !changes.is_empty())
}

/// Returns the storages of the operator whose state is on an object.
///
/// # Errors
/// If several operators are recognised: the state of the others must not be removed.
pub(crate) fn sole_operator(body: &Body, storages: &Storages) -> Result<Storages, Failure> {
    let mut operators = storages.recognised(body);
    if operators.len() > 1 {
        let prefixes = operators.iter().map(|one| one.naming.prefix());
        let prefixes: Vec<_> = prefixes.map(harmless).collect();
        let name = harmless(body.name().unwrap_or_default());
        let reason = format!(
            "{name} has the state of several operators: {}",
            prefixes.join(", ")
        );
        return Err(Failure::plain(reason).advise("choose one of them by --annotation-prefix"));
    }
    Ok(operators.pop().unwrap_or_else(|| storages.clone()))
}

/// The extent of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The diff-base, the progress records and other annotations of handling.
    State,
    /// The state, the marker of the prefix and the finalizer.
    Everything,
}

/// Removes the state of the operator.
pub(crate) fn remove_state(body: &Body, storages: &Storages, extent: Extent) -> Changes {
    let own = own_annotations(storages, body);
    let removed = own.filter(|own| extent == Extent::Everything || own.name != MARKER);
    let annotations: Map<_, _> = removed
        .map(|own| (own.key.to_owned(), Value::Null))
        .collect();
    let mut changes = Changes::default();
    if !annotations.is_empty() {
        changes
            .metadata
            .insert("annotations".to_owned(), Value::Object(annotations));
    }
    let finalizers: Vec<&str> = body.finalizers().collect();
    let others: Vec<_> = finalizers
        .iter()
        .filter(|name| !storages.owns_finalizer(name))
        .collect();
    if extent == Extent::Everything && others.len() < finalizers.len() {
        changes
            .metadata
            .insert("finalizers".to_owned(), json!(others));
    }
    if let Some(Value::Object(stored)) = body.status().get("kopf") {
        let fields = STATUS.iter().filter(|field| stored.contains_key(**field));
        let nulls: Map<_, _> = fields
            .map(|field| ((*field).to_owned(), Value::Null))
            .collect();
        if nulls.len() == stored.len() && !nulls.is_empty() {
            changes.status.insert("kopf".to_owned(), Value::Null);
        } else if !nulls.is_empty() {
            changes
                .status
                .insert("kopf".to_owned(), Value::Object(nulls));
        }
    }
    remove_recognised(body, &mut changes.status);
    changes
}

/// Removes the progress records and the diff-base from other fields of the status.
fn remove_recognised(body: &Body, status: &mut Map<String, Value>) {
    let is_usual = |path: &FieldPath| path.starts_with(&FieldPath::from("status.kopf"));
    let records = recognition::records_in_status(body).into_iter();
    let records = records.filter(|(path, _)| !is_usual(path));
    let records = records.flat_map(|(path, records)| {
        let ids = records.into_iter().map(|(id, _)| id.as_str());
        ids.map(|id| path.join(id)).collect::<Vec<_>>()
    });
    for path in records.chain(recognition::base_in_status(body)) {
        if let Some(path) = path.strip_prefix(&FieldPath::from("status")) {
            field::overwrite(status, &path, Value::Null);
        }
    }
}

/// Requests a call of the handler. An unfinished request is extended, not replaced.
pub(crate) fn request_call(body: &Body, storages: &Storages, handler: &str) -> Changes {
    let mut request = Request::new(handler, Cluster::now());
    if let Some(stored) = Request::fetch(&storages.naming, body) {
        let others = stored.handlers.into_iter().filter(|id| id != handler);
        request.handlers.extend(others);
        request.stage = Stage::New;
    }
    let mut patch = Patch::default();
    request.store(&storages.naming, body, &mut patch);
    let annotations = patch.annotations_mut().clone();
    Changes {
        metadata: Map::from_iter([("annotations".to_owned(), Value::Object(annotations))]),
        status: Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

    fn body() -> Body {
        Body::new(json!({
            "metadata": {
                "annotations": {
                    "kopf.zalando.org/last-handled-configuration": "{}",
                    "kopf.zalando.org/fn": "{}", "kopf.zalando.org/garbage": "?",
                    "other.example/fn": "1", "plain": "1",
                },
                "finalizers": ["other/x", FINALIZER],
            },
            "status": {"kopf": {"progress": {}, "dummy": "x"}, "x": 1},
        }))
    }

    #[test]
    fn state_is_removed_and_the_finalizer_is_kept() {
        let changes = remove_state(&body(), &Storages::default(), Extent::State);
        let annotations = changes.metadata["annotations"].as_object().unwrap();
        let keys: Vec<_> = annotations.keys().map(String::as_str).collect();
        let expected = ["fn", "garbage", "last-handled-configuration"];
        assert_eq!(
            keys,
            expected.map(|name| format!("kopf.zalando.org/{name}"))
        );
        assert!(annotations.values().all(Value::is_null));
        assert!(!changes.metadata.contains_key("finalizers"));
        assert_eq!(Value::Object(changes.status), json!({"kopf": null}));
    }

    #[test]
    fn everything_includes_the_marker_and_the_finalizer() {
        let storages = Storages::new(Some("my.example"), None, &[]).unwrap();
        let annotations = json!({"my.example/kopf-managed": "yes", "kopf.zalando.org/fn": "{}"});
        let metadata = json!({"annotations": annotations, "finalizers": [FINALIZER]});
        let body =
            Body::new(json!({"metadata": metadata, "status": {"kopf": {"own": 1, "dummy": 2}}}));
        let changes = remove_state(&body, &storages, Extent::Everything);
        let expected = json!({"annotations": {"my.example/kopf-managed": null}, "finalizers": []});
        assert_eq!(Value::Object(changes.metadata), expected);
        assert_eq!(
            Value::Object(changes.status),
            json!({"kopf": {"dummy": null}})
        );
        let state = remove_state(&body, &storages, Extent::State);
        assert!(state.metadata.is_empty());
    }

    #[test]
    fn untouched_objects_need_no_change() {
        let body = Body::new(json!({"metadata": {"finalizers": ["x/y"]}, "status": {"kopf": 5}}));
        assert!(!is_held(&body, &Storages::default()));
    }

    #[test]
    fn requests_are_added_to_unfinished_ones() {
        let request = r#"{"handlers":["a","b"],"requested":"t","accepted":true}"#;
        let annotations = json!({"kopf.zalando.org/retrigger-request": request});
        let body = Body::new(json!({"metadata": {"annotations": annotations}}));
        let changes = request_call(&body, &Storages::default(), "b");
        let text = changes.metadata["annotations"]["kopf.zalando.org/retrigger-request"].as_str();
        let stored: Value = serde_json::from_str(text.unwrap()).unwrap();
        assert_eq!(stored["handlers"], json!(["b", "a"]));
        assert!(stored.get("accepted").is_none());
    }
}
