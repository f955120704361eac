//! Tests of faults of requests, in process.

use std::time::Duration;

use http::Method;
use kopf_sandbox::Sandbox;
use kopf_sandbox::fault::{ConnectionBroken, Fault, Faults, Verb};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::support::{
    Api, CONFIG_MAPS, DEFINITIONS, MERGE, config_map, definition, get, request, with_json,
};

const ONE: &str = "/api/v1/namespaces/default/configmaps/one";

/// Returns a sandbox with the config map `one`.
async fn sandbox() -> (Sandbox, Api) {
    let sandbox = Sandbox::builder().seed(1).build().unwrap();
    let api = Api::of(&sandbox);
    let made = api.create(CONFIG_MAPS, &config_map("one", "1")).await;
    made.expect(201);
    (sandbox, api)
}

#[tokio::test(start_paused = true)]
async fn latency_delays_a_request() {
    let (sandbox, api) = sandbox().await;
    let delay = Duration::from_secs(7);
    sandbox
        .faults()
        .inject(Fault::latency(delay).verb(Verb::Create));
    let two = config_map("two", "2");
    {
        let mut creation = std::pin::pin!(api.create(CONFIG_MAPS, &two));
        let early = timeout(Duration::from_millis(6_999), &mut creation).await;
        assert!(early.is_err(), "the response is too early");
        api.get(&format!("{CONFIG_MAPS}/two")).await.expect(404);
        creation.await.expect(201);
    }
    let before = Instant::now();
    api.get(ONE).await.expect(200);
    assert_eq!(before.elapsed(), Duration::ZERO, "not about this verb");
    assert_eq!(sandbox.faults().injected().latencies, 1);
}

#[tokio::test(start_paused = true)]
async fn random_latency_differs_between_requests() {
    let (sandbox, api) = sandbox().await;
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(9));
    sandbox.faults().inject(Fault::latency_between(least, most));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let before = Instant::now();
        api.get(ONE).await.expect(200);
        let waited = before.elapsed();
        // Timers have a resolution of one millisecond.
        assert!(waited >= least && waited <= most + Duration::from_millis(1));
        seen.insert(waited);
    }
    assert!(seen.len() > 10, "{seen:?}");
}

#[tokio::test]
async fn injected_errors_have_a_status_and_prevent_the_request() {
    let (sandbox, api) = sandbox().await;
    for (code, reason) in [
        (409, "Conflict"),
        (410, "Expired"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        let id = sandbox.faults().inject(Fault::error(code).times(1));
        let patch = json!({ "data": { "value": "changed" } });
        let response = api.merge(ONE, &patch).await.expect(code);
        let status = response.json();
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["apiVersion"], "v1");
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["code"], code);
        assert_eq!(status["reason"], reason);
        assert_eq!(response.headers["content-type"], "application/json");
        let is_busy = response.headers.contains_key("retry-after");
        assert_eq!(is_busy, code == 429, "{code}");
        assert_eq!(sandbox.faults().count(id), 1);
        assert_eq!(api.get(ONE).await.json()["data"]["value"], "1");
    }
    assert_eq!(sandbox.faults().injected().errors, 6);
}

#[tokio::test]
async fn injected_errors_have_retry_after() {
    let (sandbox, api) = sandbox().await;
    let faults = sandbox.faults();
    for code in [429, 503] {
        let id = faults.inject(Fault::error(code).retry_after(17));
        let response = api.get(ONE).await.expect(code);
        assert_eq!(response.headers["retry-after"], "17");
        assert_eq!(response.json()["details"]["retryAfterSeconds"], 17);
        faults.remove(id);
    }
    api.get(ONE).await.expect(200);
}

#[tokio::test]
async fn injected_409_of_a_creation_is_already_exists() {
    let (sandbox, api) = sandbox().await;
    sandbox.faults().inject(Fault::error(409));
    let response = api.create(CONFIG_MAPS, &config_map("two", "2")).await;
    assert_eq!(response.expect(409).json()["reason"], "AlreadyExists");
}

#[tokio::test]
async fn reset_fails_the_call_and_changes_nothing() {
    let (sandbox, api) = sandbox().await;
    sandbox.faults().inject(Fault::reset().verb(Verb::Delete));
    let deletion = || request(Method::DELETE, ONE, None, "");
    let broken: ConnectionBroken = api.try_send(deletion()).await.unwrap_err();
    assert_eq!(broken.to_string(), "connection reset by peer");
    api.get(ONE).await.expect(200);
    sandbox.faults().clear();
    api.send(deletion()).await.expect(200);
    assert_eq!(sandbox.faults().injected().resets, 1);
}

#[tokio::test(start_paused = true)]
async fn half_open_connection_never_responds() {
    let (sandbox, api) = sandbox().await;
    sandbox.faults().inject(Fault::half_open().times(1));
    let silent = timeout(Duration::from_secs(1_000_000), api.delete(ONE)).await;
    assert!(silent.is_err());
    api.get(ONE).await.expect(200);
    assert_eq!(sandbox.faults().injected().half_open, 1);
}

#[tokio::test]
async fn faults_match_by_verb() {
    let (sandbox, api) = sandbox().await;
    let two = config_map("two", "2");
    let patch = json!({}).to_string();
    let watch = format!("{CONFIG_MAPS}?watch=true");
    let all = [
        (Verb::Get, get(ONE)),
        (Verb::List, get(CONFIG_MAPS)),
        (Verb::Watch, get(&watch)),
        (Verb::Create, with_json(Method::POST, CONFIG_MAPS, &two)),
        (
            Verb::Update,
            with_json(Method::PUT, ONE, &config_map("one", "3")),
        ),
        (
            Verb::Patch,
            request(Method::PATCH, ONE, Some(MERGE), patch.clone()),
        ),
        (Verb::Delete, request(Method::DELETE, ONE, None, "")),
        (
            Verb::DeleteCollection,
            request(Method::DELETE, CONFIG_MAPS, None, ""),
        ),
    ];
    for (verb, _) in &all {
        let id = sandbox.faults().inject(Fault::error(503).verb(*verb));
        for (other, request) in &all {
            // Deletions are skipped, because later requests need the objects.
            if verb != other && matches!(other, Verb::Delete | Verb::DeleteCollection) {
                continue;
            }
            let code = api.open(request.clone()).await.unwrap().status();
            assert_eq!(code == 503, verb == other, "{other} while {verb} fails");
        }
        sandbox.faults().remove(id);
    }
}

#[tokio::test]
async fn faults_match_by_kind_namespace_name_subresource_and_user() {
    let sandbox = Sandbox::builder()
        .token("secret", "ann", ["staff"])
        .build()
        .unwrap();
    let api = Api::of(&sandbox);
    let things = definition("things", "Thing");
    api.create(DEFINITIONS, &things).await.expect(201);
    let mut thing = json!({ "apiVersion": "test.dev/v1", "kind": "Thing" });
    thing["metadata"] = json!({ "name": "one" });
    let things = "/apis/test.dev/v1/namespaces/default/things";
    api.create(things, &thing).await.expect(201);
    api.create(CONFIG_MAPS, &config_map("one", "1")).await;

    let as_ann = {
        let mut request = get(ONE);
        let headers = request.headers_mut();
        headers.insert("authorization", "Bearer secret".parse().unwrap());
        request
    };
    let requests = [
        ("config map", get(ONE)),
        ("by ann", as_ann),
        ("thing", get(&format!("{things}/one"))),
        ("status", get(&format!("{things}/one/status"))),
        ("list", get(CONFIG_MAPS)),
        (
            "elsewhere",
            get("/api/v1/namespaces/kube-system/configmaps"),
        ),
    ];
    let any = || Fault::error(503);
    for (fault, struck) in [
        (any(), "config map, by ann, thing, status, list, elsewhere"),
        (
            any().kind("configmaps"),
            "config map, by ann, list, elsewhere",
        ),
        (any().kind("things.test.dev"), "thing, status"),
        (any().kind("things.other.dev"), ""),
        (any().kind("things").subresource("status"), "status"),
        (any().kind("things").subresource(""), "thing"),
        (any().namespace("kube-system"), "elsewhere"),
        (any().name("one"), "config map, by ann, thing, status"),
        (any().user("ann"), "by ann"),
        (
            any()
                .user("kubernetes-admin")
                .kind("configmaps")
                .name("one"),
            "config map",
        ),
    ] {
        let id = sandbox.faults().inject(fault.clone());
        let mut seen = Vec::new();
        for (what, request) in &requests {
            if api.send(request.clone()).await.code == 503 {
                seen.push(*what);
            }
        }
        assert_eq!(seen.join(", "), struck, "{fault:?}");
        sandbox.faults().remove(id);
    }
}

#[tokio::test]
async fn faults_end_after_their_limit() {
    let (sandbox, api) = sandbox().await;
    let id = sandbox.faults().inject(Fault::error(500).times(3));
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(api.get(ONE).await.code);
    }
    assert_eq!(codes, [500, 500, 500, 200, 200]);
    assert_eq!(sandbox.faults().count(id), 3);
}

#[tokio::test(start_paused = true)]
async fn faults_have_a_time_window() {
    let (sandbox, api) = sandbox().await;
    let fault = Fault::error(500)
        .starting_after(Duration::from_secs(60))
        .lasting(Duration::from_secs(30));
    sandbox.faults().inject(fault);
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(api.get(ONE).await.code);
        tokio::time::advance(Duration::from_secs(29)).await;
    }
    // At 0, 29, 58, 87 and 116 seconds.
    assert_eq!(codes, [200, 200, 200, 500, 200]);
}

#[tokio::test]
async fn probability_strikes_a_fraction_of_requests() {
    let (sandbox, api) = sandbox().await;
    sandbox.faults().inject(Fault::error(500).probability(0.25));
    let mut struck = 0;
    for _ in 0..400 {
        struck += usize::from(api.get(ONE).await.code == 500);
    }
    assert!((60..140).contains(&struck), "{struck} of 400");
    sandbox.faults().clear();
    let never = sandbox.faults().inject(Fault::error(500).probability(0.0));
    api.get(ONE).await.expect(200);
    assert_eq!(sandbox.faults().count(never), 0);
}

/// Returns the responses of a script of requests under random faults.
async fn run(seed: u64) -> Vec<String> {
    let sandbox = Sandbox::builder().seed(seed).build().unwrap();
    let api = Api::of(&sandbox);
    let faults: &Faults = sandbox.faults();
    let slow = Fault::latency_between(Duration::from_secs(1), Duration::from_secs(99));
    faults.inject(slow.probability(0.3));
    faults.inject(Fault::error(409).verb(Verb::Patch).probability(0.3));
    faults.inject(Fault::reset().verb(Verb::Create).probability(0.3));
    faults.inject(Fault::compact().verb(Verb::List).probability(0.1));
    faults.inject(Fault::drop_events().probability(0.3));
    let mut watch = api.watch(CONFIG_MAPS).await;
    let mut log = Vec::new();
    for round in 0..40 {
        let name = format!("n{round}");
        let object = config_map(&name, "x");
        let path = format!("{CONFIG_MAPS}/{name}");
        let patch = json!({ "data": { "value": "y" } }).to_string();
        for request in [
            with_json(Method::POST, CONFIG_MAPS, &object),
            request(Method::PATCH, &path, Some(MERGE), patch),
            get(CONFIG_MAPS),
        ] {
            let before = Instant::now();
            let outcome = api.try_send(request).await.map(|response| response.code);
            log.push(format!("{outcome:?} after {:?}", before.elapsed()));
        }
    }
    faults.clear();
    api.create(CONFIG_MAPS, &config_map("the-end", "")).await;
    loop {
        let event = watch.event().await;
        log.push(format!("{} {}", event.kind, event.name()));
        if event.kind == "ERROR" || event.name() == "the-end" {
            break;
        }
    }
    log.push(format!("{:?}", faults.injected()));
    log
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_the_same_faults() {
    let first = run(5).await;
    assert_eq!(first, run(5).await);
    assert_ne!(first, run(6).await);
    let text = first.join("\n");
    for outcome in ["Ok(201) after 0", "Ok(409)", "Err(", "Ok(404)"] {
        assert!(text.contains(outcome), "{outcome} is not in {text}");
    }
}
