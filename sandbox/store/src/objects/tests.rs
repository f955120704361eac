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

#[test]
fn past_states_of_one_object_are_kept() {
    let fixture = Fixture::new();
    let first = fixture.create("things", "a", &[]).unwrap();
    let second = fixture.create("things", "b", &[]).unwrap();
    fixture.remove("things", "a");
    let third = fixture.create("things", "a", &[]).unwrap();
    let at = |name: &str, revision: u64| {
        let found = fixture
            .store
            .get_at("things", &Key::new(None, name), revision);
        found.map(|found| found.map(|stored| stored.revision))
    };
    assert_eq!(at("a", first - 1), Ok(None));
    assert_eq!(at("a", first), Ok(Some(first)));
    assert_eq!(at("a", second), Ok(Some(first)));
    assert_eq!(at("a", third - 1), Ok(None));
    assert_eq!(at("a", third), Ok(Some(third)));
    assert_eq!(at("b", third), Ok(Some(second)));
    assert_eq!(
        fixture
            .store
            .get_at("none", &Key::new(None, "a"), 1)
            .unwrap()
            .map(|_| ()),
        None
    );
    fixture.store.compact();
    assert_eq!(at("a", second), Err(Expired { oldest: third }));
    assert_eq!(at("a", third), Ok(Some(third)));
}

#[tokio::test(start_paused = true)]
async fn horizon_separates_changes_by_their_times() {
    let fixture = Fixture::new();
    let start = Instant::now();
    let second = std::time::Duration::from_secs(1);
    let first = fixture.create("things", "a", &[]).unwrap();
    tokio::time::advance(second).await;
    let other = fixture.create("others", "a", &[]).unwrap();
    tokio::time::advance(second).await;
    let last = fixture.create("things", "b", &[]).unwrap();
    let horizon = |until: Instant| fixture.store.horizon(|committed| committed <= until);
    assert_eq!(horizon(start), (first, Some(start + second)));
    assert_eq!(horizon(start + second), (other, Some(start + 2 * second)));
    assert_eq!(horizon(start + 2 * second), (last, None));
    let nothing = fixture.store.horizon(|_| false);
    assert_eq!(nothing, (first - 1, Some(start)));
}

/// Records commits.
#[derive(Default)]
struct Counter {
    revisions: Mutex<Vec<(u64, Option<u64>)>>,
}

impl Observer<Kind> for Counter {
    fn cause(&self) -> Option<u64> {
        Some(7)
    }

    fn observe(&self, commit: &Commit<Kind>) {
        let mut revisions = self.revisions.lock();
        revisions.push((commit.entry.revision(), commit.cause));
    }
}

#[test]
fn observer_gets_commits_of_all_threads_in_order() {
    let counter = Arc::new(Counter::default());
    let mut fixture = Fixture::new();
    let observer: Arc<dyn Observer<Kind>> = Arc::<Counter>::clone(&counter);
    fixture.store.observe(observer);
    let start = fixture.store.revision();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let fixture = &fixture;
            scope.spawn(move || {
                for number in 0..100 {
                    let name = format!("{thread}-{number}");
                    fixture.create("things", &name, &[]).unwrap();
                }
            });
        }
    });
    fixture.remove("things", "0-0");
    let seen = std::mem::take(&mut *counter.revisions.lock());
    let expected: Vec<_> = (start + 1..=start + 401)
        .map(|revision| (revision, Some(7)))
        .collect();
    assert_eq!(seen, expected);
}

/// The state of the store after a change: keys with the revisions of their objects.
type World = std::collections::BTreeMap<Key, u64>;

/// Creates, changes and removes objects in a pseudo-random order. Returns all states by their revisions.
fn history(fixture: &Fixture, mut seed: u64) -> Vec<(u64, World)> {
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let mut world = World::new();
    let mut states = Vec::new();
    for _ in 0..60 {
        let namespace = ["a", "a-b", "b"][usize::try_from(next(3)).unwrap()];
        let key = Key::new(Some(namespace), &format!("o{}", next(6)));
        let found = fixture.store.get("children", &key);
        let revision = if let Some(found) = found.filter(|_| next(3) == 0) {
            let removed =
                fixture
                    .store
                    .remove(&fixture.children, &key, found.revision, found.value());
            world.remove(&key);
            removed.unwrap().revision
        } else {
            let expect = match world.get(&key) {
                Some(revision) => Expect::Revision(*revision),
                None => Expect::Absent,
            };
            let object = json!({"metadata": {"name": &*key.name, "changed": next(1000)}});
            let (store, kind) = (&fixture.store, &fixture.kind);
            let stored = store.put(&fixture.children, &key, expect, kind, object, &[]);
            let revision = stored.unwrap().revision;
            world.insert(key, revision);
            revision
        };
        states.push((revision, world.clone()));
    }
    states
}

#[test]
fn pages_of_past_states_are_those_of_the_whole() {
    for seed in 0..20 {
        let fixture = Fixture::new();
        for (revision, world) in history(&fixture, seed) {
            for namespace in [None, Some("a"), Some("a-b"), Some("b")] {
                let mut expected = world
                    .iter()
                    .filter(|(key, _)| namespace.is_none_or(|name| *key.namespace == *name));
                let mut after: Option<Key> = None;
                loop {
                    let range = Range {
                        namespace,
                        after: after.as_ref(),
                        most: 4,
                    };
                    let left = expected.clone().count();
                    let counted = fixture.store.count_at("children", range, revision);
                    assert_eq!(counted.unwrap(), left);
                    let page = fixture.store.list_at("children", range, revision).unwrap();
                    let found = page.objects.iter();
                    let found: Vec<_> = found.map(|one| (one.key.clone(), one.revision)).collect();
                    let wanted = expected.by_ref().take(4);
                    let wanted: Vec<_> = wanted.map(|(key, at)| (key.clone(), *at)).collect();
                    assert_eq!(found, wanted, "seed {seed}, revision {revision}");
                    let Some(last) = page.objects.last() else {
                        break;
                    };
                    after = Some(last.key.clone());
                }
            }
        }
    }
}
