//! Changes of the operator's state on objects: `kopf retrigger` and `kopf release`.
//!
//! Every patch carries the resource version of the object that it was made for, so that a
//! concurrent write of an operator is never overwritten: the API server responds with a conflict,
//! and the patch is made again from the newest version.

use std::time::Duration;

use kopf_client::Error;
use kopf_client::patching::{PatchKind, Target};
use kopf_core::body::Body;
use kopf_core::keys::MARKER;
use kopf_core::object::retriggering::{Request, Stage};
use kopf_core::patch::Patch;
use kopf_core::resource::Resource;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::places::Places;
use crate::records::own_annotations;

/// The number of attempts to write an object that others change at the same time.
const ATTEMPTS: u32 = 8;

/// The delay after the first conflict. It grows with every conflict.
const DELAY: Duration = Duration::from_millis(50);

/// The fields of `status.kopf` with the state of operators.
const STATUS: [&str; 3] = ["progress", "dummy", "last-handled-configuration"];

/// An object by its name.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The namespace; `None` for cluster-scoped resources.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = &self.resource.singular;
        match self.namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{}", self.name),
            None => write!(f, "{kind} {}", self.name),
        }
    }
}

/// The result of [`retrigger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retriggered {
    /// The state of the operator is removed: a creation follows.
    Creation,
    /// The call of a handler is requested.
    Requested,
    /// There was nothing to remove: the operator has not handled the object yet.
    NotHandled,
}

/// The result of [`release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The state of the operator is removed.
    Removed,
    /// There was nothing to remove.
    Clean,
    /// The object does not exist any longer.
    Gone,
}

/// The changes of one object.
#[derive(Clone, Debug, Default, PartialEq)]
struct Changes {
    metadata: Map<String, Value>,
    status: Map<String, Value>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.metadata.is_empty() && self.status.is_empty()
    }
}

/// Removes the state of the operator from an object, so that its handlers are called as for a new
/// object; or requests the call of one handler.
///
/// # Errors
/// If the object does not exist, is being deleted, or cannot be written.
pub async fn retrigger(
    cluster: &Cluster,
    object: Named<'_>,
    places: &Places,
    handler: Option<&str>,
) -> Result<Retriggered, Failure> {
    let make = |body: &Body| {
        if body.is_deleting() {
            let reason = format!("cannot retrigger {object}: it is being deleted");
            return Err(Failure::plain(reason).advise("see `kopf explain` for what it waits for"));
        }
        Ok(match handler {
            Some(handler) => requesting(body, places, handler),
            None => forgetting(body, places, Depth::State),
        })
    };
    match write(cluster, object, make).await? {
        Written::Gone => Err(absent(object)),
        Written::Unchanged => Ok(Retriggered::NotHandled),
        Written::Changed if handler.is_some() => Ok(Retriggered::Requested),
        Written::Changed => Ok(Retriggered::Creation),
    }
}

/// Removes the finalizer and all state of the operator from an object.
///
/// # Errors
/// If the object cannot be written.
pub async fn release(
    cluster: &Cluster,
    object: Named<'_>,
    places: &Places,
) -> Result<Released, Failure> {
    let make = |body: &Body| Ok(forgetting(body, places, Depth::Everything));
    Ok(match write(cluster, object, make).await? {
        Written::Gone => Released::Gone,
        Written::Unchanged => Released::Clean,
        Written::Changed => Released::Removed,
    })
}

/// Returns `true` if an object has anything that [`release`] removes.
pub(crate) fn is_held(body: &Body, places: &Places) -> bool {
    !forgetting(body, places, Depth::Everything).is_empty()
}

pub(crate) fn absent(object: Named<'_>) -> Failure {
    let failure = Failure::plain(format!("there is no {object}"));
    match object.namespace {
        Some(_) => failure.advise("check the name, and the namespace (-n)"),
        None => failure.advise("check the name"),
    }
}

/// The extent of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// The diff-base, the records, and everything else that depends on them.
    State,
    /// Also the marker of the prefix and the finalizer.
    Everything,
}

fn forgetting(body: &Body, places: &Places, depth: Depth) -> Changes {
    let own = own_annotations(places, body);
    let removed = own.filter(|own| depth == Depth::Everything || own.name != MARKER);
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
    if depth == Depth::Everything && finalizers.contains(&places.finalizer.as_str()) {
        let others = finalizers
            .into_iter()
            .filter(|name| *name != places.finalizer);
        let others: Vec<_> = others.collect();
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
    changes
}

/// Requests a call of the handler. The handlers of an unfinished request stay requested.
fn requesting(body: &Body, places: &Places, handler: &str) -> Changes {
    let mut request = Request::new(handler, Cluster::now());
    if let Some(stored) = Request::fetch(&places.naming, body) {
        let others = stored.handlers.into_iter().filter(|id| id != handler);
        request.handlers.extend(others);
        request.stage = Stage::New;
    }
    let mut patch = Patch::default();
    request.store(&places.naming, body, &mut patch);
    let annotations = patch.annotations_mut().clone();
    Changes {
        metadata: Map::from_iter([("annotations".to_owned(), Value::Object(annotations))]),
        status: Map::new(),
    }
}

/// The effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Changed,
    Unchanged,
    Gone,
}

async fn write(
    cluster: &Cluster,
    object: Named<'_>,
    make: impl Fn(&Body) -> Result<Changes, Failure>,
) -> Result<Written, Failure> {
    let failed = |error: &Error| Failure::request(format!("cannot change {object}"), error);
    for attempt in 1..=ATTEMPTS {
        let Named {
            resource,
            namespace,
            name,
        } = object;
        let found = cluster.get(resource, namespace, name).await;
        let Some(body) = found.map_err(|error| failed(&error))? else {
            return Ok(Written::Gone);
        };
        let changes = make(&body)?;
        if changes.is_empty() {
            return Ok(Written::Unchanged);
        }
        match send(cluster, object, &body, changes).await {
            Ok(written) => return Ok(written),
            Err(error) if error.is_conflict() => sleep(DELAY * attempt).await,
            Err(error) => return Err(failed(&error)),
        }
    }
    let reason = format!("cannot change {object}: others change it all the time");
    Err(Failure::plain(reason).advise("repeat later, or freeze the operators (kopf freeze)"))
}

async fn send(
    cluster: &Cluster,
    object: Named<'_>,
    body: &Body,
    changes: Changes,
) -> Result<Written, Error> {
    let target = Target {
        client: cluster.client(),
        resource: object.resource,
        namespace: object.namespace,
        name: object.name,
    };
    let mut version = body.resource_version().unwrap_or_default().to_owned();
    let Changes {
        mut metadata,
        mut status,
    } = changes;
    // The status goes first: its records would otherwise be read by the handling that follows.
    if object.resource.has_status() && !status.is_empty() {
        let payload = json!({"metadata": {"resourceVersion": version}, "status": status});
        let sent = target
            .patch(Some("status"), PatchKind::Merge, &payload)
            .await?;
        let Some(response) = sent else {
            return Ok(Written::Gone);
        };
        let part = response.part();
        part.resource_version()
            .unwrap_or_default()
            .clone_into(&mut version);
        status.clear();
        if metadata.is_empty() {
            return Ok(Written::Changed);
        }
    }
    metadata.insert("resourceVersion".to_owned(), Value::from(version));
    let mut payload = json!({"metadata": metadata});
    if !status.is_empty() {
        payload["status"] = Value::Object(status);
    }
    Ok(
        match target.patch(None, PatchKind::Merge, &payload).await? {
            Some(_) => Written::Changed,
            None => Written::Gone,
        },
    )
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
    fn state_is_forgotten_and_the_finalizer_stays() {
        let changes = forgetting(&body(), &Places::default(), Depth::State);
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
        let places = Places::new(Some("my.example"), None, &[]).unwrap();
        let annotations = json!({"my.example/kopf-managed": "yes", "kopf.zalando.org/fn": "{}"});
        let metadata = json!({"annotations": annotations, "finalizers": [FINALIZER]});
        let body =
            Body::new(json!({"metadata": metadata, "status": {"kopf": {"own": 1, "dummy": 2}}}));
        let changes = forgetting(&body, &places, Depth::Everything);
        let expected = json!({"annotations": {"my.example/kopf-managed": null}, "finalizers": []});
        assert_eq!(Value::Object(changes.metadata), expected);
        assert_eq!(
            Value::Object(changes.status),
            json!({"kopf": {"dummy": null}})
        );
        let state = forgetting(&body, &places, Depth::State);
        assert!(state.metadata.is_empty());
    }

    #[test]
    fn untouched_objects_need_no_change() {
        let body = Body::new(json!({"metadata": {"finalizers": ["x/y"]}, "status": {"kopf": 5}}));
        assert!(!is_held(&body, &Places::default()));
    }

    #[test]
    fn requests_are_added_to_unfinished_ones() {
        let request = r#"{"handlers":["a","b"],"requested":"t","accepted":true}"#;
        let annotations = json!({"kopf.zalando.org/retrigger-request": request});
        let body = Body::new(json!({"metadata": {"annotations": annotations}}));
        let changes = requesting(&body, &Places::default(), "b");
        let text = changes.metadata["annotations"]["kopf.zalando.org/retrigger-request"].as_str();
        let stored: Value = serde_json::from_str(text.unwrap()).unwrap();
        assert_eq!(stored["handlers"], json!(["b", "a"]));
        assert!(stored.get("accepted").is_none());
    }
}
