//! The objects of the demo, as any client would handle them.

use std::time::Duration;

use kopf::kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kopf::kube::{self, Client};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::failure::Failure;

/// It takes a second or two: this is for machines in deep trouble only.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the object is looked at: the server is in this process.
const PAUSE: Duration = Duration::from_millis(20);

/// What the operator has handled last; it writes it when all handlers have succeeded or failed.
const HANDLED: &str = "kopf.zalando.org/last-handled-configuration";

/// The bakeries of one town.
pub(super) struct Bakeries {
    client: Client,
    api: Api<DynamicObject>,
}

impl Bakeries {
    pub(super) fn new(client: Client) -> Self {
        let kind = ApiResource {
            group: "demo.kopf.dev".to_owned(),
            version: "v1".to_owned(),
            api_version: "demo.kopf.dev/v1".to_owned(),
            kind: "Bakery".to_owned(),
            plural: "bakeries".to_owned(),
        };
        let api = Api::namespaced_with(client.clone(), "town", &kind);
        Self { client, api }
    }

    pub(super) async fn patch(&self, name: &str, change: &Value) -> Result<(), Failure> {
        let change = Patch::Merge(change);
        let result = self.api.patch(name, &PatchParams::default(), &change).await;
        result.map(|_| ()).map_err(refused)
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), Failure> {
        let result = self.api.delete(name, &DeleteParams::default()).await;
        result.map(|_| ()).map_err(refused)
    }

    /// Waits until the operator has handled the object with so many loaves, and shows the object.
    pub(super) async fn handled(&self, name: &str, loaves: u64) -> Result<Value, Failure> {
        let what = format!("the bakery {name} is not handled in time");
        self.until(what, async || {
            let object = self.api.get_opt(name).await.map_err(refused)?;
            let object = object.and_then(|object| serde_json::to_value(object).ok());
            Ok(object.filter(|object| is_handled(object, loaves)))
        })
        .await
    }

    /// Waits until the object is gone.
    pub(super) async fn gone(&self, name: &str) -> Result<(), Failure> {
        let what = format!("the bakery {name} is not deleted in time");
        self.until(what, async || {
            let object = self.api.get_opt(name).await.map_err(refused)?;
            Ok(object.is_none().then_some(()))
        })
        .await
    }

    async fn until<T>(
        &self,
        what: String,
        look: impl AsyncFn() -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let looking = async {
            loop {
                if let Some(found) = look().await? {
                    return Ok(found);
                }
                sleep(PAUSE).await;
            }
        };
        let result = timeout(PATIENCE, looking).await;
        result.unwrap_or_else(|_| Err(Failure::plain(what)))
    }

    /// What kubectl shows: the server makes the rows and columns.
    pub(super) async fn table(&self) -> Result<Value, Failure> {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let request = http::Request::get("/apis/demo.kopf.dev/v1/namespaces/town/bakeries")
            .header(http::header::ACCEPT, accept)
            .body(Vec::new())
            .map_err(|error| Failure::new("the request is not possible", error))?;
        self.client.request(request).await.map_err(refused)
    }
}

fn is_handled(object: &Value, loaves: u64) -> bool {
    let handled = object
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(HANDLED)?.as_str())
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let expected = json!(loaves);
    handled.is_some_and(|handled| handled.pointer("/spec/loaves") == Some(&expected))
        // It is written after the rest.
        && object.pointer("/status/open").is_some()
}

fn refused(error: kube::Error) -> Failure {
    Failure::new("the sandbox refuses what it should do", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_handled_when_the_operator_says_so() {
        let object = |annotation: &str, status: Value| json!({"metadata": {"annotations": {HANDLED: annotation}}, "status": status});
        let done = r#"{"spec":{"loaves":10}}"#;
        assert!(is_handled(&object(done, json!({"open": {}})), 10));
        assert!(!is_handled(&object(done, json!({"open": {}})), 25));
        assert!(!is_handled(&object(done, json!({})), 10));
        assert!(!is_handled(&object("nonsense", json!({"open": {}})), 10));
        assert!(!is_handled(&json!({}), 10));
    }
}
