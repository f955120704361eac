//! Load tests by many pods at once: `pending`, when one is asked for; `executing`, when its pods
//! are started; `finished`, when all of them are, or `failed`, when one of them is. A change starts it
//! anew. When it is deleted, Kubernetes removes its pods.
//!
//! ```console
//! cargo run --bin load-testing -- run --sandbox -f examples/rust/load-testing
//! kubectl get loadtests,pods
//! kubectl patch loadtest example-02 --type merge -p '{"spec": {"replicas": 2}}'
//! ```
//!
//! On a sandbox, nothing runs the pods: they are over as soon as somebody says so.
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

/// The labels of the pods: which test they are of, and of which version of it.
const TEST: &str = "example.org/load-test";
const GENERATION: &str = "example.org/generation";

/// The CRD in crd.yaml has more: defaults, limits and columns.
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

/// How many pods are over, of those for this generation.
#[kopf::schema]
struct Over {
    generation: i64,
    succeeded: usize,
    failed: usize,
}

/// Said before anything is done.
#[kopf::on::create(LoadTest)]
#[kopf::on::update(LoadTest, field = "spec")]
async fn announce(patch: Patch) {
    patch.status().set("state", "pending").remove("children");
}

/// Called after the previous one. If it fails half-way, it is called again, and does the rest.
#[kopf::on::create(LoadTest)]
#[kopf::on::update(LoadTest, field = "spec")]
async fn execute(
    test: Object<LoadTest>,
    pods: Api<Pod>,
    patch: Patch,
    logger: Logger,
) -> kopf::Result<()> {
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
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {}
            created => drop(created?),
        }
    }
    logger.info(format_args!("{} pods are started.", names.len()));
    patch
        .status()
        .set("state", "executing")
        .set("children", names);
    Ok(())
}

/// A pod is over: how many of them are it now?
///
/// What is learned is handed over to the test, whose handlers are called one after another. This
/// handler runs beside them, and its view of the test can be outdated.
#[kopf::on::field(Pod, labels = [(TEST, PRESENT)], field = "status.phase", new = is_over)]
async fn count(pod: Object<Pod>, pods: Api<Pod>, tests: Api<LoadTest>) -> kopf::Result<()> {
    let Some(owner) = pod.owner_references().first() else {
        return Err(kopf::permanent("a pod of a load test has an owner"));
    };
    let labels = [TEST, GENERATION].map(|label| Some((label, pod.labels().get(label)?)));
    let [Some((_, test)), Some((_, generation))] = labels else {
        return Err(kopf::permanent("a pod of a load test says of which one"));
    };
    let siblings = format!("{TEST}={test},{GENERATION}={generation}");
    let siblings = pods.list(&ListParams::default().labels(&siblings)).await?;
    let in_phase = |phase| {
        siblings
            .iter()
            .filter(|pod| self::phase(pod) == phase)
            .count()
    };
    let over = Over {
        generation: generation.parse()?,
        succeeded: in_phase("Succeeded"),
        failed: in_phase("Failed"),
    };

    let patch = PatchOf::Merge(json!({"status": {"over": over}}));
    let params = PatchParams::default();
    match tests.patch_status(&owner.name, &params, &patch).await {
        Err(kube::Error::Api(refusal)) if refusal.is_not_found() => {} // So will be the pod.
        patched => drop(patched?),
    }
    Ok(())
}

/// The end of a test, good or bad.
#[kopf::on::field(LoadTest, field = "status.over")]
async fn conclude(test: Object<LoadTest>, patch: Patch, logger: Logger) {
    let Some(over) = test.status.as_ref().and_then(|status| status.over.as_ref()) else {
        return;
    };
    if Some(over.generation) != test.metadata.generation {
        return; // The test was changed meanwhile, and is executed again.
    }
    let state = match over {
        Over { failed: 1.., .. } => "failed",
        Over { succeeded, .. } if *succeeded >= test.spec.replicas => "finished",
        _ => return,
    };
    logger.info(format_args!("The load test is {state}."));
    patch.status().set("state", state);
}

/// What makes the requests.
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
    Adoption::default().adopt(&mut pod, test)?;
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
    kopf::main()
}
