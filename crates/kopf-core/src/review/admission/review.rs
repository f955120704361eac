//! Admission reviews, of the versions `v1` and `v1beta1`.
//!
//! Fields of unexpected types are rejected by their names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::{Incoming, Operation, Refusal};
use crate::body::Body;
use crate::cause::Cause;
use crate::diff::{Diff, diff};
use crate::key_order::KeyOrder;
use crate::reference::ObjectReference;
use crate::resource::Resource;

/// An admission review.
#[non_exhaustive]
pub struct Review {
    /// `apiVersion` of the review, as sent.
    pub api_version: String,
    /// `kind` of the review, as sent.
    pub kind: String,
    /// `uid` of the request, as sent.
    pub uid: String,
    /// Resource of the object.
    pub resource: Arc<Resource>,
    /// The new object; for deletions, the existing one.
    pub body: Body,
    /// The existing object; `None` for creations.
    pub old: Option<Arc<Value>>,
    /// The new object; `None` for deletions.
    pub new: Option<Arc<Value>>,
    /// Name of the object, from its metadata or from the request: connections (`pods/exec`) have no
    /// metadata.
    pub name: Option<String>,
    /// Namespace of the object, likewise.
    pub namespace: Option<String>,
    /// The operation; `None` if the request has none.
    pub operation: Option<Operation>,
    /// The subresource; `None` for the main resource.
    pub subresource: Option<String>,
    /// `true` if nothing will be stored.
    pub dryrun: bool,
    /// The user, as sent.
    pub userinfo: Value,
    /// Headers of the HTTP request.
    pub headers: BTreeMap<String, String>,
    /// Verified certificate of the client; `None` if it has shown none.
    pub sslpeer: Option<Value>,
    /// Id of the handler to call; `None` for all handlers that match. Never empty.
    pub webhook: Option<String>,
    /// Order of the keys of the request.
    order: Option<Arc<KeyOrder>>,
    /// Computed on demand: most handlers do not use it.
    diff: OnceLock<Diff>,
}

impl Review {
    /// Reads a review for one of these resources.
    pub fn read<'r>(
        incoming: Incoming,
        resources: impl IntoIterator<Item = &'r Arc<Resource>>,
    ) -> Result<Self, Refusal> {
        let Value::Object(mut review) = incoming.review else {
            return Err(missing("it is not an object"));
        };
        let request = match review.remove("request") {
            Some(Value::Object(request)) => Request::from(request),
            Some(Value::Null) | None => return Err(missing("request")),
            Some(_) => return Err(missing("request is not an object")),
        };
        let resource = find(request.resource.as_ref(), resources)?;
        let userinfo = match request.user_info {
            Some(Value::Null) | None => return Err(missing("request.userInfo")),
            Some(userinfo) => userinfo,
        };
        let order = incoming.order.as_ref();
        let order = order.and_then(|order| order.member("request")).cloned();
        let new = object(request.object, "object")?;
        let old = object(request.old_object, "oldObject")?;
        let Some(body) = new.as_ref().or(old.as_ref()) else {
            return Err(missing("either request.object or request.oldObject"));
        };
        let operation = match text(request.operation, "operation")? {
            Some(name) => Some(name.parse::<Operation>().map_err(missing)?),
            None => None,
        };
        let name = named(body.get("metadata"), request.name.as_ref(), "name");
        let namespace = named(
            body.get("metadata"),
            request.namespace.as_ref(),
            "namespace",
        );
        let or_default = |name: Option<Value>, default: &str| match name {
            Some(Value::String(name)) => name,
            _ => default.to_owned(),
        };
        Ok(Self {
            api_version: or_default(review.remove("apiVersion"), "admission.k8s.io/v1"),
            kind: or_default(review.remove("kind"), "AdmissionReview"),
            uid: or_default(request.uid, ""),
            resource,
            body: Body::from(Arc::clone(body)).with_order(order_of(
                order.as_ref(),
                if new.is_some() { "object" } else { "oldObject" },
            )),
            order,
            name,
            namespace,
            operation,
            subresource: text(request.sub_resource, "subResource")?.filter(|name| !name.is_empty()),
            dryrun: request.dry_run == Some(Value::Bool(true)),
            userinfo,
            headers: incoming.headers,
            sslpeer: incoming.sslpeer.filter(|sslpeer| !sslpeer.is_null()),
            webhook: incoming.webhook.filter(|id| !id.is_empty()),
            old,
            new,
            diff: OnceLock::new(),
        })
    }

    /// Returns the differences between the whole objects, including status and metadata.
    pub fn diff(&self) -> &Diff {
        self.diff.get_or_init(|| {
            let side = |side: &Option<Arc<Value>>| side.clone().unwrap_or_default();
            diff(&side(&self.old), &side(&self.new))
        })
    }

    /// Returns the order of the keys of the old and the new object, if it is known.
    pub fn orders(&self) -> (Option<Arc<KeyOrder>>, Option<Arc<KeyOrder>>) {
        let of = |key| order_of(self.order.as_ref(), key);
        (of("oldObject"), of("object"))
    }

    /// Returns the reference to the object.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            name: self.name.as_deref().map(Arc::from),
            namespace: self.namespace.as_deref().map(Arc::from),
            ..self.body.reference()
        }
    }

    /// Returns the cause for filters and handlers.
    pub fn cause(&self) -> Cause {
        Cause {
            resource: Arc::clone(&self.resource),
            body: self.body.clone(),
            event: None,
            change: None,
        }
    }
}

/// Without the content: objects, headers and users can be secret.
impl fmt::Debug for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Review")
            .field("uid", &self.uid)
            .field("resource", &self.resource.to_string())
            .field("body", &self.body)
            .field("operation", &self.operation)
            .field("subresource", &self.subresource)
            .field("webhook", &self.webhook)
            .finish_non_exhaustive()
    }
}

/// The used fields of a request, as sent. Removing them one by one from a map is slow.
#[derive(Default)]
struct Request {
    uid: Option<Value>,
    resource: Option<Value>,
    sub_resource: Option<Value>,
    operation: Option<Value>,
    user_info: Option<Value>,
    object: Option<Value>,
    old_object: Option<Value>,
    dry_run: Option<Value>,
    name: Option<Value>,
    namespace: Option<Value>,
}

impl From<Map<String, Value>> for Request {
    fn from(fields: Map<String, Value>) -> Self {
        let mut request = Self::default();
        for (key, value) in fields {
            let field = match key.as_str() {
                "uid" => &mut request.uid,
                "resource" => &mut request.resource,
                "subResource" => &mut request.sub_resource,
                "operation" => &mut request.operation,
                "userInfo" => &mut request.user_info,
                "object" => &mut request.object,
                "oldObject" => &mut request.old_object,
                "dryRun" => &mut request.dry_run,
                "name" => &mut request.name,
                "namespace" => &mut request.namespace,
                _ => continue,
            };
            *field = Some(value);
        }
        request
    }
}

fn missing(what: impl fmt::Display) -> Refusal {
    Refusal::Missing(what.to_string())
}

/// Finds the resource of the request.
fn find<'r>(
    named: Option<&Value>,
    resources: impl IntoIterator<Item = &'r Arc<Resource>>,
) -> Result<Arc<Resource>, Refusal> {
    let part = |key: &str| {
        let part = named.and_then(|named| named.get(key)?.as_str());
        part.ok_or_else(|| missing(format_args!("request.resource.{key}")))
    };
    let (group, version, plural) = (part("group")?, part("version")?, part("resource")?);
    let mut found = resources.into_iter().filter(|resource| {
        resource.plural == plural && resource.group == group && resource.version == version
    });
    let name = || {
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            ..Resource::default()
        }
        .to_string()
    };
    match (found.next(), found.next()) {
        (Some(resource), None) => Ok(Arc::clone(resource)),
        (None, _) => Err(Refusal::Unknown(format!(
            "{} has no admission handlers",
            name()
        ))),
        (Some(_), Some(_)) => Err(Refusal::Ambiguous(name())),
    }
}

/// Returns a field of the metadata, otherwise of the request.
fn named(metadata: Option<&Value>, asked: Option<&Value>, key: &str) -> Option<String> {
    let own = metadata.and_then(|metadata| metadata.get(key));
    let texts = [own, asked].into_iter().flatten();
    let mut texts = texts.filter_map(Value::as_str);
    texts.find(|text| !text.is_empty()).map(str::to_owned)
}

fn order_of(request: Option<&Arc<KeyOrder>>, key: &str) -> Option<Arc<KeyOrder>> {
    request?.member(key).cloned()
}

fn object(field: Option<Value>, key: &str) -> Result<Option<Arc<Value>>, Refusal> {
    match field {
        Some(Value::Null) | None => Ok(None),
        Some(object @ Value::Object(_)) => Ok(Some(Arc::new(object))),
        Some(_) => Err(missing(format_args!("request.{key} is not an object"))),
    }
}

fn text(field: Option<Value>, key: &str) -> Result<Option<String>, Refusal> {
    match field {
        Some(Value::Null) | None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(missing(format_args!("request.{key} is not a string"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_taken_from_the_request_if_the_object_has_none() {
        let pods = Arc::new(Resource {
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            ..Resource::default()
        });
        let read = |request: Value| {
            let mut review = json!({"request": request});
            review["request"]["resource"] =
                json!({"group": "", "version": "v1", "resource": "pods"});
            review["request"]["userInfo"] = json!({});
            let incoming = Incoming {
                review,
                ..Incoming::default()
            };
            Review::read(incoming, [&pods])
                .unwrap()
                .reference()
                .to_string()
        };
        let own = json!({"metadata": {"name": "own", "namespace": "here"}});
        for (object, name, namespace, expected) in [
            (json!({"kind": "PodExecOptions"}), "pod", "ns", "ns/pod"),
            (own.clone(), "pod", "ns", "here/own"),
            (own, "", "", "here/own"),
            (json!({"metadata": {"generateName": "x-"}}), "", "ns", "ns/"),
            (json!({"metadata": "odd"}), "pod", "", "pod"),
        ] {
            let asked = json!({"object": object, "name": name, "namespace": namespace});
            assert_eq!(read(asked), expected, "{object}");
        }
    }
}
