//! Tests of faults of watches and their history, in process.

use std::time::Duration;

use kopf_sandbox::Sandbox;
use kopf_sandbox::fault::{ConnectionBroken, Fault, Verb};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::support::{Api, CONFIG_MAPS, Watch, config_map};

const LONG: Duration = Duration::from_secs(24 * 60 * 60);

fn sandbox() -> (Sandbox, Api) {
    let sandbox = Sandbox::builder().seed(1).build().unwrap();
    let api = Api::of(&sandbox);
    (sandbox, api)
}

async fn create(api: &Api, names: &[&str]) {
    for name in names {
        let made = api.create(CONFIG_MAPS, &config_map(name, "")).await;
        made.expect(201);
    }
}

/// Opens a watch whose timeout exceeds the test.
async fn watch(api: &Api) -> Watch {
    api.watch(&format!("{CONFIG_MAPS}?timeoutSeconds=864000"))
        .await
}

/// Returns the names of the next `count` events.
async fn names(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(watch.event().await.name().to_owned());
    }
    names
}

#[tokio::test(start_paused = true)]
async fn stream_continues_after_dropped_events() {
    let (sandbox, api) = sandbox();
    let mut watch = watch(&api).await;
    let dropping = Fault::drop_events().name("b").times(1);
    let id = sandbox.faults().inject(dropping);
    create(&api, &["a", "b", "c"]).await;
    assert_eq!(names(&mut watch, 2).await, ["a", "c"]);
    api.delete(&format!("{CONFIG_MAPS}/b")).await.expect(200);
    assert_eq!(watch.event().await.brief(), ("DELETED", "b"));
    assert_eq!(sandbox.faults().count(id), 1);
    assert_eq!(sandbox.faults().injected().dropped_events, 1);
}

#[tokio::test(start_paused = true)]
async fn each_stream_has_its_own_faults() {
    let (sandbox, api) = sandbox();
    let mut first = watch(&api).await;
    let mut second = watch(&api).await;
    sandbox.faults().inject(Fault::drop_events().times(1));
    create(&api, &["a", "b"]).await;
    assert_eq!(first.event().await.name(), "b");
    assert_eq!(names(&mut second, 2).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn delayed_events_delay_only_later_ones() {
    let (sandbox, api) = sandbox();
    let mut watch = watch(&api).await;
    let delay = Duration::from_secs(40);
    sandbox
        .faults()
        .inject(Fault::delay_events(delay).name("b").times(1));
    create(&api, &["a", "b", "c"]).await;
    let start = Instant::now();
    assert_eq!(watch.event().await.name(), "a");
    assert!(start.elapsed() < delay, "nothing holds up the first one");
    assert_eq!(names(&mut watch, 2).await, ["b", "c"]);
    assert!(start.elapsed() >= delay);
    assert_eq!(sandbox.faults().injected().delayed_events, 1);
}

#[tokio::test(start_paused = true)]
async fn cut_watch_breaks_after_earlier_events() {
    let (sandbox, api) = sandbox();
    let from = api.version(CONFIG_MAPS).await;
    let mut watch = watch(&api).await;
    sandbox.faults().inject(Fault::cut_watch().name("b"));
    create(&api, &["a", "b", "c"]).await;
    assert_eq!(watch.event().await.name(), "a");
    let broken = watch.line().await.unwrap_err();
    assert!(broken.is::<ConnectionBroken>(), "{broken:?}");
    assert!(watch.line().await.unwrap().is_none(), "nothing follows");
    assert_eq!(sandbox.faults().injected().cut_watches, 1);

    // A client that reconnects misses nothing.
    sandbox.faults().clear();
    let path = format!("{CONFIG_MAPS}?resourceVersion={from}");
    let mut again = api.watch(&path).await;
    assert_eq!(names(&mut again, 3).await, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn frozen_watch_is_silent_after_earlier_events() {
    let (sandbox, api) = sandbox();
    let path = format!("{CONFIG_MAPS}?allowWatchBookmarks=true&timeoutSeconds=60");
    let mut watch = api.watch(&path).await;
    sandbox.faults().inject(Fault::freeze_watch().name("b"));
    create(&api, &["a", "b", "c"]).await;
    assert_eq!(watch.event().await.name(), "a");
    // No event, no bookmark, no end, though all of them are due.
    assert!(timeout(LONG, watch.line()).await.is_err());
    assert_eq!(sandbox.faults().injected().frozen_watches, 1);
    sandbox.faults().kill_watches();
    assert!(watch.breaks().await);
}

#[tokio::test(start_paused = true)]
async fn frozen_or_delayed_watch_ends_with_its_sandbox() {
    for fault in [Fault::freeze_watch(), Fault::delay_events(Duration::MAX)] {
        let (sandbox, api) = sandbox();
        let mut watch = watch(&api).await;
        sandbox.faults().inject(fault);
        create(&api, &["a"]).await;
        assert!(timeout(LONG, watch.line()).await.is_err());
        sandbox.shutdown().await;
        assert!(!watch.breaks().await, "a sandbox ends in order");
    }
}

#[tokio::test(start_paused = true)]
async fn killed_watches_break_and_new_ones_work() {
    let (sandbox, api) = sandbox();
    let mut quiet = watch(&api).await;
    let mut behind = watch(&api).await;
    create(&api, &["a"]).await;
    assert_eq!(quiet.event().await.name(), "a");
    sandbox.faults().kill_watches();
    assert!(quiet.breaks().await);
    assert!(behind.breaks().await, "unread events are lost");
    let mut new = watch(&api).await;
    assert_eq!(new.event().await.name(), "a");
    create(&api, &["b"]).await;
    assert_eq!(new.event().await.name(), "b");
}

#[tokio::test]
async fn compaction_drops_old_versions() {
    let (sandbox, api) = sandbox();
    let old = api.version(CONFIG_MAPS).await;
    create(&api, &["a", "b", "c"]).await;
    let page = api.get(&format!("{CONFIG_MAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    create(&api, &["d"]).await;
    sandbox.compact();

    let path = format!("{CONFIG_MAPS}?resourceVersion={old}");
    let mut watch = api.watch(&path).await;
    let error = watch.event().await;
    assert_eq!(error.kind, "ERROR");
    assert_eq!(error.object["kind"], "Status");
    assert_eq!(error.object["code"], 410);
    assert_eq!(error.object["reason"], "Expired");
    assert!(watch.rest().await.is_empty(), "the error is the last event");

    let rest = format!("{CONFIG_MAPS}?limit=1&continue={token}");
    let expired = api.get(&rest).await.expect(410).json();
    assert_eq!(expired["reason"], "Expired");
    let exact = format!("{CONFIG_MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    api.get(&exact).await.expect(410);

    // The response contains a token for the same position in the current list.
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{CONFIG_MAPS}?continue={token}")).await;
    let rest = rest.expect(200).json();
    let items = rest["items"].as_array().unwrap().iter();
    let names: Vec<_> = items.map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["b", "c", "d"]);
    assert_eq!(sandbox.faults().injected().compactions, 1);
}

#[tokio::test]
async fn compaction_keeps_the_current_version() {
    let (sandbox, api) = sandbox();
    let mut open = watch(&api).await;
    create(&api, &["a"]).await;
    assert_eq!(open.event().await.name(), "a");
    let now = api.version(CONFIG_MAPS).await;
    sandbox.compact();
    let path = format!("{CONFIG_MAPS}?resourceVersion={now}");
    let mut later = api.watch(&path).await;
    create(&api, &["b"]).await;
    assert_eq!(later.event().await.name(), "b");
    assert_eq!(open.event().await.name(), "b");
}

#[tokio::test]
async fn unread_watch_fails_after_a_compaction() {
    let (sandbox, api) = sandbox();
    let mut watch = watch(&api).await;
    create(&api, &["a"]).await;
    sandbox.compact();
    let error = watch.event().await;
    assert_eq!(
        (&*error.kind, &error.object["code"]),
        ("ERROR", &json!(410))
    );
}

#[tokio::test]
async fn fault_compacts_before_a_request() {
    let (sandbox, api) = sandbox();
    let old = api.version(CONFIG_MAPS).await;
    create(&api, &["a"]).await;
    let rule = Fault::compact().verb(Verb::Watch).kind("configmaps");
    sandbox.faults().inject(rule.times(1));
    let path = format!("{CONFIG_MAPS}?resourceVersion={old}");
    let mut watch = api.watch(&path).await;
    assert_eq!(watch.event().await.object["code"], 410);
    assert_eq!(sandbox.faults().injected().compactions, 1);
}
