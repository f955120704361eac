//! Where the API server finds a webhook server: `clientConfig` of webhook configurations.

use serde::{Deserialize, Serialize};

/// Where a webhook server is, as the API server is told: by URL or by service (or both).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// The address of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The service in front of the server, if it runs in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// The authorities that vouch for the server: certificates in PEM, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
}

/// A service in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path of the server behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The port of the service; 443 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}
