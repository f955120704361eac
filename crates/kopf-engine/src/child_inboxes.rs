//! Notification of owners about changes of the objects that they own.
//!
//! ```text
//! driver of a child ─► ChildInboxes ─► Inbox of the owners ─► mailbox of the owner ─► its driver
//! ```
//!
//! An inbox stores the newest version of every changed child until the driver of its owner takes
//! it. Children of owners that are not listed yet stay in the inbox, so the order of the two
//! listings does not matter. An inbox is bounded by the number of existing children.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::children::{OwnerReference, owners};
use kopf_core::resource::Resource;
use kopf_core::sync::Mutex;
use tokio::sync::Notify;

use crate::identity::Identity;
use crate::invocation::OwnedObject;

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

#[derive(Debug, Default)]
struct Inner {
    /// The children by their owners.
    children: HashMap<Identity, Vec<Arc<OwnedObject>>>,
    /// Owners to notify.
    fresh: HashSet<Identity>,
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
        let inboxes = self.inboxes();
        for owner in owners(&child.body) {
            for inbox in inboxes
                .iter()
                .filter(|inbox| inbox.serves(&owner, &child.body))
            {
                inbox.post(Identity::new(Some(owner.uid), None, None), child);
            }
        }
    }
}

impl Inbox {
    fn serves(&self, owner: &OwnerReference<'_>, child: &Body) -> bool {
        let namespace = self.namespace.as_deref();
        owner.is_of(&self.resource) && (namespace.is_none() || namespace == child.namespace())
    }

    /// Adds a child, replacing an older version of it.
    fn post(&self, owner: Identity, child: &Arc<OwnedObject>) {
        let mut inner = self.inner.lock();
        let children = inner.children.entry(owner.clone()).or_default();
        children.retain(|other| !other.is_same(child));
        children.push(Arc::clone(child));
        inner.fresh.insert(owner);
        drop(inner);
        self.arrival.notify_one();
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
    pub(crate) fn take(&self, owner: &Identity) -> Vec<Arc<OwnedObject>> {
        let mut inner = self.inner.lock();
        inner.children.remove(owner).unwrap_or_default()
    }

    /// Drops the deleted children of an owner that was never listed.
    pub(crate) fn drop_deleted(&self, owner: &Identity) {
        let mut inner = self.inner.lock();
        if let Some(children) = inner.children.get_mut(owner) {
            children.retain(|child| child.event != EventType::Deleted);
            if children.is_empty() {
                inner.children.remove(owner);
            }
        }
    }

    /// Drops the children of a deleted owner.
    pub(crate) fn forget(&self, owner: &Identity) {
        self.inner.lock().children.remove(owner);
    }
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
            .map(|child| child.event)
            .collect();
        assert_eq!(events, [EventType::Added, EventType::Modified]);
        assert!(inbox.take(&owner("u1")).is_empty() && inbox.take_fresh().is_empty());
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
    fn closed_inboxes_are_forgotten() {
        let inboxes = ChildInboxes::default();
        drop(inboxes.open(things(), None));
        let _open = inboxes.open(things(), None);
        assert_eq!(inboxes.0.lock().len(), 1);
    }
}
