//! Views of lagging servers: each answer as by a real server behind a lagging watch cache.

use std::time::Duration;

use http::{Method, Request};
use kopf_sandbox::fault::{Fault, Verb};
use kopf_sandbox::view::ViewError;
use kopf_sandbox::{Listen, Sandbox};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::tls::Kubeconfig;
use crate::support::{
    Api, ApiResponse, CONFIG_MAPS, DEFINITIONS, MERGE, Watch, config_map, definition, get, in_time,
    request, with_json,
};

const SECONDS: Duration = Duration::from_secs(1);
const INITIAL: &str =
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// A sandbox with the user `operator`, whose server lags.
struct Lagging {
    sandbox: Sandbox,
    api: Api,
}

impl Lagging {
    fn new() -> Self {
        let sandbox = Sandbox::builder().seed(7).build().unwrap();
        let api = Api::of(&sandbox);
        Self { sandbox, api }
    }

    fn view(&self) -> kopf_sandbox::view::View {
        self.sandbox.views().of_user("operator")
    }

    async fn create(&self, name: &str) -> u64 {
        let made = self.api.create(CONFIG_MAPS, &config_map(name, "1")).await;
        made.expect(201).version().parse().unwrap()
    }

    async fn change(&self, name: &str, value: &str) -> u64 {
        let patch = json!({ "data": { "value": value } });
        let path = format!("{CONFIG_MAPS}/{name}");
        let changed = self.api.merge(&path, &patch).await.expect(200);
        changed.version().parse().unwrap()
    }

    async fn delete(&self, name: &str) {
        let path = format!("{CONFIG_MAPS}/{name}");
        self.api.delete(&path).await.expect(200);
    }

    async fn send(&self, request: Request<http_body_util::Full<bytes::Bytes>>) -> ApiResponse {
        self.api.send(by_operator(request)).await
    }

    /// Reads as the operator.
    async fn read(&self, query: &str) -> ApiResponse {
        self.send(get(&format!("{CONFIG_MAPS}{query}"))).await
    }

    async fn watch(&self, query: &str) -> Watch {
        let path = format!("{CONFIG_MAPS}?watch=true&{query}");
        let response = self.api.open(by_operator(get(&path))).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        Watch {
            body: response.into_body(),
            unread: Vec::new(),
        }
    }
}

fn by_operator(
    mut request: Request<http_body_util::Full<bytes::Bytes>>,
) -> Request<http_body_util::Full<bytes::Bytes>> {
    let name = "operator".parse().unwrap();
    request.headers_mut().insert("impersonate-user", name);
    request
}

/// Returns names and values of a list.
fn content(list: &Value) -> Vec<(&str, &str)> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let name = item["metadata"]["name"].as_str().unwrap();
            (name, item["data"]["value"].as_str().unwrap())
        })
        .collect()
}

#[track_caller]
fn assert_too_large(status: &Value, wanted: u64, current: u64) {
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("Timeout: Too large resource version: {wanted}, current: {current}"),
        "reason": "Timeout", "code": 504,
        "details": {
            "retryAfterSeconds": 1,
            "causes": [{
                "reason": "ResourceVersionTooLarge", "message": "Too large resource version",
            }],
        },
    });
    assert_eq!(*status, expected);
}

async fn silent(watch: &mut Watch) {
    let line = timeout(20 * SECONDS, watch.line()).await;
    assert!(line.is_err(), "{line:?}");
}

#[tokio::test(start_paused = true)]
async fn gets_and_lists_are_answered_from_the_frozen_cache() {
    let lagging = Lagging::new();
    lagging.create("changed").await;
    lagging.create("deleted").await;
    let view = lagging.view();
    let frozen = view.freeze();
    assert_eq!(view.revision(), frozen);
    lagging.change("changed", "2").await;
    lagging.delete("deleted").await;
    let now = lagging.create("new").await;

    // Consistent reads see the present.
    let list = lagging.read("").await.expect(200);
    assert_eq!(list.version(), now.to_string());
    assert_eq!(content(&list.json()), [("changed", "2"), ("new", "1")]);
    let paged = lagging.read("?limit=1").await.expect(200).json();
    assert_eq!(content(&paged), [("changed", "2")]);
    lagging.read("/new").await.expect(200);
    lagging.read("/deleted").await.expect(404);

    // Others are read from the cache.
    let old = [("changed", "1"), ("deleted", "1")];
    for query in [
        "?resourceVersion=0".to_owned(),
        "?resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(),
        format!("?resourceVersion={frozen}"),
        format!(
            "?resourceVersion={}&resourceVersionMatch=NotOlderThan",
            frozen - 1
        ),
        format!("?resourceVersion={frozen}&resourceVersionMatch=Exact"),
        format!("?resourceVersion={frozen}&limit=5"),
    ] {
        let list = lagging.read(&query).await.expect(200);
        assert_eq!(list.version(), frozen.to_string(), "{query}");
        assert_eq!(content(&list.json()), old, "{query}");
    }
    let exact = format!("?resourceVersion={}&resourceVersionMatch=Exact", frozen - 1);
    let exact = lagging.read(&exact).await.expect(200);
    assert_eq!(content(&exact.json()), [("changed", "1")]);
    for version in [0, frozen] {
        let query = format!("?resourceVersion={version}");
        lagging.read(&format!("/new{query}")).await.expect(404);
        let deleted = lagging.read(&format!("/deleted{query}")).await;
        assert_eq!(deleted.expect(200).json()["data"]["value"], "1");
        let changed = lagging.read(&format!("/changed{query}")).await;
        assert_eq!(changed.expect(200).json()["data"]["value"], "1");
    }
    // Selectors and other forms apply to the cache as well.
    let selected = lagging.read("?resourceVersion=0&fieldSelector=metadata.name%3Ddeleted");
    assert_eq!(content(&selected.await.json()), [("deleted", "1")]);
    // Other users are not affected.
    let path = format!("{CONFIG_MAPS}?resourceVersion=0");
    let list = lagging.api.get(&path).await.expect(200);
    assert_eq!(list.version(), now.to_string());

    view.catch_up();
    let list = lagging.read("?resourceVersion=0").await.expect(200);
    assert_eq!(content(&list.json()), [("changed", "2"), ("new", "1")]);
}

#[tokio::test(start_paused = true)]
async fn versions_after_the_cache_are_too_large() {
    let lagging = Lagging::new();
    lagging.create("a").await;
    let frozen = lagging.view().freeze();
    let now = lagging.create("b").await;
    for query in [
        format!("?resourceVersion={now}"),
        format!("?resourceVersion={now}&resourceVersionMatch=NotOlderThan"),
        format!("?resourceVersion={now}&resourceVersionMatch=Exact"),
        format!("?resourceVersion={now}&limit=1"),
        format!("/b?resourceVersion={now}"),
    ] {
        let start = Instant::now();
        let error = lagging.read(&query).await.expect(504);
        assert_eq!(start.elapsed().as_secs(), 3, "{query}");
        assert_eq!(error.headers["retry-after"], "1");
        assert_too_large(&error.json(), now, frozen);
    }
    // A future version is never reached.
    let future = now + 1000;
    let error = lagging.read(&format!("?resourceVersion={future}")).await;
    assert_too_large(&error.expect(504).json(), future, frozen);
    lagging.view().catch_up();
    let error = lagging.read(&format!("?resourceVersion={future}")).await;
    assert_too_large(&error.expect(504).json(), future, now);
    lagging.read("?resourceVersion=x").await.expect(400);
}

#[tokio::test(start_paused = true)]
async fn waiting_reads_succeed_when_the_cache_moves() {
    let lagging = Lagging::new();
    let view = lagging.view();
    view.freeze();
    let first = lagging.create("a").await;
    let second = lagging.create("b").await;
    let query = format!("?resourceVersion={first}");
    let move_it = async {
        tokio::time::sleep(2 * SECONDS).await;
        view.advance_to(first).unwrap();
    };
    let (list, ()) = tokio::join!(lagging.read(&query), move_it);
    let list = list.expect(200);
    assert_eq!(list.version(), first.to_string());
    assert_eq!(content(&list.json()), [("a", "1")]);
    let query = format!("/b?resourceVersion={second}");
    let (found, ()) = tokio::join!(lagging.read(&query), async { view.catch_up() });
    found.expect(200);
}

#[tokio::test(start_paused = true)]
async fn pages_keep_their_version() {
    let lagging = Lagging::new();
    for name in ["a", "b", "c"] {
        lagging.create(name).await;
    }
    let view = lagging.view();
    let frozen = view.freeze();
    lagging.delete("b").await;
    let query = format!("?resourceVersion={frozen}&resourceVersionMatch=Exact&limit=1");
    let page = lagging.read(&query).await.expect(200).json();
    assert_eq!(content(&page), [("a", "1")]);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = lagging
        .read(&format!("?continue={token}"))
        .await
        .expect(200);
    assert_eq!(content(&rest.json()), [("b", "1"), ("c", "1")]);

    // A consistent list has a version that the cache has not reached.
    let page = lagging.read("?limit=1").await.expect(200).json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let now: u64 = page["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let rest = lagging
        .read(&format!("?continue={token}"))
        .await
        .expect(504);
    assert_too_large(&rest.json(), now, frozen);
    view.catch_up();
    let rest = lagging
        .read(&format!("?continue={token}"))
        .await
        .expect(200);
    assert_eq!(content(&rest.json()), [("c", "1")]);
}

#[tokio::test(start_paused = true)]
async fn watch_is_silent_after_the_last_event_in_the_cache() {
    let lagging = Lagging::new();
    let before = lagging.create("a").await;
    lagging.create("b").await;
    let view = lagging.view();
    view.freeze();
    let third = lagging.create("c").await;
    lagging.change("a", "2").await;
    let mut watch = lagging.watch(&format!("resourceVersion={before}")).await;
    assert_eq!(watch.event().await.brief(), ("ADDED", "b"));
    silent(&mut watch).await;
    view.advance_to(third).unwrap();
    assert_eq!(watch.event().await.brief(), ("ADDED", "c"));
    silent(&mut watch).await;
    view.catch_up();
    assert_eq!(watch.event().await.brief(), ("MODIFIED", "a"));
    lagging.delete("a").await;
    assert_eq!(watch.event().await.brief(), ("DELETED", "a"));
}

#[tokio::test(start_paused = true)]
async fn open_watches_follow_the_view() {
    let lagging = Lagging::new();
    let mut watch = lagging.watch("").await;
    lagging.create("a").await;
    assert_eq!(watch.event().await.name(), "a");
    let view = lagging.view();
    view.freeze();
    lagging.create("b").await;
    silent(&mut watch).await;
    // An older server has nothing new for it.
    view.freeze_at(view.revision() - 1).unwrap();
    silent(&mut watch).await;
    view.catch_up();
    assert_eq!(watch.event().await.name(), "b");
}

#[tokio::test(start_paused = true)]
async fn watch_from_after_the_cache_begins_where_it_was_asked() {
    let lagging = Lagging::new();
    let view = lagging.view();
    view.freeze();
    lagging.create("a").await;
    let from = lagging.create("b").await;
    lagging.create("c").await;
    let query = format!("resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=600");
    let mut watch = lagging.watch(&query).await;
    // No error, no events, and no bookmark of a version that the cache does not have.
    assert!(timeout(200 * SECONDS, watch.line()).await.is_err());
    view.catch_up();
    assert_eq!(watch.event().await.brief(), ("ADDED", "c"));
}

#[tokio::test(start_paused = true)]
async fn watch_without_a_version_begins_with_the_cache() {
    let lagging = Lagging::new();
    lagging.create("a").await;
    let view = lagging.view();
    let frozen = view.freeze();
    lagging.change("a", "2").await;
    lagging.create("b").await;
    for query in ["", "resourceVersion=0"] {
        let mut watch = lagging.watch(query).await;
        let event = watch.event().await;
        assert_eq!(event.brief(), ("ADDED", "a"));
        assert_eq!(event.object["data"]["value"], "1");
        assert!(event.version() <= frozen);
        silent(&mut watch).await;
    }
    let none = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut cached = lagging.watch(&format!("{none}&resourceVersion=0")).await;
    let mut recent = lagging.watch(none).await;
    silent(&mut cached).await;
    view.catch_up();
    assert_eq!(cached.event().await.brief(), ("MODIFIED", "a"));
    assert_eq!(cached.event().await.brief(), ("ADDED", "b"));
    silent(&mut recent).await;
}

#[tokio::test(start_paused = true)]
async fn streaming_list_needs_the_version_it_asks_for() {
    let lagging = Lagging::new();
    lagging.create("a").await;
    let view = lagging.view();
    let frozen = view.freeze();
    let now = lagging.create("b").await;
    for query in [
        format!("{INITIAL}&resourceVersion=0"),
        format!("{INITIAL}&resourceVersion={frozen}"),
    ] {
        let mut watch = lagging.watch(&query).await;
        assert_eq!(watch.event().await.brief(), ("ADDED", "a"));
        let end = watch.event().await;
        assert_eq!((&*end.kind, end.version()), ("BOOKMARK", frozen));
        let annotations = &end.object["metadata"]["annotations"];
        assert_eq!(annotations["k8s.io/initial-events-end"], "true");
        silent(&mut watch).await;
    }
    for query in [
        INITIAL.to_owned(),
        format!("{INITIAL}&resourceVersion={now}"),
    ] {
        let start = Instant::now();
        let mut watch = lagging.watch(&query).await;
        let error = watch.event().await;
        assert_eq!(start.elapsed().as_secs(), 3);
        assert_eq!(error.kind, "ERROR");
        assert_too_large(&error.object, now, frozen);
        assert!(watch.rest().await.is_empty());
    }
    let catch_up = async {
        tokio::time::sleep(SECONDS).await;
        view.catch_up();
    };
    let (mut watch, ()) = tokio::join!(lagging.watch(INITIAL), catch_up);
    for expected in [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")] {
        assert_eq!(watch.event().await.brief(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_and_timeouts_are_those_of_the_cache() {
    let lagging = Lagging::new();
    let from = lagging.create("a").await;
    let frozen = lagging.view().freeze();
    lagging.create("b").await;
    let query = format!("resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=90");
    let mut watch = lagging.watch(&query).await;
    let mut versions = Vec::new();
    while let Some(line) = watch.line().await.unwrap() {
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["type"], "BOOKMARK", "{event}");
        versions.push(event["object"]["metadata"]["resourceVersion"].clone());
    }
    let frozen = json!(frozen.to_string());
    assert_eq!(
        versions,
        [frozen.clone(), frozen],
        "one per minute, and the last"
    );
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_removed_kind_ends_behind_a_lagging_server() {
    let lagging = Lagging::new();
    let crd = definition("toys", "Toy");
    lagging.api.create(DEFINITIONS, &crd).await.expect(201);
    let toys = "/apis/test.dev/v1/namespaces/default/toys";
    let watch = by_operator(get(&format!("{toys}?watch=true")));
    let response = lagging.api.open(watch).await.unwrap();
    let mut watch = Watch {
        body: response.into_body(),
        unread: Vec::new(),
    };
    lagging.view().freeze();
    let toy = json!({
        "apiVersion": "test.dev/v1", "kind": "Toy", "metadata": { "name": "ball" },
    });
    lagging.api.create(toys, &toy).await.expect(201);
    silent(&mut watch).await;
    let path = format!("{DEFINITIONS}/toys.test.dev");
    lagging.api.delete(&path).await.expect(200);
    lagging.api.gone(&path).await;
    let rest = watch.rest().await;
    let rest: Vec<_> = rest.iter().map(crate::support::Event::brief).collect();
    assert_eq!(rest, [("ADDED", "ball"), ("DELETED", "ball")]);
}

#[tokio::test(start_paused = true)]
async fn writes_reach_the_present() {
    let lagging = Lagging::new();
    lagging.create("a").await;
    lagging.view().freeze();
    let stale = lagging.read("/a?resourceVersion=0").await.json();
    lagging.change("a", "2").await;
    lagging.create("b").await;
    // Conflicts are those of the present.
    let path = format!("{CONFIG_MAPS}/a");
    let update = with_json(Method::PUT, &path, &stale);
    lagging.send(update).await.expect(409);
    let create = with_json(Method::POST, CONFIG_MAPS, &config_map("b", ""));
    lagging.send(create).await.expect(409);
    let patch = json!({ "data": { "other": "3" } }).to_string();
    let patch = request(Method::PATCH, &path, Some(MERGE), patch);
    let patched = lagging.send(patch).await.expect(200).json();
    assert_eq!(patched["data"], json!({ "value": "2", "other": "3" }));
    let uid = json!({ "preconditions": { "uid": stale["metadata"]["uid"] } });
    let delete = with_json(Method::DELETE, &path, &uid);
    lagging.send(delete).await.expect(200);
    lagging.read("/a").await.expect(404);
    lagging.read("/a?resourceVersion=0").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn delayed_cache_follows() {
    let lagging = Lagging::new();
    lagging.create("a").await;
    let view = lagging.view();
    view.delay(30 * SECONDS);
    let mut watch = lagging.watch("").await;
    assert_eq!(watch.event().await.name(), "a", "it is not set back");
    let start = Instant::now();
    lagging.create("b").await;
    tokio::time::sleep(10 * SECONDS).await;
    let last = lagging.create("c").await;
    let list = lagging.read("?resourceVersion=0").await.json();
    assert_eq!(content(&list), [("a", "1")]);
    assert_eq!(watch.event().await.name(), "b");
    assert_eq!(start.elapsed().as_secs(), 30);
    let list = lagging.read("?resourceVersion=0").await.json();
    assert_eq!(content(&list), [("a", "1"), ("b", "1")]);
    let query = format!("?resourceVersion={last}");
    lagging.read(&query).await.expect(504);
    tokio::time::sleep(5 * SECONDS).await;
    // In two seconds, it has reached the version.
    lagging.read(&query).await.expect(200);
    assert_eq!(watch.event().await.name(), "c");
    assert_eq!(start.elapsed().as_secs(), 40);
    assert_eq!(view.revision(), last);
    lagging.create("d").await;
    view.freeze();
    silent(&mut watch).await;
    view.delay(60 * SECONDS);
    silent(&mut watch).await;
    assert_eq!(watch.event().await.name(), "d");
    view.delay(Duration::MAX);
    lagging.create("e").await;
    silent(&mut watch).await;
    view.delay(Duration::ZERO);
    assert_eq!(watch.event().await.name(), "e");
}

#[tokio::test(start_paused = true)]
async fn endpoints_have_views_of_their_own() {
    let lagging = Lagging::new();
    let views = lagging.sandbox.views();
    lagging.create("a").await;
    let by_endpoint = views.of_endpoint("second");
    let at_endpoint = by_endpoint.freeze();
    lagging.create("b").await;
    let by_user = views.of_user("operator");
    by_user.freeze();
    lagging.create("c").await;
    let count = async |endpoint: &str, user: bool| {
        let list = get(&format!("{CONFIG_MAPS}?resourceVersion=0"));
        let list = if user { by_operator(list) } else { list };
        let service = lagging.sandbox.service().endpoint(endpoint);
        let response = tower::ServiceExt::oneshot(service, list).await.unwrap();
        let body = http_body_util::BodyExt::collect(response.into_body()).await;
        let list: Value = serde_json::from_slice(&body.unwrap().to_bytes()).unwrap();
        content(&list).len()
    };
    assert_eq!(count("first", false).await, 3);
    assert_eq!(count("first", true).await, 2);
    assert_eq!(count("second", false).await, 1);
    assert_eq!(count("second", true).await, 1, "the older one counts");
    by_endpoint.catch_up();
    assert_eq!(count("second", true).await, 2);
    assert_eq!(count("second", false).await, 3);
    assert!(format!("{views:?}").contains("operator"));
    assert!(by_user.revision() > at_endpoint);
}

#[tokio::test]
async fn endpoint_over_tls_lags() {
    let sandbox = Sandbox::builder().build().unwrap();
    let mut listen = Listen::default();
    listen.endpoint = "second".to_owned();
    let first = sandbox.listen(Listen::default()).await.unwrap();
    let second = sandbox.listen(listen).await.unwrap();
    let mut fresh = Kubeconfig::read(&first.kubeconfig())
        .connect()
        .await
        .unwrap();
    let mut stale = Kubeconfig::read(&second.kubeconfig())
        .connect()
        .await
        .unwrap();
    let mut watching = Kubeconfig::read(&second.kubeconfig())
        .connect()
        .await
        .unwrap();
    let view = sandbox.views().of_endpoint("second");
    view.freeze();
    let mut watch = watching.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    let made = fresh.create(CONFIG_MAPS, &config_map("a", "1")).await;
    made.unwrap().expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let cached = format!("{path}?resourceVersion=0");
    stale.get(&cached).await.unwrap().expect(404);
    stale.get(&path).await.unwrap().expect(200);
    fresh.get(&cached).await.unwrap().expect(200);
    view.catch_up();
    assert_eq!(watch.event().await.name(), "a");
    stale.get(&cached).await.unwrap().expect(200);
    in_time("the end", second.shutdown()).await;
}

#[tokio::test(start_paused = true)]
async fn view_moves_only_within_the_history() {
    let lagging = Lagging::new();
    let first = lagging.create("a").await;
    let last = lagging.create("b").await;
    let view = lagging.view();
    let future = ViewError::Future {
        wanted: last + 1,
        present: last,
    };
    assert_eq!(view.freeze_at(last + 1), Err(future));
    assert_eq!(view.advance_to(last + 1), Err(future));
    assert_eq!(
        future.to_string(),
        format!("invalid revision {}: the present is {last}", last + 1)
    );
    view.freeze_at(first).unwrap();
    view.advance_to(last).unwrap();
    assert_eq!(
        view.advance_to(first),
        Err(ViewError::Backwards {
            wanted: first,
            position: last,
        })
    );
    lagging.sandbox.compact();
    assert_eq!(
        view.freeze_at(first),
        Err(ViewError::Expired {
            wanted: first,
            oldest: last,
        })
    );
    view.freeze_at(last).unwrap();
}

#[tokio::test(start_paused = true)]
async fn cache_is_not_older_than_its_history() {
    let sandbox = Sandbox::builder().history(3).build().unwrap();
    let api = Api::of(&sandbox);
    let lagging = Lagging { sandbox, api };
    let frozen = lagging.view().freeze();
    let mut watch = lagging.watch("").await;
    for name in ["a", "b", "c", "d", "e"] {
        lagging.create(name).await;
    }
    // Three changes are kept, so the cache has the others.
    let list = lagging.read("?resourceVersion=0").await.expect(200);
    assert_eq!(content(&list.json()), [("a", "1"), ("b", "1")]);
    lagging.read("/b?resourceVersion=0").await.expect(200);
    lagging.read("/c?resourceVersion=0").await.expect(404);
    assert_eq!(watch.event().await.object["code"], 410, "it missed changes");
    let mut watch = lagging.watch(&format!("resourceVersion={frozen}")).await;
    assert_eq!(watch.event().await.object["code"], 410);
    lagging.sandbox.compact();
    let list = lagging.read("?resourceVersion=0").await.expect(200);
    assert_eq!(content(&list.json()).len(), 5);

    // A kind that is newer than the cache has a cache of its own.
    let made = lagging
        .api
        .create(DEFINITIONS, &definition("toys", "Toy"))
        .await;
    made.expect(201);
    let toys = "/apis/test.dev/v1/namespaces/default/toys";
    let list = lagging
        .send(get(&format!("{toys}?resourceVersion=0")))
        .await;
    list.expect(200);
}

#[tokio::test(start_paused = true)]
async fn fault_lets_a_server_lag() {
    let lagging = Lagging::new();
    lagging.create("a").await;
    let faults = lagging.sandbox.faults();
    let rule = Fault::lag(30 * SECONDS).user("operator").kind("configmaps");
    let id = faults.inject(rule.lasting(100 * SECONDS));
    let start = Instant::now();
    lagging.create("b").await;
    let list = lagging.read("?resourceVersion=0").await.expect(200);
    assert_eq!(content(&list.json()), [("a", "1")]);
    let list = lagging.read("").await.expect(200);
    assert_eq!(content(&list.json()).len(), 2);
    let mut watch = lagging.watch("").await;
    assert_eq!(watch.event().await.name(), "a");
    assert_eq!(watch.event().await.name(), "b");
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(faults.count(id), 3);
    assert_eq!(faults.injected().lagging_reads, 3);
    tokio::time::sleep(50 * SECONDS).await;
    lagging.create("c").await;
    assert_eq!(watch.event().await.name(), "c");
    assert_eq!(start.elapsed().as_secs(), 100, "the rule ends");

    let id = faults.inject(Fault::lag(Duration::MAX).verb(Verb::Watch));
    let mut watch = lagging.watch("").await;
    for expected in ["a", "b", "c"] {
        assert_eq!(watch.event().await.name(), expected);
    }
    lagging.create("d").await;
    silent(&mut watch).await;
    lagging.read("/d?resourceVersion=0").await.expect(200);
    assert!(faults.remove(id));
    assert_eq!(watch.event().await.name(), "d");

    // A rule that begins later.
    let rule = Fault::lag(Duration::MAX).starting_after(10 * SECONDS);
    faults.inject(rule);
    lagging.create("e").await;
    tokio::time::sleep(11 * SECONDS).await;
    lagging.create("f").await;
    lagging.read("/e?resourceVersion=0").await.expect(200);
    lagging.read("/f?resourceVersion=0").await.expect(404);
    faults.clear();
    lagging.read("/f?resourceVersion=0").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn rules_of_lagging_servers_are_documents() {
    let lagging = Lagging::new();
    let faults = "/kopf-sandbox/faults";
    let rule = "{fault: lag, delay: 30s, user: operator}";
    let add = request(Method::POST, faults, Some("application/yaml"), rule);
    lagging.api.send(add).await.expect(201);
    lagging.create("a").await;
    lagging.read("/a?resourceVersion=0").await.expect(404);
    let listed = lagging.api.get(faults).await.expect(200).json();
    let rule = json!({ "fault": "lag", "delay": "30000ms", "user": "operator" });
    assert_eq!(listed["rules"][0]["rule"], rule);
    assert_eq!(listed["injected"]["laggingReads"], 1);
    for rule in ["{fault: lag}", "{fault: lag, delay: 1s, code: 500}"] {
        let add = request(Method::POST, faults, Some("application/yaml"), rule);
        lagging.api.send(add).await.expect(400);
    }
}
