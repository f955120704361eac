//! Indices: what is known of pods, ready to be looked up by handlers of other objects. And memos:
//! what handlers remember of an object.
//!
//! ```console
//! cargo run --bin 16-indexing -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl run pod-1 --image nginx --labels somelabel=somevalue
//! kubectl patch -f examples/obj.yaml --type merge -p '{"spec": {"field": "other"}}'
//! ```

use kopf::prelude::*;
use kopf::{Labels, Namespace, Status};

/// Where a pod is, and whether it runs.
#[kopf::index("pods")]
fn is_running(
    Namespace(namespace): Namespace,
    Name(name): Name,
    Status(status): Status,
) -> ((String, String), bool) {
    ((namespace, name), status["phase"] == "Running")
}

/// One entry for each label.
#[kopf::index("pods", labels = {"somelabel": PRESENT})]
fn by_label(Namespace(namespace): Namespace, Name(name): Name, labels: Labels) -> ByLabel {
    let pod = (namespace, name);
    let labels = labels.iter();
    labels
        .map(|(key, value)| ((key.into(), value.into()), pod.clone()))
        .collect()
}

type ByLabel = Vec<((String, String), (String, String))>;

/// How often it was looked, in this process.
#[derive(Debug, Clone, Default)]
struct Looks(u32);

/// Both indices are filled before this is called for the first time.
#[kopf::on::resume("kopfexamples")]
#[kopf::on::create("kopfexamples")]
#[kopf::on::update("kopfexamples")]
fn look(
    labels: Labels,
    pods: Index<by_label>,
    running: Index<is_running>,
    looks: Memo<Looks>,
    logger: Logger,
) -> Value {
    looks.write().0 += 1;
    let mut alike = Vec::new();
    for (key, value) in labels.iter() {
        for pod in pods.get(&(key.to_owned(), value.to_owned())).iter() {
            if running.get(pod).contains(&true) {
                logger.info(format_args!("{} runs.", pod.1));
            }
            alike.push(pod.1.clone());
        }
    }
    alike.sort();
    logger.info(format_args!(
        "{} of {} pods are labelled alike.",
        alike.len(),
        running.len()
    ));
    json!({"alike": alike, "looks": looks.read().0})
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
