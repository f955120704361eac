//! `AdmissionReview` requests.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::configuration::ReviewVersion;
use super::matching::Attributes;

#[derive(Serialize)]
struct Review<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names are those of the API")]
struct Request<'a> {
    uid: &'a str,
    kind: Value,
    resource: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_resource: Option<&'a str>,
    request_kind: Value,
    request_resource: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_sub_resource: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    operation: &'static str,
    user_info: Value,
    object: Option<&'a Value>,
    old_object: Option<&'a Value>,
    dry_run: bool,
    options: &'a Value,
}

/// Returns the review request. The objects are in the version of the matched rule.
pub(super) fn review_request(
    version: ReviewVersion,
    uid: &str,
    attributes: &Attributes<'_>,
    object_version: &str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Bytes {
    let review = Review {
        kind: "AdmissionReview",
        api_version: version.api_version(),
        request: Request {
            uid,
            kind: kind(attributes, object_version),
            resource: resource(attributes, object_version),
            sub_resource: attributes.subresource,
            request_kind: kind(attributes, attributes.version),
            request_resource: resource(attributes, attributes.version),
            request_sub_resource: attributes.subresource,
            name: attributes.name,
            namespace: attributes.effective_namespace(),
            operation: attributes.operation.name(),
            user_info: attributes.user.to_json(),
            object,
            old_object: old,
            dry_run: attributes.dry_run,
            options: &attributes.options,
        },
    };
    // Serialising fails only for maps with non-string keys; there are none.
    serde_json::to_vec(&review).unwrap_or_default().into()
}

/// Returns the request without its objects, for expressions. Empty strings are absent.
pub(super) fn facts(attributes: &Attributes<'_>, object_version: &str) -> Value {
    let mut facts = json!({
        "kind": kind(attributes, object_version),
        "resource": resource(attributes, attributes.version),
        "subResource": attributes.subresource.unwrap_or_default(),
        "requestKind": kind(attributes, attributes.version),
        "requestResource": resource(attributes, attributes.version),
        "requestSubResource": attributes.subresource.unwrap_or_default(),
        "name": attributes.name,
        "namespace": attributes.effective_namespace().unwrap_or_default(),
        "operation": attributes.operation.name(),
        "userInfo": attributes.user.to_json(),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    });
    if let Some(fields) = facts.as_object_mut() {
        fields.retain(|_, value| value != "");
    }
    if let Some(user) = facts.get_mut("userInfo").and_then(Value::as_object_mut) {
        user.retain(|_, value| *value != json!({}) && *value != json!([]) && *value != "");
    }
    facts
}

/// Returns the kind of the payload: that of the subresource, if it has its own.
fn kind(attributes: &Attributes<'_>, version: &str) -> Value {
    let kind = attributes.kind;
    let subresource = attributes
        .subresource
        .and_then(|name| kind.version(version)?.subresource(name))
        .filter(|subresource| !subresource.kind.is_empty() && *subresource.kind != *kind.kind);
    match subresource {
        Some(own) => json!({ "group": own.group, "version": own.version, "kind": own.kind }),
        None => json!({ "group": &*kind.group, "version": version, "kind": &*kind.kind }),
    }
}

fn resource(attributes: &Attributes<'_>, version: &str) -> Value {
    let kind = attributes.kind;
    json!({ "group": &*kind.group, "version": version, "resource": &*kind.plural })
}

#[cfg(test)]
mod tests {
    use super::super::matching::Operation;
    use super::super::tests::{attributes, kind};
    use super::*;

    #[test]
    fn review_request_has_all_fields() {
        let kind = kind("apps", "deployments", &["v1"], &["scale"]);
        let request = super::super::matching::Attributes {
            subresource: Some("scale"),
            ..attributes(&kind, Operation::Update)
        };
        let (new, old) = (json!({ "spec": 1 }), json!({ "spec": 2 }));
        let bytes = review_request(
            ReviewVersion::V1,
            "u",
            &request,
            "v1",
            Some(&new),
            Some(&old),
        );
        let scale = json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" });
        let resource = json!({ "group": "apps", "version": "v1", "resource": "deployments" });
        assert_eq!(
            serde_json::from_slice::<Value>(&bytes).unwrap(),
            json!({
                "kind": "AdmissionReview",
                "apiVersion": "admission.k8s.io/v1",
                "request": {
                    "uid": "u",
                    "kind": scale, "resource": resource, "subResource": "scale",
                    "requestKind": scale, "requestResource": resource, "requestSubResource": "scale",
                    "name": "x", "namespace": "ns", "operation": "UPDATE",
                    "userInfo": { "username": "ann", "groups": ["staff"] },
                    "object": new, "oldObject": old, "dryRun": false,
                    "options": { "kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1" },
                },
            })
        );
    }
}
