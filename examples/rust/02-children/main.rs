//! A pod for each object. Kubernetes deletes the pod with its owner.
//!
//! ```console
//! cargo run --bin 02-children -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl get pods
//! kubectl delete kex kopf-example-1
//! ```

use kopf::Body;
use kopf::k8s_openapi::api::core::v1::Pod;
use kopf::kube::Api;
use kopf::kube::api::PostParams;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_pod(body: Body, Spec(spec): Spec, pods: Api<Pod>) -> kopf::Result<Value> {
    let duration = spec["duration"]
        .as_str()
        .ok_or_else(|| kopf::permanent("spec.duration must be a string such as 1m"))?;
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "the-only-one",
                "image": "busybox",
                "command": ["sh", "-x", "-c", format!("sleep {duration}")],
            }],
        },
    });
    // Sets the name, namespace, labels and owner reference.
    kopf::adopt(&body, &mut pod)?;

    let pod: Pod = kopf::serde_json::from_value(pod)?;
    let pod = pods.create(&PostParams::default(), &pod).await?;
    let name = pod.metadata.name.unwrap_or_default();
    tracing::info!("Pod {name} is created.");
    Ok(json!({"children": [pod.metadata.uid]}))
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![create_pod])
}
