//! Patching of objects.

use bytes::Bytes;
use http::Method;
use kopf_core::body::{Body, ManagedFields};
use kopf_core::key_order::Ordered;
use kopf_core::resource::Resource;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

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
    /// The uid, if known. Merge patches are not accepted for another object with the same name,
    /// which was created after this one was deleted.
    pub uid: Option<&'a str>,
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
        let content_type = kind.content_type();
        let uid = self.uid.filter(|_| kind == PatchKind::Merge);
        let call = match uid.and_then(|uid| Identified::new(payload, uid)) {
            Some(identified) => Call::with_content(Method::PATCH, path, content_type, &identified),
            None => Call::with_content(Method::PATCH, path, content_type, payload),
        };
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
            Err(error) if self.uid.is_some() && error.is_other_uid() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A merge patch with the uid of its object, which the server compares.
struct Identified<'a> {
    fields: &'a Map<String, Value>,
    metadata: Metadata<'a>,
}

/// The metadata of a merge patch, with the uid.
struct Metadata<'a> {
    fields: Option<&'a Map<String, Value>>,
    uid: &'a str,
}

impl<'a> Identified<'a> {
    /// Adds the uid; `None` if the payload changes the uid itself, or is not a patch of an object.
    fn new(payload: &'a Value, uid: &'a str) -> Option<Self> {
        let fields = payload.as_object()?;
        let metadata = match fields.get("metadata") {
            Some(metadata) => Some(metadata.as_object()?),
            None => None,
        };
        if metadata.is_some_and(|metadata| metadata.contains_key("uid")) {
            return None;
        }
        let metadata = Metadata {
            fields: metadata,
            uid,
        };
        Some(Self { fields, metadata })
    }
}

impl Serialize for Identified<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("metadata", &self.metadata)?;
        for (key, value) in self.fields.iter().filter(|(key, _)| *key != "metadata") {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uid", self.uid)?;
        for (key, value) in self.fields.into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.end()
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
            uid: None,
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

    #[tokio::test]
    async fn merge_patches_name_the_object_by_its_uid() {
        let object = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
        let (client, script) = Script::new([ok(&object), ok(&object), ok(&object)]);
        let examples = examples();
        let target = Target {
            uid: Some("u1"),
            ..target(&client, &examples)
        };
        let merged = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": null}});
        let operations = json!([{"op": "remove", "path": "/spec/x"}]);
        let payloads = [
            (PatchKind::Merge, &merged),
            (PatchKind::Merge, &json!({"status": {"x": 1}})),
            (PatchKind::Json, &operations),
        ];
        for (kind, payload) in payloads {
            assert!(target.patch(None, kind, payload).await.unwrap().is_some());
        }
        let sent = script.requests().into_iter();
        let sent: Vec<Value> = sent
            .map(|request| serde_json::from_slice(&request.body).unwrap())
            .collect();
        let expected = [
            json!({"metadata": {"uid": "u1", "labels": {"a": "b"}}, "spec": {"x": null}}),
            json!({"metadata": {"uid": "u1"}, "status": {"x": 1}}),
            operations,
        ];
        assert_eq!(sent, expected);
    }

    #[tokio::test]
    async fn other_objects_with_the_name_are_not_patched() {
        let immutable = json!({
            "kind": "Status", "code": 422, "reason": "Invalid",
            "message": "is invalid: metadata.uid: Invalid value: \"u1\": field is immutable",
            "details": {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]},
        });
        let precondition = json!({
            "kind": "Status", "code": 409, "reason": "Conflict",
            "message": "Precondition failed: UID in precondition: u1, UID in object meta: u2",
        });
        let refusals = || {
            [
                text(422, immutable.to_string()),
                text(409, precondition.to_string()),
            ]
        };
        let (client, _) = Script::new(refusals().into_iter().chain(refusals()));
        let examples = examples();
        let anonymous = target(&client, &examples);
        let target = Target {
            uid: Some("u1"),
            ..anonymous
        };
        let payload = json!({"spec": {"x": 1}});
        for _ in refusals() {
            let patched = target.patch(None, PatchKind::Merge, &payload).await;
            assert!(patched.unwrap().is_none());
        }
        for _ in refusals() {
            let patched = anonymous.patch(None, PatchKind::Merge, &payload).await;
            assert!(patched.is_err());
        }
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
