//! A client of the demo's objects.

use std::time::Duration;

use kopf::kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kopf::kube::{self, Client};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::failure::Failure;

/// Upper bound of one step, which usually takes one or two seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Polling interval. The server runs in this process, so requests are cheap.
const INTERVAL: Duration = Duration::from_millis(20);

/// Annotation with the diff-base, written when all handlers have succeeded or failed.
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

    /// Waits until the operator has handled the object with `loaves`, and returns the object.
    pub(super) async fn handled(&self, name: &str, loaves: u64) -> Result<Value, Failure> {
        let what = format!("bakery {name} was not handled within {TIMEOUT:?}");
        self.until(what, async || {
            let object = self.api.get_opt(name).await.map_err(refused)?;
            let object = object.and_then(|object| serde_json::to_value(object).ok());
            Ok(object.filter(|object| is_handled(object, loaves)))
        })
        .await
    }

    /// Waits until the object is gone.
    pub(super) async fn gone(&self, name: &str) -> Result<(), Failure> {
        let what = format!("bakery {name} was not deleted within {TIMEOUT:?}");
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
                sleep(INTERVAL).await;
            }
        };
        let result = timeout(TIMEOUT, looking).await;
        result.unwrap_or_else(|_| Err(Failure::plain(what)))
    }

    /// Returns the server-side table that kubectl prints.
    pub(super) async fn table(&self) -> Result<Value, Failure> {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let request = http::Request::get("/apis/demo.kopf.dev/v1/namespaces/town/bakeries")
            .header(http::header::ACCEPT, accept)
            .body(Vec::new())
            .map_err(|error| Failure::new("cannot build the request", &error))?;
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
        // Written after the diff-base.
        && object.pointer("/status/open").is_some()
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn refused(error: kube::Error) -> Failure {
    Failure::new("the sandbox rejected the request", &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handled_objects_have_a_diff_base_and_a_result() {
        let object = |annotation: &str, status: Value| json!({"metadata": {"annotations": {HANDLED: annotation}}, "status": status});
        let done = r#"{"spec":{"loaves":10}}"#;
        assert!(is_handled(&object(done, json!({"open": {}})), 10));
        assert!(!is_handled(&object(done, json!({"open": {}})), 25));
        assert!(!is_handled(&object(done, json!({})), 10));
        assert!(!is_handled(&object("nonsense", json!({"open": {}})), 10));
        assert!(!is_handled(&json!({}), 10));
    }
}
