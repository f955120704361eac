use serde_json::json;

use super::*;

/// The store never reads the kinds of its objects.
type Kind = ();

struct Fixture {
    store: Store<Kind>,
    kind: Arc<Kind>,
    children: Arc<str>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            store: Store::new(Window::default()),
            kind: Arc::default(),
            children: Arc::from("children"),
        }
    }

    fn create(&self, collection: &str, name: &str, parents: &[Parent]) -> Result<u64, Unexpected> {
        let object = json!({"metadata": {"name": name}});
        let key = Key::new(None, name);
        self.store
            .put(
                &Arc::from(collection),
                &key,
                Expect::Absent,
                &self.kind,
                object,
                parents,
            )
            .map(|stored| stored.revision)
    }

    fn remove(&self, collection: &str, name: &str) {
        let key = Key::new(None, name);
        let stored = self.store.get(collection, &key).unwrap();
        let collection = Arc::from(collection);
        self.store
            .remove(&collection, &key, stored.revision, stored.value())
            .unwrap();
    }

    /// Returns the current parent, which no other object of its name replaces.
    fn parent(&self) -> Parent {
        let key = Key::new(None, "p");
        let born = self.store.get("parents", &key).unwrap().born;
        Parent {
            collection: "parents",
            key,
            born: Some(born),
        }
    }

    fn read(&self, subscription: &Subscription<Kind>, after: u64) -> (Vec<(Change, String)>, bool) {
        let changes = self
            .store
            .changes(subscription, after, 100, Reader::Live)
            .unwrap();
        let entries = changes.entries.iter();
        let notified = entries
            .map(|entry| (entry.change, entry.object.key.name.to_string()))
            .collect();
        (notified, changes.closed)
    }
}

#[test]
fn creation_requires_its_parents() {
    let fixture = Fixture::new();
    fixture.create("parents", "p", &[]).unwrap();
    let parent = fixture.parent();
    fixture
        .create("children", "a", std::slice::from_ref(&parent))
        .unwrap();

    let key = Key::new(None, "p");
    let stored = fixture.store.get("parents", &key).unwrap();
    let marked = json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-02T03:04:05Z"}});
    let expect = Expect::Revision(stored.revision);
    let collection = Arc::from("parents");
    fixture
        .store
        .put(&collection, &key, expect, &fixture.kind, marked, &[])
        .unwrap();
    let late = fixture.create("children", "b", std::slice::from_ref(&parent));
    assert_eq!(late, Err(Unexpected::NoParent), "the parent is terminating");

    fixture.remove("parents", "p");
    let late = fixture.create("children", "b", std::slice::from_ref(&parent));
    assert_eq!(late, Err(Unexpected::NoParent), "the parent is deleted");

    fixture.create("parents", "p", &[]).unwrap();
    let late = fixture.create("children", "b", std::slice::from_ref(&parent));
    assert_eq!(late, Err(Unexpected::NoParent), "the parent was recreated");
    fixture
        .create("children", "b", &[fixture.parent()])
        .unwrap();
}

#[test]
fn watchers_of_a_removed_collection_get_only_its_entries() {
    let fixture = Fixture::new();
    fixture.create("parents", "p", &[]).unwrap();
    let parent = fixture.parent();
    let watch = fixture
        .store
        .subscribe(&fixture.children, std::slice::from_ref(&parent))
        .unwrap();
    let start = fixture.store.revision();
    fixture
        .create("children", "a", std::slice::from_ref(&parent))
        .unwrap();
    fixture.remove("children", "a");
    fixture.remove("parents", "p");
    assert!(fixture.store.close_collection("children").is_empty());
    let too_late = fixture.store.subscribe(&fixture.children, &[parent]);
    assert!(too_late.is_none());
    assert!(!fixture.store.lock().collections.contains_key("children"));

    fixture.create("parents", "p", &[]).unwrap();
    fixture
        .create("children", "b", &[fixture.parent()])
        .unwrap();
    let rest = vec![
        (Change::Added, "a".to_owned()),
        (Change::Deleted, "a".to_owned()),
    ];
    assert_eq!(fixture.read(&watch, start), (rest, true));
    assert!(
        fixture
            .store
            .list_subscribed(&watch, None)
            .objects
            .is_empty()
    );
    assert!(watch.news.has_changed().is_err(), "the stream is closed");

    let next = fixture
        .store
        .subscribe(&fixture.children, &[fixture.parent()])
        .unwrap();
    let from_the_former = fixture.store.changes(&next, start, 100, Reader::New);
    assert!(
        from_the_former.is_err(),
        "the history of the previous collection"
    );
}

#[test]
fn watches_can_be_ended_without_their_collection() {
    let fixture = Fixture::new();
    let watch = fixture.store.subscribe(&fixture.children, &[]).unwrap();
    let start = fixture.store.revision();
    fixture.create("children", "a", &[]).unwrap();
    fixture.store.end_watches("children");
    fixture.create("children", "b", &[]).unwrap();
    let rest = vec![(Change::Added, "a".to_owned())];
    assert_eq!(fixture.read(&watch, start), (rest, true));

    let next = fixture.store.subscribe(&fixture.children, &[]).unwrap();
    let all = vec![
        (Change::Added, "a".to_owned()),
        (Change::Added, "b".to_owned()),
    ];
    assert_eq!(fixture.read(&next, start), (all, false));
}
