//! Model-based tests: random histories of a few objects, compared with a simple model.

use std::collections::BTreeMap;

use kopf_sandbox::Sandbox;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Api, ApiResponse, DEFINITIONS, Event, definition};

const THINGS: &str = "/apis/test.dev/v1/namespaces/default/things";

/// The resource version of an update.
#[derive(Debug, Clone, Copy)]
enum Base {
    Current,
    Stale,
    None,
}

#[derive(Debug, Clone)]
enum Action {
    Create { value: u8, finalizers: usize },
    Replace { value: u8, base: Base },
    PatchSpec(u8),
    PatchLabel(u8),
    PatchStatus(u8),
    PatchFinalizers(usize),
    Delete,
}

#[derive(Debug, Clone)]
struct Step {
    name: &'static str,
    action: Action,
}

fn action() -> impl Strategy<Value = Action> {
    let base = prop_oneof![
        3 => Just(Base::Current),
        1 => Just(Base::Stale),
        1 => Just(Base::None),
    ];
    prop_oneof![
        3 => (0..3_u8, 0..3_usize)
            .prop_map(|(value, finalizers)| Action::Create { value, finalizers }),
        2 => (0..3_u8, base).prop_map(|(value, base)| Action::Replace { value, base }),
        2 => (0..3_u8).prop_map(Action::PatchSpec),
        1 => (0..3_u8).prop_map(Action::PatchLabel),
        1 => (0..3_u8).prop_map(Action::PatchStatus),
        2 => (0..3_usize).prop_map(Action::PatchFinalizers),
        2 => Just(Action::Delete),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let names = prop::sample::select(vec!["a", "b", "c"]);
    let step = (names, action()).prop_map(|(name, action)| Step { name, action });
    prop::collection::vec(step, 1..40)
}

/// Returns zero, one or two finalizers.
fn finalizers(count: usize) -> Vec<String> {
    let all = ["test.dev/one", "test.dev/two"];
    all.iter().take(count).map(|name| (*name).into()).collect()
}

/// An object in the model.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    value: u8,
    label: Option<u8>,
    status: Option<u8>,
    generation: i64,
    finalizers: Vec<String>,
    terminating: bool,
}

impl Model {
    /// Returns the model of an API object.
    fn of(object: &Value) -> Self {
        let number = |pointer: &str| {
            let value = object.pointer(pointer)?;
            value.as_str()?.parse().ok()
        };
        let list = object["metadata"]["finalizers"].as_array();
        let texts = list.into_iter().flatten();
        Self {
            value: number("/spec/value").unwrap(),
            label: number("/metadata/labels/value"),
            status: number("/status/value"),
            generation: object["metadata"]["generation"].as_i64().unwrap(),
            finalizers: texts.map(|text| text.as_str().unwrap().into()).collect(),
            terminating: object["metadata"]["deletionTimestamp"].is_string(),
        }
    }
}

/// Returns the status code and the next state of the object.
fn predict(before: Option<&Model>, action: &Action) -> (u16, Option<Model>) {
    let Some(model) = before else {
        return match action {
            Action::Create { value, finalizers } => {
                let model = Model {
                    value: *value,
                    label: None,
                    status: None, // not writable through the main endpoint
                    generation: 1,
                    finalizers: self::finalizers(*finalizers),
                    terminating: false,
                };
                (201, Some(model))
            }
            _ => (404, None),
        };
    };
    let mut after = model.clone();
    let code = match action {
        Action::Create { .. } => 409,
        Action::Replace { value, base } => match base {
            Base::Current => {
                after.value = *value;
                200
            }
            Base::Stale => 409,
            Base::None => 422,
        },
        Action::PatchSpec(value) => {
            after.value = *value;
            200
        }
        Action::PatchLabel(value) => {
            after.label = Some(*value);
            200
        }
        Action::PatchStatus(value) => {
            after.status = Some(*value);
            200
        }
        Action::PatchFinalizers(count) => {
            let new = finalizers(*count);
            if model.terminating && new.len() > model.finalizers.len() {
                422
            } else if model.terminating && new.is_empty() {
                return (200, None);
            } else {
                after.finalizers = new;
                200
            }
        }
        Action::Delete if model.finalizers.is_empty() => return (200, None),
        Action::Delete => {
            if !model.terminating {
                after.terminating = true;
                after.generation += 1;
            }
            200
        }
    };
    if after.value != model.value {
        after.generation += 1;
    }
    (code, Some(after))
}

fn thing(name: &str, value: u8) -> Value {
    json!({
        "apiVersion": "test.dev/v1",
        "kind": "Thing",
        "metadata": { "name": name },
        "spec": { "value": value.to_string() },
        "status": { "value": "9" },
    })
}

async fn carry_out(api: &Api, step: &Step) -> ApiResponse {
    let name = step.name;
    let path = format!("{THINGS}/{name}");
    match &step.action {
        Action::Create { value, finalizers } => {
            let mut object = thing(name, *value);
            object["metadata"]["finalizers"] = json!(self::finalizers(*finalizers));
            api.create(THINGS, &object).await
        }
        Action::Replace { value, base } => {
            let current = api.get(&path).await;
            let mut object = match current.code {
                200 => current.json(),
                _ => thing(name, *value),
            };
            object["spec"]["value"] = json!(value.to_string());
            object["status"] = json!({ "value": "9" });
            let metadata = object["metadata"].as_object_mut().unwrap();
            match base {
                Base::Current => {}
                Base::Stale => {
                    metadata.insert("resourceVersion".into(), json!("1"));
                }
                Base::None => {
                    metadata.remove("resourceVersion");
                }
            }
            api.update(&path, &object).await
        }
        Action::PatchSpec(value) => {
            let patch = json!({ "spec": { "value": value.to_string() } });
            api.merge(&path, &patch).await
        }
        Action::PatchLabel(value) => {
            let labels = json!({ "value": value.to_string() });
            let patch = json!({ "metadata": { "labels": labels } });
            api.merge(&path, &patch).await
        }
        Action::PatchStatus(value) => {
            let patch = json!({
                "spec": { "value": "7" },
                "status": { "value": value.to_string() },
            });
            api.merge(&format!("{path}/status"), &patch).await
        }
        Action::PatchFinalizers(count) => {
            let patch = json!({ "metadata": { "finalizers": finalizers(*count) } });
            api.merge(&path, &patch).await
        }
        Action::Delete => api.delete(&path).await,
    }
}

type Objects = BTreeMap<String, Value>;

async fn list(api: &Api) -> Objects {
    let list = api.get(THINGS).await.expect(200).json();
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let mut item = item.clone();
            // Lists can omit these in their items.
            item["apiVersion"] = json!("test.dev/v1");
            item["kind"] = json!("Thing");
            (item["metadata"]["name"].as_str().unwrap().into(), item)
        })
        .collect()
}

/// Returns the objects in the cache of a client after a watch.
fn replay(events: &[Event]) -> Objects {
    let mut objects = Objects::new();
    let mut last = 0;
    for event in events {
        assert!(event.version() > last, "versions only grow");
        last = event.version();
        let name = event.name().to_owned();
        let before = objects.remove(&name);
        match &*event.kind {
            "ADDED" => assert!(before.is_none(), "{event:?}"),
            "MODIFIED" => {
                let before = before.expect("the object exists");
                assert_eq!(before["metadata"]["uid"], event.object["metadata"]["uid"]);
            }
            "DELETED" => {
                assert!(before.is_some(), "{event:?}");
                continue;
            }
            other => panic!("{other}"),
        }
        objects.insert(name, event.object.clone());
    }
    objects
}

async fn compare(steps: &[Step]) {
    let sandbox = Sandbox::builder().seed(1).build().unwrap();
    let api = Api::of(&sandbox);
    let made = api
        .create(DEFINITIONS, &definition("things", "Thing"))
        .await;
    made.expect(201);
    let start = api.version(THINGS).await;
    let mut open = api.watch(&format!("{THINGS}?timeoutSeconds=1")).await;
    let mut models: BTreeMap<&str, Model> = BTreeMap::new();
    let mut expected: Vec<(&str, &str)> = Vec::new();
    let mut objects = Objects::new();
    let mut version: u64 = start.parse().unwrap();

    for step in steps {
        let before = models.remove(step.name);
        let (code, after) = predict(before.as_ref(), &step.action);
        let response = carry_out(&api, step).await;
        assert_eq!(
            response.code,
            code,
            "{step:?} on {before:?}: {}",
            response.text()
        );
        let event = match (&before, &after) {
            (None, Some(_)) => Some("ADDED"),
            (Some(before), Some(after)) => (before != after).then_some("MODIFIED"),
            (Some(_), None) => Some("DELETED"),
            (None, None) => None,
        };
        let now = list(&api).await;
        match event {
            None => assert_eq!(now, objects, "{step:?} changes nothing"),
            Some(event) => expected.push((event, step.name)),
        }
        let shown = now.get(step.name);
        assert_eq!(shown.map(Model::of), after, "{step:?}");
        if let (Some(_), Some(object)) = (event, shown) {
            let written = object["metadata"]["resourceVersion"].as_str().unwrap();
            let written: u64 = written.parse().unwrap();
            assert!(written > version, "{step:?}");
            version = written;
        }
        models.extend(after.map(|after| (step.name, after)));
        objects = now;
    }

    let from_the_start = format!("{THINGS}?timeoutSeconds=1&resourceVersion={start}");
    let events = api.watch(&from_the_start).await.rest().await;
    let brief: Vec<(&str, &str)> = events.iter().map(Event::brief).collect();
    assert_eq!(brief, expected);
    assert_eq!(replay(&events), objects);
    assert_eq!(open.rest().await, events, "live or from history");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn objects_follow_the_model(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(compare(&steps));
    }
}
