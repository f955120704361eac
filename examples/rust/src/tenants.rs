//! Resources of the two operators for the onboarding of tenants. Their CRDs are in
//! `tenant-onboarding/crds.yaml`.

/// A customer of the platform.
#[kopf::resource(group = "kopf.dev", version = "v1", kind = "Tenant")]
#[kube(namespaced, schema = "disabled", status = "TenantStatus")]
pub struct TenantSpec {
    /// The plan that the tenant pays for.
    pub plan: Option<String>,
}

/// The progress of the onboarding.
#[kopf::schema]
#[derive(Default)]
#[serde(default)]
pub struct TenantStatus {
    /// Result of the first step, named after its handler.
    pub create_blob_storage: Option<BlobStorage>,
    /// URL of the NATS server, set after the second step.
    pub nats: Option<String>,
    /// Set by the third step.
    pub phase: Option<String>,
}

/// The blob storage of a tenant.
#[kopf::schema]
pub struct BlobStorage {
    /// The name of the storage.
    pub name: String,
}

/// A NATS server.
#[kopf::resource(group = "kopf.dev", version = "v1", kind = "Nats", plural = "nats")]
#[kube(namespaced, schema = "disabled", status = "NatsStatus")]
pub struct NatsSpec {
    /// The name of the blob storage for messages.
    pub storage: String,
}

/// The state of the server.
#[kopf::schema]
#[derive(Default)]
#[serde(default)]
pub struct NatsStatus {
    /// URL of the server, set when it is created.
    pub url: Option<String>,
}
