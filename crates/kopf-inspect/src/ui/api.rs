//! The requests of the page.

use std::sync::Arc;

use http::StatusCode;
use kopf_core::resource::Resource;
use kopf_core::sync::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::access::Access;
use super::operator::PageOperator;
use super::rows::Rows;
use super::watched::Watched;
use crate::cluster::Cluster;
use crate::explanation::Explanation;
use crate::failure::{Failure, request_failure};
use crate::kinds::full;
use crate::object_ref::ObjectRef;
use crate::storages::Storages;
use crate::writing::{Retriggered, absent, retrigger};

/// The state shared by all requests.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) cluster: Cluster,
    pub(super) storages: Storages,
    pub(super) operator: Mutex<Option<Arc<PageOperator>>>,
    /// Notified when the operator becomes known.
    pub(super) adopted: Notify,
    pub(super) watched: Watched,
    pub(super) rows: Rows,
    pub(super) access: Access,
}

/// A failed request of the page.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) code: StatusCode,
    pub(super) text: String,
}

impl Problem {
    fn bad(text: impl Into<String>) -> Self {
        Self {
            code: StatusCode::BAD_REQUEST,
            text: text.into(),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let advice = failure.advice().map(|advice| format!("; {advice}"));
        Self {
            code: StatusCode::BAD_GATEWAY,
            text: format!("{failure}{}", advice.unwrap_or_default()),
        }
    }
}

impl Api {
    pub(super) fn adopt(&self, operator: PageOperator) {
        *self.operator.lock() = Some(Arc::new(operator));
        self.adopted.notify_one();
    }

    /// Returns the operator of the same process, if there is one.
    pub(super) fn operator(&self) -> Option<Arc<PageOperator>> {
        self.operator.lock().clone()
    }

    /// Returns the storages of the operator, or those of the options.
    pub(super) fn storages(&self) -> Storages {
        let operator = self.operator();
        operator.map_or_else(|| self.storages.clone(), |known| known.storages.clone())
    }

    /// Returns the operators and the problems of watching.
    pub(super) async fn overview(&self) -> Value {
        let now = Cluster::now();
        let peers = self.cluster.peers().await;
        json!({
            "kinds": self.watched.names(),
            "peers": peers.iter().map(|peer| peer.to_value(now)).collect::<Vec<_>>(),
            "problems": self.rows.problems(),
        })
    }

    /// Explains the state of one object.
    pub(super) async fn explain(&self, fields: &Fields<'_>) -> Result<Value, Problem> {
        let resource = self.resource(fields)?;
        let object = fields.object_ref(&resource)?;
        let found = self
            .cluster
            .get(&resource, object.namespace, object.name)
            .await
            .map_err(|error| request_failure(format!("cannot read {object}"), &error))?;
        let body = found.ok_or_else(|| Problem {
            code: StatusCode::NOT_FOUND,
            text: absent(object).to_string(),
        })?;
        let explanation = Explanation::gather(&self.cluster, object, &body, &self.storages()).await;
        let mut value = explanation.to_value(Cluster::now());
        value["history"] = Value::Array(self.rows.history(body.uid().unwrap_or_default()));
        Ok(value)
    }

    /// Calls the handlers of an object again.
    pub(super) async fn retrigger(&self, fields: &Fields<'_>) -> Result<Value, Problem> {
        let resource = self.resource(fields)?;
        let object = fields.object_ref(&resource)?;
        let handler = fields.get("handler").filter(|id| !id.is_empty());
        if let (Some(operator), Some(id)) = (self.operator(), handler) {
            let known = operator.ids(&resource);
            if !known.iter().any(|one| one == id || is_sub_handler(one, id)) {
                let known = known.join(", ");
                return Err(Problem::bad(format!(
                    "there is no handler {id:?} of {}; its handlers: {known}",
                    full(&resource)
                )));
            }
        }
        let done = retrigger(&self.cluster, object, &self.storages(), handler).await?;
        let text = match done {
            Retriggered::Creation => "handled as a new object",
            Retriggered::Requested => "the handler is called again",
            Retriggered::NotHandled => "the object has no state of an operator",
        };
        Ok(json!({"result": text}))
    }

    fn resource(&self, fields: &Fields<'_>) -> Result<Arc<Resource>, Problem> {
        let kind = fields.get("kind").unwrap_or_default();
        self.watched
            .find(kind)
            .ok_or_else(|| Problem::bad(format!("the resource {kind:?} is not watched")))
    }
}

/// Returns `true` if the id is that of a sub-handler of this handler.
fn is_sub_handler(parent: &str, id: &str) -> bool {
    let rest = id.strip_prefix(parent);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The fields of a request, from the query or the JSON body.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) Vec<(&'a str, String)>);

impl Fields<'_> {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn object_ref<'a>(&'a self, resource: &'a Resource) -> Result<ObjectRef<'a>, Problem> {
        let name = self.get("name").filter(|name| !name.is_empty());
        let namespace = self.get("namespace").filter(|name| !name.is_empty());
        // Names become parts of paths.
        let is_plain =
            |text: &str| !text.contains(['/', '?', '#', '%']) && text != ".." && text != ".";
        match (name, namespace) {
            (Some(name), namespace)
                if is_plain(name)
                    && namespace.is_none_or(is_plain)
                    && namespace.is_some() == resource.namespaced =>
            {
                Ok(ObjectRef {
                    resource,
                    namespace,
                    name,
                })
            }
            _ => Err(Problem::bad("missing or invalid name or namespace")),
        }
    }
}
