//! Requests for Leases: reads, and writes that are conditional on the version that was read.

use std::collections::BTreeMap;
use std::fmt;

use futures::StreamExt as _;
use kopf_client::{Client, Error};
use kopf_core::leading::{Intent, LeaseRecord};
use kopf_core::settings::{Leading, Settings};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::debug;

use super::CONCURRENT_WRITES;

/// The namespace of Leases if neither the settings nor the credentials define one.
const DEFAULT_NAMESPACE: &str = "default";

/// Returns the namespace of the group's objects. Waits for credentials if they define it.
pub(crate) async fn namespace(client: &Client, leading: &Leading) -> Result<String, Error> {
    if let Some(namespace) = &leading.namespace {
        return Ok(namespace.clone());
    }
    let suggested = client.suggested_namespace().await?;
    Ok(suggested.map_or_else(|| DEFAULT_NAMESPACE.to_owned(), |name| name.to_string()))
}

/// The Leases of one namespace.
#[derive(Debug)]
pub(super) struct Leases {
    client: Client,
    namespace: String,
    /// Limits the concurrent requests for the Leases of shards.
    permits: Semaphore,
}

/// One Lease, including the metadata that other clients have added.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) name: String,
    /// Labels and annotations for the creation of the Lease.
    metadata: Map<String, Value>,
    /// The last seen object.
    object: Option<Value>,
}

impl Leases {
    /// Creates a client for the namespace of the settings. Waits for credentials if they define it.
    /// Requests have their own rate limits, so that they do not wait for those of handlers. A renewal
    /// that takes longer than `renew_deadline` would not extend the validity, so it is repeated then.
    pub(super) async fn new(client: &Client, settings: &Settings) -> Result<Self, Error> {
        let mut networking = settings.networking.clone();
        networking.request_timeout = Some(settings.leading.renew_deadline);
        let client = client.with_networking(&networking);
        let namespace = namespace(&client, &settings.leading).await?;
        Ok(Self {
            client,
            namespace,
            permits: Semaphore::new(CONCURRENT_WRITES),
        })
    }

    /// Waits until a request for the Lease of a shard may be sent. Cancel-safe.
    pub(super) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.permits.acquire().await.ok()
    }

    fn path(&self, name: &str) -> String {
        let path = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{name}",
            self.namespace
        );
        path.trim_end_matches('/').to_owned()
    }

    /// Reads a Lease; `None` if it does not exist.
    pub(super) async fn read(&self, lease: &mut Lease) -> Result<Option<LeaseRecord>, Error> {
        lease.object = match self.client.get_json_once(&self.path(&lease.name)).await {
            Ok(object) => Some(object),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        lease.object.as_ref().map(parse).transpose()
    }

    /// Lists the Leases with this label from the newest state of the server.
    pub(super) async fn list(&self, label: &str) -> Result<Vec<Value>, Error> {
        let path = format!("{}?labelSelector={label}", self.path(""));
        let mut list = self.client.get_json_once(&path).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Writes a Lease; `None` on a conflict.
    pub(super) async fn write(
        &self,
        lease: &mut Lease,
        intent: &Intent,
        spec: Map<String, Value>,
    ) -> Result<Option<LeaseRecord>, Error> {
        let object = lease.written(intent, spec, &self.namespace);
        let written = match intent {
            Intent::Create => self.client.post_json_once(&self.path(""), &object).await,
            Intent::Update { .. } => {
                let path = self.path(&lease.name);
                self.client.put_json(&path, &object).await
            }
        };
        match written {
            Ok(object) => {
                let record = parse(&object)?;
                lease.object = Some(object);
                Ok(Some(record))
            }
            Err(error) if error.is_conflict() => Ok(None),
            // Without its namespace, a Lease cannot be created.
            Err(error) if error.is_not_found() && *intent != Intent::Create => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a Lease if it still has this version.
    pub(super) async fn delete(&self, name: &str, version: &str) -> Result<(), Error> {
        match self.client.delete_version(&self.path(name), version).await {
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
            result => result,
        }
    }

    /// Deletes the Leases of former replicas if they still have these versions. Failures are only
    /// logged, because such Leases have no effect.
    pub(super) async fn forget(&self, forgotten: Vec<(String, String)>) {
        let deleting = forgotten.into_iter().map(async |(name, version)| {
            if let Err(error) = self.delete(&name, &version).await {
                debug!("The Lease {name} is not deleted: {error}");
            }
        });
        let deleting = futures::stream::iter(deleting);
        let () = deleting.buffer_unordered(CONCURRENT_WRITES).collect().await;
    }
}

impl Lease {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            metadata: Map::new(),
            object: None,
        }
    }

    /// Adds labels for the creation of the Lease.
    pub(super) fn with_labels(mut self, labels: &BTreeMap<&str, String>) -> Self {
        self.metadata.insert("labels".to_owned(), json!(labels));
        self
    }

    /// Returns the last seen resource version; `None` if the Lease does not exist.
    pub(super) fn version(&self) -> Option<&str> {
        self.object.as_ref()?["metadata"]["resourceVersion"].as_str()
    }

    /// Stores the listed object.
    pub(super) fn seen(&mut self, object: Option<Value>) {
        self.object = object;
    }

    /// Returns the object to write. Metadata of other clients and unknown fields are kept. Missing
    /// labels are added.
    fn written(&self, intent: &Intent, spec: Map<String, Value>, namespace: &str) -> Value {
        let mut object = match (intent, &self.object) {
            (Intent::Update { .. }, Some(object)) => object.clone(),
            _ => json!({"metadata": self.metadata, "spec": {}}),
        };
        object["apiVersion"] = json!("coordination.k8s.io/v1");
        object["kind"] = json!("Lease");
        object["metadata"]["name"] = json!(self.name);
        object["metadata"]["namespace"] = json!(namespace);
        if let Some(Value::Object(labels)) = self.metadata.get("labels") {
            for (label, value) in labels {
                object["metadata"]["labels"][label] = value.clone();
            }
        }
        if let Intent::Update { version } = intent {
            object["metadata"]["resourceVersion"] = json!(version);
        }
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        for (field, value) in spec {
            object["spec"][field] = value;
        }
        object
    }
}

/// `ns/name`
impl fmt::Display for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.namespace)
    }
}

fn parse(object: &Value) -> Result<LeaseRecord, Error> {
    LeaseRecord::parse(object).map_err(|error| Error::Malformed {
        reason: error.to_string(),
    })
}
