//! Determinism tests: under paused time, equal seeds and starting times give equal bytes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use kopf_sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::{Api, CONFIG_MAPS, DEFINITIONS, MERGE, config_map, definition, request};

/// 2026-11-15T00:00:00Z.
const START: i64 = 1_794_700_800;
const THINGS: &str = "/apis/test.dev/v1/namespaces/default/things";

fn sandbox(seed: u64) -> Sandbox {
    let builder = Sandbox::builder().seed(seed).starting_at(START);
    builder.build().unwrap()
}

/// All responses and events, in the order in which clients received them.
#[derive(Debug, Clone, Default)]
struct Transcript(Arc<Mutex<Vec<String>>>);

impl Transcript {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

/// A client that records its requests and responses.
struct Script {
    api: Api,
    transcript: Transcript,
    watches: JoinSet<()>,
}

impl Script {
    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let content_type = match method {
            Method::PATCH => MERGE,
            _ => "application/json",
        };
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let what = format!("{method} {path}");
        let request = request(method, path, Some(content_type), body);
        let response = self.api.send(request).await;
        let (code, headers) = (response.code, &response.headers);
        assert!(code < 300, "{what}: {}", response.text());
        self.transcript
            .add(format!("{what}: {code} {headers:?} {}", response.text()));
        response.json()
    }

    async fn create(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, &object).await
    }

    async fn patch(&self, path: &str, patch: Value) {
        self.send(Method::PATCH, path, &patch).await;
    }

    async fn delete(&self, path: &str, options: Value) {
        self.send(Method::DELETE, path, &options).await;
    }

    /// Records a watch concurrently with other requests.
    async fn watch(&mut self, path: &str) {
        let query = "allowWatchBookmarks=true&timeoutSeconds=20000";
        let mut watch = self.api.watch(&format!("{path}?{query}")).await;
        let (transcript, path) = (self.transcript.clone(), path.to_owned());
        self.watches.spawn(async move {
            while let Some(line) = watch.line().await.unwrap() {
                transcript.add(format!("{path}: {line}"));
            }
            transcript.add(format!("{path} ends"));
        });
    }
}

fn thing(name: &str, owner: Option<&Value>) -> Value {
    let mut thing = json!({
        "apiVersion": "test.dev/v1",
        "kind": "Thing",
        "metadata": { "generateName": name },
        "spec": { "size": 1 },
    });
    if let Some(owner) = owner {
        thing["metadata"]["ownerReferences"] = json!([{
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": true,
        }]);
    }
    thing
}

fn place(path: &str, object: &Value) -> String {
    format!("{path}/{}", object["metadata"]["name"].as_str().unwrap())
}

async fn run(seed: u64) -> String {
    let sandbox = sandbox(seed);
    let mut script = Script {
        api: Api::of(&sandbox),
        transcript: Transcript::default(),
        watches: JoinSet::new(),
    };
    for path in [
        "/api/v1/configmaps",
        "/api/v1/namespaces",
        "/api/v1/serviceaccounts",
        DEFINITIONS,
    ] {
        script.watch(path).await;
    }
    script
        .create(DEFINITIONS, definition("things", "Thing"))
        .await;
    script.watch("/apis/test.dev/v1/things").await;
    sleep(Duration::from_millis(1500)).await;

    // Generated names, patches, no-ops.
    for round in 0..3 {
        let mut object = config_map("", "x");
        object["metadata"] = json!({ "generateName": "gen-" });
        let made = script.create(CONFIG_MAPS, object).await;
        let patch = json!({ "data": { "value": format!("{round}") } });
        let path = place(CONFIG_MAPS, &made);
        script.patch(&path, patch.clone()).await;
        script.patch(&path, patch).await;
        sleep(Duration::from_secs(61)).await;
    }
    // Owners and dependents, with all three propagation policies.
    for policy in ["Background", "Foreground", "Orphan"] {
        let owner = script.create(THINGS, thing("owner-", None)).await;
        for _ in 0..3 {
            script.create(THINGS, thing("child-", Some(&owner))).await;
        }
        let options = json!({ "propagationPolicy": policy });
        script.delete(&place(THINGS, &owner), options).await;
        sleep(Duration::from_secs(1)).await;
    }
    // A namespace with contents, one of which has a finalizer.
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "short-lived" },
    });
    script.create("/api/v1/namespaces", namespace).await;
    let maps = "/api/v1/namespaces/short-lived/configmaps";
    for name in ["a", "b", "c"] {
        let mut object = config_map(name, "x");
        if name == "b" {
            object["metadata"]["finalizers"] = json!(["test.dev/hold"]);
        }
        script.create(maps, object).await;
    }
    let things = "/apis/test.dev/v1/namespaces/short-lived/things";
    script.create(things, thing("t-", None)).await;
    script
        .delete("/api/v1/namespaces/short-lived", Value::Null)
        .await;
    sleep(Duration::from_secs(2)).await;
    let free = json!({ "metadata": { "finalizers": null } });
    script.patch(&format!("{maps}/b"), free).await;
    sleep(Duration::from_secs(2)).await;
    // The CRD, while objects of it exist.
    script
        .delete(&format!("{DEFINITIONS}/things.test.dev"), Value::Null)
        .await;
    sleep(Duration::from_secs(20_000)).await;
    for path in ["/api/v1/configmaps", "/api/v1/namespaces", DEFINITIONS] {
        script.send(Method::GET, path, &Value::Null).await;
    }
    while let Some(ended) = script.watches.join_next().await {
        ended.unwrap();
    }
    script.transcript.text()
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_the_same_transcript() {
    let first = run(11).await;
    let second = run(11).await;
    for (number, (one, two)) in first.lines().zip(second.lines()).enumerate() {
        assert_eq!(one, two, "line {number}");
    }
    assert_eq!(first, second);
    for part in [
        "\"type\":\"ADDED\"",
        "\"type\":\"DELETED\"",
        "\"type\":\"BOOKMARK\"",
        "2026-11-15T00:00:01Z",
        "/apis/test.dev/v1/things ends",
    ] {
        assert!(first.contains(part), "{part}");
    }
    assert_ne!(first, run(12).await);
}

#[tokio::test(start_paused = true)]
async fn concurrent_sandboxes_are_deterministic() {
    let alone = run(3).await;
    let (one, two) = tokio::join!(run(3), run(3));
    assert_eq!(one, alone);
    assert_eq!(two, alone);
}

#[tokio::test(start_paused = true)]
async fn virtual_hours_pass_immediately() {
    let sandbox = sandbox(1);
    let api = Api::of(&sandbox);
    let begin = Instant::now();
    let query = "allowWatchBookmarks=true&timeoutSeconds=36000";
    let mut watch = api.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    let mut bookmarks = Vec::new();
    while let Some(line) = watch.line().await.unwrap() {
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        bookmarks.push(begin.elapsed().as_secs());
    }
    assert_eq!(begin.elapsed().as_secs(), 36_000);
    // One per minute, and the one at the end of the stream.
    let expected: Vec<u64> = (1..=600).map(|minute| minute * 60).collect();
    assert_eq!(bookmarks[..599], expected[..599]);
    assert_eq!(bookmarks.last(), Some(&36_000));

    let made = api.create(CONFIG_MAPS, &config_map("late", "")).await;
    let created = &made.expect(201).json()["metadata"]["creationTimestamp"];
    assert_eq!(created, "2026-11-15T10:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn watch_ends_after_its_timeout_under_constant_changes() {
    let sandbox = sandbox(1);
    let api = Api::of(&sandbox);
    let path = format!("{CONFIG_MAPS}?timeoutSeconds=100");
    let mut watch = api.watch(&path).await;
    let mut events = 0;
    for round in 0.. {
        let object = config_map(&format!("n{round}"), "");
        api.create(CONFIG_MAPS, &object).await.expect(201);
        sleep(Duration::from_secs(1)).await;
        match watch.line().await.unwrap() {
            Some(_) => events += 1,
            None => break,
        }
        assert!(round < 1000, "the stream does not end");
    }
    assert!((99..=100).contains(&events), "{events}");
}

#[tokio::test(start_paused = true)]
async fn watches_without_a_timeout_end_within_hours() {
    let sandbox = sandbox(1);
    let api = Api::of(&sandbox);
    let begin = Instant::now();
    let mut watch = api.watch(CONFIG_MAPS).await;
    assert_eq!(watch.line().await.unwrap(), None);
    let hours = begin.elapsed().as_secs_f64() / 3600.0;
    assert!((0.5..=24.0).contains(&hours), "{hours}");
}
