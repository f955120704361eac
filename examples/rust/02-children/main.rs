//! An object that owns another: a pod is created for it, and is removed together with it by
//! Kubernetes.
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
async fn create_pod(
    body: Body,
    Spec(spec): Spec,
    pods: Api<Pod>,
    logger: Logger,
) -> kopf::Result<Value> {
    let duration = spec["duration"]
        .as_str()
        .ok_or_else(|| kopf::permanent("spec.duration must be a text, such as 1m"))?;
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
    // The name, the namespace, the labels, and who owns it: all come from the parent.
    kopf::adopt(&mut pod, &body)?;

    let pod: Pod = kopf::serde_json::from_value(pod)?;
    let pod = pods.create(&PostParams::default(), &pod).await?;
    let name = pod.metadata.name.unwrap_or_default();
    logger.info(format_args!("Pod {name} is created."));
    Ok(json!({"children": [pod.metadata.uid]}))
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
