//! Indices and memos.

use std::collections::{BTreeMap, HashMap};

use kopf::indexing::{Indexed, Plain, Store};
use kopf::prelude::*;
use kopf::{IndexOf, MemoValue};
use kopf::{Labels, PRESENT, Param, Patch};

#[kopf::index("pods")]
fn pods_by_app(labels: Labels, Name(name): Name) -> Option<(String, String)> {
    Some((labels.get("app")?.into(), name))
}

#[kopf::index("v1", "pods", id = "renamed", labels = {"app": PRESENT}, when = is_wanted, field = "spec.x", value = 1)]
pub(crate) async fn many(Name(name): Name) -> kopf::Result<Vec<((String, u32), String)>> {
    Ok(vec![((name.clone(), 1), name)])
}

#[kopf::index(kopf::EVERYTHING, errors = kopf::ErrorsMode::Temporary, timeout = 60, retries = 3, backoff = 1.5, param = 5)]
fn map(Param(param): Param<i32>) -> Result<HashMap<String, i32>, std::io::Error> {
    Ok(HashMap::from([("x".to_owned(), param)]))
}

#[kopf::index("pods")]
fn sorted() -> Indexed<BTreeMap<u8, u8>> {
    Indexed::Keep
}

#[kopf::index("services", id = "shared")]
#[kopf::index("pods", id = "shared")]
fn shared(Name(name): Name) -> String {
    name
}

pub(crate) struct Secret;

#[kopf::index("secrets")]
fn plain() -> Plain<Secret> {
    Plain(Secret)
}

/// An index of indices.
#[kopf::index("pods")]
fn of_indices(pods: Index<pods_by_app>) -> (usize, usize) {
    (pods.len(), 1)
}

#[derive(Clone, Default)]
struct Counter {
    ticks: u32,
}

fn is_wanted(pods: Index<pods_by_app>, memo: Memo<Counter>) -> bool {
    pods.contains_key("web") && memo.read().ticks < 10
}

#[kopf::on::create("kopfexamples", when = is_wanted)]
async fn tick(
    pods: Index<pods_by_app>,
    renamed: Index<many>,
    shared: Index<shared>,
    plain: Index<plain>,
    memo: Memo<Counter>,
    anything: Memo<kopf::serde_json::Map<String, Value>>,
    patch: Patch,
) -> kopf::Result<()> {
    memo.write().ticks += 1;
    anything.write().insert("x".to_owned(), json!(1));
    tokio::time::sleep(std::time::Duration::ZERO).await;
    patch.status().set("pods", pods.get("web").len());
    let stored: Store<String> = renamed.get(&("x".to_owned(), 1));
    let all = (stored.iter().count(), shared.get(&()).len(), plain.keys());
    let _ = all;
    Ok(())
}

#[kopf::on::startup]
fn remember(memo: Memo<Counter>, pods: Index<pods_by_app>) {
    memo.write().ticks = u32::try_from(pods.len()).unwrap_or(0);
}

struct ByName;

impl IndexOf for ByName {
    type Key = String;
    type Value = u32;
    const ID: &'static str = "by_name";
}

struct Connection;

impl MemoValue for Connection {
    fn initial() -> Option<Self> {
        None
    }

    fn inherit(&self) -> Self {
        Self
    }
}

pub(crate) fn main() {
    let by_name = |Name(name): Name| async move { (name, 1_u32) };
    let blocking = |Name(name): Name| (name, 2_u32);
    let create = |_: Index<ByName>, _: Memo<Connection>| async {};
    let operator = Operator::builder()
        .handler(
            kopf::index("pods", by_name)
                .id("by_name")
                .label("app", PRESENT),
        )
        .handler(kopf::index("services", blocking).id("by_name").retries(3))
        .handler(on::create("things", create).id("create"))
        .memo(Connection)
        .build();
    assert!(operator.is_ok(), "{operator:?}");
    let pods = Index::<pods_by_app>::from_iter([("web".to_owned(), "pod-1".to_owned())]);
    assert!(is_wanted(pods.clone(), Memo::default()));
    assert!(!is_wanted(pods, Memo::new(Counter { ticks: 10 })));
}
