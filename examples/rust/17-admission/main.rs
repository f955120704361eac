//! Admission webhooks: requests are denied, changed or warned about before objects are stored.
//!
//! ```console
//! cargo run --bin 17-admission -- run --sandbox -f examples/crd.yaml
//! kubectl apply -f examples/obj.yaml                                                  # a warning, and a label
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "wrong"}}'     # denied
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "new"}}' --dry-run=server
//! kubectl annotate kex kopf-example-1 keep=yes
//! kubectl delete kex kopf-example-1 --as intern                                       # denied
//! kubectl annotate kex kopf-example-1 keep-
//! kubectl delete kex kopf-example-1 --as intern
//! ```
//!
//! The API server of a remote cluster must be able to reach this machine: see
//! docs/guide/webhook-servers.md.

use kopf::prelude::*;
use kopf::webhooks::Server;
use kopf::{DryRun, Patch, Status, UserInfo, Warnings};

/// Denies one value and warns about another.
#[kopf::on::validate("kopfexamples", operations = ["CREATE", "UPDATE"])]
fn check(Spec(spec): Spec, DryRun(dry_run): DryRun, warnings: Warnings) -> kopf::Result<()> {
    if spec["field"] == "wrong" {
        return Err(kopf::denied("This field is wrong.").code(499));
    }
    if spec["field"] == "value" {
        warnings.push("the value is the one from the examples");
    }
    tracing::info!("Admitted; dry run: {dry_run}.");
    Ok(())
}

/// Adds a label and a default.
#[kopf::on::mutate("kopfexamples", operation = "CREATE")]
fn fill_in(user: UserInfo, Spec(spec): Spec, patch: Patch) {
    // Usernames can contain characters that are invalid in labels.
    let creator = user.username().unwrap_or_default().replace(':', "-");
    patch.meta().label("creator", creator);
    if spec["duration"].is_null() {
        patch.spec().set("duration", "1m");
    }
}

/// Denies the deletion of annotated objects to users who are not administrators.
#[kopf::on::validate("kopfexamples", operation = "DELETE", annotations = {"keep": PRESENT})]
fn keep(user: UserInfo, Name(name): Name) -> kopf::Result<()> {
    if user.groups().any(|group| group == "system:masters") {
        return Ok(());
    }
    let who = user.username().unwrap_or("you");
    Err(kopf::denied(format!("{who} may not delete {name}.")).code(403))
}

/// The status subresource has its own webhook.
#[kopf::on::validate("kopfexamples", subresource = "status")]
fn check_status(Status(status): Status) -> kopf::Result<()> {
    if status["phase"] == "Broken" {
        return Err(kopf::denied("Nothing is broken here.").code(422));
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let operator = Operator::builder()
        .handlers(kopf::handlers![check, fill_in, keep, check_status])
        // The server announces the Service of its pod in a cluster, otherwise the address at which a
        // local cluster reaches this process, and generates a certificate. The name is that of the
        // webhook configurations, which the operator keeps up to date.
        .webhooks(Server::auto(), "auto.kopf.dev");
    kopf::main(operator)
}
