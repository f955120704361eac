//! Notification of owners about changes of the objects that they own.
//!
//! ```text
//! driver of a child ─► ChildInboxes ─► Inbox of the owners ─► mailbox of the owner ─► its driver
//! ```
//!
//! An inbox stores the newest version of every changed child until the driver of its owner takes
//! it. Children of owners that are not listed yet stay in the inbox, so the order of the two
//! listings does not matter. It also knows the newest version of every existing child, for handlers
//! that read the children of their object; the bodies are shared with the drivers of the children,
//! which keep them anyway. An inbox is bounded by the number of existing children.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::children::{OwnerReference, owners};
use kopf_core::resource::Resource;
use kopf_core::sync::Mutex;
use tokio::sync::Notify;

use crate::identity::Identity;
use crate::invocation::{FindChildren, OwnedObject};

/// The inboxes of all streams whose objects can be owners.
#[derive(Debug, Default)]
pub(crate) struct ChildInboxes(Mutex<Vec<Weak<Inbox>>>);

/// The changed children of the objects of one stream.
#[derive(Debug)]
pub(crate) struct Inbox {
    resource: Arc<Resource>,
    /// `None`: all namespaces.
    namespace: Option<String>,
    inner: Mutex<Inner>,
    arrival: Notify,
}

/// A child to be shown to its owner.
#[derive(Debug, Clone)]
pub(crate) struct ChangedChild {
    pub(crate) object: Arc<OwnedObject>,
    /// The version was not known before. Repeated listings bring known ones.
    pub(crate) is_news: bool,
    /// `false` if the object has lost this owner.
    pub(crate) is_owned: bool,
}

#[derive(Debug, Default)]
struct Inner {
    /// The children by their owners.
    children: HashMap<Identity, Vec<ChangedChild>>,
    /// Owners to notify.
    fresh: HashSet<Identity>,
    /// The existing children by their owners, in the order of their last changes.
    existing: HashMap<Identity, Vec<Arc<OwnedObject>>>,
    /// The owners of the existing children.
    owners: HashMap<Identity, Vec<Identity>>,
}

impl ChildInboxes {
    /// Opens the inbox of a stream, which is closed by dropping it.
    pub(crate) fn open(&self, resource: Arc<Resource>, namespace: Option<String>) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox {
            resource,
            namespace,
            inner: Mutex::default(),
            arrival: Notify::new(),
        });
        let mut inboxes = self.0.lock();
        inboxes.retain(|inbox| inbox.strong_count() > 0);
        inboxes.push(Arc::downgrade(&inbox));
        inbox
    }

    /// Returns `true` if any owner of an object has a stream with an inbox.
    pub(crate) fn has_owners(&self, body: &Body) -> bool {
        let inboxes = self.inboxes();
        let is_served = |owner: OwnerReference<'_>| {
            let mut inboxes = inboxes.iter();
            inboxes.any(|inbox| inbox.serves(&owner, body))
        };
        owners(body).any(is_served)
    }

    fn inboxes(&self) -> Vec<Arc<Inbox>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Posts a changed child to the inboxes of its owners.
    pub(crate) fn report(&self, child: &Arc<OwnedObject>) {
        for inbox in self.inboxes() {
            let owners = owners(&child.body).filter(|owner| inbox.serves(owner, &child.body));
            let owners = owners.map(|owner| Identity::new(Some(owner.uid), None, None));
            inbox.post(owners.collect(), child);
        }
    }
}

impl FindChildren for ChildInboxes {
    fn children_of(&self, resource: &Resource, owner: &Body) -> Vec<Arc<OwnedObject>> {
        let Some(uid) = owner.uid() else {
            return Vec::new();
        };
        let identity = Identity::new(Some(uid), None, None);
        let mut children: Vec<Arc<OwnedObject>> = Vec::new();
        let inboxes = self.inboxes();
        for inbox in inboxes.iter().filter(|inbox| *inbox.resource == *resource) {
            let inner = inbox.inner.lock();
            for child in inner.existing.get(&identity).into_iter().flatten() {
                // Streams of several namespaces can have the children of one cluster-scoped owner.
                if !children.iter().any(|known| known.is_same(child)) {
                    children.push(Arc::clone(child));
                }
            }
        }
        children
    }
}

impl Inbox {
    fn serves(&self, owner: &OwnerReference<'_>, child: &Body) -> bool {
        let namespace = self.namespace.as_deref();
        owner.is_of(&self.resource) && (namespace.is_none() || namespace == child.namespace())
    }

    /// Adds a child of these owners, replacing an older version of it. The owners that it has lost are
    /// notified too.
    fn post(&self, owners: Vec<Identity>, child: &Arc<OwnedObject>) {
        let mut inner = self.inner.lock();
        for owner in inner.former(&owners, child) {
            inner.post(&owner, child, false);
        }
        for owner in &owners {
            inner.post(owner, child, true);
        }
        let is_fresh = !inner.fresh.is_empty();
        inner.note(owners, child);
        drop(inner);
        if is_fresh {
            self.arrival.notify_one();
        }
    }

    /// Waits for children of owners that are not notified yet. Cancel-safe. May return spuriously.
    pub(crate) async fn arrival(&self) {
        self.arrival.notified().await;
    }

    /// Takes the owners to notify.
    pub(crate) fn take_fresh(&self) -> HashSet<Identity> {
        std::mem::take(&mut self.inner.lock().fresh)
    }

    /// Takes the changed children of an owner, in the order of their changes.
    pub(crate) fn take(&self, owner: &Identity) -> Vec<ChangedChild> {
        let mut inner = self.inner.lock();
        inner.children.remove(owner).unwrap_or_default()
    }

    /// Drops the deleted children of an owner that was never listed.
    pub(crate) fn drop_deleted(&self, owner: &Identity) {
        let mut inner = self.inner.lock();
        if let Some(children) = inner.children.get_mut(owner) {
            children.retain(|child| child.is_owned && child.object.event != EventType::Deleted);
            if children.is_empty() {
                inner.children.remove(owner);
            }
        }
    }

    /// Drops the children of a deleted owner.
    pub(crate) fn forget(&self, owner: &Identity) {
        let mut inner = self.inner.lock();
        inner.children.remove(owner);
        inner.existing.remove(owner);
    }
}

impl Inner {
    /// Returns the owners that an object had in its last version, and has no more.
    fn former(&self, owners: &[Identity], child: &OwnedObject) -> Vec<Identity> {
        let former = self.owners.get(&identity(child)).into_iter().flatten();
        let former = former.filter(|owner| !owners.contains(owner));
        former.cloned().collect()
    }

    /// Adds a child of an owner, replacing an older version of it.
    fn post(&mut self, owner: &Identity, child: &Arc<OwnedObject>, is_owned: bool) {
        let mut is_news = !is_owned || !self.knows(owner, child);
        let children = self.children.entry(owner.clone()).or_default();
        children.retain(|other| {
            let is_same = other.object.is_same(child);
            is_news |= is_same && other.is_news;
            !is_same
        });
        children.push(ChangedChild {
            object: Arc::clone(child),
            is_news,
            is_owned,
        });
        self.fresh.insert(owner.clone());
    }

    /// Returns `true` if this version of a child is known.
    fn knows(&self, owner: &Identity, child: &OwnedObject) -> bool {
        let mut existing = self.existing.get(owner).into_iter().flatten();
        let version = child.body.resource_version();
        child.event != EventType::Deleted
            && version.is_some()
            && existing
                .any(|known| known.is_same(child) && known.body.resource_version() == version)
    }

    /// Updates the existing children. A child can have lost owners, or be deleted.
    fn note(&mut self, mut owners: Vec<Identity>, child: &Arc<OwnedObject>) {
        let identity = identity(child);
        if child.event == EventType::Deleted {
            owners.clear();
        }
        for former in self.owners.remove(&identity).into_iter().flatten() {
            if let Some(children) = self.existing.get_mut(&former) {
                children.retain(|other| !other.is_same(child));
                if children.is_empty() {
                    self.existing.remove(&former);
                }
            }
        }
        for owner in &owners {
            let children = self.existing.entry(owner.clone()).or_default();
            children.push(Arc::clone(child));
        }
        if !owners.is_empty() {
            self.owners.insert(identity, owners);
        }
    }
}

fn identity(child: &OwnedObject) -> Identity {
    let body = &child.body;
    Identity::new(body.uid(), body.namespace(), body.name())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake_api::kind;

    fn child(uid: &str, owner: &str, event: EventType) -> Arc<OwnedObject> {
        let body = Body::new(json!({"metadata": {
            "uid": uid, "namespace": "ns",
            "ownerReferences": [{"apiVersion": "g/v0", "kind": "Thing", "uid": owner}],
        }}));
        let resource = Arc::new(kind("", "pods"));
        Arc::new(OwnedObject::new(resource, event, body))
    }

    fn things() -> Arc<Resource> {
        Arc::new(Resource {
            kind: "Thing".to_owned(),
            ..kind("g", "things")
        })
    }

    fn owner(uid: &str) -> Identity {
        Identity::new(Some(uid), None, None)
    }

    #[test]
    fn children_are_posted_to_the_streams_of_their_owners() {
        let inboxes = ChildInboxes::default();
        let everywhere = inboxes.open(things(), None);
        let here = inboxes.open(things(), Some("ns".to_owned()));
        let elsewhere = inboxes.open(things(), Some("other".to_owned()));
        let others = inboxes.open(Arc::new(kind("g", "others")), None);
        let child = child("c1", "u1", EventType::Added);
        inboxes.report(&child);
        assert!(inboxes.has_owners(&child.body));
        assert!(!inboxes.has_owners(&Body::new(json!({}))));
        let counts =
            [everywhere, here, elsewhere, others].map(|inbox| inbox.take(&owner("u1")).len());
        assert_eq!(counts, [1, 1, 0, 0]);
    }

    #[test]
    fn only_the_newest_version_of_a_child_is_kept() {
        let inboxes = ChildInboxes::default();
        let inbox = inboxes.open(things(), None);
        inboxes.report(&child("c1", "u1", EventType::Added));
        inboxes.report(&child("c2", "u1", EventType::Added));
        inboxes.report(&child("c1", "u1", EventType::Modified));
        assert_eq!(inbox.take_fresh(), HashSet::from([owner("u1")]));
        let events: Vec<_> = inbox
            .take(&owner("u1"))
            .iter()
            .map(|child| child.object.event)
            .collect();
        assert_eq!(events, [EventType::Added, EventType::Modified]);
        assert!(inbox.take(&owner("u1")).is_empty() && inbox.take_fresh().is_empty());
    }

    #[test]
    fn repeated_versions_are_no_news() {
        let inboxes = ChildInboxes::default();
        let inbox = inboxes.open(things(), None);
        let news = || {
            let children = inbox.take(&owner("u1")).into_iter();
            children.map(|child| child.is_news).collect::<Vec<_>>()
        };
        let version = |version: &str, event| {
            let child = child("c1", "u1", event);
            let mut body = child.body.value().clone();
            body["metadata"]["resourceVersion"] = json!(version);
            let resource = Arc::clone(&child.resource);
            Arc::new(OwnedObject::new(resource, event, Body::new(body)))
        };
        inboxes.report(&version("1", EventType::Listed));
        inboxes.report(&version("1", EventType::Listed));
        assert_eq!(news(), [true], "it was not taken before");
        inboxes.report(&version("1", EventType::Listed));
        assert_eq!(news(), [false]);
        inboxes.report(&version("2", EventType::Listed));
        assert_eq!(news(), [true]);
        inboxes.report(&version("2", EventType::Deleted));
        assert_eq!(news(), [true]);
    }

    #[test]
    fn nothing_is_kept_for_owners_that_are_gone() {
        let inboxes = ChildInboxes::default();
        let inbox = inboxes.open(things(), None);
        inboxes.report(&child("c1", "u1", EventType::Added));
        inboxes.report(&child("c2", "u1", EventType::Added));
        inboxes.report(&child("c1", "u1", EventType::Deleted));
        inbox.drop_deleted(&owner("u1"));
        assert_eq!(inbox.inner.lock().children[&owner("u1")].len(), 1);
        inbox.forget(&owner("u1"));
        inboxes.report(&child("c2", "u1", EventType::Deleted));
        inbox.drop_deleted(&owner("u1"));
        assert!(inbox.inner.lock().children.is_empty());
    }

    #[test]
    fn existing_children_are_known_in_their_newest_version() {
        let inboxes = ChildInboxes::default();
        let inbox = inboxes.open(things(), None);
        let parent = |uid: &str| Body::new(json!({"metadata": {"uid": uid}}));
        let seen = |uid: &str| {
            let children = inboxes.children_of(&things(), &parent(uid));
            let children = children.iter();
            let seen = children.map(|child| (child.body.uid().unwrap().to_owned(), child.event));
            seen.collect::<Vec<_>>()
        };
        inboxes.report(&child("c1", "u1", EventType::Added));
        inboxes.report(&child("c2", "u1", EventType::Added));
        inboxes.report(&child("c1", "u1", EventType::Modified));
        inbox.take(&owner("u1"));
        let (c1, c2) = ("c1".to_owned(), "c2".to_owned());
        let expected = [
            (c2.clone(), EventType::Added),
            (c1.clone(), EventType::Modified),
        ];
        assert_eq!(seen("u1"), expected);

        inbox.take_fresh();
        inboxes.report(&child("c1", "u2", EventType::Modified));
        assert_eq!(
            inbox.take_fresh(),
            HashSet::from([owner("u1"), owner("u2")])
        );
        let taken = ["u1", "u2"].map(|uid| inbox.take(&owner(uid)));
        assert!(!taken[0][0].is_owned && taken[0][0].is_news && taken[1][0].is_owned);
        assert_eq!(seen("u1"), [(c2, EventType::Added)], "it has another owner");
        assert_eq!(seen("u2"), [(c1, EventType::Modified)]);
        inboxes.report(&child("c1", "u2", EventType::Deleted));
        inboxes.report(&child("c2", "u1", EventType::Deleted));
        assert!(seen("u1").is_empty() && seen("u2").is_empty());
        let inner = inbox.inner.lock();
        assert!(inner.existing.is_empty() && inner.owners.is_empty());
    }

    #[test]
    fn closed_inboxes_are_forgotten() {
        let inboxes = ChildInboxes::default();
        drop(inboxes.open(things(), None));
        let _open = inboxes.open(things(), None);
        assert_eq!(inboxes.0.lock().len(), 1);
    }
}
