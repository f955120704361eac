//! Posting of Kubernetes events: what users see in `kubectl describe`.

use http::Method;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::request::Call;

/// Creates a core `v1` event in a namespace.
pub async fn post(client: &Client, namespace: &str, event: &Value) -> Result<(), Error> {
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let call = Call::with_content(Method::POST, path, "application/json", event);
    client.ask(call).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, ok, refusal};
    use serde_json::json;

    #[tokio::test]
    async fn events_are_created_in_their_namespace() {
        let (client, script) = Script::new([ok(&json!({})), refusal(403)]);
        let event = json!({"reason": "Logging"});
        post(&client, "ns", &event).await.unwrap();
        assert!(
            post(&client, "ns", &event)
                .await
                .unwrap_err()
                .is_forbidden()
        );
        let asked = script.asked().remove(0);
        assert_eq!(
            (asked.method, asked.body),
            (Method::POST, event.to_string().into())
        );
        assert_eq!(asked.path, "/api/v1/namespaces/ns/events");
    }
}
