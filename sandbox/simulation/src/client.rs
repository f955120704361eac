//! Requests of simulated controllers: through the verbs of the API, without sockets or
//! authorization.

use std::sync::Arc;

use kopf_sandbox_api::call::Call;
use kopf_sandbox_api::cluster::{Cluster, collection};
use kopf_sandbox_api::request::decode::Decoded;
use kopf_sandbox_api::request::options::DeleteOptions;
use kopf_sandbox_api::status::{ApiError, Reason, Result};
use kopf_sandbox_api::store::{Key, Stored};
use kopf_sandbox_kinds::strategy::Propagation;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::rights::UserInfo;
use serde_json::Value;

use super::Resource;
use super::fields::flag;

/// A client of one simulated controller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client<'a> {
    pub(super) cluster: &'a Cluster,
    account: &'static str,
}

impl<'a> Client<'a> {
    /// Returns the client of the controller with this service account in `kube-system`.
    pub(super) fn new(cluster: &'a Cluster, account: &'static str) -> Self {
        Self { cluster, account }
    }

    /// Returns the time in the format of objects.
    pub(super) fn now(&self) -> String {
        self.cluster.clock.seconds()
    }

    pub(super) fn get(&self, resource: Resource, key: &Key) -> Option<Value> {
        let kind = self.cluster.built_in(resource.group, resource.plural)?;
        let stored = self.cluster.store.get(&collection(&kind), key)?;
        Some(stored.value())
    }

    pub(super) fn exists(&self, resource: Resource, key: &Key) -> bool {
        let kind = self.cluster.built_in(resource.group, resource.plural);
        kind.is_some_and(|kind| self.cluster.store.get(&collection(&kind), key).is_some())
    }

    pub(super) fn list(&self, resource: Resource, namespace: Option<&str>) -> Vec<Value> {
        let values = self.stored(resource, namespace);
        values.iter().map(|stored| stored.value()).collect()
    }

    pub(super) fn stored(&self, resource: Resource, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        match self.cluster.built_in(resource.group, resource.plural) {
            Some(kind) => {
                self.cluster
                    .store
                    .list(&collection(&kind), namespace)
                    .objects
            }
            None => Vec::new(),
        }
    }

    /// Returns the objects of a kind that an object controls, ordered by name.
    pub(super) fn owned(&self, resource: Resource, owner: &Value) -> Vec<Value> {
        let uid = meta::uid(owner);
        let mut owned: Vec<Value> = self
            .cluster
            .dependents(uid)
            .into_iter()
            .filter(|dependent| {
                &*dependent.kind.group == resource.group
                    && &*dependent.kind.plural == resource.plural
            })
            .filter_map(|dependent| self.get(resource, &dependent.key))
            .filter(|object| controller_uid(object) == Some(uid))
            .collect();
        owned.sort_by(|one, two| meta::name(one).cmp(meta::name(two)));
        owned
    }

    fn call(&self, resource: Resource, key: &Key) -> Result<Call> {
        let kind = self
            .cluster
            .built_in(resource.group, resource.plural)
            .ok_or_else(ApiError::no_such_path)?;
        let user = UserInfo::of_service_account("kube-system", self.account, "").authenticated();
        Ok(Call::internal(&kind, key, user))
    }

    /// Creates an object. An existing one is not an error: another attempt created it.
    pub(super) async fn create(&self, resource: Resource, object: Value) -> Result<()> {
        let key = Key::new(meta::namespace(&object), "");
        let call = self.call(resource, &key)?;
        let decoded = Decoded {
            value: object,
            complaints: Vec::new(),
        };
        match self.cluster.create(&call, decoded, &[]).await {
            Err(error) if !error.is(Reason::AlreadyExists) => Err(error),
            _ => Ok(()),
        }
    }

    /// Changes an object. An absent one is not an error.
    pub(super) async fn change(
        &self,
        resource: Resource,
        key: &Key,
        edit: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<()> {
        let call = self.call(resource, key)?;
        self.perform_change(&call, edit).await
    }

    /// Changes a subresource of an object. An absent object is not an error.
    pub(super) async fn change_part(
        &self,
        resource: Resource,
        key: &Key,
        subresource: &str,
        edit: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<()> {
        let mut call = self.call(resource, key)?;
        call.subresource = Some(subresource.to_owned());
        self.perform_change(&call, edit).await
    }

    async fn perform_change(
        &self,
        call: &Call,
        edit: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<()> {
        let changed = self.cluster.change(call, |current| {
            let mut object = current.clone();
            edit(&mut object);
            Ok(object)
        });
        match changed.await {
            Err(error) if error.code() != 404 => Err(error),
            _ => Ok(()),
        }
    }

    /// Sets the status of an object if it differs.
    pub(super) async fn set_status(
        &self,
        resource: Resource,
        object: &Value,
        status: Value,
    ) -> Result<()> {
        if object.get("status") == Some(&status) {
            return Ok(());
        }
        let (key, uid) = (key_of(object), meta::uid(object));
        self.change_part(resource, &key, "status", |current| {
            if meta::uid(current) == uid {
                current["status"] = status.clone();
            }
        })
        .await
    }

    /// Binds a pod to a node.
    pub(super) async fn bind(&self, key: &Key, node: &str) -> Result<()> {
        let mut call = self.call(super::PODS, key)?;
        call.subresource = Some("binding".to_owned());
        let binding = serde_json::json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": key.name },
            "target": { "kind": "Node", "name": node },
        });
        let (binding, call) = self.cluster.admitted(&call, binding).await?;
        match self.cluster.bind(&call, &binding).await {
            Err(error) if !matches!(error.code(), 404 | 409) => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes an object and, in the background, its dependents. An absent one is not an error.
    pub(super) async fn delete(&self, resource: Resource, object: &Value) -> Result<()> {
        self.delete_within(resource, object, None).await
    }

    /// Deletes an object without a grace period.
    pub(super) async fn delete_now(&self, resource: Resource, object: &Value) -> Result<()> {
        self.delete_within(resource, object, Some(0)).await
    }

    async fn delete_within(
        &self,
        resource: Resource,
        object: &Value,
        grace_period: Option<i64>,
    ) -> Result<()> {
        let call = self.call(resource, &key_of(object))?;
        let options = DeleteOptions {
            grace_period,
            propagation: Some(Propagation::Background),
            uid: Some(meta::uid(object).to_owned()),
            ..DeleteOptions::default()
        };
        match self.cluster.delete(&call, options).await {
            Err(error) if !matches!(error.code(), 404 | 409) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the key of an object.
pub(super) fn key_of(object: &Value) -> Key {
    Key::new(meta::namespace(object), meta::name(object))
}

/// Returns the reference to the controller of an object.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    super::fields::list(object, "/metadata/ownerReferences")
        .iter()
        .find(|reference| flag(reference, "/controller"))
}

fn controller_uid(object: &Value) -> Option<&str> {
    controller(object)?.get("uid")?.as_str()
}
