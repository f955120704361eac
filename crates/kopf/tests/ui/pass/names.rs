//! The prelude together with all names of kube: conflicting names would be ambiguous.

#![allow(
    unused_imports,
    reason = "all names are imported to detect ambiguous ones"
)]

use kopf::kube::api::*;
use kopf::kube::client::*;
use kopf::kube::core::*;
use kopf::kube::*;
use kopf::prelude::*;

#[kopf::index("pods")]
fn by_name(Name(name): Name) -> (String, String) {
    (name.clone(), name)
}

async fn all_names(
    client: Client,
    diff: Diff,
    pods: Index<by_name>,
    logger: Logger,
    memo: Memo<u32>,
    name: Name,
    retry: Retry,
    spec: Spec,
    state: State<u32>,
) -> kopf::Result<Value> {
    let _ = (client, diff.len(), pods.len(), retry, spec, state);
    *memo.write() += 1;
    logger.info(format_args!("{name:?}"));
    Ok(json!({"ready": true}))
}

async fn watched(stopped: Stopped) {
    stopped.wait(1).await;
}

pub(crate) fn main() {
    let operator = Operator::builder()
        .handler(on::create("pods", all_names))
        .handler(kopf::daemon("pods", watched));
    assert!(!operator.is_empty());
    // Names of kube are usable as well.
    let params = PostParams::default();
    assert!(!params.dry_run);
}
