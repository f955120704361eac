//! Built-in admission plugins, and addresses and ports of services.

use kopf_sandbox_kinds::plugins::{
    default_classes, limit_ranges, priorities, resizing, runtime_classes,
};
use kopf_sandbox_kinds::services::pool::{Allocation, Pool};
use kopf_sandbox_kinds::services::{self, Failure};
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_store::sync::Mutex;
use serde_json::Value;

use super::Cluster;
use crate::call::Call;
use crate::status::{ApiError, Result};
use crate::store::Key;

impl Cluster {
    /// Applies the built-in plugins to a new object: sets its fields or rejects it.
    pub(crate) fn plug_in(&self, call: &Call, object: &mut Value) -> Result<()> {
        if call.subresource.is_some() {
            return Ok(());
        }
        match (&*call.kind.group, &*call.kind.plural) {
            ("", "pods") => {
                limit_ranges::apply(object, &self.limit_ranges(call));
                let classes = self.objects("scheduling.k8s.io/priorityclasses", None);
                let done = priorities::apply(object, &classes).and_then(|()| {
                    let class = runtime_classes::name(object)
                        .and_then(|name| self.stored("node.k8s.io/runtimeclasses", name));
                    runtime_classes::apply(object, class.as_ref())
                });
                done.map_err(|why| {
                    // The name is not yet generated.
                    let prefix = meta::text(object, "generateName").unwrap_or_default();
                    let name = Some(meta::name(object)).filter(|name| !name.is_empty());
                    ApiError::forbidden(&call.kind, name.unwrap_or(prefix), &why)
                })
            }
            ("", "persistentvolumeclaims") => {
                let classes = self.objects("storage.k8s.io/storageclasses", None);
                default_classes::default_storage_class(object, &classes);
                Ok(())
            }
            ("networking.k8s.io", "ingresses") => {
                let classes = self.objects("networking.k8s.io/ingressclasses", None);
                default_classes::default_ingress_class(object, &classes);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Validates an object by the built-in plugins after the webhooks.
    pub(crate) fn check_plugins(
        &self,
        call: &Call,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<()> {
        if call.subresource.is_some() {
            return Ok(());
        }
        let judged = match (&*call.kind.group, &*call.kind.plural) {
            // The containers of a pod are immutable.
            ("", "pods") if old.is_none() => {
                limit_ranges::check_pod(object, &self.limit_ranges(call))
            }
            ("", "persistentvolumeclaims") => {
                limit_ranges::check_claim(object, &self.limit_ranges(call)).and_then(|()| {
                    let class = resizing::class(object);
                    let class = self.stored("storage.k8s.io/storageclasses", class);
                    old.map_or(Ok(()), |old| resizing::check(object, old, class.as_ref()))
                })
            }
            ("scheduling.k8s.io", "priorityclasses") => {
                let classes = self.objects("scheduling.k8s.io/priorityclasses", None);
                priorities::check_class(object, &classes)
            }
            _ => Ok(()),
        };
        judged.map_err(|why| ApiError::forbidden(&call.kind, meta::name(object), &why))
    }

    /// Assigns addresses and ports to a service. They are reserved until the result is dropped.
    pub(crate) fn assign_addresses(
        &self,
        call: &Call,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Reservation<'_>> {
        let mut reservation = Reservation {
            pool: &self.services,
            number: None,
        };
        if !is_service(&call.kind) || call.subresource.is_some() {
            return Ok(reservation);
        }
        let name = meta::name(object).to_owned();
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
            return Ok(reservation);
        };
        let own = old.map(Allocation::of).unwrap_or_default();
        let old = old.and_then(|old| old.get("spec")?.as_object());
        if let Some(old) = old {
            services::carry_over(spec, old);
        }
        let mut pool = self.services.lock();
        let allocation =
            services::assign(spec, &own, &mut pool).map_err(|failure| match failure {
                Failure::Invalid(errors) => ApiError::invalid(&call.kind, &name, &errors),
                Failure::Internal(why) => ApiError::internal(why),
            })?;
        if !call.options.dry_run {
            reservation.number = Some(pool.reserve(allocation));
        }
        Ok(reservation)
    }

    /// Records the addresses and ports of a service after a write.
    pub(super) fn hold_addresses(&self, kind: &Kind, key: &Key) {
        if !is_service(kind) {
            return;
        }
        let name = format!("{}/{}", key.namespace().unwrap_or_default(), key.name);
        // Reading under the lock ensures that the last of concurrent writes reads the last state.
        let mut pool = self.services.lock();
        let stored = self.store.get("/services", key);
        let allocation = stored.map(|stored| Allocation::of(&stored.value()));
        pool.store(name, allocation.unwrap_or_default());
    }

    fn limit_ranges(&self, call: &Call) -> Vec<Value> {
        self.objects("/limitranges", call.namespace.as_deref())
    }

    fn objects(&self, collection: &str, namespace: Option<&str>) -> Vec<Value> {
        let listed = self.store.list(collection, namespace);
        listed.objects.iter().map(|stored| stored.value()).collect()
    }

    fn stored(&self, collection: &str, name: &str) -> Option<Value> {
        let stored = self.store.get(collection, &Key::new(None, name))?;
        Some(stored.value())
    }
}

fn is_service(kind: &Kind) -> bool {
    kind.group.is_empty() && &*kind.plural == "services"
}

/// Addresses and ports that are reserved until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Reservation<'a> {
    pool: &'a Mutex<Pool>,
    number: Option<u64>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut pool = self.pool.lock();
            pool.release(number);
        }
    }
}
