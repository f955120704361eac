//! Changes of the operator's state on objects: `kopf retrigger` and `kopf release`.
//!
//! Every patch contains the resource version it was computed from, so that a concurrent write of an
//! operator is never overwritten: the API server responds with a conflict, and the patch is
//! computed again from the newest version.

use std::time::Duration;

use kopf_client::Error;
use kopf_client::patching::{PatchKind, Target};
use kopf_core::body::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::changes::{Changes, Extent, remove_state, request_call, sole_operator};
use crate::cluster::Cluster;
use crate::failure::{Failure, request_failure};
use crate::object_ref::ObjectRef;
use crate::storages::Storages;

/// Upper bound for the number of attempts after conflicts.
const ATTEMPTS: u32 = 8;

/// The delay after the first conflict. It increases with every conflict.
const DELAY: Duration = Duration::from_millis(50);

/// The result of [`retrigger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retriggered {
    /// The state of the operator is removed: the object is handled as a new one.
    Creation,
    /// The call of a handler is requested.
    Requested,
    /// The object has no state of an operator.
    NotHandled,
}

/// The result of [`release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The state of the operator is removed.
    Removed,
    /// The object has no state of the operator.
    Clean,
    /// The object no longer exists.
    Gone,
}

/// Removes the state of the operator from an object, so that it is handled as a new one; or
/// requests a call of one handler.
///
/// # Errors
/// If the object does not exist, is being deleted, or cannot be written.
pub async fn retrigger(
    cluster: &Cluster,
    object: ObjectRef<'_>,
    storages: &Storages,
    handler: Option<&str>,
) -> Result<Retriggered, Failure> {
    let make = |body: &Body| {
        if body.is_deleting() {
            let reason = format!("cannot retrigger {object}: it is being deleted");
            return Err(Failure::plain(reason).advise("`kopf explain` shows its finalizers"));
        }
        let storages = sole_operator(body, storages)?;
        Ok(match handler {
            Some(handler) => request_call(body, &storages, handler),
            None => remove_state(body, &storages, Extent::State),
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
    object: ObjectRef<'_>,
    storages: &Storages,
) -> Result<Released, Failure> {
    let make = |body: &Body| {
        let storages = sole_operator(body, storages)?;
        Ok(remove_state(body, &storages, Extent::Everything))
    };
    Ok(match write(cluster, object, make).await? {
        Written::Gone => Released::Gone,
        Written::Unchanged => Released::Clean,
        Written::Changed => Released::Removed,
    })
}

pub(crate) fn absent(object: ObjectRef<'_>) -> Failure {
    let failure = Failure::plain(format!("there is no {object}"));
    match object.namespace {
        Some(_) => failure.advise("check the name, and the namespace (-n)"),
        None => failure.advise("check the name"),
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
    object: ObjectRef<'_>,
    make: impl Fn(&Body) -> Result<Changes, Failure>,
) -> Result<Written, Failure> {
    let failed = |error: &Error| request_failure(format!("cannot change {object}"), error);
    for attempt in 1..=ATTEMPTS {
        let ObjectRef {
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
    let reason = format!("cannot change {object}: {ATTEMPTS} conflicts with other clients");
    Err(Failure::plain(reason).advise("retry later, or freeze the operators (kopf freeze)"))
}

async fn send(
    cluster: &Cluster,
    object: ObjectRef<'_>,
    body: &Body,
    changes: Changes,
) -> Result<Written, Error> {
    let target = Target {
        client: cluster.client(),
        resource: object.resource,
        namespace: object.namespace,
        name: object.name,
        uid: None,
    };
    let mut version = body.resource_version().unwrap_or_default().to_owned();
    let Changes {
        mut metadata,
        mut status,
    } = changes;
    // The status is written first: otherwise the next handling would read its records.
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
