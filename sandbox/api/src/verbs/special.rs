//! Subresources of built-in kinds that are actions.

use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::{Call, Payload};
use crate::access::{Account, Bound, Wanted, token_request};
use crate::cluster::{Cluster, collection};
use crate::status::{ApiError, Result};
use crate::store::Key;

impl Cluster {
    /// Handles `POST …/pods/NAME/binding`: binds the pod to a node.
    pub async fn bind(&self, call: &Call, binding: &Value) -> Result<Payload> {
        let node = binding
            .pointer("/target/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if node.is_empty() {
            let error = kopf_sandbox_schema::field_error::FieldError::required("target.name", "");
            return Err(ApiError::invalid_named("", "Binding", &call.name, &[error]));
        }
        let now = self.clock.seconds();
        self.change(call, |pod| {
            let bound = pod
                .pointer("/spec/nodeName")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !bound.is_empty() {
                let why = format!("pod {} is already assigned to node {bound:?}", call.name);
                let conflict = ApiError::conflict(&call.kind, &call.name, &why);
                return Err(conflict.edited(|failure| {
                    failure.message = failure.message.replace("on pods ", "on pods/binding ");
                }));
            }
            let mut pod = pod.clone();
            meta::entry(&mut pod, "spec").insert("nodeName".to_owned(), json!(node));
            let scheduled = json!({
                "type": "PodScheduled", "status": "True", "lastTransitionTime": now,
                "lastProbeTime": null,
            });
            let status = meta::entry(&mut pod, "status");
            let conditions = status.entry("conditions").or_insert_with(|| json!([]));
            if let Some(conditions) = conditions.as_array_mut() {
                conditions.retain(|condition| condition["type"] != "PodScheduled");
                conditions.push(scheduled);
            }
            for field in ["annotations", "labels"] {
                let more = binding
                    .get("metadata")
                    .and_then(|metadata| metadata.get(field));
                if let Some(Value::Object(more)) = more {
                    let metadata = meta::metadata(&mut pod);
                    let present = metadata.entry(field).or_insert_with(|| json!({}));
                    if let Some(present) = present.as_object_mut() {
                        present.extend(more.clone());
                    }
                }
            }
            Ok(pod)
        })
        .await?;
        Ok(success())
    }

    /// Handles `PUT …/namespaces/NAME/finalize`: replaces `spec.finalizers`.
    pub(crate) async fn finalize_namespace(
        &self,
        call: &Call,
        namespace: &Value,
    ) -> Result<Payload> {
        let finalizers = namespace
            .pointer("/spec/finalizers")
            .cloned()
            .unwrap_or_else(|| json!([]));
        if !finalizers.is_array() {
            return Err(ApiError::bad_request("spec.finalizers must be a list"));
        }
        self.change(call, |current| {
            let mut object = current.clone();
            meta::entry(&mut object, "spec").insert("finalizers".to_owned(), finalizers.clone());
            Ok(object)
        })
        .await
    }

    /// Handles `POST …/serviceaccounts/NAME/token`: issues a token of the service account.
    pub(crate) fn issue_token(&self, call: &Call, request: &Value) -> Result<Payload> {
        let Payload::Stored(account) = self.get_present(call)? else {
            return Err(ApiError::no_such_path());
        };
        let account = account.value();
        let account = Account {
            namespace: call.namespace.as_deref().unwrap_or_default(),
            name: &call.name,
            uid: meta::uid(&account),
        };
        let mut wanted = Wanted::read(request, self.ids.uid())?.map_err(|errors| {
            ApiError::invalid_named("authentication.k8s.io", "TokenRequest", "", &errors)
        })?;
        wanted.bound = self.bound_object(call, request)?;
        let now = self.clock.now();
        token_request(&self.access, &account, request, &wanted, now).map(Payload::Document)
    }

    /// Returns the object to which a token is bound.
    fn bound_object(&self, call: &Call, request: &Value) -> Result<Option<Bound>> {
        let reference = request.pointer("/spec/boundObjectRef");
        let Some(reference) = reference.filter(|reference| reference.is_object()) else {
            return Ok(None);
        };
        let text = |field: &str| {
            let text = reference.get(field).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let plural = match (text("apiVersion"), text("kind")) {
            ("v1", "Pod") => "pods",
            ("v1", "Secret") => "secrets",
            ("v1", "Node") => "nodes",
            (api_version, kind) => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                return Err(ApiError::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let kind = self
            .built_in("", plural)
            .ok_or_else(ApiError::no_such_path)?;
        let namespace = call.namespace.as_deref().filter(|_| kind.namespaced);
        let key = Key::new(namespace, text("name"));
        let found = self
            .store
            .get(&collection(&kind), &key)
            .ok_or_else(|| ApiError::not_found(&kind, text("name")))?
            .value();
        let (wanted, uid) = (text("uid"), meta::uid(&found));
        if !wanted.is_empty() && wanted != uid {
            return Err(ApiError::conflict(
                &kind,
                text("name"),
                &format!(
                    "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
                ),
            ));
        }
        Ok(Some(Bound {
            kind: text("kind").to_lowercase(),
            name: text("name").to_owned(),
            uid: uid.to_owned(),
        }))
    }
}

pub(super) fn success() -> Payload {
    Payload::Document(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    }))
}
