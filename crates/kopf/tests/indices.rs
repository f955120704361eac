//! Indices and memos of the Rust API on an in-process sandbox.

#![expect(clippy::unwrap_used, clippy::panic, reason = "failures fail the test")]

use std::time::Duration;

use kopf::indexing::Indexed;
use kopf::k8s_openapi::api::core::v1::ConfigMap;
use kopf::kube::api::{Api, DeleteParams, Patch as ApiPatch, PatchParams, PostParams};
use kopf::prelude::*;
use kopf::{Body, Patch};
use kopf::{IndexOf, Lister, Namespace};
use kopf_sandbox::Sandbox;

/// A cluster of config maps, which need no CRD.
struct Cluster {
    client: kopf_client::Client,
    maps: Api<ConfigMap>,
    _sandbox: Sandbox,
}

impl Cluster {
    fn start() -> Self {
        let sandbox = Sandbox::builder().build().unwrap();
        let client = kopf_client::Client::from_service(sandbox.service(), "default");
        Self {
            maps: Api::namespaced(client.kube(), "default"),
            client,
            _sandbox: sandbox,
        }
    }

    async fn create(&self, name: &str, data: Value) {
        let map = json!({"metadata": {"name": name, "labels": {"app": "x"}}, "data": data});
        let map = kopf::serde_json::from_value(map).unwrap();
        self.maps
            .create(&PostParams::default(), &map)
            .await
            .unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.maps
            .patch(name, &params, &ApiPatch::Merge(patch))
            .await
            .unwrap();
    }

    /// Waits for the annotation that handlers write, because config maps have no status. Returns
    /// it.
    async fn noted(&self, name: &str, condition: impl Fn(&str) -> bool) -> String {
        let mut seen = String::new();
        for _ in 0..1_000 {
            let map = self.maps.get(name).await.unwrap();
            let annotations = map.metadata.annotations.unwrap_or_default();
            seen = annotations.get("noted").cloned().unwrap_or_default();
            if condition(&seen) {
                return seen;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("the condition does not hold: {seen:?}");
    }
}

#[kopf::index("configmaps", registry = "macros")]
fn by_color(body: Body, Name(name): Name) -> Option<(String, String)> {
    Some((body.value()["data"]["color"].as_str()?.to_owned(), name))
}

#[kopf::index("configmaps", registry = "macros", when = has_color)]
async fn sizes(body: Body) -> kopf::Result<Indexed<(String, usize)>> {
    let size = match body.value()["data"]["size"].as_str() {
        None => return Ok(Indexed::Keep),
        Some(size) => size.parse()?,
    };
    Ok(Indexed::Entries(("all".to_owned(), size)))
}

fn has_color(body: &Body) -> bool {
    body.value()["data"]["color"].is_string()
}

#[derive(Clone, Default)]
struct Visits {
    count: u32,
    last: Option<String>,
}

#[kopf::on::event("configmaps", registry = "macros", labels = {"asks": PRESENT}, when = is_another)]
fn ask(
    body: Body,
    colors: Index<by_color>,
    sizes: Index<sizes>,
    visits: Memo<Visits>,
    patch: Patch,
) {
    let mut reds: Vec<_> = colors.get("red").iter().cloned().collect();
    reds.sort();
    let total: usize = sizes.get("all").iter().sum();
    let mut visits = visits.write();
    visits.count += 1;
    visits.last = again(&body);
    let noted = format!("{reds:?} {total} {}", visits.count);
    patch.meta().annotation("noted", noted);
}

/// Returns the value whose changes trigger the handler, unlike its own writes.
fn again(body: &Body) -> Option<String> {
    body.value()["data"]["again"].as_str().map(str::to_owned)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "filters take arguments by value"
)]
fn is_another(body: Body, visits: Memo<Visits>) -> bool {
    visits.read().last != again(&body)
}

#[tokio::test(start_paused = true)]
async fn handlers_look_up_indexed_values() {
    let cluster = Cluster::start();
    cluster
        .create("one", json!({"color": "red", "size": "1"}))
        .await;
    cluster
        .create("two", json!({"color": "red", "size": "2"}))
        .await;
    cluster.create("none", json!({"size": "100"})).await;
    cluster.create("asking", json!({"again": "0"})).await;
    cluster
        .patch("asking", json!({"metadata": {"labels": {"asks": "yes"}}}))
        .await;
    let operator = Operator::builder()
        .registry("macros")
        .memo(Visits {
            count: 10,
            last: None,
        })
        .build()
        .unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    let noted = cluster.noted("asking", |noted| !noted.is_empty()).await;
    assert_eq!(noted, "[\"one\", \"two\"] 3 11");

    cluster
        .patch("one", json!({"data": {"color": "blue", "size": null}}))
        .await;
    cluster
        .patch("two", json!({"data": {"size": "nonsense"}}))
        .await;
    // Objects are indexed independently of each other.
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster
        .patch("asking", json!({"data": {"again": "1"}}))
        .await;
    cluster
        .noted("asking", |noted| noted == "[\"two\"] 3 12")
        .await;
    cluster
        .maps
        .delete("two", &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster
        .patch("asking", json!({"data": {"again": "2"}}))
        .await;
    cluster.noted("asking", |noted| noted == "[] 1 13").await;
    running.stop().await.unwrap();
}

#[kopf::on::event(ConfigMap, registry = "listers", labels = {"asks": PRESENT}, when = is_unlike_noted)]
fn list(
    body: Body,
    Namespace(namespace): Namespace,
    maps: Lister<ConfigMap>,
    by_color: Index<places_by_color>,
    patch: Patch,
) {
    patch
        .meta()
        .annotation("noted", summary(&body, &namespace, &maps, &by_color));
}

#[kopf::index("configmaps", registry = "listers")]
fn places_by_color(
    body: Body,
    Namespace(namespace): Namespace,
    Name(name): Name,
) -> Option<(String, (String, String))> {
    let color = body.value()["data"]["color"].as_str()?;
    Some((color.to_owned(), (namespace, name)))
}

fn is_unlike_noted(body: &Body) -> bool {
    let noted = body.value()["metadata"]["annotations"]["noted"].as_str();
    let again = again(body).unwrap_or_default();
    !noted.is_some_and(|noted| noted.starts_with(&again))
}

/// Returns what the lister knows, by each of its methods.
fn summary(
    body: &Body,
    namespace: &str,
    maps: &Lister<ConfigMap>,
    by_color: &Index<places_by_color>,
) -> String {
    let names = |maps: Vec<std::sync::Arc<ConfigMap>>| {
        let names = maps.iter().filter_map(|map| map.metadata.name.clone());
        let mut names: Vec<_> = names.collect();
        // Indices have the order in which objects were indexed.
        names.sort();
        names.join("+")
    };
    let one = maps.get(namespace, "one");
    let color = one.and_then(|one| one.data.as_ref()?.get("color").cloned());
    format!(
        "{} {} {} {} {} {}",
        again(body).unwrap_or_default(),
        color.unwrap_or_default(),
        names(maps.in_namespace(namespace)),
        names(maps.labelled([("app", "x")])),
        names(maps.by_index(by_color, "red")),
        maps.in_namespace("other").len() + usize::from(maps.get(None, "one").is_some()),
    )
}

#[tokio::test(start_paused = true)]
async fn handlers_list_the_objects_of_watched_kinds() {
    let cluster = Cluster::start();
    cluster.create("one", json!({"color": "red"})).await;
    cluster.create("two", json!({"color": "red"})).await;
    cluster.create("asking", json!({"again": "0"})).await;
    let labels = json!({"metadata": {"labels": {"asks": "yes", "app": "y"}}});
    cluster.patch("asking", labels).await;
    let operator = Operator::builder().registry("listers").build().unwrap();
    let running = operator.start(cluster.client.clone()).await.unwrap();
    let expected = "0 red asking+one+two one+two one+two 0";
    cluster.noted("asking", |noted| noted == expected).await;

    let blue = json!({"data": {"color": "blue"}});
    cluster.patch("one", blue).await;
    let params = DeleteParams::default();
    cluster.maps.delete("two", &params).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster
        .patch("asking", json!({"data": {"again": "1"}}))
        .await;
    let expected = "1 blue asking+one one  0";
    cluster.noted("asking", |noted| noted == expected).await;
    running.stop().await.unwrap();
}

struct Kinds;

impl IndexOf for Kinds {
    type Key = ();
    type Value = String;
    const ID: &'static str = "kinds";
}

#[test]
fn missing_and_conflicting_indices_are_rejected() {
    let ask = |_: Index<Kinds>| async {};
    let error = |builder: kopf::OperatorBuilder| builder.build().unwrap_err().to_string();
    let asking = || Operator::builder().handler(on::create("things", ask).id("ask"));
    assert_eq!(
        error(asking()),
        "invalid handler \"ask\": argument number 1: there is no index 'kinds': declare it by \
         #[kopf::index(…)] or Operator::builder().handler(kopf::index(…)); there are no indices"
    );
    let other = |Name(name): Name| (name, 1);
    let message = error(asking().handler(kopf::index("things", other).id("kinds")));
    assert!(
        message.contains("the index 'kinds' has entries of the type"),
        "{message}"
    );
    let builder = Operator::builder()
        .handler(kopf::index("things", other).id("kinds"))
        .handler(kopf::index("others", |Name(name): Name| name).id("kinds"));
    let message = error(builder);
    assert!(
        message.contains("give one of the functions another id"),
        "{message}"
    );
    let kinds = |Name(name): Name| name;
    let operator = asking().handler(kopf::index("things", kinds).id("kinds"));
    assert!(operator.build().is_ok());
}
