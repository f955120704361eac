//! Indices of an operator with a server that sends scripted events.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
use kopf_core::selector::Selector;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::Operator;
use crate::fake_api::{FakeResponse, discover, kind, serve};
use crate::indexing::{AnyIndex, Entries, Index, Indices};
use crate::invocation::{Call, Function, Handler, Invoke, Noop, Registry, Work};

type Names = Index<String, i64>;

/// An index function: the generation of the object under its name.
#[derive(Debug)]
struct Generations;

impl Invoke for Generations {
    fn invoke(&self, call: Call) -> Work {
        let name = call.body().name().unwrap_or_default().to_owned();
        let generation = call.body().metadata().get("generation");
        let generation = generation.and_then(Value::as_i64).unwrap_or_default();
        let entries: Entries = Box::new(vec![(name, generation)]);
        call.slot.put(entries);
        Work::Async(Box::pin(async { Ok(None) }))
    }
}

fn handler(id: &str, kind: HandlerKind, plural: &str, function: Function) -> Handler {
    let mut spec = HandlerSpec::new(id, FunctionId::Number(1), kind);
    spec.selector = Some(Selector::parse(&[plural]).unwrap());
    spec.build(function).unwrap()
}

/// An object without a uid, so that a recreated object has the same identity.
fn thing(generation: i64) -> Value {
    let version = (100 + generation).to_string();
    json!({
        "apiVersion": "one/v1", "kind": "Thing",
        "metadata": {
            "namespace": "ns", "name": "obj",
            "generation": generation, "resourceVersion": version,
        },
    })
}

fn entries(indices: &Indices) -> Vec<(String, Vec<i64>)> {
    let index: Arc<dyn Any + Send + Sync> = Arc::clone(indices.get("names").unwrap()) as _;
    let index: Arc<Names> = index.downcast().unwrap();
    let items = index.items().into_iter();
    items
        .map(|(key, store)| (key, store.iter().copied().collect()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn recreated_object_stays_indexed() {
    let (events, watched) = mpsc::unbounded_channel();
    let watched = std::sync::Mutex::new(Some(watched));
    let is_held_up = Arc::new(AtomicBool::new(true));
    let holding_up = Arc::clone(&is_held_up);
    let (client, _) = serve(move |request| {
        let kinds = [kind("one", "things"), kind("one", "gates")];
        if let Some(discovered) = discover(request, &kinds) {
            return discovered;
        }
        match request.path.as_str() {
            "/apis/one/v1/gates" if holding_up.load(Ordering::Relaxed) => FakeResponse::status(503),
            "/apis/one/v1/things" if request.is_watch() => {
                let lines = watched.lock().unwrap().take();
                lines.map_or(FakeResponse::Never, FakeResponse::Lines)
            }
            "/apis/one/v1/things" => FakeResponse::list("Thing", &[thing(1)]),
            _ if request.is_watch() || request.method == "PATCH" => FakeResponse::Never,
            _ => FakeResponse::list("Gate", &[]),
        }
    });
    let index = || Arc::new(Names::default()) as Arc<dyn AnyIndex>;
    let indices: Indices = [("names", index()), ("gates", index())]
        .into_iter()
        .collect();
    let registry: Registry = [
        handler(
            "names",
            HandlerKind::Index,
            "things.one",
            Arc::new(Generations),
        ),
        handler(
            "gates",
            HandlerKind::Index,
            "gates.one",
            Arc::new(Generations),
        ),
        handler("made", HandlerKind::Create, "things.one", Arc::new(Noop)),
    ]
    .into_iter()
    .collect();
    let stop = CancellationToken::new();
    let operator = Operator::new(registry).indices(indices.clone());
    let watching = async {
        sleep(Duration::from_secs(5)).await;
        for (event, generation) in [("DELETED", 1), ("ADDED", 2)] {
            let line = json!({"type": event, "object": thing(generation)});
            events.send(line).unwrap();
        }
        sleep(Duration::from_secs(5)).await;
        let indexed = [("obj".to_owned(), vec![2])];
        assert_eq!(entries(&indices), indexed, "indexed before the handling");
        is_held_up.store(false, Ordering::Relaxed);
        sleep(Duration::from_secs(120)).await;
        assert_eq!(entries(&indices), indexed);
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(operator.run(client, stop.clone()), watching);
    outcome.unwrap();
}
