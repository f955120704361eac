//! Tests of simulated workloads under paused time.

use std::time::Duration;

use kopf_sandbox::Sandbox;
use kopf_sandbox::simulation::{Behaviour, Script, Simulated, Simulation};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::Api;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const VOLUMES: &str = "/api/v1/persistentvolumes";
/// The timeout of a test in virtual time, in seconds.
const PATIENCE: u32 = 3_600;

struct World {
    sandbox: Sandbox,
    api: Api,
}

impl World {
    fn new(simulation: Simulation) -> Self {
        let builder = Sandbox::builder().seed(7).starting_at(1_794_700_800);
        let sandbox = builder.simulate(simulation).build().unwrap();
        let api = Api::of(&sandbox);
        Self { sandbox, api }
    }

    fn all() -> Self {
        Self::new(Simulation::all())
    }

    async fn create(&self, path: &str, object: Value) {
        self.api.create(path, &object).await.expect(201);
    }

    async fn get(&self, path: &str, name: &str) -> Value {
        self.api
            .get(&format!("{path}/{name}"))
            .await
            .expect(200)
            .json()
    }

    async fn items(&self, path: &str) -> Vec<Value> {
        let list = self.api.get(path).await.expect(200).json();
        list["items"].as_array().unwrap().clone()
    }

    /// Waits until an object fulfils a condition.
    async fn until(&self, path: &str, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..PATIENCE {
            let object = self.get(path, name).await;
            if wanted(&object) {
                return object;
            }
            sleep(Duration::from_secs(1)).await;
        }
        let object = self.get(path, name).await;
        panic!("{path}/{name} stays as it is: {:#}", object["status"]);
    }

    /// Waits until the objects of a kind fulfil a condition.
    async fn until_all(&self, path: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        for _ in 0..PATIENCE {
            let items = self.items(path).await;
            if wanted(&items) {
                return items;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!(
            "{path} stays as it is: {:#?}",
            names(&self.items(path).await)
        );
    }
}

fn names(objects: &[Value]) -> Vec<&str> {
    let names = objects
        .iter()
        .map(|object| object["metadata"]["name"].as_str());
    names.flatten().collect()
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{
            "name": "app", "image": image, "ports": [{ "name": "http", "containerPort": 8080 }],
        }]},
    })
}

fn workload(kind: &str, name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": template("web:1"),
        },
    })
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == condition && it["status"] == "True")
}

fn waiting_reason(pod: &Value) -> &str {
    pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_simulated_by_default() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let web = workload("Deployment", "web", 1);
    api.create(DEPLOYMENTS, &web).await.expect(201);
    sleep(Duration::from_secs(60)).await;
    let list = api.get(REPLICA_SETS).await.expect(200).json();
    assert_eq!(list["items"], json!([]));
    assert_eq!(api.get("/api/v1/nodes").await.json()["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn pods_become_ready_after_the_delay() {
    let world = World::new(Simulation::of([Simulated::Pods]).ready_after(Duration::from_secs(30)));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "one" },
        "spec": template("web:1")["spec"],
    });
    world.create(PODS, pod).await;
    sleep(Duration::from_secs(29)).await;
    let pod = world.get(PODS, "one").await;
    assert_eq!(pod["spec"]["nodeName"], "sandbox-1");
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(waiting_reason(&pod), "ContainerCreating");
    sleep(Duration::from_secs(2)).await;
    let pod = world.get(PODS, "one").await;
    assert_eq!(pod["status"]["phase"], "Running");
    assert!(is_true(&pod, "Ready"));
    assert!(pod["status"]["podIP"].is_string());
    world.api.delete(&format!("{PODS}/one")).await.expect(200);
    world.api.gone(&format!("{PODS}/one")).await;
}

#[tokio::test(start_paused = true)]
async fn deployments_create_scale_roll_and_end() {
    let world = World::all();
    world
        .create(DEPLOYMENTS, workload("Deployment", "web", 3))
        .await;
    let ready = |count: i64| {
        move |it: &Value| {
            it["status"]["readyReplicas"] == count && it["status"]["replicas"] == count
        }
    };
    let web = world.until(DEPLOYMENTS, "web", ready(3)).await;
    assert!(is_true(&web, "Available") && is_true(&web, "Progressing"));
    assert_eq!(
        web["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "1"
    );
    let sets = world.items(REPLICA_SETS).await;
    assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["name"], "web");

    let path = format!("{DEPLOYMENTS}/web");
    let image = json!({ "spec": { "replicas": 2, "template": { "spec": { "containers": [
        { "name": "app", "image": "web:2" },
    ]}}}});
    world.api.merge(&path, &image).await.expect(200);
    let updated = |it: &Value| {
        it["status"]["updatedReplicas"] == 2
            && it["status"]["replicas"] == 2
            && it["status"]["availableReplicas"] == 2
    };
    let web = world.until(DEPLOYMENTS, "web", updated).await;
    assert_eq!(
        web["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "2"
    );
    assert_eq!(
        web["status"]["observedGeneration"],
        web["metadata"]["generation"]
    );
    let pods = world.until_all(PODS, |pods| pods.len() == 2).await;
    for pod in &pods {
        assert_eq!(pod["spec"]["containers"][0]["image"], "web:2");
    }
    assert_eq!(world.items(REPLICA_SETS).await.len(), 2);

    world.api.delete(&path).await.expect(200);
    world.until_all(PODS, <[Value]>::is_empty).await;
    assert!(world.items(REPLICA_SETS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn annotated_deployments_crash_and_recover() {
    let world = World::all();
    let mut web = workload("Deployment", "web", 1);
    web["metadata"]["annotations"] = json!({ "sandbox.kopf.dev/simulate": "crash-loop" });
    web["spec"]["progressDeadlineSeconds"] = json!(60);
    world.create(DEPLOYMENTS, web).await;
    let crashed = |pods: &[Value]| {
        pods.first().is_some_and(|pod| {
            waiting_reason(pod) == "CrashLoopBackOff"
                && pod["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(2)
        })
    };
    world.until_all(PODS, crashed).await;
    let late = |it: &Value| {
        let conditions = it["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .any(|it| it["reason"] == "ProgressDeadlineExceeded")
    };
    world.until(DEPLOYMENTS, "web", late).await;

    let path = format!("{DEPLOYMENTS}/web");
    let cured = json!({ "metadata": { "annotations": { "sandbox.kopf.dev/simulate": null } } });
    world.api.merge(&path, &cured).await.expect(200);
    let ready = |it: &Value| it["status"]["readyReplicas"] == 1 && is_true(it, "Progressing");
    world.until(DEPLOYMENTS, "web", ready).await;
}

#[tokio::test(start_paused = true)]
async fn scripts_affect_existing_pods() {
    let world = World::all();
    world
        .create(REPLICA_SETS, workload("ReplicaSet", "web", 1))
        .await;
    world
        .until(REPLICA_SETS, "web", |it| {
            it["status"]["availableReplicas"] == 1
        })
        .await;
    let scripts = world.sandbox.scripts();
    scripts.add(Script::new(Behaviour::NeverReady).name_prefix("web-"));
    let unready =
        |it: &Value| it["status"]["readyReplicas"].is_null() && it["status"]["replicas"] == 1;
    world.until(REPLICA_SETS, "web", unready).await;
    scripts.clear();
    world
        .until(REPLICA_SETS, "web", |it| it["status"]["readyReplicas"] == 1)
        .await;
}

#[tokio::test(start_paused = true)]
async fn images_that_cannot_be_pulled_are_reported() {
    let world = World::all();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "one" },
        "spec": template("nowhere:1")["spec"],
    });
    pod["metadata"]["annotations"] = json!({ "sandbox.kopf.dev/simulate": "image-pull-error" });
    world.create(PODS, pod).await;
    let pod = world
        .until(PODS, "one", |pod| waiting_reason(pod) == "ImagePullBackOff")
        .await;
    assert_eq!(pod["status"]["phase"], "Pending");
}

#[tokio::test(start_paused = true)]
async fn stateful_sets_start_in_order_with_bound_claims() {
    let world = World::all();
    let mut db = workload("StatefulSet", "db", 3);
    db["spec"]["serviceName"] = json!("db");
    db["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    world.create(STATEFUL_SETS, db).await;
    let first = world.until_all(PODS, |pods| !pods.is_empty()).await;
    assert_eq!(names(&first), ["db-0"]);
    let ready = |it: &Value| it["status"]["readyReplicas"] == 3;
    let db = world.until(STATEFUL_SETS, "db", ready).await;
    assert_eq!(
        db["status"]["currentRevision"],
        db["status"]["updateRevision"]
    );
    let claim = world.get(CLAIMS, "data-db-2").await;
    assert_eq!(claim["status"]["phase"], "Bound");
    let volume = claim["spec"]["volumeName"].as_str().unwrap();
    let volume = world.get(VOLUMES, volume).await;
    assert_eq!(volume["status"]["phase"], "Bound");
    assert_eq!(volume["spec"]["claimRef"]["name"], "data-db-2");

    let path = format!("{STATEFUL_SETS}/db");
    let smaller = json!({ "spec": { "replicas": 1, "template": { "spec": { "terminationGracePeriodSeconds": 5 } } } });
    world.api.merge(&path, &smaller).await.expect(200);
    let updated = |it: &Value| {
        it["status"]["updatedReplicas"] == 1
            && it["status"]["replicas"] == 1
            && it["status"]["readyReplicas"] == 1
    };
    world.until(STATEFUL_SETS, "db", updated).await;
    // Claims stay; volumes of deleted claims are removed.
    assert_eq!(world.items(CLAIMS).await.len(), 3);
    world
        .api
        .delete(&format!("{CLAIMS}/data-db-2"))
        .await
        .expect(200);
    world.until_all(VOLUMES, |volumes| volumes.len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn daemon_sets_run_on_all_nodes() {
    let world = World::new(Simulation::all().nodes(2));
    let mut agent = workload("DaemonSet", "agent", 0);
    agent["spec"].as_object_mut().unwrap().remove("replicas");
    world.create(DAEMON_SETS, agent).await;
    world
        .until(DAEMON_SETS, "agent", |it| it["status"]["numberReady"] == 2)
        .await;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "extra" } });
    world.create("/api/v1/nodes", node).await;
    world
        .until(DAEMON_SETS, "agent", |it| it["status"]["numberReady"] == 3)
        .await;
    let mut nodes: Vec<Value> = world
        .items(PODS)
        .await
        .iter()
        .map(|pod| pod["spec"]["nodeName"].clone())
        .collect();
    nodes.sort_by_key(Value::to_string);
    assert_eq!(json!(nodes), json!(["extra", "sandbox-1", "sandbox-2"]));
    world.api.delete("/api/v1/nodes/extra").await.expect(200);
    world.until_all(PODS, |pods| pods.len() == 2).await;
}

fn job(name: &str, spec: &Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec,
    });
    job["spec"]["template"] = template("task:1");
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    job
}

#[tokio::test(start_paused = true)]
async fn jobs_complete_and_expire() {
    let world = World::all();
    let spec = json!({
        "completions": 3, "parallelism": 2, "completionMode": "Indexed", "ttlSecondsAfterFinished": 50,
    });
    world.create(JOBS, job("task", &spec)).await;
    let task = world
        .until(JOBS, "task", |it| is_true(it, "Complete"))
        .await;
    assert_eq!(task["status"]["succeeded"], 3);
    assert_eq!(task["status"]["completedIndexes"], "0-2");
    assert!(task["status"]["completionTime"].is_string());
    world.until_all(JOBS, <[Value]>::is_empty).await;
    world.until_all(PODS, <[Value]>::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn longest_deadline_does_not_stop_the_controller() {
    let world = World::all();
    let spec = json!({ "activeDeadlineSeconds": i64::MAX });
    world.create(JOBS, job("task", &spec)).await;
    world
        .until(JOBS, "task", |it| is_true(it, "Complete"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn failing_jobs_give_up_at_their_limit() {
    let world = World::all();
    world
        .sandbox
        .scripts()
        .add(Script::new(Behaviour::CrashLoop));
    world
        .create(JOBS, job("task", &json!({ "backoffLimit": 1 })))
        .await;
    let task = world.until(JOBS, "task", |it| is_true(it, "Failed")).await;
    assert_eq!(task["status"]["failed"], 2);
    let conditions = task["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .all(|it| it["reason"] == "BackoffLimitExceeded")
    );
}

#[tokio::test(start_paused = true)]
async fn services_get_addresses_and_endpoints() {
    let world = World::all();
    world
        .create(REPLICA_SETS, workload("ReplicaSet", "web", 2))
        .await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": {
            "type": "LoadBalancer", "selector": { "app": "web" },
            "ports": [{ "port": 80, "targetPort": "http" }],
        },
    });
    world.create(SERVICES, service).await;
    let ready = |slices: &[Value]| {
        slices.first().is_some_and(|slice| {
            let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
            endpoints.len() == 2 && endpoints.iter().all(|it| it["conditions"]["ready"] == true)
        })
    };
    let slices = world.until_all(SLICES, ready).await;
    assert_eq!(slices[0]["ports"][0]["port"], 8080);
    assert_eq!(
        slices[0]["metadata"]["labels"]["kubernetes.io/service-name"],
        "web"
    );
    let service = world.get(SERVICES, "web").await;
    assert!(
        service["spec"]["clusterIP"]
            .as_str()
            .unwrap()
            .starts_with("10.0.")
    );
    assert!(service["spec"]["ports"][0]["nodePort"].as_i64().unwrap() >= 30_000);
    assert!(service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string());
    let none = json!({ "spec": { "replicas": 0 } });
    world
        .api
        .merge(&format!("{REPLICA_SETS}/web"), &none)
        .await
        .expect(200);
    world
        .until_all(SLICES, |slices| {
            slices[0]["endpoints"].as_array().is_none_or(Vec::is_empty)
        })
        .await;
    world
        .api
        .delete(&format!("{SERVICES}/web"))
        .await
        .expect(200);
    world.until_all(SLICES, <[Value]>::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn running_pods_follow_the_annotation_of_their_deployment() {
    let world = World::all();
    world
        .create(DEPLOYMENTS, workload("Deployment", "web", 2))
        .await;
    let ready = |count: i64| move |it: &Value| it["status"]["readyReplicas"] == json!(count);
    world.until(DEPLOYMENTS, "web", ready(2)).await;
    let path = format!("{DEPLOYMENTS}/web");
    let annotate = |value: Value| json!({ "metadata": { "annotations": { "sandbox.kopf.dev/simulate": value } } });
    let crash = annotate(json!("crash-loop"));
    world.api.merge(&path, &crash).await.expect(200);
    world
        .until(DEPLOYMENTS, "web", |it| {
            it["status"]["readyReplicas"].is_null()
        })
        .await;
    let recover = annotate(Value::Null);
    world.api.merge(&path, &recover).await.expect(200);
    world.until(DEPLOYMENTS, "web", ready(2)).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_pods_are_reported_until_the_quota_is_raised() {
    let world = World::all();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few" },
        "spec": { "hard": { "pods": "1" } },
    });
    world.create(QUOTAS, quota).await;
    world
        .create(DEPLOYMENTS, workload("Deployment", "web", 2))
        .await;
    let failed = world
        .until(DEPLOYMENTS, "web", |it| is_true(it, "ReplicaFailure"))
        .await;
    let conditions = failed["status"]["conditions"].as_array().unwrap();
    let failure = conditions.iter().find(|it| it["type"] == "ReplicaFailure");
    let message = failure.unwrap()["message"].as_str().unwrap();
    assert!(message.contains("exceeded quota: few"), "{message}");
    let more = json!({ "spec": { "hard": { "pods": "2" } } });
    let path = format!("{QUOTAS}/few");
    world.api.merge(&path, &more).await.expect(200);
    world
        .until(DEPLOYMENTS, "web", |it| {
            it["status"]["readyReplicas"] == 2 && !is_true(it, "ReplicaFailure")
        })
        .await;
    let quota = world.get(QUOTAS, "few").await;
    assert_eq!(quota["status"]["used"]["pods"], "2");
}

#[tokio::test(start_paused = true)]
async fn same_requests_give_the_same_history() {
    let mut histories = Vec::new();
    for _ in 0..2 {
        let world = World::all();
        world
            .create(DEPLOYMENTS, workload("Deployment", "web", 3))
            .await;
        world
            .create(JOBS, job("task", &json!({ "completions": 2 })))
            .await;
        world
            .until(DEPLOYMENTS, "web", |it| it["status"]["readyReplicas"] == 3)
            .await;
        world
            .until(JOBS, "task", |it| is_true(it, "Complete"))
            .await;
        histories.push(world.items(PODS).await);
    }
    assert_eq!(histories[0], histories[1]);
}

#[tokio::test(start_paused = true)]
async fn evictions_keep_the_available_pods() {
    let world = World::all();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "minAvailable": "50%", "selector": {} },
    });
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    world.create(budgets, budget).await;
    let pods = ["one", "two"];
    for name in pods {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": template("web:1")["spec"],
        });
        world.create(PODS, pod).await;
    }
    for name in pods {
        world.until(PODS, name, |pod| is_true(pod, "Ready")).await;
    }
    for (name, code) in [("one", 201), ("two", 429)] {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name },
        });
        let path = format!("{PODS}/{name}/eviction");
        world.api.create(&path, &eviction).await.expect(code);
    }
}
