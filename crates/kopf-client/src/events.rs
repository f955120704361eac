//! Posting of Kubernetes events, which `kubectl describe` shows.

use http::Method;
use kopf_core::settings::Backoffs;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::request::Call;

/// Creates a core `v1` event in a namespace. Retries after these delays.
pub async fn post(
    client: &Client,
    namespace: &str,
    event: &Value,
    backoffs: &Backoffs,
) -> Result<(), Error> {
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let call = Call {
        backoffs: Some(backoffs.clone()),
        ..Call::with_content(Method::POST, path, "application/json", event)
    };
    client.ask(call).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, ok, refusal};
    use serde_json::json;
    use std::time::Duration;
    use tokio::time::Instant;

    #[tokio::test]
    async fn events_are_created_in_their_namespace() {
        let (client, script) = Script::new([ok(&json!({})), refusal(403)]);
        let event = json!({"reason": "Logging"});
        let none = Backoffs::none();
        post(&client, "ns", &event, &none).await.unwrap();
        let error = post(&client, "ns", &event, &none).await.unwrap_err();
        assert!(error.is_forbidden());
        let request = script.requests().remove(0);
        assert_eq!(
            (request.method, request.body),
            (Method::POST, event.to_string().into())
        );
        assert_eq!(request.path, "/api/v1/namespaces/ns/events");
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_retried_after_their_own_delays() {
        let (client, script) = Script::new([refusal(503), refusal(503), ok(&json!({}))]);
        let backoffs = Backoffs::finite([Duration::from_secs(7), Duration::from_secs(70)]);
        let began = Instant::now();
        post(&client, "ns", &json!({}), &backoffs).await.unwrap();
        assert_eq!(script.requests().len(), 3);
        assert_eq!(began.elapsed().as_secs(), 77);
    }
}
