//! Server-side apply.

use http::Method;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::request::Call;

/// JSON is YAML; only this content type is accepted by all supported servers.
const APPLY: &str = "application/apply-patch+yaml";

impl Client {
    /// Applies an object at its path on behalf of a field manager, and returns the result. The object
    /// is created if it does not exist. Conflicts with other managers are errors.
    pub async fn apply_json(
        &self,
        path: &str,
        manager: &str,
        content: &Value,
    ) -> Result<Value, Error> {
        let path = format!("{path}?fieldManager={manager}&force=false");
        let call = Call::with_content(Method::PATCH, path, APPLY, content);
        let answer = self.ask(call).await?;
        crate::request::parse(&answer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::script::{Script, ok, refusal};

    #[tokio::test]
    async fn objects_are_applied_without_force() {
        let (client, script) = Script::new([ok(&json!({"kind": "Thing"})), refusal(409)]);
        let content = json!({"kind": "Thing"});
        let applied = client
            .apply_json("/apis/g/v1/things/x", "kopf", &content)
            .await;
        assert_eq!(applied.unwrap(), content);
        let conflict = client
            .apply_json("/apis/g/v1/things/x", "kopf", &content)
            .await;
        assert!(conflict.unwrap_err().is_conflict());
        let asked = script.asked().remove(0);
        assert_eq!(asked.method, Method::PATCH);
        assert_eq!(asked.body, content.to_string());
        assert_eq!(asked.headers["content-type"], APPLY);
        assert!(
            asked.path.starts_with("/apis/g/v1/things/x"),
            "{}",
            asked.path
        );
    }
}
