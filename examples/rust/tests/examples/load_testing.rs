use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::program::Program;
use crate::stage::{Stage, only};

/// The load test of the example. The tests set the phases of its pods.
struct LoadTest {
    stage: Stage,
    path: String,
}

impl LoadTest {
    async fn start() -> Self {
        let crd = only(include_str!("../../load-testing/crd.yaml"));
        let stage = Stage::start_with(&[crd]).await;
        let path = stage
            .api
            .group_path("example.org/v1", "loadtests/example-02");
        Self { stage, path }
    }

    fn run(&self) -> Program {
        self.stage.run("load-testing")
    }

    async fn create(&self) -> Value {
        let object = only(include_str!("../../load-testing/example-02.yaml"));
        let path = self.stage.api.group_path("example.org/v1", "loadtests");
        let response = self.stage.api.create(&path, &object).await;
        response.expect_code(201).json
    }

    /// Waits until the test has this state and number of children. Returns their names.
    async fn await_state(&self, state: &str, children: usize) -> Vec<String> {
        let object = self
            .stage
            .until(&self.path, &format!("{state}, {children}"), |object| {
                let status = &object["status"];
                let names = status["children"].as_array();
                status["state"] == state && names.is_some_and(|names| names.len() == children)
            })
            .await;
        let names = object["status"]["children"].as_array().unwrap().iter();
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    }

    async fn pods(&self) -> Vec<Value> {
        let pods = self.stage.api.get(&self.stage.api.ns_path("pods")).await;
        pods.items().to_vec()
    }

    /// Sets the phase of a pod, as a kubelet does.
    async fn set_phase(&self, pod: &str, phase: &str) {
        let path = self.stage.api.ns_path(&format!("pods/{pod}/status"));
        let patch = json!({"status": {"phase": phase}});
        self.stage.api.merged(&path, &patch).await;
    }
}

fn names(pods: &[Value]) -> BTreeSet<&str> {
    let names = pods.iter().map(|pod| &pod["metadata"]["name"]);
    names.map(|name| name.as_str().unwrap()).collect()
}

fn set(names: &[String]) -> BTreeSet<&str> {
    names.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn states_are_pending_executing_finished() {
    let fixture = LoadTest::start().await;
    let mut watch = fixture
        .stage
        .api
        .watch(&fixture.stage.api.group_path("example.org/v1", "loadtests"))
        .await;
    let program = fixture.run();
    let object = fixture.create().await;
    let children = fixture.await_state("executing", 5).await;

    let pods = fixture.pods().await;
    assert_eq!(names(&pods), set(&children));
    for pod in &pods {
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], object["metadata"]["uid"]);
        assert_eq!(pod["metadata"]["labels"]["app"], "loadtest");
        assert_eq!(
            pod["spec"]["containers"][0]["env"],
            json!([
                {"name": "REPEAT", "value": "10"},
                {"name": "METHOD", "value": "GET"},
                {"name": "URL", "value": "http://nginx/"},
            ])
        );
    }
    for child in &children {
        fixture.set_phase(child, "Succeeded").await;
    }
    fixture.await_state("finished", 5).await;
    program.stop().await;

    // The states that watches have seen.
    let mut states: Vec<String> = Vec::new();
    while states.last().is_none_or(|state| state != "finished") {
        let event = watch.next_event().await;
        if let Some(state) = event.object["status"]["state"].as_str()
            && states.last().is_none_or(|last| last != state)
        {
            states.push(state.to_owned());
        }
    }
    assert_eq!(states, ["pending", "executing", "finished"]);
}

#[tokio::test]
async fn failed_pod_fails_the_test() {
    let fixture = LoadTest::start().await;
    let mut program = fixture.run();
    fixture.create().await;
    let children = fixture.await_state("executing", 5).await;
    fixture.set_phase(&children[0], "Succeeded").await;
    fixture.set_phase(&children[3], "Failed").await;
    fixture.await_state("failed", 5).await;
    // Pods that succeed later do not change the state.
    for child in ["0", "1", "2"].map(|number| format!("example-02-1-{number}")) {
        fixture.set_phase(&child, "Succeeded").await;
    }
    fixture.set_phase(&children[4], "Succeeded").await;
    fixture
        .stage
        .until(&fixture.path, "all pods are finished", |object| {
            object["status"]["over"] == json!({"generation": 1, "succeeded": 4, "failed": 1})
        })
        .await;
    program.await_log("The load test is failed.").await;
    let log = program.stop().await;
    assert!(!log.contains("is finished"), "{log}");
    fixture.await_state("failed", 5).await;
}

#[tokio::test]
async fn change_restarts_the_test_and_deletion_removes_the_pods() {
    let fixture = LoadTest::start().await;
    let mut program = fixture.run();
    fixture.create().await;
    let before = fixture.await_state("executing", 5).await;
    fixture.set_phase(&before[0], "Succeeded").await;

    let patch = json!({"spec": {"replicas": 2, "test": {"path": "/other"}}});
    fixture.stage.api.merged(&fixture.path, &patch).await;
    program
        .await_log("Handler 'announce/spec' succeeded.")
        .await;
    let after = fixture.await_state("executing", 2).await;
    assert!(
        set(&before).is_disjoint(&set(&after)),
        "{before:?} {after:?}"
    );
    for old in &before {
        let path = fixture.stage.api.ns_path(&format!("pods/{old}"));
        fixture.stage.gone(&path).await;
    }
    let pods = fixture.pods().await;
    assert_eq!(names(&pods), set(&after));
    for pod in &pods {
        let env = &pod["spec"]["containers"][0]["env"];
        assert_eq!(env[2]["value"], "http://nginx/other", "{env}");
    }
    for child in &after {
        fixture.set_phase(child, "Succeeded").await;
    }
    fixture.await_state("finished", 2).await;

    fixture.stage.api.delete(&fixture.path).await.ok();
    fixture.stage.gone(&fixture.path).await;
    for child in &after {
        let path = fixture.stage.api.ns_path(&format!("pods/{child}"));
        fixture.stage.gone(&path).await;
    }
    program.stop().await;
}

#[tokio::test]
async fn pods_that_finish_during_downtime_are_counted() {
    let fixture = LoadTest::start().await;
    let program = fixture.run();
    fixture.create().await;
    let children = fixture.await_state("executing", 5).await;
    program.stop().await;
    for child in &children {
        fixture.set_phase(child, "Succeeded").await;
    }
    let program = fixture.run();
    fixture.await_state("finished", 5).await;
    program.stop().await;
}
