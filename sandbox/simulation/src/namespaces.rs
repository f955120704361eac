//! Namespaces: the service account `default`, and the ConfigMap with the certificate authority.

use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::Client;
use super::{CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS};

/// The service account of pods that name none.
pub(super) const ACCOUNT: &str = "default";
/// The ConfigMap with the certificate authority of the server.
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";

pub(super) async fn reconcile(cluster: &Cluster, key: &Key) -> Result<()> {
    let accounts = Client::new(cluster, "service-account-controller");
    let Some(namespace) = accounts.get(NAMESPACES, key) else {
        return Ok(());
    };
    if meta::is_terminating(&namespace) {
        return Ok(());
    }
    if accounts
        .get(SERVICE_ACCOUNTS, &Key::new(Some(&key.name), ACCOUNT))
        .is_none()
    {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": ACCOUNT, "namespace": key.name },
        });
        accounts.create(SERVICE_ACCOUNTS, account).await?;
    }
    let publisher = Client::new(cluster, "root-ca-cert-publisher");
    // In process, there is no certificate: clients need none, and it would differ in every run.
    let certificate = cluster.published_authority().unwrap_or_default();
    let data = json!({ "ca.crt": certificate });
    let place = Key::new(Some(&key.name), ROOT_CA);
    match publisher.get(CONFIG_MAPS, &place) {
        None => {
            publisher
                .create(CONFIG_MAPS, root_ca(&key.name, &data))
                .await
        }
        Some(existing) if existing["data"] == data => Ok(()),
        Some(_) => {
            let update = |config_map: &mut Value| config_map["data"] = data.clone();
            publisher.change(CONFIG_MAPS, &place, update).await
        }
    }
}

fn root_ca(namespace: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": ROOT_CA, "namespace": namespace,
            "annotations": { DESCRIPTION: "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters." },
        },
        "data": data,
    })
}
