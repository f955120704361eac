//! Load tests that run in pods. A test is `pending` when it is created, `executing` when its pods
//! are created, `finished` when all pods have succeeded, or `failed` when a pod has failed. A
//! change of the spec restarts the test. Kubernetes deletes the pods with the test.
//!
//! ```console
//! cargo run --bin load-testing -- run --sandbox -f examples/rust/load-testing
//! kubectl get loadtests,pods
//! kubectl patch loadtest example-02 --type merge -p '{"spec": {"replicas": 2}}'
//! ```
//!
//! A sandbox does not run pods; set their phase:
//!
//! ```console
//! kubectl patch pod example-02-2-0 --subresource status -p '{"status": {"phase": "Succeeded"}}'
//! ```

use kopf::k8s_openapi::api::core::v1::Pod;
use kopf::kube::api::{
    Api, DeleteParams, ListParams, Patch as PatchOf, PatchParams, PostParams, ResourceExt as _,
};
use kopf::prelude::*;
use kopf::{Adoption, Object, PRESENT, Patch, kube};

/// Labels of pods: the uid and the generation of their test.
const TEST: &str = "example.org/load-test";
const GENERATION: &str = "example.org/generation";

/// The CRD in crd.yaml also has defaults, limits and columns.
#[kopf::resource(group = "example.org", version = "v1", kind = "LoadTest")]
#[kube(namespaced, shortname = "ld", status = "LoadTestStatus")]
struct LoadTestSpec {
    replicas: usize,
    test: Test,
}

#[kopf::schema]
#[serde(rename_all = "camelCase")]
struct Test {
    service_name: String,
    method: String,
    path: String,
    repeat: u32,
}

#[kopf::schema]
struct LoadTestStatus {
    over: Option<Over>,
    state: Option<String>,
    children: Option<Vec<String>>,
}

/// The number of finished pods of a generation.
#[kopf::schema]
struct Over {
    generation: i64,
    succeeded: usize,
    failed: usize,
}

/// Sets the state before pods are created.
#[kopf::on::create(LoadTest)]
#[kopf::on::update(LoadTest, field = "spec")]
async fn announce(patch: Patch) {
    patch.status().set("state", "pending").remove("children");
}

/// Runs after `announce`. A retry skips pods that exist.
#[kopf::on::create(LoadTest)]
#[kopf::on::update(LoadTest, field = "spec")]
async fn execute(test: Object<LoadTest>, pods: Api<Pod>, patch: Patch) -> kopf::Result<()> {
    let generation = test.metadata.generation.unwrap_or_default();
    let outdated = format!("{TEST}={},{GENERATION}!={generation}", uid(&test));
    let outdated = ListParams::default().labels(&outdated);
    let params = DeleteParams::default();
    pods.delete_collection(&params, &outdated).await?;

    let mut names = Vec::new();
    for number in 0..test.spec.replicas {
        let pod = pod(&test, generation, number)?;
        names.push(pod.name_any());
        match pods.create(&PostParams::default(), &pod).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => drop(created?),
        }
    }
    tracing::info!("{} pods are created.", names.len());
    patch
        .status()
        .set("state", "executing")
        .set("children", names);
    Ok(())
}

/// Counts the finished pods of a test when one of them finishes.
///
/// The counts are written to the test and evaluated by its own handlers, which run sequentially.
/// This handler runs concurrently with them, so its view of the test can be outdated.
#[kopf::on::field(Pod, labels = [(TEST, PRESENT)], field = "status.phase", new = is_over)]
async fn count(pod: Object<Pod>, pods: Api<Pod>, tests: Api<LoadTest>) -> kopf::Result<()> {
    let Some(owner) = pod.owner_references().first() else {
        return Err(kopf::permanent("the pod has no owner reference"));
    };
    let labels = [TEST, GENERATION].map(|label| Some((label, pod.labels().get(label)?)));
    let [Some((_, test)), Some((_, generation))] = labels else {
        return Err(kopf::permanent("the pod has no label of its generation"));
    };
    let siblings = format!("{TEST}={test},{GENERATION}={generation}");
    let siblings = ListParams::default().labels(&siblings);
    let generation: i64 = generation.parse()?;
    let mut written = None;
    loop {
        let (succeeded, failed) = finished(&pods, &siblings).await?;
        // Other pods are counted at the same time, and an older count can be written last. Its writer finds out here.
        if written == Some((succeeded, failed)) {
            return Ok(());
        }
        let over = Over {
            generation,
            succeeded,
            failed,
        };
        let patch = PatchOf::Merge(json!({"status": {"over": over}}));
        let params = PatchParams::default();
        match tests.patch_status(&owner.name, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()), // The test is deleted.
            patched => drop(patched?),
        }
        written = Some((succeeded, failed));
    }
}

/// Returns the numbers of succeeded and failed pods.
async fn finished(pods: &Api<Pod>, siblings: &ListParams) -> kopf::Result<(usize, usize)> {
    let siblings = pods.list(siblings).await?;
    let in_phase = |phase| {
        let siblings = siblings.iter();
        siblings.filter(|pod| self::phase(pod) == phase).count()
    };
    Ok((in_phase("Succeeded"), in_phase("Failed")))
}

/// Sets the final state of a test.
#[kopf::on::field(LoadTest, field = "status.over")]
async fn conclude(test: Object<LoadTest>, patch: Patch) {
    let Some(over) = test.status.as_ref().and_then(|status| status.over.as_ref()) else {
        return;
    };
    if Some(over.generation) != test.metadata.generation {
        return; // The test has changed and is restarted.
    }
    let state = match over {
        Over { failed: 1.., .. } => "failed",
        Over { succeeded, .. } if *succeeded >= test.spec.replicas => "finished",
        _ => return,
    };
    tracing::info!("The load test is {state}.");
    patch.status().set("state", state);
}

/// Returns a pod that makes the requests.
fn pod(test: &LoadTest, generation: i64, number: usize) -> kopf::Result<Pod> {
    let Test {
        service_name,
        method,
        path,
        repeat,
    } = &test.spec.test;
    let mut pod = json!({
        "metadata": {
            "name": format!("{}-{generation}-{number}", test.name_any()),
            "labels": {TEST: uid(test), GENERATION: generation.to_string()},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "load",
                "image": "curlimages/curl",
                "command": ["sh", "-e", "-c"],
                "args": [r#"for _ in $(seq "$REPEAT"); do curl --fail --request "$METHOD" "$URL"; done"#],
                "env": [
                    {"name": "REPEAT", "value": repeat.to_string()},
                    {"name": "METHOD", "value": method},
                    {"name": "URL", "value": format!("http://{service_name}{path}")},
                ],
            }],
        },
    });
    Adoption::default().apply(test, &mut pod)?;
    Ok(kopf::serde_json::from_value(pod)?)
}

fn uid(test: &LoadTest) -> &str {
    test.metadata.uid.as_deref().unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

fn is_over(phase: &Value) -> bool {
    phase == "Succeeded" || phase == "Failed"
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![announce, execute, count, conclude])
}
