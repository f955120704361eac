//! Random histories: what a client has put together from lists and watch events is what the server had,
//! whatever was held or frozen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kopf_sandbox::Sandbox;
use kopf_sandbox::tap::{Delivery, Gate, Hold, OnRelease, Tap, TapEvent, TapRequest};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Api, CONFIG_MAPS, Event, Watch, config_map};

/// The uid and the value of each object by its name.
type World = BTreeMap<String, (String, String)>;

/// A write to one of three objects.
#[derive(Debug, Clone, Copy)]
enum Write {
    /// Creates the object, or changes it.
    Set(usize),
    Delete(usize),
    Recreate(usize),
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let object = 0..3_usize;
    let write = prop_oneof![
        4 => object.clone().prop_map(Write::Set),
        1 => object.clone().prop_map(Write::Delete),
        1 => object.prop_map(Write::Recreate),
    ];
    prop::collection::vec(write, 1..25)
}

fn run<F: Future>(test: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}

fn noted(object: &Value) -> (String, (String, String)) {
    let text = |path: &str| {
        object
            .pointer(path)
            .and_then(Value::as_str)
            .unwrap()
            .to_owned()
    };
    let content = (text("/metadata/uid"), text("/data/value"));
    (text("/metadata/name"), content)
}

async fn list(api: &Api, query: &str) -> (u64, World) {
    let list = api.get(&format!("{CONFIG_MAPS}{query}")).await.expect(200);
    let revision = list.version().parse().unwrap();
    let list = list.json();
    let items = list["items"].as_array().unwrap();
    (revision, items.iter().map(noted).collect())
}

async fn apply(api: &Api, number: usize, write: Write) {
    let (Write::Set(object) | Write::Delete(object) | Write::Recreate(object)) = write;
    let name = format!("object-{object}");
    let path = format!("{CONFIG_MAPS}/{name}");
    let value = number.to_string();
    if matches!(write, Write::Delete(_) | Write::Recreate(_)) {
        api.delete(&path).await;
    }
    if matches!(write, Write::Delete(_)) {
        return;
    }
    let patch = json!({ "data": { "value": value } });
    if api.merge(&path, &patch).await.code == 404 {
        let made = api.create(CONFIG_MAPS, &config_map(&name, &value)).await;
        made.expect(201);
    }
}

/// Applies an event as a client does, and checks its type.
#[track_caller]
fn follow(world: &mut World, event: &Event) {
    let (name, content) = noted(&event.object);
    let known = world.get(&name);
    let is_same = known.is_some_and(|known| known.0 == content.0);
    match &*event.kind {
        "ADDED" => assert!(!is_same, "known: {event:?}"),
        "MODIFIED" => assert!(is_same, "unknown: {event:?}"),
        "DELETED" => assert!(known.is_some(), "unknown: {event:?}"),
        other => panic!("{other}"),
    }
    if event.kind == "DELETED" {
        world.remove(&name);
    } else {
        world.insert(name, content);
    }
}

/// Reads events until there are no more.
async fn follow_all(world: &mut World, watch: &mut Watch) {
    while let Ok(line) = timeout(Duration::from_secs(1), watch.line()).await {
        let mut event: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        let event = Event {
            kind: event["type"].as_str().unwrap().to_owned(),
            object: event["object"].take(),
        };
        follow(world, &event);
    }
}

/// Holds some events, by the numbers of a list.
struct Holder {
    /// For each event that is not held yet: `None` to deliver it, or the kind of the hold.
    plan: Mutex<Vec<Option<(bool, bool)>>>,
    gates: Mutex<Vec<Gate>>,
}

impl Tap for Holder {
    fn on_event(&self, _: &TapRequest, _: &TapEvent) -> Delivery {
        let Some(Some((whole, latest))) = self.plan.lock().unwrap().pop() else {
            return Delivery::Deliver;
        };
        let gate = Gate::new();
        let hold = if whole {
            Hold::watch(&gate)
        } else {
            Hold::object(&gate)
        };
        self.gates.lock().unwrap().push(gate);
        Delivery::Hold(hold.then(if latest {
            OnRelease::Latest
        } else {
            OnRelease::All
        }))
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn cache_shows_each_state_of_the_history(
        writes in writes(),
        positions in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        run(async {
            let sandbox = Sandbox::builder().seed(1).build().unwrap();
            let api = Api::of(&sandbox);
            let mut history = vec![list(&api, "").await];
            for (number, write) in writes.into_iter().enumerate() {
                apply(&api, number, write).await;
                history.push(list(&api, "").await);
            }
            let view = sandbox.views().of_endpoint("in-process");
            for pair in positions.chunks(2) {
                let from = pair[0].get(&history);
                let to = pair[1].get(&history);
                view.freeze_at(to.0).unwrap();
                let cached = list(&api, "?resourceVersion=0").await;
                assert_eq!(cached, *to);
                for object in 0..3 {
                    let name = format!("object-{object}");
                    let path = format!("{CONFIG_MAPS}/{name}?resourceVersion=0");
                    let found = api.get(&path).await;
                    assert_eq!(found.code == 200, to.1.contains_key(&name));
                }
                let mut world = from.1.clone();
                let path = format!("{CONFIG_MAPS}?resourceVersion={}", from.0);
                let mut watch = api.watch(&path).await;
                follow_all(&mut world, &mut watch).await;
                assert_eq!(world, if from.0 <= to.0 { &to.1 } else { &from.1 }.clone());
                view.catch_up();
                follow_all(&mut world, &mut watch).await;
                assert_eq!(&world, &history.last().unwrap().1);
            }
        });
    }

    #[test]
    fn client_knows_the_last_state_when_all_gates_are_open(
        writes in writes(),
        plan in prop::collection::vec(prop::option::of(any::<(bool, bool)>()), 0..20),
        opened in prop::collection::vec(any::<prop::sample::Index>(), 25),
    ) {
        run(async {
            let holder = Arc::new(Holder { plan: Mutex::new(plan), gates: Mutex::default() });
            let tap: Arc<dyn Tap> = Arc::<Holder>::clone(&holder);
            let sandbox = Sandbox::builder().seed(1).tap(tap).build().unwrap();
            let api = Api::of(&sandbox);
            let mut watch = api.watch(CONFIG_MAPS).await;
            let mut world = World::new();
            for ((number, write), index) in writes.into_iter().enumerate().zip(opened) {
                apply(&api, number, write).await;
                follow_all(&mut world, &mut watch).await;
                let mut gates = holder.gates.lock().unwrap();
                if number % 3 == 2 && !gates.is_empty() {
                    let at = index.index(gates.len());
                    gates.remove(at).open();
                }
            }
            holder.plan.lock().unwrap().clear();
            let gates = std::mem::take(&mut *holder.gates.lock().unwrap());
            for gate in gates {
                gate.open();
                follow_all(&mut world, &mut watch).await;
            }
            follow_all(&mut world, &mut watch).await;
            assert_eq!(world, list(&api, "").await.1);
        });
    }
}
