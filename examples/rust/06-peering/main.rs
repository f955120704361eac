//! Several operators for the same objects: only the one with the highest priority is active.
//!
//! ```console
//! cargo run --bin 06-peering -- run --sandbox -A -f crates/kopf-shipping/manifests/peering.yaml -f examples/crd.yaml -f examples/obj.yaml
//! ```
//!
//! In another terminal, with the `KUBECONFIG` that the first operator prints, a second one takes
//! precedence, such as a developer's operator over the deployed one. The first operator resumes
//! when the second one exits:
//!
//! ```console
//! cargo run --bin 06-peering -- run -A --dev
//! kubectl get clusterkopfpeering default -o yaml
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "changed"}}'
//! ```
//!
//! All operators can be paused for some time:
//!
//! ```console
//! cargo run --bin 06-peering -- freeze -A --peering default --lifetime 60
//! cargo run --bin 06-peering -- resume -A --peering default
//! ```
//!
//! A real cluster needs the CRDs of peerings:
//! `cargo run --bin 06-peering -- peering | kubectl apply -f -`.

use kopf::prelude::*;
use kopf::{Reason, Settings};

#[kopf::on::create("kopfexamples")]
#[kopf::on::update("kopfexamples")]
async fn handle(reason: Reason, settings: Settings) {
    let priority = settings.peering.priority;
    tracing::info!("Handled the {reason} with the priority {priority}.");
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![handle])
}
