//! Tests of CRDs and namespaces that are created and deleted concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kopf_sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Api, DEFINITIONS, config_map, definition, in_time};

fn object(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "test.dev/v1", "kind": kind, "metadata": {"name": name}})
}

/// Returns the plurals of the group, as listed by discovery.
async fn served(api: &Api) -> Vec<String> {
    let response = api.get("/apis/test.dev/v1").await;
    if response.code == 404 {
        return Vec::new();
    }
    let resources = response.json()["resources"].as_array().cloned();
    let names = resources.unwrap_or_default();
    names
        .iter()
        .map(|it| it["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_kind_outlives_its_crd() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let api = api.clone();
        tasks.spawn(async move {
            // Two tasks share each name, so that either can create it.
            let (plural, kind) = (format!("things{}", task / 2), format!("Thing{}", task / 2));
            let definition = definition(&plural, &kind);
            let path = format!("{DEFINITIONS}/{plural}.test.dev");
            let objects = format!("/apis/test.dev/v1/namespaces/default/{plural}");
            for round in 0..25 {
                let created = api.create(DEFINITIONS, &definition).await;
                assert!([201, 409].contains(&created.code), "{}", created.code);
                let name = format!("o{task}-{round}");
                let put = api.create(&objects, &object(&kind, &name)).await;
                assert!([201, 403, 404].contains(&put.code), "{}", put.code);
                api.delete(&path).await;
                if round % 5 == 0 {
                    api.gone(&path).await;
                }
            }
            api.delete(&path).await;
            api.gone(&path).await;
        });
    }
    in_time("all rounds", tasks.join_all()).await;
    assert_eq!(served(&api).await, Vec::<String>::new());
    let definition = definition("things0", "Thing0");
    api.create(DEFINITIONS, &definition).await.expect(201);
    let objects = api.get("/apis/test.dev/v1/things0").await.expect(200);
    assert_eq!(objects.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removed_namespace_leaves_no_objects() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleeting"}});
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (api, over) = (api.clone(), Arc::clone(&over));
        writers.spawn(async move {
            let mut created = 0;
            for round in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("c{writer}-{round}");
                let path = "/api/v1/namespaces/fleeting/configmaps";
                let response = api.create(path, &config_map(&name, "")).await;
                assert!(
                    [201, 403, 404].contains(&response.code),
                    "{}",
                    response.code
                );
                created += usize::from(response.code == 201);
                tokio::task::yield_now().await;
            }
            created
        });
    }
    for _ in 0..50 {
        api.create("/api/v1/namespaces", &namespace)
            .await
            .expect(201);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        api.delete("/api/v1/namespaces/fleeting").await.expect(200);
        api.gone("/api/v1/namespaces/fleeting").await;
        // Until the next creation, the namespace must be empty.
        let left = api.get("/api/v1/namespaces/fleeting/configmaps").await;
        assert_eq!(left.expect(200).json()["items"], json!([]));
    }
    over.store(true, Ordering::Relaxed);
    let created = in_time("the writers", writers.join_all()).await;
    assert!(
        created.iter().sum::<usize>() > 0,
        "at least one creation succeeded"
    );
}

#[tokio::test]
async fn many_crds_of_one_group_are_served() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let mut fields = serde_json::Map::new();
    for field in 0..120 {
        let schema = json!({"type": "string", "pattern": "^[a-z]*$", "maxLength": 10});
        fields.insert(format!("field{field}"), schema);
    }
    for index in 0..120 {
        let mut definition = definition(&format!("kind{index}s"), &format!("Kind{index}"));
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        api.create(DEFINITIONS, &definition).await.expect(201);
    }
    let served = served(&api).await;
    let main = served.iter().filter(|name| !name.contains('/'));
    assert_eq!(main.count(), 120);
}

#[tokio::test]
async fn crd_of_a_built_in_kind_has_no_effect() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let name = "leases.coordination.k8s.io";
    let mut definition = definition("leases", "Lease");
    definition["metadata"] = json!({
        "name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    });
    definition["spec"]["group"] = json!("coordination.k8s.io");
    let path = format!("{DEFINITIONS}/{name}");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |name: &str, duration: &Value| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"leaseDurationSeconds": duration},
        })
    };
    api.create(leases, &lease("a", &json!(1))).await.expect(201);
    api.create(DEFINITIONS, &definition).await.expect(201);
    api.create(leases, &lease("b", &json!("no number")))
        .await
        .expect(400);
    api.delete(&path).await.expect(200);
    api.gone(&path).await;
    let left = api.get(leases).await.expect(200);
    assert_eq!(left.json()["items"][0]["metadata"]["name"], "a");
}
