//! Subresources of built-in kinds that are actions rather than parts of an object.

use serde_json::{Value, json};

use super::{Call, Payload};
use crate::access::{Account, token_request};
use crate::cluster::Cluster;
use crate::object::meta;
use crate::request::options::DeleteOptions;
use crate::status::{ApiError, Result};

impl Cluster {
    /// `POST …/pods/NAME/binding`: the pod runs on a node from now on.
    pub(crate) async fn bind(&self, call: &Call, binding: &Value) -> Result<Payload> {
        let node = binding
            .pointer("/target/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if node.is_empty() {
            let error = crate::field_error::FieldError::required("target.name", "");
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
                let mut conflict = ApiError::conflict(&call.kind, &call.name, &why);
                conflict.message = conflict.message.replace("on pods ", "on pods/binding ");
                return Err(conflict);
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

    /// `POST …/pods/NAME/eviction`: a deletion that may be refused; nothing here refuses it.
    pub(crate) async fn evict(&self, call: &Call, eviction: &Value) -> Result<Payload> {
        let sent = eviction.get("deleteOptions").unwrap_or(&Value::Null);
        let mut options = DeleteOptions::read(sent)?;
        options.dry_run |= call.options.dry_run;
        self.delete(call, options).await?;
        Ok(success())
    }

    /// `PUT …/namespaces/NAME/finalize`: what holds the namespace itself.
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

    /// `POST …/serviceaccounts/NAME/token`: a token to act as the service account.
    pub(crate) fn issue_token(&self, call: &Call, request: &Value) -> Result<Payload> {
        let Payload::Stored(account) = self.get(call)? else {
            return Err(ApiError::no_such_path());
        };
        let account = account.value();
        let account = Account {
            namespace: call.namespace.as_deref().unwrap_or_default(),
            name: &call.name,
            uid: meta::uid(&account),
        };
        token_request(&self.access, &account, request, self.clock.now())?
            .map(Payload::Document)
            .map_err(|errors| {
                ApiError::invalid_named("authentication.k8s.io", "TokenRequest", "", &errors)
            })
    }
}

fn success() -> Payload {
    Payload::Document(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    }))
}
