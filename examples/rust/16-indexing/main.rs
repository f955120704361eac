//! Indices: in-memory lookup tables over pods for handlers of other objects. Memos: in-memory data
//! of an object.
//!
//! ```console
//! cargo run --bin 16-indexing -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl run pod-1 --image nginx --labels somelabel=somevalue
//! kubectl patch -f examples/obj.yaml --type merge -p '{"spec": {"field": "other"}}'
//! ```

use kopf::prelude::*;
use kopf::{Labels, Namespace, Status};

/// Maps the namespace and name of a pod to `true` if it is running.
#[kopf::index("pods")]
fn is_running(
    Namespace(namespace): Namespace,
    Name(name): Name,
    Status(status): Status,
) -> ((String, String), bool) {
    ((namespace, name), status["phase"] == "Running")
}

/// Maps each label to the namespaces and names of pods.
#[kopf::index("pods", labels = {"somelabel": PRESENT})]
fn by_label(Namespace(namespace): Namespace, Name(name): Name, labels: Labels) -> ByLabel {
    let pod = (namespace, name);
    let labels = labels.iter();
    labels
        .map(|(key, value)| ((key.into(), value.into()), pod.clone()))
        .collect()
}

type ByLabel = Vec<((String, String), (String, String))>;

/// The number of calls for an object in this process.
#[derive(Debug, Clone, Default)]
struct Looks(u32);

/// Both indices are complete before the first call.
#[kopf::on::resume("kopfexamples")]
#[kopf::on::create("kopfexamples")]
#[kopf::on::update("kopfexamples")]
fn look(
    labels: Labels,
    pods: Index<by_label>,
    running: Index<is_running>,
    looks: Memo<Looks>,
) -> Value {
    looks.write().0 += 1;
    let mut alike = Vec::new();
    for (key, value) in labels.iter() {
        for pod in pods.get(&(key.to_owned(), value.to_owned())).iter() {
            if running.get(pod).contains(&true) {
                tracing::info!("{} is running.", pod.1);
            }
            alike.push(pod.1.clone());
        }
    }
    alike.sort();
    tracing::info!(
        "{} of {} pods have the same labels.",
        alike.len(),
        running.len()
    );
    json!({"alike": alike, "looks": looks.read().0})
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![is_running, by_label, look])
}
