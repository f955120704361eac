//! Resources of the two operators for the onboarding of tenants. Their CRDs are in `tenant-onboarding/crds.yaml`.

/// A customer of the platform.
#[kopf::resource(group = "kopf.dev", version = "v1", kind = "Tenant")]
#[kube(namespaced, schema = "disabled", status = "TenantStatus")]
pub struct TenantSpec {
    /// What the tenant pays for.
    pub plan: Option<String>,
}

/// How far the tenant's on-boarding has come.
#[kopf::schema]
#[derive(Default)]
#[serde(default)]
pub struct TenantStatus {
    /// After the first step; the name is that of its handler.
    pub create_blob_storage: Option<BlobStorage>,
    /// After the second step, when the other operator has done its part: where the server is.
    pub nats: Option<String>,
    /// After the third step.
    pub phase: Option<String>,
}

/// Where the tenant's blobs are.
#[kopf::schema]
pub struct BlobStorage {
    /// The name of the storage.
    pub name: String,
}

/// A server that passes messages on.
#[kopf::resource(group = "kopf.dev", version = "v1", kind = "Nats", plural = "nats")]
#[kube(namespaced, schema = "disabled", status = "NatsStatus")]
pub struct NatsSpec {
    /// The blob storage to keep messages in.
    pub storage: String,
}

/// What became of the server.
#[kopf::schema]
#[derive(Default)]
#[serde(default)]
pub struct NatsStatus {
    /// Where it is, as soon as it is there.
    pub url: Option<String>,
}
