//! Tests of hundreds of independent sandboxes in one process.

use std::collections::BTreeSet;
use std::time::Duration;

use kopf_sandbox::{Listen, Sandbox};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::tls::Kubeconfig;
use crate::support::{Api, CONFIG_MAPS, DEFINITIONS, Watch, config_map, definition, in_time};

const SANDBOXES: usize = 300;
const OBJECTS: usize = 5;

struct One {
    number: usize,
    sandbox: Sandbox,
    watch: Watch,
}

impl One {
    async fn start(number: usize) -> Self {
        let sandbox = Sandbox::builder().build().unwrap();
        let watch = Api::of(&sandbox).watch(CONFIG_MAPS).await;
        Self {
            number,
            sandbox,
            watch,
        }
    }

    fn names(&self) -> Vec<String> {
        let number = self.number;
        (0..OBJECTS).map(|i| format!("s{number}-{i}")).collect()
    }

    /// Creates its objects, and a CRD in every third sandbox.
    async fn fill(&mut self) {
        let api = Api::of(&self.sandbox);
        for name in self.names() {
            let made = api.create(CONFIG_MAPS, &config_map(&name, "")).await;
            made.expect(201);
            tokio::task::yield_now().await; // lets the other sandboxes run
        }
        if self.number.is_multiple_of(3) {
            let things = definition("things", "Thing");
            api.create(DEFINITIONS, &things).await.expect(201);
        }
    }

    /// Asserts that only its own objects exist. Returns their uids.
    async fn check(&mut self) -> Vec<String> {
        let names = self.names();
        for name in &names {
            assert_eq!(self.watch.event().await.brief(), ("ADDED", &**name));
        }
        let api = Api::of(&self.sandbox);
        let list = api.get("/api/v1/configmaps").await.expect(200).json();
        let items = list["items"].as_array().unwrap();
        let seen: Vec<&str> = items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .filter(|name| *name != "kube-root-ca.crt")
            .collect();
        assert_eq!(seen, names);
        let things = api.get("/apis/test.dev/v1/things").await;
        things.expect(if self.number.is_multiple_of(3) {
            200
        } else {
            404
        });
        let uid = |item: &Value| item["metadata"]["uid"].as_str().unwrap().to_owned();
        items.iter().map(uid).collect()
    }
}

/// Waits until the number of tasks is back to `before`.
async fn tasks_end(before: usize) {
    let metrics = tokio::runtime::Handle::current().metrics();
    in_time("the end of all tasks", async {
        while metrics.num_alive_tasks() > before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_sandboxes_leave_no_tasks_behind() {
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    let mut all = Vec::new();
    for number in 0..SANDBOXES {
        all.push(One::start(number).await);
    }
    let mut tasks = JoinSet::new();
    for mut one in all {
        tasks.spawn(async move {
            one.fill().await;
            let uids = one.check().await;
            (one, uids)
        });
    }
    let all = in_time("all sandboxes", tasks.join_all()).await;
    let uids: BTreeSet<&String> = all.iter().flat_map(|(_, uids)| uids).collect();
    let count: usize = all.iter().map(|(_, uids)| uids.len()).sum();
    assert_eq!(uids.len(), count, "uids differ without a seed");
    assert!(count >= SANDBOXES * OBJECTS);

    for (mut one, _) in all {
        if one.number.is_multiple_of(2) {
            one.sandbox.shutdown().await;
        } else {
            drop(one.sandbox);
        }
        assert!(!one.watch.breaks().await, "its watch ends in order");
    }
    tasks_end(before).await;
}

#[tokio::test]
async fn dozens_of_listeners_leave_no_tasks_behind() {
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    let mut ports = BTreeSet::new();
    let mut all = Vec::new();
    for number in 0..20 {
        let sandbox = Sandbox::builder().build().unwrap();
        let listening = sandbox.listen(Listen::default()).await.unwrap();
        assert!(ports.insert(listening.local_addr().port()));
        let kubeconfig = Kubeconfig::read(&listening.kubeconfig());
        let mut connection = kubeconfig.connect().await.unwrap();
        let object = config_map(&format!("s{number}"), "");
        let made = connection.create(CONFIG_MAPS, &object).await.unwrap();
        made.expect(201);
        all.push((sandbox, listening, connection));
    }
    for (number, (sandbox, listening, mut connection)) in all.into_iter().enumerate() {
        let list = connection.get(CONFIG_MAPS).await.unwrap().json();
        let names: Vec<&Value> = list["items"].as_array().unwrap().iter().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let mut watch = connection.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
        watch.event().await;
        match number % 3 {
            0 => drop((sandbox, listening)),
            1 => {
                listening.shutdown().await;
                sandbox.shutdown().await;
            }
            // In the other order: the sandbox is dropped while its listener is open.
            _ => {
                sandbox.shutdown().await;
                drop(listening);
            }
        }
        let end = in_time("the end of the watch", watch.line()).await;
        assert!(!matches!(end, Ok(Some(_))), "{end:?}");
    }
    tasks_end(before).await;
}

#[tokio::test]
async fn service_of_a_dropped_sandbox_reports_its_end() {
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    drop(sandbox);
    tasks_end(before).await;
    // The controllers have ended, so that requests are rejected.
    let response = api.get(CONFIG_MAPS).await;
    assert_eq!(response.code, 503);
}
