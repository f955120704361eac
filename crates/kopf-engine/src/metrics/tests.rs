//! Tests of the whole registry, of its documentation and of the files that use its names.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use kopf_client::observing::{RequestOutcome, RequestTarget, Verb};
use kopf_core::handler::{Cancellation, HandlerId};

use super::*;
use crate::fake_api::kind;

/// An empty queue.
#[derive(Debug)]
struct Backlog;

impl QueueSize for Backlog {
    fn entries(&self) -> usize {
        0
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Returns a registry with a series of each family.
fn filled() -> Metrics {
    let metrics = Metrics::new();
    let inner = metrics.0.as_ref().unwrap();
    let daemon = HandlerKind::Daemon(Cancellation::NONE);
    inner.handlers.declare(&HandlerId::from("d"), daemon);
    let resource = kind("kopf.dev", "things");
    let of_resource = metrics.resource(&resource).unwrap();
    let load = Arc::new(Backlog);
    std::mem::forget(StreamMetrics::new(of_resource, load));
    let target = RequestTarget {
        verb: Verb::Get,
        group: "",
        version: "v1",
        plural: "pods",
    };
    let observer = metrics.observer().unwrap();
    let series = observer.begin(target);
    series.finished(RequestOutcome::Response(200), Duration::from_millis(3));
    metrics.review(Some(&resource), ReviewLabel::Allowed, Duration::ZERO);
    metrics.leading(true);
    metrics.shards(3);
    let counts = OperatorCounts {
        working: 1,
        sleeping: 2,
        backing_off: 3,
        is_alive: true,
    };
    metrics.watch(move || Some(counts), Pause::default());
    metrics
}

/// Returns the names and types of all families in a text.
fn exposed(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(str::to_owned).collect()
}

fn described() -> BTreeSet<String> {
    let families = FAMILIES.iter();
    families
        .map(|family| format!("{} {}", family.name, family.kind.as_str()))
        .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn all_described_families_are_exposed() {
    let text = filled().text(Format::OpenMetrics).unwrap();
    let mut expected = described();
    // No connection has an age yet.
    expected.remove("kopf_watch_age_seconds gauge");
    assert_eq!(exposed(&text), expected);
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in [
        r#"kopf_api_requests_total{verb="get",resource="pods.v1",code="200"} 1"#,
        r#"kopf_background_tasks{handler="d",kind="daemon"} 0"#,
        r#"kopf_admission_reviews_total{resource="things.v1.kopf.dev",outcome="allowed"} 1"#,
        "kopf_leader 1.0",
        "kopf_shards 3.0",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
}

#[test]
fn help_texts_have_a_uniform_format() {
    for family in FAMILIES {
        let Description { name, help, .. } = family;
        assert!(!help.ends_with('.'), "{name}: {help}");
        assert!(
            help.starts_with(|it: char| it.is_uppercase() || it == '1'),
            "{name}"
        );
        assert!(!name.ends_with("_total"), "{name}");
    }
    let text = filled().text(Format::OpenMetrics).unwrap();
    for line in text.lines().filter(|line| line.starts_with("# HELP")) {
        assert!(line.ends_with('.') && !line.ends_with(".."), "{line}");
    }
}

#[test]
fn label_values_are_escaped() {
    let metrics = Metrics::new();
    let inner = metrics.0.as_ref().unwrap();
    let id = HandlerId::from("a\"b\\c\nd");
    inner.handlers.declare(&id, HandlerKind::Create);
    let text = metrics.text(Format::Prometheus).unwrap();
    let expected = r#"kopf_objects_in_error{handler="a\"b\\c\nd"} 0"#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn nothing_is_measured_by_default() {
    let metrics = Metrics::default();
    metrics.leading(true);
    assert!(metrics.text(Format::OpenMetrics).is_none());
    assert!(metrics.resource(&kind("kopf.dev", "things")).is_none());
    assert!(metrics.observer().is_none());
}

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn the_documented_table_is_complete() {
    let page = read("docs/reference/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> = rows
        .filter_map(|row| {
            let mut cells = row.split(" | ");
            let name = cells.next()?.strip_suffix('`')?;
            let (type_, labels, help) = (cells.next()?, cells.next()?, cells.next()?);
            let help = help.strip_suffix(" |")?;
            Some(format!("{name} {type_} {labels} {help}"))
        })
        .collect();
    let described: BTreeSet<String> = FAMILIES
        .iter()
        .map(|family| {
            let suffix = match family.kind {
                Kind::Counter => "_total",
                Kind::Gauge | Kind::Histogram => "",
            };
            let labels: Vec<_> = family.labels.iter().map(|it| format!("`{it}`")).collect();
            let labels = match labels.as_slice() {
                [] => "–".to_owned(),
                labels => labels.join(", "),
            };
            let Description {
                name, kind, help, ..
            } = family;
            format!("{name}{suffix} {} {labels} {help}", kind.as_str())
        })
        .collect();
    assert_eq!(documented, described);
}

/// Returns all words with the format of sample names.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    words
        .filter(|word| word.starts_with("kopf_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn dashboards_and_alerts_use_existing_names() {
    let samples: BTreeSet<String> = FAMILIES
        .iter()
        .flat_map(|family| {
            let suffixes: &[&str] = match family.kind {
                Kind::Counter => &["_total"],
                Kind::Gauge => &[""],
                Kind::Histogram => &["_bucket", "_sum", "_count"],
            };
            suffixes
                .iter()
                .map(|suffix| format!("{}{suffix}", family.name))
        })
        .collect();
    for path in [
        "deploy/grafana/operator.json",
        "deploy/prometheus/alerts.yaml",
    ] {
        let text = read(path);
        let used = names(&text);
        assert!(!used.is_empty(), "{path}");
        for name in used {
            assert!(samples.contains(name), "{path} uses {name}");
        }
    }
    let dashboard = read("deploy/grafana/operator.json");
    serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
}
