//! Operators of the Rust API on an in-process sandbox with paused time: arguments and results of
//! handlers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "failures fail the test")]

mod children;

use std::time::Duration;

use kopf::extract::Rejection;
use kopf::k8s_openapi::api::core::v1::{ConfigMap, Event as ClusterEvent};
use kopf::kube::api::{Api, DynamicObject, ListParams, Patch as ApiPatch, PatchParams, PostParams};
use kopf::kube::core::{ApiResource, GroupVersionKind};
use kopf::prelude::*;
use kopf::serde::Deserialize;
use kopf::{
    Annotations, Body, Labels, Meta, Namespace, New, Now, Old, Param, Patch, Reason, Resource,
    Runtime, Settings, Started, Status, SubHandlers, Uid,
};
use kopf_sandbox::Sandbox;
use kopf_sandbox::manifests::Manifests;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  scope: Namespaced
  group: example.com
  names: {kind: Thing, plural: things, singular: thing, shortNames: [th], categories: [toys]}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// A sandbox with the CRD of things.
struct Cluster {
    client: kopf_client::Client,
    things: Api<DynamicObject>,
    _sandbox: Sandbox,
}

impl Cluster {
    async fn start() -> Self {
        let sandbox = Sandbox::builder().build().unwrap();
        let manifests = Manifests::parse([("things", DEFINITION)]).unwrap();
        manifests.load(&sandbox).await.unwrap();
        let client = kopf_client::Client::from_service(sandbox.service(), "default");
        let kind = GroupVersionKind::gvk("example.com", "v1", "Thing");
        let things = Api::namespaced_with(client.kube(), "default", &ApiResource::from_gvk(&kind));
        Self {
            client,
            things,
            _sandbox: sandbox,
        }
    }

    async fn create(&self, name: &str, spec: Value) {
        let thing = json!({
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"name": name, "labels": {"app": "web"}, "annotations": {"note": "hello"}},
            "spec": spec,
        });
        let thing = kopf::serde_json::from_value(thing).unwrap();
        self.things
            .create(&PostParams::default(), &thing)
            .await
            .unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.things
            .patch(name, &params, &ApiPatch::Merge(patch))
            .await
            .unwrap();
    }

    /// Waits until the condition holds. Returns the object.
    async fn eventually(&self, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        for _ in 0..1_000 {
            let object = self.things.get(name).await.unwrap();
            seen = kopf::serde_json::to_value(object).unwrap();
            if condition(&seen) {
                return seen;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("the condition does not hold: {seen:#}");
    }

    async fn has_event(&self, text: &str) -> bool {
        let events: Api<ClusterEvent> = Api::namespaced(self.client.kube(), "default");
        let events = events.list(&ListParams::default()).await.unwrap();
        events.iter().any(|event| {
            event
                .message
                .as_deref()
                .is_some_and(|message| message.contains(text))
        })
    }

    async fn eventually_event(&self, text: &str) {
        for _ in 0..1_000 {
            if self.has_event(text).await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("there is no event with {text:?}");
    }
}

#[kopf::on::create("things", registry = "arguments", param = 5)]
async fn arguments(
    body: Body,
    Spec(spec): Spec,
    Status(status): Status,
    Meta(meta): Meta,
    Name(name): Name,
    Namespace(namespace): Namespace,
    Uid(uid): Uid,
    labels: Labels,
    annotations: Annotations,
    Old(old): Old,
    New(new): New,
    diff: Diff,
    reason: Reason,
    retry: Retry,
    Started(started): Started,
    Runtime(runtime): Runtime,
    Now(now): Now,
    Param(param): Param<i32>,
    resource: Resource,
    settings: Settings,
    State(state): State<&'static str>,
    missing: Option<State<u64>>,
    malformed: Result<Spec<Vec<u32>>, Rejection>,
) -> Value {
    json!({
        "same": body.uid() == Some(uid.as_str()) && *spec == body.value()["spec"],
        "status": status,
        "generation": meta["generation"],
        "name": name,
        "namespace": namespace,
        "label": labels.get("app"),
        "annotation": annotations.get("note"),
        "no old": old.is_null(),
        "new": new["spec"],
        "diff": diff.len(),
        "reason": reason.as_str(),
        "retry": *retry,
        "in order": started + runtime <= now,
        "param": param,
        "resource": resource.to_string(),
        "backoff": settings.execution.default_backoff.as_secs(),
        "state": state,
        "missing": missing.is_none(),
        "malformed": malformed.map(|_| ()).map_err(|rejection| rejection.to_string()),
    })
}

#[tokio::test(start_paused = true)]
async fn handlers_receive_their_arguments() {
    let cluster = Cluster::start().await;
    let operator = Operator::builder()
        .registry("arguments")
        .settings(|settings| settings.execution.default_backoff = Duration::from_secs(7))
        .state("some state")
        .build()
        .unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster.create("one", json!({"size": "1G"})).await;
    let thing = cluster
        .eventually("one", |thing| !thing["status"].is_null())
        .await;
    assert_eq!(
        thing["status"]["arguments"],
        json!({
            "same": true,
            "status": {},
            "generation": 1,
            "name": "one",
            "namespace": "default",
            "label": "web",
            "annotation": "hello",
            "no old": true,
            "new": {"size": "1G"},
            "diff": 1,
            "reason": "create",
            "retry": 0,
            "in order": true,
            "param": 5,
            "resource": "things.v1.example.com",
            "backoff": 7,
            "state": "some state",
            "missing": true,
            "malformed": {"Err": "spec: invalid type: map, expected a sequence"},
        })
    );
    running.stop().await.unwrap();
}

#[derive(Deserialize)]
struct Volume {
    size: u32,
}

#[tokio::test(start_paused = true)]
async fn malformed_arguments_fail_permanently_with_a_reason() {
    #[kopf::on::create("things", registry = "typed")]
    async fn typed(Spec(volume): Spec<Volume>) -> u32 {
        volume.size
    }

    let cluster = Cluster::start().await;
    let operator = Operator::builder().registry("typed").build().unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster.create("bad", json!({"size": "1G"})).await;
    cluster
        .eventually_event(
            "handler 'typed' cannot be called for default/bad: argument `volume`: \
             spec.size: invalid type: string \"1G\", expected u32",
        )
        .await;
    cluster.create("good", json!({"size": 10})).await;
    let thing = cluster
        .eventually("good", |thing| !thing["status"].is_null())
        .await;
    assert_eq!(thing["status"]["typed"], 10);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_are_retried_by_their_kind() {
    #[derive(Debug, thiserror::Error)]
    #[error("arbitrary")]
    struct Arbitrary;

    async fn temporary(retry: Retry, Runtime(runtime): Runtime) -> kopf::Result<u64> {
        if *retry < 2 {
            return Err(kopf::temporary("not yet").delay(100));
        }
        Ok(runtime.as_secs() / 100)
    }
    fn arbitrary(retry: Retry) -> Result<u32, Arbitrary> {
        if *retry == 0 {
            Err(Arbitrary)
        } else {
            Ok(*retry)
        }
    }
    async fn permanent() -> kopf::Result<()> {
        Err(kopf::permanent("never"))
    }

    let cluster = Cluster::start().await;
    let operator = Operator::builder()
        .handler(on::create("things", temporary))
        .handler(on::create("things", arbitrary).backoff(1))
        .handler(on::create("things", permanent))
        .build()
        .unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster.create("one", json!({})).await;
    let thing = cluster
        .eventually("one", |thing| !thing["status"]["temporary"].is_null())
        .await;
    assert_eq!(thing["status"], json!({"temporary": 2, "arbitrary": 1}));
    assert!(
        cluster
            .has_event("Handler 'permanent' failed permanently: never")
            .await
    );
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn filters_and_patches_work_together() {
    fn is_wanted(Spec(spec): Spec, State(wanted): State<&'static str>) -> bool {
        spec["kind"] == wanted
    }
    fn grows(value: &Value, Old(old): Old) -> bool {
        value.as_u64() > old["spec"]["size"].as_u64()
    }
    async fn wanted(patch: Patch) {
        patch.status().set("seen", true);
        patch.meta().label("seen", "yes");
        patch.transform(|thing| thing["spec"]["list"] = json!(["transformed"]));
    }
    async fn grown(Old(old): Old<u64>, New(new): New<u64>) -> u64 {
        new - old
    }

    let cluster = Cluster::start().await;
    let operator = Operator::builder()
        .handler(on::create("th", wanted).when(is_wanted).label("app", "web"))
        .handler(on::update("things", grown).field("spec.size").new(grows))
        .state("good")
        .build()
        .unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster
        .create("bad", json!({"kind": "bad", "size": 3}))
        .await;
    cluster
        .create("good", json!({"kind": "good", "size": 3}))
        .await;
    let thing = cluster
        .eventually("good", |thing| !thing["spec"]["list"].is_null())
        .await;
    assert_eq!(thing["status"]["seen"], true);
    assert_eq!(thing["metadata"]["labels"]["seen"], "yes");
    cluster.patch("good", json!({"spec": {"size": 2}})).await;
    cluster.patch("good", json!({"spec": {"size": 10}})).await;
    let thing = cluster
        .eventually("good", |thing| {
            !thing["status"]["grown/spec.size"].is_null()
        })
        .await;
    let growth = thing["status"]["grown/spec.size"].as_u64();
    assert!(growth == Some(7) || growth == Some(8), "{growth:?}");
    let thing = cluster.eventually("bad", |_| true).await;
    assert!(thing["status"].is_null(), "{thing}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sub_handlers_have_their_own_retries_and_results() {
    #[kopf::on::create("things", registry = "subs")]
    fn parent(Spec(spec): Spec, subs: SubHandlers) -> kopf::Result<()> {
        for item in spec["items"].as_array().into_iter().flatten() {
            let id = item.as_str().unwrap_or_default().to_owned();
            let text = id.clone();
            subs.register(id, move |retry: Retry| async move {
                if text == "second" && *retry == 0 {
                    return Err(kopf::temporary("not yet").delay(1));
                }
                Ok(json!({"text": text, "retry": *retry}))
            });
        }
        let blocking = |Name(name): Name| name;
        subs.handler(on::subhandler("blocking", blocking).retries(1))
    }

    let cluster = Cluster::start().await;
    let operator = Operator::builder().registry("subs").build().unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster
        .create("one", json!({"items": ["first", "second"]}))
        .await;
    let thing = cluster
        .eventually("one", |thing| !thing["status"]["parent/blocking"].is_null())
        .await;
    cluster.eventually_event("Creation is processed").await;
    let thing_then = cluster.eventually("one", |thing| !thing["status"]["parent/second"].is_null());
    let status = &thing_then.await["status"];
    assert_eq!(status["parent/first"], json!({"text": "first", "retry": 0}));
    assert_eq!(
        status["parent/second"],
        json!({"text": "second", "retry": 1})
    );
    assert_eq!(thing["status"]["parent/blocking"], "one");
    // Ids that cannot be stored in progress records are rejected.
    for (name, id) in [("two", ""), ("three", "a b")] {
        cluster.create(name, json!({"items": ["first", id]})).await;
    }
    for expected in [
        "'parent' failed permanently: a handler has an empty id",
        "'parent' failed permanently: cannot register a sub-handler: the id \"parent/a b\"",
    ] {
        cluster.eventually_event(expected).await;
    }
    let three = cluster.eventually("three", |_| true).await;
    assert!(three["status"].is_null(), "{three}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn operators_in_one_process_have_their_own_handlers() {
    #[kopf::on::create("things", registry = "one")]
    fn of_one() -> bool {
        true
    }
    #[kopf::on::create("things", registry = "two")]
    fn of_two() -> bool {
        true
    }

    let (first, second) = (Cluster::start().await, Cluster::start().await);
    let one = Operator::builder().registry("one").build().unwrap();
    let two = Operator::builder().registry("two").build().unwrap();
    let one = one.start(first.client.clone()).await.unwrap();
    // The client of kube works as well.
    let two = two.start(second.client.kube()).await.unwrap();
    first.create("x", json!({})).await;
    second.create("x", json!({})).await;
    let thing = first
        .eventually("x", |thing| !thing["status"].is_null())
        .await;
    assert_eq!(thing["status"], json!({"of_one": true}));
    let thing = second
        .eventually("x", |thing| !thing["status"].is_null())
        .await;
    assert_eq!(thing["status"], json!({"of_two": true}));
    one.stop().await.unwrap();
    two.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn apis_are_in_the_namespace_of_the_object() {
    use kopf::k8s_openapi::api::core::v1::Namespace as Ns;

    #[kopf::on::create("things", registry = "apis")]
    async fn namespaced(maps: Api<ConfigMap>, all: Api<Ns>) -> kopf::Result<Value> {
        all.get("default").await?;
        Ok(json!(maps.resource_url()))
    }

    #[kopf::on::event("namespaces", registry = "apis")]
    async fn without(maps: Result<Api<ConfigMap>, Rejection>, all: Api<Ns>, patch: Patch) {
        let refusal = maps.map(drop).unwrap_err();
        let meta = patch.meta();
        meta.annotation("refusal", refusal.to_string());
        meta.annotation("all", all.resource_url());
    }

    let cluster = Cluster::start().await;
    let operator = Operator::builder().registry("apis").build().unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster.create("one", json!({})).await;
    let thing = cluster
        .eventually("one", |thing| !thing["status"].is_null())
        .await;
    assert_eq!(
        thing["status"]["namespaced"],
        "/api/v1/namespaces/default/configmaps"
    );
    let namespaces: Api<Ns> = Api::all(cluster.client.kube());
    let told = loop {
        let namespace = namespaces.get("default").await.unwrap();
        match namespace.metadata.annotations {
            Some(told) => break told,
            None => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    };
    assert_eq!(
        told["refusal"],
        "the object has no namespace for the ConfigMap API: use a Client instead"
    );
    assert_eq!(told["all"], "/api/v1/namespaces");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_without_handlers_runs_until_it_is_stopped() {
    let cluster = Cluster::start().await;
    let empty = Operator::builder().build().unwrap();
    let running = empty.start(cluster.client.clone()).await.unwrap();
    running.stop().await.unwrap();
}

#[test]
fn handlers_are_registered_in_file_order() {
    #[kopf::on::create("things", registry = "order", id = "first")]
    #[kopf::on::create("things", registry = "order", id = "second")]
    fn handler() {}
    #[kopf::on::create("things", registry = "order", id = "third")]
    fn another() {}

    let operator = Operator::builder().registry("order").build().unwrap();
    let text = format!("{operator:?}");
    let places: Vec<usize> = ["first", "second", "third"]
        .iter()
        .map(|id| text.find(id).unwrap())
        .collect();
    assert!(places.is_sorted(), "{text}");
    handler();
    another();
}

/// Runs in real time, because paused time does not advance while threads are busy.
#[tokio::test]
async fn blocking_daemons_leave_threads_to_others() {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "arguments are passed by value"
    )]
    fn guard(stopped: Stopped) {
        while !stopped.wait_blocking(0.05) {}
    }
    fn make() -> &'static str {
        "made"
    }
    let cluster = Cluster::start().await;
    let operator = Operator::builder()
        .handler(kopf::daemon("things", guard))
        .handler(on::create("things", make))
        .settings(|settings| settings.execution.max_workers = Some(1))
        .build()
        .unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster.create("one", json!({})).await;
    let thing = cluster
        .eventually("one", |thing| !thing["status"]["make"].is_null())
        .await;
    assert_eq!(thing["status"]["make"], "made");
    running.stop().await.unwrap();
}
