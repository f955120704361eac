//! Patching of objects.

use bytes::Bytes;
use http::Method;
use kopf_core::body::{Body, ManagedFields};
use kopf_core::key_order::Ordered;
use kopf_core::resource::Resource;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::request::{Call, parse_in_order};

/// The limit of API servers for the content of a request, in bytes. It cannot be configured.
const REQUEST_LIMIT: usize = 3 * 1024 * 1024;

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchKind {
    /// RFC 7396: an object with new values; nulls remove fields.
    Merge,
    /// RFC 6902: a list of operations.
    Json,
}

impl PatchKind {
    /// Returns the content type of the request.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

/// An object to be patched.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The client.
    pub client: &'a Client,
    /// The resource of the object.
    pub resource: &'a Resource,
    /// The namespace; `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

impl Target<'_> {
    /// Patches the object or its subresource. Returns the patched object, or `None` if it does not
    /// exist any more.
    pub async fn patch(
        &self,
        subresource: Option<&str>,
        kind: PatchKind,
        payload: &Value,
    ) -> Result<Option<PatchResponse>, Error> {
        let response = self.send(subresource, kind, payload).await?;
        response
            .map(|response| PatchResponse::read(response, payload))
            .transpose()
    }

    /// Patches the object as [`patch`](Self::patch) does, and ignores the body of the response: the
    /// response to the next patch supersedes it. Returns `true` if the object exists.
    pub async fn patch_unread(
        &self,
        subresource: Option<&str>,
        kind: PatchKind,
        payload: &Value,
    ) -> Result<bool, Error> {
        let response = self.send(subresource, kind, payload).await?;
        Ok(response.is_some())
    }

    /// Reads the object; `None` if it does not exist.
    pub async fn get(&self) -> Result<Option<Value>, Error> {
        Ok(self.get_in_order().await?.map(|(object, _)| object))
    }

    /// Reads the object with the order of its keys; `None` if it does not exist.
    pub async fn get_in_order(&self) -> Result<Option<Ordered>, Error> {
        let path = self.resource.url(self.namespace, Some(self.name), None)?;
        match self.client.ask(Call::get(path)).await {
            Ok(response) => parse_in_order(&response).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn send(
        &self,
        subresource: Option<&str>,
        kind: PatchKind,
        payload: &Value,
    ) -> Result<Option<Bytes>, Error> {
        let path = self
            .resource
            .url(self.namespace, Some(self.name), subresource)?;
        let call = Call::with_content(Method::PATCH, path, kind.content_type(), payload);
        let size = call.content_size();
        if size > REQUEST_LIMIT {
            // Servers may close the connection before they have read it, which looks like a failure
            // of the network.
            let limit = REQUEST_LIMIT;
            return Err(Error::Oversized { size, limit });
        }
        match self.client.ask(call).await {
            Ok(response) => Ok(Some(response)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The response to a patch: the patched object, parsed on demand.
#[derive(Clone, Debug)]
pub struct PatchResponse {
    raw: Bytes,
    part: Body,
}

impl PatchResponse {
    /// Parses the response. Annotations and labels are returned as sent; schemas prune other
    /// fields.
    fn read(raw: Bytes, payload: &Value) -> Result<Self, Error> {
        let sent = |key: &str| key != "metadata" && payload.get(key).is_some();
        let part = Body::parse_part(&raw, &sent).map_err(|error| malformed(&error))?;
        Ok(Self { raw, part })
    }

    /// Returns all top-level fields that were in the patch, and the relevant metadata: see
    /// [`Body::parse_part`].
    pub fn part(&self) -> &Body {
        &self.part
    }

    /// Parses the whole object, without its `metadata.managedFields`.
    pub fn body(&self) -> Result<Body, Error> {
        self.body_with(ManagedFields::Drop)
    }

    /// Parses the whole object.
    pub fn body_with(&self, managed: ManagedFields) -> Result<Body, Error> {
        let parsed = Body::parse_with(&self.raw, managed);
        parsed
            .map(|(body, _)| body)
            .map_err(|error| malformed(&error))
    }
}

fn malformed(error: &kopf_core::body::Error) -> Error {
    Error::Malformed {
        reason: format!("the patched object: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, ok, refusal, text};
    use serde_json::json;

    fn examples() -> Resource {
        Resource {
            group: "kopf.dev".into(),
            version: "v1".into(),
            plural: "kopfexamples".into(),
            namespaced: true,
            ..Resource::default()
        }
    }

    fn target<'a>(client: &'a Client, resource: &'a Resource) -> Target<'a> {
        Target {
            client,
            resource,
            namespace: Some("ns"),
            name: "a",
        }
    }

    #[tokio::test]
    async fn deeply_nested_responses_are_parsed() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(600), "}".repeat(600));
        let response = format!(r#"{{"metadata": {{"resourceVersion": "7"}}, "spec": {deep}}}"#);
        let (client, _) = Script::new([text(200, &response)]);
        let (kind, payload) = (PatchKind::Merge, json!({"spec": {"x": null}}));
        let examples = examples();
        let target = target(&client, &examples);
        let body = target.patch(None, kind, &payload).await;
        let response = body.unwrap().unwrap();
        assert_eq!(response.part().resource_version(), Some("7"));
        assert!(response.part().spec()["a"]["a"].is_object());
        assert!(response.body().unwrap().spec()["a"]["a"].is_object());
    }

    #[tokio::test]
    async fn patches_beyond_the_limit_of_requests_are_not_sent() {
        let (client, script) = Script::new([]);
        let payload = json!({"status": {"x": "x".repeat(REQUEST_LIMIT)}});
        let examples = examples();
        let target = target(&client, &examples);
        let sent = target.patch(None, PatchKind::Merge, &payload).await;
        let error = sent.unwrap_err();
        assert!(
            error.is_too_large() && error.size_limit() == REQUEST_LIMIT,
            "{error}"
        );
        assert!(script.requests().is_empty());
    }

    #[tokio::test]
    async fn patch_returns_the_new_body() {
        let object = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
        let (client, script) = Script::new([ok(&object)]);
        let (kind, payload) = (PatchKind::Merge, json!({"spec": {"x": null}}));
        let examples = examples();
        let target = target(&client, &examples);
        let body = target.patch(None, kind, &payload).await;
        let response = body.unwrap().unwrap();
        assert_eq!(response.part().resource_version(), Some("7"));
        assert_eq!(response.body().unwrap().value(), &object);
        assert_eq!(
            response.body_with(ManagedFields::Drop).unwrap().value(),
            &object
        );
        let request = script.requests().remove(0);
        assert_eq!(request.method, Method::PATCH);
        assert_eq!(
            request.path,
            "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/a"
        );
        assert_eq!(
            request.headers["content-type"],
            "application/merge-patch+json"
        );
        assert_eq!(request.body, payload.to_string());
    }

    async fn status(client: &Client) -> Result<Option<PatchResponse>, Error> {
        let (kind, payload) = (PatchKind::Json, json!([]));
        let examples = examples();
        let target = target(client, &examples);
        target.patch(Some("status"), kind, &payload).await
    }

    #[tokio::test]
    async fn absent_objects_are_not_an_error() {
        let (client, script) = Script::new([refusal(404)]);
        assert!(status(&client).await.unwrap().is_none());
        let request = script.requests().remove(0);
        assert_eq!(
            request.path,
            "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/a/status"
        );
        assert_eq!(
            request.headers["content-type"],
            "application/json-patch+json"
        );
    }

    #[tokio::test]
    async fn responses_can_be_ignored() {
        let (client, _) = Script::new([text(200, "[]"), refusal(404), refusal(422)]);
        let (kind, payload) = (PatchKind::Merge, json!({}));
        let examples = examples();
        let target = target(&client, &examples);
        let patch = || target.patch_unread(None, kind, &payload);
        assert!(patch().await.unwrap());
        assert!(!patch().await.unwrap());
        assert!(patch().await.unwrap_err().is_unprocessable());
    }

    #[tokio::test]
    async fn failed_conditions_are_reported() {
        let (client, _) = Script::new([refusal(422), refusal(409), text(200, "[]")]);
        assert!(status(&client).await.unwrap_err().is_unprocessable());
        assert!(status(&client).await.unwrap_err().is_conflict());
        let error = status(&client).await.unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
    }

    #[tokio::test]
    async fn invalid_paths_are_rejected() {
        let (client, script) = Script::new([]);
        let (kind, payload) = (PatchKind::Merge, json!({}));
        let examples = examples();
        let nowhere = Target {
            namespace: None,
            ..target(&client, &examples)
        };
        let error = nowhere.patch(None, kind, &payload).await;
        assert!(matches!(error, Err(Error::Address(_))));
        assert!(script.requests().is_empty());
    }
}
