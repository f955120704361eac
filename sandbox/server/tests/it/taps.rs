//! Taps in process: requests, responses, commits and watch events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use kopf_sandbox::Sandbox;
use kopf_sandbox::fault::Fault;
use kopf_sandbox::tap::{
    Change, Commit, Decision, Delivery, Gate, Hold, OnRelease, Reply, Tap, TapEvent, TapFuture,
    TapRejection, TapRequest, TapResponse,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{
    Api, CONFIG_MAPS, DEFINITIONS, Watch, config_map, definition, get, in_time, request, with_json,
};

type OnRequest = Box<dyn Fn(&TapRequest) -> Option<(Gate, Decision)> + Send + Sync>;
type OnResponse = Box<dyn Fn(&TapRequest, &TapResponse) -> Reply + Send + Sync>;
type OnEvent = Box<dyn Fn(&TapRequest, &TapEvent) -> Delivery + Send + Sync>;

/// A tap with a journal, which decides by functions.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) journal: Mutex<Vec<String>>,
    pub(crate) commits: Mutex<Vec<Commit>>,
    on_request: Option<OnRequest>,
    on_response: Option<OnResponse>,
    on_event: Option<OnEvent>,
}

impl Script {
    pub(crate) fn requests(
        mut self,
        decide: impl Fn(&TapRequest) -> Option<(Gate, Decision)> + Send + Sync + 'static,
    ) -> Self {
        self.on_request = Some(Box::new(decide));
        self
    }

    pub(crate) fn responses(
        mut self,
        decide: impl Fn(&TapRequest, &TapResponse) -> Reply + Send + Sync + 'static,
    ) -> Self {
        self.on_response = Some(Box::new(decide));
        self
    }

    fn events(
        mut self,
        decide: impl Fn(&TapRequest, &TapEvent) -> Delivery + Send + Sync + 'static,
    ) -> Self {
        self.on_event = Some(Box::new(decide));
        self
    }

    pub(crate) fn start(self) -> (Sandbox, Api, Arc<Self>) {
        let script = Arc::new(self);
        let tap: Arc<dyn Tap> = Arc::<Self>::clone(&script);
        let sandbox = Sandbox::builder().seed(7).tap(tap).build().unwrap();
        let api = Api::of(&sandbox);
        script.take();
        (sandbox, api, script)
    }

    fn note(&self, text: String) {
        self.journal.lock().unwrap().push(text);
    }

    /// Returns the journal so far, and clears it.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.journal.lock().unwrap())
    }
}

fn subject(request: &TapRequest) -> String {
    let name = request.name.as_deref().unwrap_or("*");
    let part = request.subresource.as_deref();
    let part = part.map(|part| format!("/{part}")).unwrap_or_default();
    format!(
        "{} {}/{name}{part}",
        request.verb,
        request.qualified_resource()
    )
}

impl Tap for Script {
    fn on_request<'a>(&'a self, request: &'a TapRequest) -> TapFuture<'a, Decision> {
        self.note(format!("> {}", subject(request)));
        let decision = self.on_request.as_ref().and_then(|decide| decide(request));
        Box::pin(async move {
            let Some((gate, decision)) = decision else {
                return Decision::Proceed;
            };
            gate.opened().await;
            decision
        })
    }

    fn on_response<'a>(
        &'a self,
        request: &'a TapRequest,
        response: &'a TapResponse,
    ) -> TapFuture<'a, Reply> {
        self.note(format!("< {} {}", response.code, subject(request)));
        let reply = self.on_response.as_ref();
        let reply = reply.map_or(Reply::Send, |decide| decide(request, response));
        Box::pin(std::future::ready(reply))
    }

    fn on_event(&self, watch: &TapRequest, event: &TapEvent) -> Delivery {
        let decide = self.on_event.as_ref();
        decide.map_or(Delivery::Deliver, |decide| decide(watch, event))
    }

    fn on_delivery(&self, _: &TapRequest, event: &TapEvent) {
        let kind = event.change.event_type();
        self.note(format!("~ {kind} {}", event.object.name()));
    }

    fn on_watch_end(&self, watch: &TapRequest) {
        self.note(format!("| {}", watch.number));
    }

    fn on_commit(&self, commit: &Commit) {
        let cause = commit
            .cause
            .map_or("-".to_owned(), |cause| cause.to_string());
        let (kind, name) = (commit.change.event_type(), commit.object.name());
        self.note(format!("= {kind} {name} by {cause}"));
        self.commits.lock().unwrap().push(commit.clone());
    }
}

fn open() -> Gate {
    let gate = Gate::new();
    gate.open();
    gate
}

async fn create(api: &Api, name: &str) {
    api.create(CONFIG_MAPS, &config_map(name, ""))
        .await
        .expect(201);
}

async fn change(api: &Api, name: &str, value: &str) {
    let path = format!("{CONFIG_MAPS}/{name}");
    let patch = json!({ "data": { "value": value } });
    api.merge(&path, &patch).await.expect(200);
}

async fn delete(api: &Api, name: &str) {
    api.delete(&format!("{CONFIG_MAPS}/{name}"))
        .await
        .expect(200);
}

async fn silent(watch: &mut Watch) {
    let line = timeout(Duration::from_secs(300), watch.line()).await;
    assert!(line.is_err(), "{line:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_commits_and_deliveries_are_reported_in_order() {
    let (sandbox, api, script) = Script::default().start();
    let mut watch = api.watch(CONFIG_MAPS).await;
    create(&api, "a").await;
    assert_eq!(watch.event().await.name(), "a");
    delete(&api, "a").await;
    api.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
    assert_eq!(watch.event().await.kind, "DELETED");
    drop(watch);
    let journal = script.take();
    assert_eq!(
        journal,
        [
            "> watch configmaps/*",
            "< 200 watch configmaps/*",
            "> create configmaps/*",
            "= ADDED a by 2",
            "< 201 create configmaps/*",
            "~ ADDED a",
            "> delete configmaps/a",
            "= DELETED a by 3",
            "< 200 delete configmaps/a",
            "> get configmaps/a",
            "< 404 get configmaps/a",
            "~ DELETED a",
            "| 1",
        ]
    );
    // Documents are no resources.
    api.get("/apis").await.expect(200);
    api.get("/version").await.expect(200);
    assert!(script.take().is_empty());
    sandbox.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn requests_have_their_parts() {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let told = Arc::clone(&seen);
    let script = Script::default().responses(move |request, response| {
        told.lock().unwrap().push(json!({
            "number": request.number, "endpoint": &*request.endpoint,
            "user": request.user, "groups": request.groups, "agent": request.user_agent,
            "verb": request.verb.name(), "path": [
                request.group, request.version, request.resource, request.subresource,
                request.namespace, request.name,
            ],
            "version": request.parameter("resourceVersion"),
            "selector": request.parameter("labelSelector"),
            "type": request.content_type, "body": request.body(),
            "write": request.is_write(), "apply": request.is_apply(),
            "code": response.code, "items": response.items(),
            "object": response.body().map(|body| body["kind"].clone()),
            "at": response.resource_version().is_some(),
        }));
        Reply::Send
    });
    let (sandbox, api, _) = script.start();
    let path = format!("{CONFIG_MAPS}?resourceVersion=0&labelSelector=a%3Db");
    let mut list = get(&path);
    let headers = list.headers_mut();
    headers.insert("user-agent", "checker/1.0".parse().unwrap());
    headers.insert("impersonate-user", "ann".parse().unwrap());
    headers.insert("impersonate-group", "devs".parse().unwrap());
    api.send(list).await.expect(200);
    let apply = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    let path = format!("{CONFIG_MAPS}/x?fieldManager=me");
    let apply = request(
        Method::PATCH,
        &path,
        Some("application/apply-patch+yaml"),
        apply,
    );
    api.send(apply).await.expect(201);
    let operator = sandbox.service().endpoint("operator");
    let dry = with_json(
        Method::DELETE,
        &format!("{CONFIG_MAPS}/x?dryRun=All"),
        &json!({}),
    );
    let dry = tower::ServiceExt::oneshot(operator, dry).await.unwrap();
    assert_eq!(dry.status(), 200);

    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(
        seen,
        [
            json!({
                "number": 1, "endpoint": "in-process", "user": "ann",
                "groups": ["devs", "system:authenticated"], "agent": "checker/1.0", "verb": "list",
                "path": ["", "v1", "configmaps", null, "default", null],
                "version": "0", "selector": "a=b", "type": "", "body": null,
                "write": false, "apply": false, "code": 200, "items": 0, "object": null, "at": true,
            }),
            json!({
                "number": 2, "endpoint": "in-process", "user": "kubernetes-admin",
                "groups": ["system:masters", "system:authenticated"], "agent": "", "verb": "patch",
                "path": ["", "v1", "configmaps", null, "default", "x"],
                "version": null, "selector": null, "type": "application/apply-patch+yaml",
                "body": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
                "write": true, "apply": true, "code": 201, "items": null, "object": "ConfigMap",
                "at": true,
            }),
            json!({
                "number": 3, "endpoint": "operator", "user": "kubernetes-admin",
                "groups": ["system:masters", "system:authenticated"], "agent": "", "verb": "delete",
                "path": ["", "v1", "configmaps", null, "default", "x"],
                "version": null, "selector": null, "type": "application/json", "body": {},
                "write": false, "apply": false, "code": 200, "items": null, "object": "Status",
                "at": false,
            }),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn rejected_request_is_not_carried_out() {
    let decisions = Mutex::new(VecDeque::from([
        TapRejection::new(409),
        TapRejection::new(429).retry_after(7),
        TapRejection::new(500)
            .reason("Odd")
            .message("etcdserver: leader changed"),
        TapRejection::new(200),
    ]));
    let script = Script::default().requests(move |request| {
        let next = decisions.lock().unwrap().pop_front();
        next.filter(|_| request.is_write())
            .map(|rejection| (open(), Decision::Reject(rejection)))
    });
    let (_sandbox, api, script) = script.start();
    let object = config_map("a", "");
    let conflict = api.create(CONFIG_MAPS, &object).await.expect(409).json();
    assert_eq!(conflict["reason"], "AlreadyExists");
    let busy = api.create(CONFIG_MAPS, &object).await.expect(429);
    assert_eq!(busy.headers["retry-after"], "7");
    assert_eq!(busy.json()["details"]["retryAfterSeconds"], 7);
    let odd = api.create(CONFIG_MAPS, &object).await.expect(500).json();
    assert_eq!((&odd["reason"], &odd["code"]), (&json!("Odd"), &json!(500)));
    assert_eq!(odd["message"], "etcdserver: leader changed");
    api.create(CONFIG_MAPS, &object).await.expect(500);
    assert_eq!(script.take().len(), 4, "no commits, no responses");
    api.create(CONFIG_MAPS, &object).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn connection_breaks_before_or_after_the_commit() {
    let script = Script::default()
        .requests(|request| {
            let is_first = request.number == 1;
            is_first.then(|| (open(), Decision::Break))
        })
        .responses(|request, response| {
            if request.verb.name() == "create" && response.is_success() {
                Reply::Break
            } else {
                Reply::Send
            }
        });
    let (_sandbox, api, script) = script.start();
    let create = || with_json(Method::POST, CONFIG_MAPS, &config_map("a", ""));
    assert!(api.try_send(create()).await.is_err());
    assert_eq!(script.take(), ["> create configmaps/*"]);
    assert!(api.try_send(create()).await.is_err());
    let expected = [
        "> create configmaps/*",
        "= ADDED a by 2",
        "< 201 create configmaps/*",
    ];
    assert_eq!(script.take(), expected);
    api.send(create()).await.expect(409);
}

#[tokio::test(start_paused = true)]
async fn held_request_waits_without_effect_on_others() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::default().requests(move |request| {
        (request.verb.name() == "create").then(|| (held.clone(), Decision::Proceed))
    });
    let (sandbox, api, _) = script.start();
    let object = config_map("a", "");
    let mut creating = std::pin::pin!(api.create(CONFIG_MAPS, &object));
    assert!(
        timeout(Duration::from_secs(999), &mut creating)
            .await
            .is_err()
    );
    api.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
    gate.open();
    in_time("the held request", creating).await.expect(201);

    // The end of the sandbox ends held requests.
    let script = Script::default().requests(|_| Some((Gate::new(), Decision::Proceed)));
    let (other, api, _) = script.start();
    let (ended, ()) = tokio::join!(api.get(CONFIG_MAPS), other.shutdown());
    ended.expect(503);
    sandbox.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn faults_and_rights_come_after_the_tap() {
    let (sandbox, api, script) = Script::default().start();
    sandbox.faults().inject(Fault::error(503).times(1));
    api.get(CONFIG_MAPS).await.expect(503);
    let expected = ["> list configmaps/*", "< 503 list configmaps/*"];
    assert_eq!(script.take(), expected);
    sandbox.faults().inject(Fault::reset().times(1));
    assert!(api.try_send(get(CONFIG_MAPS)).await.is_err());
    assert_eq!(script.take(), ["> list configmaps/*"]);
    api.get("/apis/none.dev/v1/things").await.expect(404);
    let expected = ["> list things.none.dev/*", "< 404 list things.none.dev/*"];
    assert_eq!(script.take(), expected);

    let script = Arc::new(Script::default());
    let tap: Arc<dyn Tap> = Arc::<Script>::clone(&script);
    let sandbox = Sandbox::builder().rbac().tap(tap).build().unwrap();
    let mut list = get(CONFIG_MAPS);
    let name = "ann".parse().unwrap();
    list.headers_mut().insert("impersonate-user", name);
    Api::of(&sandbox).send(list).await.expect(403);
    let journal = script.take();
    assert!(journal.ends_with(&["< 403 list configmaps/*".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn commits_of_the_server_have_no_cause() {
    let (_sandbox, api, script) = Script::default().start();
    let made = api.create(DEFINITIONS, &definition("toys", "Toy")).await;
    made.expect(201);
    let commits = std::mem::take(&mut *script.commits.lock().unwrap());
    let mut last = 0;
    for commit in &commits {
        assert!(commit.revision > last, "in order");
        last = commit.revision;
        assert_eq!(commit.object.revision(), commit.revision);
    }
    let of_crd: Vec<&Commit> = commits
        .iter()
        .filter(|commit| commit.object.name() == "toys.test.dev")
        .collect();
    let causes: Vec<Option<u64>> = of_crd.iter().map(|commit| commit.cause).collect();
    assert_eq!(causes.first(), Some(&Some(1)));
    assert!(causes.contains(&None), "the status: {causes:?}");
    let first = of_crd.first().unwrap();
    assert_eq!(first.change, Change::Added);
    assert!(first.before.is_none());
    assert_eq!(first.object.kind(), "CustomResourceDefinition");

    // The garbage collector deletes what the deletion of a namespace leaves behind.
    let namespace = json!({ "metadata": { "name": "shop" } });
    api.create("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    let object = config_map("a", "1");
    api.create("/api/v1/namespaces/shop/configmaps", &object)
        .await
        .expect(201);
    script.take();
    api.delete("/api/v1/namespaces/shop").await.expect(200);
    api.gone("/api/v1/namespaces/shop").await;
    let journal = script.take();
    assert!(
        journal.contains(&"= MODIFIED shop by 4".to_owned()),
        "{journal:?}"
    );
    assert!(
        journal.contains(&"= DELETED a by -".to_owned()),
        "{journal:?}"
    );
    assert!(
        journal.contains(&"= DELETED shop by -".to_owned()),
        "{journal:?}"
    );
    let commits = script.commits.lock().unwrap();
    let deleted = commits
        .iter()
        .find(|commit| commit.change == Change::Deleted && commit.object.name() == "a");
    let before = deleted.unwrap().before.as_ref().unwrap();
    assert_eq!(before.json()["data"]["value"], "1");
    assert_eq!(before.uid(), deleted.unwrap().object.uid());
}

#[tokio::test(start_paused = true)]
async fn held_object_shows_only_its_newest_state() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::default().events(move |_, event| {
        if event.object.name() == "b" || held.is_open() {
            return Delivery::Deliver;
        }
        Delivery::Hold(Hold::object(&held).then(OnRelease::Latest))
    });
    let (_sandbox, api, script) = script.start();
    let mut watch = api.watch(CONFIG_MAPS).await;
    create(&api, "a").await;
    create(&api, "b").await;
    assert_eq!(watch.event().await.brief(), ("ADDED", "b"));
    change(&api, "a", "1").await;
    change(&api, "b", "1").await;
    assert_eq!(watch.event().await.brief(), ("MODIFIED", "b"));
    change(&api, "a", "2").await;
    create(&api, "c").await;
    delete(&api, "c").await;
    silent(&mut watch).await;
    gate.open();
    let event = watch.event().await;
    assert_eq!(event.brief(), ("ADDED", "a"));
    assert_eq!(event.object["data"]["value"], "2");
    change(&api, "a", "3").await;
    let event = watch.event().await;
    assert_eq!(event.brief(), ("MODIFIED", "a"));
    let journal = script.take();
    let sent: Vec<&String> = journal
        .iter()
        .filter(|line| line.starts_with('~'))
        .collect();
    let expected = ["~ ADDED b", "~ MODIFIED b", "~ ADDED a", "~ MODIFIED a"];
    assert_eq!(sent, expected);
}

#[tokio::test(start_paused = true)]
async fn recreated_object_is_new_after_a_gap() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::default().events(move |_, event| {
        if event.initial || held.is_open() {
            return Delivery::Deliver;
        }
        Delivery::Hold(Hold::watch(&held).then(OnRelease::Latest))
    });
    let (_sandbox, api, _) = script.start();
    create(&api, "a").await;
    create(&api, "gone").await;
    let mut watch = api.watch(CONFIG_MAPS).await;
    let first = watch.event().await;
    assert_eq!(watch.event().await.name(), "gone");
    change(&api, "a", "1").await;
    delete(&api, "a").await;
    delete(&api, "gone").await;
    create(&api, "a").await;
    change(&api, "a", "2").await;
    silent(&mut watch).await;
    gate.open();
    assert_eq!(watch.event().await.brief(), ("DELETED", "gone"));
    let event = watch.event().await;
    assert_eq!(event.brief(), ("ADDED", "a"));
    assert_ne!(
        event.object["metadata"]["uid"],
        first.object["metadata"]["uid"]
    );
    assert_eq!(event.object["data"]["value"], "2");
    silent(&mut watch).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_one_kind_wait_for_those_of_another() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::default().events(move |watch, _| {
        if watch.resource == "secrets" {
            held.open();
        }
        if held.is_open() {
            return Delivery::Deliver;
        }
        Delivery::Hold(Hold::watch(&held))
    });
    let (_sandbox, api, _) = script.start();
    let secrets = "/api/v1/namespaces/default/secrets";
    let mut late = api.watch(CONFIG_MAPS).await;
    let mut early = api.watch(secrets).await;
    create(&api, "a").await;
    change(&api, "a", "1").await;
    silent(&mut late).await;
    let secret = json!({ "metadata": { "name": "s" } });
    api.create(secrets, &secret).await.expect(201);
    assert_eq!(early.event().await.name(), "s");
    assert_eq!(late.event().await.brief(), ("ADDED", "a"));
    assert_eq!(late.event().await.brief(), ("MODIFIED", "a"));
}

#[tokio::test(start_paused = true)]
async fn event_can_be_skipped_or_end_its_watch() {
    let script = Script::default().events(|_, event| match event.object.name() {
        "skipped" => Delivery::Skip,
        "expired" => Delivery::Expire,
        "broken" => Delivery::Break,
        _ => Delivery::Deliver,
    });
    let (_sandbox, api, _) = script.start();
    let mut first = api.watch(CONFIG_MAPS).await;
    create(&api, "skipped").await;
    create(&api, "a").await;
    create(&api, "expired").await;
    assert_eq!(first.event().await.name(), "a");
    let error = first.event().await;
    assert_eq!(
        (&*error.kind, &error.object["code"]),
        ("ERROR", &json!(410))
    );
    assert!(first.rest().await.is_empty());
    delete(&api, "expired").await;
    let mut second = api.watch(CONFIG_MAPS).await;
    assert_eq!(second.event().await.name(), "a");
    create(&api, "broken").await;
    assert!(second.breaks().await);
}

#[tokio::test(start_paused = true)]
async fn gate_can_end_the_watch() {
    for (on_release, expires) in [(OnRelease::Expire, true), (OnRelease::Break, false)] {
        let gate = Gate::new();
        let held = gate.clone();
        let script = Script::default()
            .events(move |_, _| Delivery::Hold(Hold::watch(&held).then(on_release)));
        let (_sandbox, api, _) = script.start();
        let mut watch = api.watch(CONFIG_MAPS).await;
        create(&api, "a").await;
        change(&api, "a", "1").await;
        silent(&mut watch).await;
        gate.open();
        if expires {
            assert_eq!(watch.event().await.object["code"], 410);
            assert!(!watch.breaks().await);
        } else {
            assert!(watch.breaks().await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn initial_events_can_be_held() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::default().events(move |_, event| {
        if event.object.name() == "b" && event.initial {
            return Delivery::Hold(Hold::object(&held));
        }
        Delivery::Deliver
    });
    let (_sandbox, api, _) = script.start();
    for name in ["a", "b", "c"] {
        create(&api, name).await;
    }
    let path = format!(
        "{CONFIG_MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = api.watch(&path).await;
    assert_eq!(watch.event().await.name(), "a");
    create(&api, "d").await;
    silent(&mut watch).await;
    gate.open();
    for expected in [
        ("ADDED", "b"),
        ("ADDED", "c"),
        ("BOOKMARK", ""),
        ("ADDED", "d"),
    ] {
        assert_eq!(watch.event().await.brief(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn held_watch_of_a_removed_kind_ends() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::default().events(move |watch, event| {
        if watch.resource == "toys" && !held.is_open() {
            assert!(event.initial);
            return Delivery::Hold(Hold::watch(&held));
        }
        Delivery::Deliver
    });
    let (_sandbox, api, _) = script.start();
    let crd = definition("toys", "Toy");
    api.create(DEFINITIONS, &crd).await.expect(201);
    let toys = "/apis/test.dev/v1/namespaces/default/toys";
    let toy = json!({
        "apiVersion": "test.dev/v1", "kind": "Toy", "metadata": { "name": "ball" },
    });
    api.create(toys, &toy).await.expect(201);
    let mut plain = api.watch(toys).await;
    let streaming = format!(
        "{toys}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut streaming = api.watch(&streaming).await;
    let path = format!("{DEFINITIONS}/toys.test.dev");
    api.delete(&path).await.expect(200);
    api.gone(&path).await;
    assert!(plain.rest().await.is_empty(), "a hold ends with its watch");
    // The first events are not complete.
    silent(&mut streaming).await;
    gate.open();
    for expected in [("ADDED", "ball"), ("BOOKMARK", ""), ("DELETED", "ball")] {
        assert_eq!(streaming.event().await.brief(), expected);
    }
    assert!(streaming.rest().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn held_events_end_with_the_sandbox() {
    for scope in [Hold::object, Hold::watch] {
        for initial in [true, false] {
            let script = Script::default().events(move |_, _| Delivery::Hold(scope(&Gate::new())));
            let (sandbox, api, _) = script.start();
            if initial {
                create(&api, "a").await;
            }
            let mut watch = api.watch(CONFIG_MAPS).await;
            create(&api, "b").await;
            silent(&mut watch).await;
            sandbox.shutdown().await;
            assert!(!watch.breaks().await, "nothing is sent");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn held_events_are_not_lost_at_the_timeout() {
    let script = Script::default().events(|_, event| match event.object.name() {
        "a" => Delivery::Hold(Hold::object(&Gate::new())),
        _ => Delivery::Deliver,
    });
    let (_sandbox, api, _) = script.start();
    let path = format!("{CONFIG_MAPS}?timeoutSeconds=100&allowWatchBookmarks=true");
    let mut watch = api.watch(&path).await;
    create(&api, "a").await;
    create(&api, "b").await;
    let mut rest = Vec::new();
    while let Some(line) = watch.line().await.unwrap() {
        let event: Value = serde_json::from_str(&line).unwrap();
        rest.push((
            event["type"].clone(),
            event["object"]["metadata"]["name"].clone(),
        ));
    }
    // No bookmarks, though one is due every minute and at the end.
    let expected = [("ADDED", "b"), ("ADDED", "a")];
    assert_eq!(
        rest,
        expected.map(|(kind, name)| (json!(kind), json!(name)))
    );
}

#[tokio::test(start_paused = true)]
async fn all_watches_expire_on_demand() {
    let (sandbox, api, _) = Script::default().start();
    let mut quiet = api.watch(CONFIG_MAPS).await;
    silent(&mut quiet).await;
    sandbox.faults().expire_watches();
    let error = quiet.event().await;
    assert_eq!(
        (&*error.kind, &error.object["code"]),
        ("ERROR", &json!(410))
    );
    assert!(quiet.rest().await.is_empty());
    let mut new = api.watch(CONFIG_MAPS).await;
    create(&api, "a").await;
    assert_eq!(new.event().await.name(), "a");
    let action = "/kopf-sandbox/actions/expire-watches";
    api.send(request(Method::POST, action, None, ""))
        .await
        .expect(200);
    assert_eq!(new.event().await.object["reason"], "Expired");
    assert!(new.rest().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn malformed_requests_pass_through() {
    let (_sandbox, api, script) = Script::default()
        .requests(|request| {
            assert!(request.body().is_none() || request.body().is_some());
            None
        })
        .start();
    let odd = request(
        Method::POST,
        CONFIG_MAPS,
        Some("application/json"),
        "{\"a\":",
    );
    api.send(odd).await.expect(400);
    let proto = Some("application/vnd.kubernetes.protobuf");
    let odd = request(Method::POST, CONFIG_MAPS, proto, "k8s\0garbage");
    api.send(odd).await.expect(400);
    api.get(&format!("{CONFIG_MAPS}?limit=x")).await.expect(400);
    let odd = request(Method::PUT, CONFIG_MAPS, None, "");
    api.send(odd).await.expect(405);
    let journal = script.take();
    let responses: Vec<_> = journal
        .iter()
        .filter(|line| line.starts_with('<'))
        .collect();
    assert_eq!(
        responses,
        ["< 400 create configmaps/*", "< 400 create configmaps/*"]
    );
}
