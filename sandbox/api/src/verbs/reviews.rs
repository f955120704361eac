//! Reviews of users and permissions, which are not stored.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::rights::UserInfo;
use kopf_sandbox_schema::rights::{Access, Action};
use serde_json::{Value, json};

use super::{Call, Payload};
use crate::access::ISSUER;
use crate::cluster::Cluster;
use crate::status::{ApiError, Result};

/// Returns `true` if creations of this kind are reviews.
pub(crate) fn is_review(group: &str) -> bool {
    matches!(group, "authentication.k8s.io" | "authorization.k8s.io")
}

impl Cluster {
    /// Performs the review in the body.
    pub fn review(&self, call: &Call, mut object: Value) -> Result<Payload> {
        let status = match &*call.kind.plural {
            "selfsubjectreviews" => json!({ "userInfo": call.user.to_json() }),
            "tokenreviews" => self.token_status(&object)?,
            "selfsubjectrulesreviews" if self.rbac => {
                let namespace = object.pointer("/spec/namespace").and_then(Value::as_str);
                self.rights()
                    .review(&call.user, namespace.unwrap_or_default())
            }
            "selfsubjectrulesreviews" => json!({
                "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
                "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
                "incomplete": false,
            }),
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews" => {
                let errors = access_review_problems(call, &object);
                if !errors.is_empty() {
                    // A real server names no kind here.
                    return Err(ApiError::invalid_named(&call.kind.group, "", "", &errors));
                }
                self.access_status(call, &object)
            }
            _ => return Err(ApiError::method_not_allowed()),
        };
        meta::metadata(&mut object)
            .entry("creationTimestamp")
            .or_insert(Value::Null);
        if let Some(map) = object.as_object_mut() {
            map.insert("status".to_owned(), status);
        }
        Ok(Payload::Document(object))
    }

    /// Returns the status of an access review.
    fn access_status(&self, call: &Call, object: &Value) -> Value {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let text = |pointer: &str| text(pointer).unwrap_or_default();
        let user = if call.kind.plural.starts_with("self") {
            call.user.clone()
        } else {
            let groups = object.pointer("/spec/groups").and_then(Value::as_array);
            let groups = groups.into_iter().flatten().filter_map(Value::as_str);
            UserInfo::new(text("/spec/user"), groups)
        };
        let action = if object
            .pointer("/spec/nonResourceAttributes")
            .is_some_and(Value::is_object)
        {
            Action::Url {
                verb: text("/spec/nonResourceAttributes/verb"),
                path: text("/spec/nonResourceAttributes/path"),
            }
        } else {
            let of = "/spec/resourceAttributes";
            let namespace = text("/spec/resourceAttributes/namespace");
            Action::Resource(Access {
                verb: text(&format!("{of}/verb")),
                group: text(&format!("{of}/group")),
                resource: text(&format!("{of}/resource")),
                subresource: text(&format!("{of}/subresource")),
                namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
                name: text(&format!("{of}/name")),
            })
        };
        match self.allows(&user, action) {
            Some(reason) if reason.is_empty() => json!({ "allowed": true }),
            Some(reason) => json!({ "allowed": true, "reason": reason }),
            None => json!({ "allowed": false }),
        }
    }

    fn token_status(&self, object: &Value) -> Result<Value> {
        let token = object
            .pointer("/spec/token")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if token.is_empty() {
            return Err(ApiError::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let Some(reviewed) = self.access.token_review(token, self.clock.now()) else {
            return Ok(json!({ "user": {}, "error": "invalid bearer token" }));
        };
        let wanted = object.pointer("/spec/audiences").and_then(Value::as_array);
        let wanted: Vec<&str> = match wanted {
            Some(wanted) if !wanted.is_empty() => wanted.iter().filter_map(Value::as_str).collect(),
            _ => vec![ISSUER],
        };
        let common: Vec<&str> = reviewed
            .audiences
            .iter()
            .map(String::as_str)
            .filter(|audience| wanted.contains(audience))
            .collect();
        if common.is_empty() {
            let (given, wanted) = (json!(reviewed.audiences), json!(wanted));
            let why = format!(
                "[invalid bearer token, token audiences {given} is invalid for the target audiences {wanted}]"
            );
            return Ok(json!({ "user": {}, "error": why }));
        }
        Ok(json!({
            "authenticated": true, "user": reviewed.user.to_json(), "audiences": common,
        }))
    }
}

/// Returns the errors of an access review, in the order of a real server.
fn access_review_problems(call: &Call, object: &Value) -> Vec<FieldError> {
    let at = |pointer: &str| {
        let value = object.pointer(pointer);
        value.filter(|value| !value.is_null())
    };
    let mut errors = Vec::new();
    let urls = at("/spec/nonResourceAttributes");
    match (at("/spec/resourceAttributes"), urls) {
        (Some(_), Some(urls)) => errors.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            urls,
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(FieldError::invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    if call.kind.plural.starts_with("self") {
        return errors;
    }
    let has_groups = at("/spec/groups").is_some_and(|groups| *groups != json!([]));
    if at("/spec/user").is_none_or(|user| user == "") && !has_groups {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &json!(""), why));
    }
    if !call.kind.plural.starts_with("local") {
        return errors;
    }
    let namespace = at("/spec/resourceAttributes/namespace");
    let namespace = namespace.and_then(Value::as_str).unwrap_or_default();
    if at("/spec/resourceAttributes").is_some() && call.namespace.as_deref() != Some(namespace) {
        let field = "spec.resourceAttributes.namespace";
        let why = "must match metadata.namespace";
        errors.push(FieldError::invalid(field, &json!(namespace), why));
    }
    if let Some(urls) = urls {
        let why = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", urls, why));
    }
    errors
}
