//! Installation of CRDs at the start of an operator.
//!
//! A CRD is applied by server-side apply, without force. A wider CRD in the cluster is left
//! unchanged, because objects that another version of the operator has stored must stay valid. A
//! CRD in deletion is created again after its deletion.

use std::time::Duration;

use kopf_client::Client;
use kopf_client::applying::FieldOwnership;
use kopf_client::patching::Target;
use kopf_core::definition::{narrowings, pending};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use crate::observation::builtin;

/// The field manager of CRDs.
const MANAGER: &str = "kopf";

/// Time limit for a CRD to be established or deleted. Servers take about a second.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Polling interval for CRDs that are not established.
const POLLING_INTERVAL: Duration = Duration::from_millis(250);

/// Error that prevents the installation of a CRD.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A CRD without `metadata.name`.
    #[error("a CRD has no metadata.name")]
    Nameless,
    /// The cluster has a CRD that permits more.
    #[error(
        "the CRD {name} of the cluster permits more than that of this operator: {}; run a newer version \
         of the operator, or apply its CRD yourself and run without --install-crds",
        .differences.join(", ")
    )]
    Narrower {
        /// The name of the CRD.
        name: String,
        /// The differences.
        differences: Vec<String>,
    },
    /// Other clients own fields with other values.
    #[error(
        "the CRD {name} was changed by other clients: apply it yourself and run without --install-crds"
    )]
    Conflict {
        /// The name of the CRD.
        name: String,
        /// The fields and their owners.
        #[source]
        source: Box<kopf_client::Error>,
    },
    /// The permissions are not sufficient.
    #[error(
        "not permitted to install the CRD {name}: grant the verbs create, get and patch for \
         customresourcedefinitions.apiextensions.k8s.io, or run without --install-crds"
    )]
    Forbidden {
        /// The name of the CRD.
        name: String,
        /// The response of the server.
        #[source]
        source: Box<kopf_client::Error>,
    },
    /// The server rejects the CRD, or is not reachable.
    #[error("cannot install the CRD {name}")]
    Failed {
        /// The name of the CRD.
        name: String,
        /// The cause.
        #[source]
        source: Box<kopf_client::Error>,
    },
    /// The CRD is marked for deletion and still exists.
    #[error(
        "the CRD {name} is still being deleted after 60 seconds: its objects have finalizers; see \
         `kubectl get {name} -A`"
    )]
    Terminating {
        /// The name of the CRD.
        name: String,
    },
    /// The server does not serve the objects.
    #[error("the CRD {name} is not established after 60 seconds: {}", .reasons.join(", "))]
    NotEstablished {
        /// The name of the CRD.
        name: String,
        /// The conditions.
        reasons: Vec<String>,
    },
}

/// Installs the CRDs and waits until they are established. CRDs that are up to date are not
/// changed.
pub(crate) async fn install(client: &Client, definitions: &[Value]) -> Result<(), Error> {
    let resource = builtin(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let mut targets = Vec::new();
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str();
        let target = Target {
            client,
            resource: &resource,
            namespace: None,
            name: name.ok_or(Error::Nameless)?,
            uid: None,
        };
        install_one(target, definition).await?;
        targets.push(target);
    }
    // All are sent before any is awaited: the server establishes them concurrently.
    for target in targets {
        establish(target).await?;
    }
    Ok(())
}

async fn install_one(target: Target<'_>, definition: &Value) -> Result<(), Error> {
    let name = target.name;
    let existing = existing(target).await?;
    if let Some(existing) = &existing {
        let differences = narrowings(existing, definition);
        if !differences.is_empty() {
            let name = name.to_owned();
            return Err(Error::Narrower { name, differences });
        }
    }
    let applied = target.apply(MANAGER, FieldOwnership::Respect, definition);
    let (applied, _) = applied.await.map_err(|error| explain(name, error))?;
    let version = |object: &Value| object["metadata"]["generation"].clone();
    match existing {
        None => info!("CRD {name} is created."),
        Some(existing) if version(&existing) != version(&applied) => {
            info!("CRD {name} is updated.");
        }
        Some(_) => debug!("CRD {name} is up to date."),
    }
    Ok(())
}

/// Reads a CRD; `None` if it does not exist. Waits for the deletion of a CRD that is marked for it.
async fn existing(target: Target<'_>) -> Result<Option<Value>, Error> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let found = target.get().await;
        let found = found.map_err(|error| explain(target.name, error))?;
        let is_dying = |found: &Value| !found["metadata"]["deletionTimestamp"].is_null();
        if !found.as_ref().is_some_and(is_dying) {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            let name = target.name.to_owned();
            return Err(Error::Terminating { name });
        }
        sleep(POLLING_INTERVAL).await;
    }
}

async fn establish(target: Target<'_>) -> Result<(), Error> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let found = target.get().await;
        let found = found.map_err(|error| explain(target.name, error))?;
        let reasons = pending(&found.unwrap_or_default());
        if reasons.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let name = target.name.to_owned();
            return Err(Error::NotEstablished { name, reasons });
        }
        sleep(POLLING_INTERVAL).await;
    }
}

fn explain(name: &str, error: kopf_client::Error) -> Error {
    let (name, source) = (name.to_owned(), Box::new(error));
    if source.is_conflict() {
        Error::Conflict { name, source }
    } else if source.is_forbidden() {
        Error::Forbidden { name, source }
    } else {
        Error::Failed { name, source }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;
    use crate::fake_api::{FakeResponse, serve};

    fn definition(field: &str) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.g"},
            "spec": {"versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {
                "properties": {field: {"type": "string"}}}}}]},
        })
    }

    fn established(mut definition: Value) -> Value {
        definition["status"] = json!({"conditions": [
            {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]});
        definition
    }

    /// A server with at most one CRD; patches are refused with a code, if there is one.
    fn server(stored: Option<Value>, refusal: Option<u16>) -> (Client, Arc<Mutex<Option<Value>>>) {
        let stored = Arc::new(Mutex::new(stored));
        let state = Arc::clone(&stored);
        let (client, _) = serve(move |request| {
            let mut state = state.lock().unwrap();
            match (request.method.as_str(), refusal) {
                ("PATCH", Some(code)) => FakeResponse::status(code),
                ("PATCH", None) => {
                    *state = Some(request.body.clone());
                    FakeResponse::Json(200, request.body.clone())
                }
                _ => match &mut *state {
                    None => FakeResponse::status(404),
                    // The CRD is established after the first read.
                    Some(found) => {
                        let seen = found.clone();
                        *found = established(seen.clone());
                        FakeResponse::Json(200, seen)
                    }
                },
            }
        });
        (client, stored)
    }

    #[tokio::test(start_paused = true)]
    async fn absent_definitions_are_created_and_awaited() {
        let (client, stored) = server(None, None);
        install(&client, &[definition("a")]).await.unwrap();
        let stored = stored.lock().unwrap().clone().unwrap();
        assert_eq!(pending(&stored), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn wider_definitions_are_left_alone() {
        let existing = established(definition("b"));
        let (client, stored) = server(Some(existing.clone()), None);
        let error = install(&client, &[definition("a")]).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("version v1: the field b is missing"),
            "{text}"
        );
        assert_eq!(*stored.lock().unwrap(), Some(existing));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_have_their_own_errors() {
        for (code, expected) in [
            (409, "the CRD things.g was changed by other clients"),
            (403, "not permitted to install the CRD things.g"),
            (422, "cannot install the CRD things.g"),
        ] {
            let (client, _) = server(None, Some(code));
            let error = install(&client, &[definition("a")]).await.unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn definitions_are_created_again_after_their_deletion() {
        let mut dying = established(definition("a"));
        dying["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        let state = Mutex::new((4, None));
        let (client, _) = serve(move |request| {
            let (looks, stored) = &mut *state.lock().unwrap();
            if request.method == "PATCH" {
                *stored = Some(established(request.body.clone()));
            }
            *looks -= i32::from(*looks > 0);
            match stored {
                Some(stored) => FakeResponse::Json(200, stored.clone()),
                None if *looks > 0 => FakeResponse::Json(200, dying.clone()),
                None => FakeResponse::status(404),
            }
        });
        install(&client, &[definition("a")]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_deletion_is_limited() {
        let mut dying = established(definition("a"));
        dying["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        let (client, _) = serve(move |_| FakeResponse::Json(200, dying.clone()));
        let error = install(&client, &[definition("a")]).await.unwrap_err();
        assert!(matches!(error, Error::Terminating { .. }), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_definition_is_limited() {
        let (client, _) = serve(|request| match request.method.as_str() {
            "PATCH" => FakeResponse::Json(200, request.body.clone()),
            _ => FakeResponse::Json(200, definition("a")),
        });
        let error = install(&client, &[definition("a")]).await.unwrap_err();
        assert!(matches!(error, Error::NotEstablished { .. }), "{error}");
    }
}
