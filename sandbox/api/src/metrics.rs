//! `/metrics` and `/metrics/slis` in the text format of Prometheus.
//!
//! Only metrics that apply to a sandbox are reported, under the names of a real server.

use std::fmt::Write as _;

use crate::cluster::{Cluster, collection};
use crate::discovery;
use crate::health;

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the metrics of the server.
pub fn all(cluster: &Cluster) -> String {
    let mut text = String::new();
    let version = discovery::version();
    let label = |name: &str| {
        let value = version.get(name).and_then(serde_json::Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    head(
        &mut text,
        "kubernetes_build_info",
        "gauge",
        "Version of the emulated server.",
    );
    let _ = writeln!(
        text,
        "kubernetes_build_info{{git_version=\"{}\",major=\"{}\",minor=\"{}\"}} 1",
        label("gitVersion"),
        label("major"),
        label("minor")
    );
    head(
        &mut text,
        "apiserver_resource_objects",
        "gauge",
        "Stored objects by resource.",
    );
    let kinds = cluster.kinds();
    for kind in kinds.iter() {
        let count = cluster.store.count(&collection(kind));
        let _ = writeln!(
            text,
            "apiserver_resource_objects{{group=\"{}\",resource=\"{}\"}} {count}",
            kind.group, kind.plural
        );
    }
    // Validation has one implementation here, so mismatches are always 0.
    for (name, help) in [
        (
            "apiserver_validation_declarative_validation_mismatch_total",
            "Disagreements between two implementations of validation.",
        ),
        (
            "apiserver_validation_declarative_validation_panic_total",
            "Panics of declarative validation.",
        ),
    ] {
        head(&mut text, name, "counter", help);
        let _ = writeln!(text, "{name} 0");
    }
    text
}

/// Returns the results of the health checks.
pub(crate) fn service_levels() -> String {
    let mut text = String::new();
    let name = "kubernetes_healthcheck";
    head(&mut text, name, "gauge", "Result of a health check.");
    for (endpoint, check) in health::checks() {
        let _ = writeln!(text, "{name}{{name=\"{check}\",type=\"{endpoint}\"}} 1");
    }
    text
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
