//! Children of objects, and events about both.

use std::sync::{Arc, Mutex};

use kopf::k8s_openapi::api::core::v1::ConfigMap;
use kopf::kube::api::{Api, PostParams};
use kopf::prelude::*;
use kopf::tracing_subscriber::prelude::*;
use kopf::tracing_subscriber::{fmt, registry};
use kopf::{Body, Child, Children, Conditions, Events, Patch};

use super::Cluster;

/// The log of a program with its own subscriber.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn children_are_adopted_and_events_are_posted_from_handlers() {
    #[kopf::on::create("things")]
    async fn parent(body: Body, maps: Api<ConfigMap>, events: Events) -> kopf::Result<String> {
        let mut child = ConfigMap::default();
        kopf::adopt(&body, &mut child)?;
        let child = maps.create(&PostParams::default(), &child).await?;
        events.about(&child)?.info("Created", "the child is there");
        let error = kopf::permanent("but did not");
        events.exception("", "it could have failed:", &error);
        tracing::info!(pod = "web", "traced");
        tracing::debug!("not traced");
        Ok(child
            .metadata
            .owner_references
            .unwrap_or_default()
            .remove(0)
            .name)
    }

    #[kopf::on::create("things")]
    fn blocking(events: Events) {
        events.warn("Blocked", "from a thread");
    }

    let log = Log::default();
    let (writer, layer) = (log.clone(), fmt::layer().with_ansi(false));
    let layer = layer.with_writer(move || writer.clone());
    let subscriber = registry().with(layer).with(kopf::events_layer());
    // Of a single thread's subscriber, the tests in other threads would disable spans that they enter first.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let cluster = Cluster::start().await;
    let operator = Operator::builder().handlers(kopf::handlers![parent, blocking]);
    let operator = operator.build().unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster.create("one", json!({})).await;
    let thing = cluster
        .eventually("one", |thing| !thing["status"].is_null())
        .await;
    assert_eq!(thing["status"]["parent"], "one");
    cluster.eventually_event("the child is there").await;
    cluster
        .eventually_event("it could have failed: but did not")
        .await;
    cluster.eventually_event("from a thread").await;
    cluster.eventually_event("traced pod=\"web\"").await;
    assert!(!cluster.has_event("not traced").await);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let line = log
        .lines()
        .find(|line| line.ends_with("traced pod=\"web\""))
        .unwrap();
    let span =
        r#"handler{kopf.handler="parent" k8s.kind="Thing" k8s.namespace="default" k8s.name="one"}"#;
    assert!(line.contains(span), "{line}");
    running.stop().await.unwrap();
}

/// Applies a child and waits for it.
#[kopf::on::create(
    "things",
    labels = {"app": "web"},
    owns = ["configmaps"],
    registry = "children"
)]
async fn make(retry: Retry, children: Children, conditions: Conditions) -> kopf::Result<()> {
    let child = ConfigMap {
        data: Some([("a".to_owned(), "1".to_owned())].into()),
        ..ConfigMap::default()
    };
    children.apply(&child).await?;
    conditions.set("Made", *retry > 0, "Applied", format!("attempt {retry}"))?;
    if *retry == 0 {
        return Err(kopf::temporary("the child is not seen yet").delay(1_000_000));
    }
    Ok(())
}

#[kopf::on::child("configmaps", parent = "things", registry = "children")]
fn seen(child: Child, Name(name): Name, patch: Patch) -> kopf::Result<()> {
    let child: ConfigMap = child.parse()?;
    assert_eq!(child.metadata.name.as_ref(), Some(&name));
    patch.status().set("data", json!(child.data));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn children_are_applied_seen_and_waited_for() {
    let cluster = Cluster::start().await;
    let operator = Operator::builder().registry("children").build().unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    cluster.create("obj", json!({})).await;
    let is_made = |object: &Value| object["status"]["conditions"][0]["status"] == "True";
    let object = cluster.eventually("obj", is_made).await;
    assert_eq!(object["status"]["conditions"][0]["message"], "attempt 1");
    let is_seen = |object: &Value| object["status"]["data"] == json!({"a": "1"});
    cluster.eventually("obj", is_seen).await;
    running.stop().await.unwrap();
}
