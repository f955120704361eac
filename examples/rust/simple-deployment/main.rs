//! A simple operator with its own custom resource: one pod for every SimpleDeployment.
//!
//! ```console
//! cargo run --bin simple-deployment -- run --sandbox -f examples/rust/simple-deployment --verbose
//! kubectl get simpledeployments,pods
//! kubectl delete simpledeployment example-01
//! ```

use kopf::Body;
use kopf::k8s_openapi::api::core::v1::Pod;
use kopf::kube::api::{Api, PostParams};
use kopf::prelude::*;

/// The spec of the resource.
#[kopf::schema]
struct SimpleDeployment {
    #[serde(default = "zero")]
    sleepytime: String,
}

fn zero() -> String {
    "0".to_owned()
}

#[kopf::on::create("example.org", "v1", "simpledeployments")]
async fn create_function(
    Spec(spec): Spec<SimpleDeployment>,
    body: Body,
    pods: Api<Pod>,
) -> kopf::Result<Value> {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "simple",
                "image": "busybox",
                "command": ["sh", "-x", "-c", r#"echo "I'm so very useful!"; sleep "$SLEEPYTIME""#],
                "env": [{"name": "SLEEPYTIME", "value": spec.sleepytime}],
            }],
        },
    });

    // Sets the namespace, the labels, a name prefix, and the owner reference.
    kopf::adopt(&body, &mut pod)?;

    let pod = kopf::serde_json::from_value(pod)?;
    let pod = pods.create(&PostParams::default(), &pod).await?;

    Ok(json!({"children": [pod.metadata.uid]}))
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![create_function])
}
