use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::program::Program;
use crate::stage::{Stage, only};

/// The load test of the example, and who runs its pods: we do.
struct LoadTest {
    stage: Stage,
    path: String,
}

impl LoadTest {
    async fn start() -> Self {
        let definition = only(include_str!("../../load-testing/crd.yaml"));
        let stage = Stage::start_with(&[definition]).await;
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
        let answer = self.stage.api.create(&path, &object).await;
        answer.expect_code(201).json
    }

    /// Waits until the test is in this state, with so many children; gives their names.
    async fn is(&self, state: &str, children: usize) -> Vec<String> {
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

    /// The pods which there are.
    async fn pods(&self) -> Vec<Value> {
        let pods = self.stage.api.get(&self.stage.api.ns_path("pods")).await;
        pods.items().to_vec()
    }

    /// What a kubelet would say.
    async fn end(&self, pod: &str, phase: &str) {
        let path = self.stage.api.ns_path(&format!("pods/{pod}/status"));
        let patch = json!({"status": {"phase": phase}});
        self.stage.api.merge(&path, &patch).await.expect_code(200);
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
async fn it_is_pending_then_executing_then_finished() {
    let play = LoadTest::start().await;
    let mut watch = play
        .stage
        .api
        .watch(&play.stage.api.group_path("example.org/v1", "loadtests"))
        .await;
    let program = play.run();
    let object = play.create().await;
    let children = play.is("executing", 5).await;

    let pods = play.pods().await;
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
        play.end(child, "Succeeded").await;
    }
    play.is("finished", 5).await;
    program.stop().await;

    // The states as others have seen them.
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
    play.stage.finish().await;
}

#[tokio::test]
async fn one_failure_is_a_failure_of_all() {
    let play = LoadTest::start().await;
    let mut program = play.run();
    play.create().await;
    let children = play.is("executing", 5).await;
    play.end(&children[0], "Succeeded").await;
    play.end(&children[3], "Failed").await;
    play.is("failed", 5).await;
    // What the others do later does not make it better.
    for child in ["0", "1", "2"].map(|number| format!("example-02-1-{number}")) {
        play.end(&child, "Succeeded").await;
    }
    play.end(&children[4], "Succeeded").await;
    play.stage
        .until(&play.path, "all are over", |object| {
            object["status"]["over"] == json!({"generation": 1, "succeeded": 4, "failed": 1})
        })
        .await;
    program.says("The load test is failed.").await;
    let log = program.stop().await;
    assert!(!log.contains("is finished"), "{log}");
    play.is("failed", 5).await;
    play.stage.finish().await;
}

#[tokio::test]
async fn a_change_starts_it_anew_and_the_deletion_removes_the_pods() {
    let play = LoadTest::start().await;
    let mut program = play.run();
    play.create().await;
    let before = play.is("executing", 5).await;
    play.end(&before[0], "Succeeded").await;

    let patch = json!({"spec": {"replicas": 2, "test": {"path": "/other"}}});
    play.stage
        .api
        .merge(&play.path, &patch)
        .await
        .expect_code(200);
    program.says("Handler 'announce/spec' succeeded.").await;
    let after = play.is("executing", 2).await;
    assert!(
        set(&before).is_disjoint(&set(&after)),
        "{before:?} {after:?}"
    );
    for old in &before {
        let path = play.stage.api.ns_path(&format!("pods/{old}"));
        play.stage.gone(&path).await;
    }
    let pods = play.pods().await;
    assert_eq!(names(&pods), set(&after));
    for pod in &pods {
        let env = &pod["spec"]["containers"][0]["env"];
        assert_eq!(env[2]["value"], "http://nginx/other", "{env}");
    }
    for child in &after {
        play.end(child, "Succeeded").await;
    }
    play.is("finished", 2).await;

    play.stage.api.delete(&play.path).await.ok();
    play.stage.gone(&play.path).await;
    for child in &after {
        let path = play.stage.api.ns_path(&format!("pods/{child}"));
        play.stage.gone(&path).await;
    }
    program.stop().await;
    play.stage.finish().await;
}

#[tokio::test]
async fn what_happens_without_the_operator_is_made_up_for() {
    let play = LoadTest::start().await;
    let program = play.run();
    play.create().await;
    let children = play.is("executing", 5).await;
    program.stop().await;
    for child in &children {
        play.end(child, "Succeeded").await;
    }
    let program = play.run();
    play.is("finished", 5).await;
    program.stop().await;
    play.stage.finish().await;
}
