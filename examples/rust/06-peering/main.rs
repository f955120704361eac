//! Several operators for the same objects, of which one works at a time: that of the highest priority.
//!
//! ```console
//! cargo run --bin 06-peering -- run --sandbox -A -f crates/kopf-shipping/manifests/peering.yaml -f examples/crd.yaml -f examples/obj.yaml
//! ```
//!
//! In another terminal, with the `KUBECONFIG` that the first one tells, a second one goes ahead of it, as
//! a developer's operator goes ahead of the one in the cluster. When it ends, the first one goes on:
//!
//! ```console
//! cargo run --bin 06-peering -- run -A --dev
//! kubectl get clusterkopfpeering default -o yaml
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "changed"}}'
//! ```
//!
//! All of them can be paused for some time:
//!
//! ```console
//! cargo run --bin 06-peering -- freeze -A --peering default --lifetime 60
//! cargo run --bin 06-peering -- resume -A --peering default
//! ```
//!
//! On a real cluster, the kinds of peering objects have to be there:
//! `cargo run --bin 06-peering -- peering | kubectl apply -f -`.

use kopf::prelude::*;
use kopf::{Reason, Settings};

#[kopf::on::create("kopfexamples")]
#[kopf::on::update("kopfexamples")]
async fn handle(reason: Reason, settings: Settings, logger: Logger) {
    let priority = settings.peering.priority;
    logger.info(format_args!(
        "Handled the {reason} with the priority {priority}."
    ));
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
