//! Server-side apply of children.

use std::collections::BTreeSet;
use std::sync::Arc;

pub use kopf_client::applying::FieldOwnership;
use kopf_client::discovery::{self, Groups};
use kopf_client::patching::Target;
use kopf_core::body::Body;
use kopf_core::children::{self, Child, Conflict, Kind, Scope, kind_of};
use kopf_core::key_order::KeyOrder;
use kopf_core::resource::Resource;
use serde_json::Value;

use crate::invocation::OperatorContext;

/// A child after it was applied.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Applied {
    /// The child as the server has it.
    pub object: Value,
    /// The order of its keys; `None` if they are sorted.
    pub order: Option<Arc<KeyOrder>>,
    /// The effect of the call.
    pub effect: Effect,
}

/// The effect of applying a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The child did not exist, and was created.
    Created,
    /// The manifest was sent to the existing child.
    Changed,
    /// Nothing was sent: the child has been applied before, and no field was changed since.
    Unchanged,
}

/// A child that was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The manifest or its owner is unsuitable.
    #[error(transparent)]
    Manifest(#[from] children::Error),
    /// The server does not serve this kind.
    #[error("child {child} is not applied: the server does not serve {kind}; create its CRD first")]
    UnknownKind {
        /// The kind and the name of the child, or its kind if the manifest has no name.
        child: String,
        /// The kind.
        kind: Kind,
    },
    /// Other managers own fields of the manifest.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The server rejected the request, or could not be reached.
    #[error("child {child} is not applied")]
    Request {
        /// The child, with its namespace.
        child: String,
        /// The cause.
        source: Box<kopf_client::Error>,
    },
}

/// Applies a child of this owner, unless the child already matches the manifest.
///
/// Adds the owner reference, the namespace and the labels of the owner to the child, and the name
/// of the owner if the manifest has none. The field manager is
/// [`Settings::field_manager`](kopf_core::settings::Settings::field_manager).
///
/// # Errors
/// See [`Error`]. A failed call does not change the child.
///
/// # Cancellation
/// If the future is dropped, the server may or may not have applied the child.
pub async fn apply_child(
    context: &OperatorContext,
    owner: &Body,
    manifest: Value,
    ownership: FieldOwnership,
) -> Result<Applied, Error> {
    let kind = kind_of(&manifest)?;
    let resource = resolve(context, &kind, &manifest).await?;
    let scope = if resource.namespaced {
        Scope::Namespaced
    } else {
        Scope::Cluster
    };
    let manager = context.settings.field_manager();
    let child = Child::new(manifest, owner, scope, manager)?;
    let target = Target {
        client: &context.client,
        resource: &resource,
        namespace: child.namespace(),
        name: child.name(),
        uid: None,
    };
    let failed = |error: kopf_client::Error| {
        if error.is_not_found() {
            // The CRD may have been replaced by one with another scope or name.
            context.kinds.forget(&kind);
        }
        refused(describe(&kind, &child), error)
    };
    let effect = match target.get_in_order().await.map_err(failed)? {
        Some((object, order)) if child.is_applied_to(&object) => {
            return Ok(Applied {
                object,
                order,
                effect: Effect::Unchanged,
            });
        }
        Some(_) => Effect::Changed,
        None => Effect::Created,
    };
    let applied = target.apply(manager, ownership, child.manifest()).await;
    let (object, order) = applied.map_err(failed)?;
    Ok(Applied {
        object,
        order,
        effect,
    })
}

/// Finds the resource of a kind.
async fn resolve(
    context: &OperatorContext,
    kind: &Kind,
    manifest: &Value,
) -> Result<Arc<Resource>, Error> {
    if let Some(resource) = context.kinds.get(kind) {
        return Ok(resource);
    }
    let child = || {
        let name = manifest.get("metadata").and_then(|meta| meta.get("name"));
        match name.and_then(Value::as_str) {
            Some(name) if !name.is_empty() => format!("{}/{name}", kind.kind),
            _ => kind.kind.clone(),
        }
    };
    let groups = Groups::Only(BTreeSet::from([kind.group.clone()]));
    let failed = |error| refused(child(), error);
    let scan = discovery::scan(&context.client, &groups)
        .await
        .map_err(failed)?;
    let is_meant = |resource: &Resource| {
        resource.group == kind.group
            && resource.version == kind.version
            && resource.kind == kind.kind
    };
    if let Some(resource) = scan.resources.into_iter().find(is_meant) {
        let resource = Arc::new(resource);
        context.kinds.insert(kind.clone(), &resource);
        return Ok(resource);
    }
    if let Some((_, error)) = scan.failed.into_iter().next() {
        return Err(failed(error));
    }
    Err(Error::UnknownKind {
        child: child(),
        kind: kind.clone(),
    })
}

fn refused(child: String, error: kopf_client::Error) -> Error {
    let details = error.status().and_then(|status| status.details.as_ref());
    if error.is_conflict()
        && let Some(conflict) = Conflict::from_details(child.clone(), details)
    {
        return conflict.into();
    }
    Error::Request {
        child,
        source: Box::new(error),
    }
}

fn describe(kind: &Kind, child: &Child) -> String {
    let name = format!("{}/{}", kind.kind, child.name());
    match child.namespace() {
        Some(namespace) => format!("{name} in the namespace {namespace:?}"),
        None => name,
    }
}
