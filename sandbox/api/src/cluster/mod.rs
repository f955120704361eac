//! The state of one server and all changes of it.
//!
//! [`verbs`](crate::verbs) implement requests; they read and write through this module, which keeps
//! the derived state consistent: the kinds of CRDs, the registered webhooks, the owner index of the
//! garbage collector.

pub mod admit;
pub mod authorize;
pub mod bootstrap;
mod certificate_rights;
pub mod controllers;
mod crd_cache;
pub mod crds;
mod escalation;
pub mod garbage;
mod import;
pub mod namespaces;
pub mod owners;
pub mod plugins;
pub mod present;
pub mod quotas;
mod restore;
pub mod signing;
pub mod workloads;

use std::sync::Arc;

use kopf_sandbox_kinds::services::pool::Pool;
use kopf_sandbox_schema::kind::{Kind, Kinds, Origin};
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::rights::Rights;
use kopf_sandbox_store::clock::Clock;
use kopf_sandbox_store::ids::Ids;
use kopf_sandbox_store::sync::{Mutex, RwLock};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::controllers::{Job, Jobs};
use self::crd_cache::CrdCache;
use self::owners::Owners;
use self::quotas::{Limited, Outcome, Refused, Write};
use self::workloads::Workloads;
use crate::access::Access;
use crate::admission::{Caller, Policies, Webhooks};
use crate::certificates::{self, Authority};
use crate::fault::Faults;
use crate::store::{Expect, Key, Parent, Store, Stored, Unexpected};
use crate::tap::{self, Tapped};
use crate::view::Views;

/// One server: its objects, its kinds, its users.
#[derive(Debug)]
pub struct Cluster {
    pub store: Store,
    pub clock: Clock,
    pub ids: Ids,
    pub access: Access,
    pub faults: Faults,
    pub caller: Caller,
    kinds: RwLock<Arc<Kinds>>,
    webhooks: RwLock<Arc<Webhooks>>,
    /// Requests are checked against roles and bindings.
    pub rbac: bool,
    /// Lists and watches can be restricted to shards.
    pub shards: bool,
    rights: RwLock<Arc<Rights>>,
    owners: Owners,
    /// Allocated cluster IPs and node ports.
    services: Mutex<Pool>,
    /// Namespaces with resource quotas.
    limited: Limited,
    pub jobs: Jobs,
    /// Controllers of workloads, if they are simulated.
    pub workloads: Option<Arc<dyn Workloads>>,
    /// Observes and steers requests, if there is one.
    pub tap: Option<Tapped>,
    /// Clients whose reads are answered from a lagging cache.
    pub views: Views,
    /// Locked while the kinds of CRDs are rebuilt.
    crds: Mutex<CrdCache>,
    pub stopping: CancellationToken,
    /// Generated on first use: in process, certificates are rarely needed.
    authority: Mutex<Option<Arc<Authority>>>,
}

/// Returns the collection of a kind. Events of both API groups share one.
pub fn collection(kind: &Kind) -> Arc<str> {
    if &*kind.plural == "events" && &*kind.group == "events.k8s.io" {
        return Arc::from("/events");
    }
    Arc::from(format!("{}/{}", kind.group, kind.plural))
}

/// Returns the objects that must exist for objects of a kind (in a namespace, if given) to exist.
pub(crate) fn parents(kind: &Kind, namespace: Option<&str>) -> Vec<Parent> {
    let namespace = namespace.map(|name| Parent {
        collection: "/namespaces",
        key: Key::new(None, name),
        born: None,
    });
    let definition = match &kind.origin {
        Origin::BuiltIn => None,
        Origin::Custom { crd, born } => Some(Parent {
            collection: crds::COLLECTION,
            key: Key::new(None, crd),
            born: Some(*born),
        }),
    };
    namespace.into_iter().chain(definition).collect()
}

impl Cluster {
    pub fn new(
        store: Store,
        clock: Clock,
        ids: Ids,
        access: Access,
        faults: Faults,
        caller: Caller,
        kinds: Kinds,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            access,
            faults,
            caller,
            webhooks: RwLock::default(),
            rbac: false,
            shards: true,
            rights: RwLock::default(),
            owners: Owners::default(),
            services: Mutex::default(),
            limited: Limited::default(),
            jobs: Jobs::default(),
            workloads: None,
            tap: None,
            views: Views::default(),
            crds: Mutex::new(CrdCache::new(kinds.clone())),
            kinds: RwLock::new(Arc::new(kinds)),
            stopping: CancellationToken::new(),
            authority: Mutex::default(),
        }
    }

    /// Returns the certificate authority of this server.
    pub fn authority(&self) -> Result<Arc<Authority>, certificates::Error> {
        let mut authority = self.authority.lock();
        if let Some(authority) = &*authority {
            return Ok(Arc::clone(authority));
        }
        // Clients verify certificates with their own clock, regardless of the sandbox's.
        let made = Arc::new(Authority::generate(jiff::Timestamp::now())?);
        *authority = Some(Arc::clone(&made));
        Ok(made)
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.kinds.read())
    }

    /// Changes the set of kinds.
    fn change_kinds(&self, change: impl FnOnce(&mut Kinds)) {
        {
            let mut kinds = self.kinds.write();
            change(Arc::make_mut(&mut kinds));
        }
        self.recheck_unresolved_owners();
    }

    pub fn webhooks(&self) -> Arc<Webhooks> {
        Arc::clone(&self.webhooks.read())
    }

    /// Returns a built-in kind. `None` only if the recorded data lacks it.
    pub fn built_in(&self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        self.kinds().by_plural(group, plural).cloned()
    }

    /// Writes an object and updates the derived state. `object` is in the storage version. Quotas
    /// are not checked.
    pub fn put(
        &self,
        kind: &Arc<Kind>,
        key: &Key,
        expect: Expect,
        object: Value,
    ) -> Result<Arc<Stored>, Unexpected> {
        self.put_checked(kind, key, expect, object, |_| Ok(()))
    }

    /// Writes an object like [`Cluster::put`] if the quotas of its namespace allow it.
    pub(crate) fn put_limited(
        &self,
        kind: &Arc<Kind>,
        key: &Key,
        expect: Expect,
        object: Value,
    ) -> Result<Arc<Stored>, Refused> {
        self.put_checked(kind, key, expect, object, |object| {
            let checked = self.check_quotas(kind, key, expect, object);
            checked.map_err(Refused::OverQuota)
        })
    }

    fn put_checked<E: From<Unexpected>>(
        &self,
        kind: &Arc<Kind>,
        key: &Key,
        expect: Expect,
        object: Value,
        check: impl FnOnce(&Value) -> Result<(), E>,
    ) -> Result<Arc<Stored>, E> {
        let collection = collection(kind);
        let mut follow_up = FollowUpJobs::of(kind, key, &object);
        follow_up.jobs.extend(self.consequences(kind, key, &object));
        let parents = match expect {
            Expect::Absent => parents(kind, key.namespace()),
            Expect::Revision(_) => Vec::new(), // the object exists, so its parents exist
        };
        let write = Write {
            kind,
            key,
            outcome: Outcome::Present,
        };
        let stored = self.write_counted(write, object, check, |object| {
            self.store
                .put(&collection, key, expect, kind, object, &parents)
        })?;
        tap::unattributed(|| {
            self.hold_addresses(kind, key);
            self.refresh_owners(&collection, key);
            self.follow(kind, follow_up);
            if &*kind.group == "certificates.k8s.io" {
                self.sign_request(kind, key);
            }
        });
        Ok(stored)
    }

    /// Removes an object and updates the derived state. `last` is in the storage version.
    pub fn remove(
        &self,
        kind: &Arc<Kind>,
        key: &Key,
        expected: u64,
        last: Value,
    ) -> Result<Arc<Stored>, Unexpected> {
        let collection = collection(kind);
        let uid = meta::uid(&last).to_owned();
        let consequences = self.consequences(kind, key, &last);
        let write = Write {
            kind,
            key,
            outcome: Outcome::Removed,
        };
        let stored = self.write_counted(
            write,
            last,
            |_| Ok::<(), Unexpected>(()),
            |last| self.store.remove(&collection, key, expected, last),
        )?;
        tap::unattributed(|| self.follow_removal(kind, key, &collection, &uid));
        for job in consequences {
            self.jobs.push(job);
        }
        Ok(stored)
    }

    /// Updates the derived state after an object was removed.
    fn follow_removal(&self, kind: &Kind, key: &Key, collection: &Arc<str>, uid: &str) {
        self.hold_addresses(kind, key);
        self.owners.mark_gone(uid);
        self.jobs.push(Job::OwnerGone {
            uid: uid.to_owned(),
        });
        self.refresh_owners(collection, key);
        if let Some(namespace) = key.namespace() {
            self.jobs.push(Job::Namespace {
                name: namespace.to_owned(),
            });
        }
        if kind.is_custom() {
            self.jobs.push(Job::Crd {
                name: kind.qualified_plural(),
            });
        }
        match (&*kind.group, &*kind.plural) {
            ("apiextensions.k8s.io", _) => self.read_crds(),
            ("admissionregistration.k8s.io", _) => self.read_webhooks(),
            ("rbac.authorization.k8s.io", _) => self.read_rights(),
            ("", "serviceaccounts") => self.access.revoke(uid),
            _ => {}
        }
        if let Some(workloads) = &self.workloads {
            workloads.forget(uid);
        }
    }

    /// Returns jobs for the workloads that a write affects.
    fn consequences(&self, kind: &Kind, key: &Key, object: &Value) -> Vec<Job> {
        let workloads = self.workloads.as_ref();
        workloads.map_or_else(Vec::new, |workloads| {
            workloads.consequences(self, kind, key, object)
        })
    }

    /// Returns the objects that refer to an owner by its uid.
    pub fn dependents(&self, uid: &str) -> Vec<owners::Dependent> {
        self.owners.dependents(uid)
    }

    /// Updates the owner index after a write and queues the affected owners.
    fn refresh_owners(&self, collection: &Arc<str>, key: &Key) {
        for owner in self.owners.refresh(&self.store, collection, key) {
            if let Some((kind, key)) = self.locate_owner(&owner, key.namespace()) {
                self.jobs.push(Job::Terminating { kind, key });
            }
        }
    }

    fn follow(&self, kind: &Arc<Kind>, follow_up: FollowUpJobs) {
        match (&*kind.group, &*kind.plural) {
            ("apiextensions.k8s.io", "customresourcedefinitions") => self.read_crds(),
            ("admissionregistration.k8s.io", _) => self.read_webhooks(),
            ("rbac.authorization.k8s.io", _) => self.read_rights(),
            _ => {}
        }
        // After the kinds are updated: the controllers depend on them.
        for job in follow_up.jobs {
            self.jobs.push(job);
        }
    }

    /// Rebuilds the set of webhooks from the stored configurations.
    fn read_webhooks(&self) {
        // Reading under the lock ensures that the last of concurrent changes reads the last state.
        let mut webhooks = self.webhooks.write();
        let list = |plural: &str| -> Vec<Value> {
            let collection = format!("admissionregistration.k8s.io/{plural}");
            self.store
                .list(&collection, None)
                .objects
                .iter()
                .map(|stored| stored.value())
                .collect()
        };
        *webhooks = Arc::new(Webhooks::read(
            &list("mutatingwebhookconfigurations"),
            &list("validatingwebhookconfigurations"),
            Policies::read(
                &list("validatingadmissionpolicies"),
                &list("validatingadmissionpolicybindings"),
                &list("mutatingadmissionpolicies"),
                &list("mutatingadmissionpolicybindings"),
            ),
        ));
    }
}

/// The jobs for the controllers after a write.
struct FollowUpJobs {
    jobs: Vec<Job>,
}

impl FollowUpJobs {
    fn of(kind: &Arc<Kind>, key: &Key, object: &Value) -> Self {
        let mut jobs = Vec::new();
        let terminating = meta::is_terminating(object);
        if terminating
            && (meta::has_finalizer(object, garbage::FOREGROUND)
                || meta::has_finalizer(object, garbage::ORPHAN))
        {
            jobs.push(Job::Terminating {
                kind: Arc::clone(kind),
                key: key.clone(),
            });
        }
        if object.pointer("/metadata/ownerReferences").is_some() {
            jobs.push(Job::Dependent {
                kind: Arc::clone(kind),
                key: key.clone(),
            });
        }
        if terminating {
            match (&*kind.group, &*kind.plural) {
                ("", "namespaces") => jobs.push(Job::Namespace {
                    name: key.name.to_string(),
                }),
                ("apiextensions.k8s.io", "customresourcedefinitions") => {
                    jobs.push(Job::Crd {
                        name: key.name.to_string(),
                    });
                }
                _ => {
                    if let Some(namespace) = key.namespace() {
                        jobs.push(Job::Namespace {
                            name: namespace.to_owned(),
                        });
                    }
                }
            }
        }
        Self { jobs }
    }
}
