//! Events of a watch that a tap holds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::store::{Change, Entry, Key, Stored};
use crate::tap::{Hold, HoldScope, ObjectVersion, OnRelease, TapEvent};

/// Maximum number of held events of a watch. The client of a watch with more is too slow.
const MOST_HELD: usize = 20_000;

/// An event for one watch.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) change: Change,
    pub(super) stored: Arc<Stored>,
    /// The entry of the log, if the event is the same for all watches.
    pub(super) shared: Option<Arc<Entry>>,
}

impl Event {
    pub(super) fn told(&self, initial: bool) -> TapEvent {
        let object = ObjectVersion::new(Arc::clone(&self.stored));
        TapEvent::new(self.change, object, initial)
    }
}

/// The events behind one gate.
#[derive(Debug)]
struct Group {
    hold: Hold,
    /// The object whose events are held; `None` for all.
    key: Option<Key>,
    events: VecDeque<Event>,
}

/// Events whose gate was opened.
#[derive(Debug)]
pub(super) enum Released {
    Events(VecDeque<Event>),
    Expire,
    Break,
}

/// All held events of a watch, in groups.
#[derive(Debug, Default)]
pub(super) struct Holds {
    groups: Vec<Group>,
    events: usize,
}

impl Holds {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns `true` if all events of the watch are held.
    pub(super) fn is_whole(&self) -> bool {
        self.groups.iter().any(|group| group.key.is_none())
    }

    pub(super) fn is_full(&self) -> bool {
        self.events > MOST_HELD
    }

    /// Adds an event to the group that holds its object. Returns it if there is none.
    pub(super) fn join(&mut self, event: Event) -> Option<Event> {
        let key = &event.stored.key;
        let holds = |group: &&mut Group| group.key.as_ref().is_none_or(|held| held == key);
        let Some(group) = self.groups.iter_mut().find(holds) else {
            return Some(event);
        };
        // Events that are never sent need no memory.
        if matches!(group.hold.on_release, OnRelease::All | OnRelease::Latest) {
            group.events.push_back(event);
            self.events += 1;
        }
        None
    }

    /// Holds an event in a new group.
    pub(super) fn add(&mut self, hold: Hold, event: Event) {
        let key = match hold.scope {
            HoldScope::Object => Some(event.stored.key.clone()),
            HoldScope::Watch => None,
        };
        self.groups.push(Group {
            hold,
            key,
            events: VecDeque::from([event]),
        });
        self.events += 1;
    }

    /// Waits until a gate is open. Never returns without a group.
    pub(super) async fn opened(&self) {
        let gates = self.groups.iter();
        let gates: Vec<_> = gates
            .map(|group| Box::pin(group.hold.gate.opened()))
            .collect();
        if gates.is_empty() {
            return std::future::pending().await;
        }
        futures::future::select_all(gates).await;
    }

    /// Removes the first group whose gate is open.
    pub(super) fn release(&mut self) -> Option<Released> {
        let mut groups = self.groups.iter();
        let open = groups.position(|group| group.hold.gate.is_open())?;
        let group = self.groups.remove(open);
        self.events = self.events.saturating_sub(group.events.len());
        Some(match group.hold.on_release {
            OnRelease::Expire => Released::Expire,
            OnRelease::Break => Released::Break,
            OnRelease::Latest => Released::Events(latest(group.events)),
            _ => Released::Events(group.events),
        })
    }

    /// Removes all groups. Returns the events of single objects: their versions can be older than those
    /// of sent events, so the client would never get them.
    pub(super) fn abandon(&mut self) -> VecDeque<Event> {
        self.events = 0;
        let groups = std::mem::take(&mut self.groups).into_iter();
        groups
            .filter(|group| group.key.is_some())
            .flat_map(|group| group.events)
            .collect()
    }
}

/// Reduces events to one per object, with the newest state.
fn latest(events: VecDeque<Event>) -> VecDeque<Event> {
    let mut objects: HashMap<Key, (Event, Event)> = HashMap::new();
    for event in events {
        objects
            .entry(event.stored.key.clone())
            .and_modify(|(_, last)| *last = event.clone())
            .or_insert_with(|| (event.clone(), event));
    }
    let net = objects.into_values();
    let mut net: Vec<Event> = net
        .filter_map(|(first, last)| net_of(&first, last))
        .collect();
    net.sort_by_key(|event| event.stored.revision);
    net.into()
}

/// Returns the event that has the effect of all events from `first` to `last` on a client.
fn net_of(first: &Event, last: Event) -> Option<Event> {
    let is_known = first.change != Change::Added;
    let is_same = first.stored.born == last.stored.born;
    let change = match (is_known, last.change) {
        (false, Change::Deleted) => return None,
        (true, Change::Deleted) => Change::Deleted,
        (true, _) if is_same => Change::Modified,
        _ => Change::Added,
    };
    let shared = last.shared.filter(|entry| entry.change == change);
    Some(Event {
        change,
        stored: last.stored,
        shared,
    })
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_kinds::builtin::builtin;
    use kopf_sandbox_schema::kind::Kind;
    use serde_json::json;

    use super::*;
    use crate::store::{Expect, Store, Window};
    use crate::tap::Gate;

    const ADDED: Change = Change::Added;
    const MODIFIED: Change = Change::Modified;
    const DELETED: Change = Change::Deleted;

    /// Writes objects to a store, and returns their events.
    struct Writer {
        store: Store,
        kind: Arc<Kind>,
    }

    impl Writer {
        fn new() -> Self {
            let kind = builtin().by_plural("", "configmaps").cloned().unwrap();
            Self {
                store: Store::new(Window::default()),
                kind,
            }
        }

        fn event(&self, name: &str, change: Change) -> Event {
            let place: Arc<str> = Arc::from("/configmaps");
            let key = Key::new(Some("default"), name);
            let object = json!({ "metadata": { "name": name } });
            let known = self.store.get(&place, &key).map(|stored| stored.revision);
            let stored = match (change, known) {
                (DELETED, Some(known)) => self.store.remove(&place, &key, known, object),
                (_, known) => {
                    let expect = known.map_or(Expect::Absent, Expect::Revision);
                    self.store
                        .put(&place, &key, expect, &self.kind, object, &[])
                }
            };
            Event {
                change,
                stored: stored.unwrap(),
                shared: None,
            }
        }
    }

    fn brief(events: &VecDeque<Event>) -> Vec<(Change, &str)> {
        let events = events.iter();
        events
            .map(|event| (event.change, &*event.stored.key.name))
            .collect()
    }

    #[test]
    fn newest_state_has_the_type_that_the_client_expects() {
        for (changes, expected) in [
            (vec![ADDED], Some(ADDED)),
            (vec![ADDED, MODIFIED, MODIFIED], Some(ADDED)),
            (vec![ADDED, MODIFIED, DELETED], None),
            (vec![ADDED, DELETED, ADDED], Some(ADDED)),
            (vec![MODIFIED, MODIFIED], Some(MODIFIED)),
            (vec![MODIFIED, DELETED], Some(DELETED)),
            (vec![DELETED], Some(DELETED)),
            (vec![DELETED, ADDED], Some(ADDED)),
            (vec![MODIFIED, DELETED, ADDED, MODIFIED], Some(ADDED)),
            (vec![DELETED, ADDED, DELETED], Some(DELETED)),
        ] {
            let writer = Writer::new();
            if changes.first() != Some(&ADDED) {
                writer.event("a", ADDED);
            }
            let events = changes.iter().map(|change| writer.event("a", *change));
            let net = latest(events.collect());
            let net: Vec<Change> = net.iter().map(|event| event.change).collect();
            assert_eq!(net, Vec::from_iter(expected), "{changes:?}");
        }
    }

    #[test]
    fn groups_hold_their_objects_until_their_gates_open() {
        let writer = Writer::new();
        let (first, second) = (Gate::new(), Gate::new());
        let mut holds = Holds::default();
        holds.add(Hold::object(&first), writer.event("a", ADDED));
        assert!(holds.join(writer.event("a", MODIFIED)).is_none());
        assert!(holds.join(writer.event("b", ADDED)).is_some());
        assert!(!holds.is_whole());
        holds.add(Hold::watch(&second), writer.event("b", MODIFIED));
        assert!(holds.join(writer.event("c", ADDED)).is_none());
        assert!(holds.release().is_none());
        second.open();
        let Some(Released::Events(events)) = holds.release() else {
            panic!("the second gate is open");
        };
        assert_eq!(brief(&events), [(MODIFIED, "b"), (ADDED, "c")]);
        assert_eq!(brief(&holds.abandon()), [(ADDED, "a"), (MODIFIED, "a")]);
        assert!(holds.is_empty());
    }

    #[test]
    fn expired_hold_keeps_no_events() {
        let writer = Writer::new();
        let gate = Gate::new();
        let mut holds = Holds::default();
        let hold = Hold::watch(&gate).then(OnRelease::Expire);
        holds.add(hold, writer.event("a", ADDED));
        for _ in 0..10 {
            assert!(holds.join(writer.event("a", MODIFIED)).is_none());
        }
        assert_eq!(holds.events, 1);
        gate.open();
        assert!(matches!(holds.release(), Some(Released::Expire)));
    }
}
