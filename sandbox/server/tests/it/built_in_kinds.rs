//! Rules of single built-in kinds: namespaces, pods, jobs and disruption budgets.

use kopf_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::support::{Api, ApiResponse};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn started() -> (Sandbox, Api) {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    (sandbox, api)
}

fn message(response: ApiResponse, code: u16) -> String {
    let status = response.expect(code).json();
    status["message"].as_str().unwrap().to_owned()
}

fn namespace(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
        "spec": { "finalizers": finalizers },
    })
}

#[tokio::test]
async fn finalizers_of_namespaces_delay_their_deletion() {
    let (_sandbox, api) = started();
    let held = namespace("held", &["x.io/q"]);
    let made = api.create(NAMESPACES, &held).await.expect(201).json();
    let both = json!(["x.io/q", "kubernetes"]);
    assert_eq!(made["spec"]["finalizers"], both);

    let path = format!("{NAMESPACES}/held");
    let patch = json!({ "spec": { "finalizers": ["other.io/q"] } });
    let patched = api.merge(&path, &patch).await.expect(200).json();
    assert_eq!(patched["spec"]["finalizers"], both);

    api.delete(&path).await.expect(200);
    let left = crate::support::in_time("the controller", async {
        loop {
            let left = api.get(&path).await.expect(200).json();
            if left["spec"]["finalizers"] == json!(["x.io/q"]) {
                return left;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(left["status"]["phase"], "Terminating");
    let conditions = left["status"]["conditions"].as_array().unwrap();
    let reasons: Vec<&Value> = conditions.iter().map(|one| &one["reason"]).collect();
    assert!(reasons.contains(&&json!("ContentRemoved")), "{reasons:?}");

    let finalize = format!("{path}/finalize");
    let free = namespace("held", &[]);
    api.update(&finalize, &free).await.expect(200);
    api.gone(&path).await;
}

#[tokio::test]
async fn unqualified_finalizers_of_namespaces_are_rejected() {
    let (_sandbox, api) = started();
    let refused = api.create(NAMESPACES, &namespace("x", &["bad"])).await;
    assert_eq!(
        message(refused, 422),
        r#"Namespace "x" is invalid: spec.finalizers: Invalid value: "bad": name is neither a standard finalizer name nor is it fully qualified"#
    );
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "a": "b" } },
        "spec": {
            "containers": [{ "name": "c", "image": "i" }], "terminationGracePeriodSeconds": 0,
        },
    })
}

#[tokio::test]
async fn pods_are_bound_by_the_binding_only() {
    let (_sandbox, api) = started();
    api.create(PODS, &pod("one")).await.expect(201);
    let path = format!("{PODS}/one");
    let rejected = async |spec: Value| {
        let refused = api.merge(&path, &json!({ "spec": spec })).await;
        let why = message(refused, 422);
        assert!(
            why.contains("spec: Forbidden: pod updates may not"),
            "{why}"
        );
    };
    rejected(json!({ "nodeName": "n" })).await;
    rejected(json!({ "terminationGracePeriodSeconds": 5 })).await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "one" },
        "target": { "name": "n" },
    });
    let bind = format!("{path}/binding");
    api.create(&bind, &binding).await.expect(201);
    assert_eq!(api.get(&path).await.json()["spec"]["nodeName"], "n");
    rejected(json!({ "nodeName": null })).await;
}

#[tokio::test]
async fn completions_of_jobs_are_immutable() {
    let (_sandbox, api) = started();
    let template = json!({ "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
    }});
    for (name, mode) in [("plain", "NonIndexed"), ("indexed", "Indexed")] {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
            "spec": {
                "completions": 2, "parallelism": 2, "completionMode": mode, "template": template,
            },
        });
        api.create(JOBS, &job).await.expect(201);
    }
    let (plain, indexed) = (format!("{JOBS}/plain"), format!("{JOBS}/indexed"));
    let both = json!({ "spec": { "completions": 3, "parallelism": 3 } });
    let one = json!({ "spec": { "completions": 4 } });
    let immutable =
        r#"Job.batch "plain" is invalid: spec.completions: Invalid value: 3: field is immutable"#;
    assert_eq!(message(api.merge(&plain, &both).await, 422), immutable);
    api.merge(&indexed, &both).await.expect(200);
    let tandem = r#"Job.batch "indexed" is invalid: spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"#;
    assert_eq!(message(api.merge(&indexed, &one).await, 422), tandem);
    let mode = json!({ "spec": { "completionMode": "Indexed" } });
    let immutable = r#"Job.batch "plain" is invalid: spec.completionMode: Invalid value: "Indexed": field is immutable"#;
    assert_eq!(message(api.merge(&plain, &mode).await, 422), immutable);
}

async fn budget(api: &Api, name: &str) {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "a": "b" } } },
    });
    api.create(BUDGETS, &budget).await.expect(201);
}

/// Creates a pod in a phase and evicts it.
async fn evict(api: &Api, name: &str, phase: &str, ready: &str) -> ApiResponse {
    api.create(PODS, &pod(name)).await.expect(201);
    let status = json!({ "status": {
        "phase": phase, "conditions": [{ "type": "Ready", "status": ready }],
    }});
    let path = format!("{PODS}/{name}");
    api.merge(&format!("{path}/status"), &status)
        .await
        .expect(200);
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name },
    });
    api.create(&format!("{path}/eviction"), &eviction).await
}

#[tokio::test]
async fn evictions_stay_within_the_budget() {
    let (_sandbox, api) = started();
    evict(&api, "free", "Running", "True").await.expect(201);
    budget(&api, "one").await;
    evict(&api, "pending", "Pending", "False").await.expect(201);
    let refused = evict(&api, "unknown", "Running", "True").await.expect(429);
    assert_eq!(refused.headers["retry-after"], "10");
    let refused = refused.json();
    assert_eq!(refused["reason"], "TooManyRequests");
    let why = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert_eq!(refused["message"], why);
    let cause = "The disruption budget one is still being processed by the server.";
    assert_eq!(refused["details"]["causes"][0]["message"], cause);

    let path = format!("{BUDGETS}/one");
    let set = async |allowed: i64, healthy: i64| {
        let status = json!({ "status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
            "desiredHealthy": 1, "expectedPods": 2,
        }});
        let path = format!("{path}/status");
        api.merge(&path, &status).await.expect(200);
    };
    set(0, 1).await;
    let refused = evict(&api, "needed", "Running", "True").await;
    let refused = refused.expect(429).json();
    let cause = "The disruption budget one needs 1 healthy pods and has 1 currently";
    assert_eq!(refused["details"]["causes"][0]["message"], cause);
    evict(&api, "unready", "Running", "False").await.expect(201);

    set(1, 2).await;
    evict(&api, "spare", "Running", "True").await.expect(201);
    let status = api.get(&path).await.json()["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 0);
    assert!(status["disruptedPods"]["spare"].is_string(), "{status}");
    evict(&api, "more", "Running", "True").await.expect(429);

    budget(&api, "two").await;
    evict(&api, "both", "Running", "True").await.expect(500);
}
