//! Webhook servers and configurations during the life of an operator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_core::admission::{
    ClientConfig, ServerError, Serving, Shutdown, WebhookServer, WebhookType,
};
use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
use kopf_core::selector::Selector;
use kopf_core::settings::Settings;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use crate::captured::capture;
use crate::fake_api::{FakeRequest, FakeResponse, Log, discover, kind, serve};
use crate::invocation::{Noop, Registry};
use crate::operator::{Error, Operator};

fn registry() -> Registry {
    let types = [WebhookType::Validating, WebhookType::Mutating];
    registry_of(&types.map(|type_| (type_.as_str(), type_)))
}

fn registry_of(handlers: &[(&str, WebhookType)]) -> Registry {
    let handlers = handlers.iter().map(|(id, type_)| {
        let kind = HandlerKind::Admission(*type_);
        let mut spec = HandlerSpec::new(*id, FunctionId::Number(1), kind);
        spec.selector = Some(Selector::parse(&["things.one"]).unwrap());
        spec.webhook.persistent = *type_ == WebhookType::Mutating;
        spec.build(Arc::new(Noop) as _).unwrap()
    });
    handlers.collect()
}

/// Announces this number of addresses, one per minute, then ends or waits.
struct Server {
    places: usize,
    ending: Option<Result<(), &'static str>>,
    operator: Mutex<Option<Arc<dyn Serving>>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    fn new(places: usize, ending: Option<Result<(), &'static str>>) -> Arc<Self> {
        Arc::new(Self {
            places,
            ending,
            operator: Mutex::default(),
        })
    }
}

impl WebhookServer for Server {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        mut shutdown: Shutdown,
    ) -> BoxFuture<'static, Result<(), ServerError>> {
        Box::pin(async move {
            *self.operator.lock().unwrap() = Some(Arc::clone(&operator));
            for place in 0..self.places {
                let url = Some(format!("https://place-{place}/"));
                operator.announce(ClientConfig {
                    url,
                    ..ClientConfig::default()
                });
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(60)) => {}
                    () = &mut shutdown => return Ok(()),
                }
            }
            if let Some(ending) = self.ending {
                return ending.map_err(Into::into);
            }
            shutdown.await;
            Ok(())
        })
    }
}

fn operator(server: Option<&Arc<Server>>, managed: Option<&str>) -> Operator {
    let mut settings = Settings::default();
    settings.admission.server = server.map(|server| Arc::clone(server) as _);
    settings.admission.managed = managed.map(str::to_owned);
    settings.scanning.disabled = true;
    settings.peering.standalone = true;
    Operator::new(registry()).settings(settings)
}

/// Configuration objects by resource, one of each.
#[derive(Default)]
struct Configurations(Mutex<BTreeMap<String, Value>>);

impl Configurations {
    fn respond(&self, request: &FakeRequest, code: u16) -> FakeResponse {
        let mut objects = self.0.lock().unwrap();
        let plural = request
            .path
            .split('/')
            .nth(4)
            .unwrap_or_default()
            .to_owned();
        let version = |object: &Value| {
            let version = object["metadata"]["resourceVersion"].as_str();
            version.map_or(0, |version| version.parse::<u64>().unwrap()) + 1
        };
        match (request.method.as_str(), code) {
            ("GET", _) if request.is_watch() => FakeResponse::Never,
            ("GET", _) => {
                let items: Vec<Value> = objects.get(&plural).cloned().into_iter().collect();
                FakeResponse::list("Configuration", &items)
            }
            ("POST", code @ (201 | 409)) => {
                let mut object = request.body.clone();
                object["metadata"]["resourceVersion"] = json!("1");
                objects.insert(plural, object.clone());
                match code {
                    409 => FakeResponse::status(409),
                    code => FakeResponse::Json(code, object),
                }
            }
            ("PATCH", 200) => {
                let Some(object) = objects.get_mut(&plural) else {
                    return FakeResponse::status(404);
                };
                let before = object.clone();
                if let Some(webhooks) = request.body.get("webhooks") {
                    object["webhooks"] = webhooks.clone();
                }
                if let Some(annotations) = request.body["metadata"].get("annotations") {
                    object["metadata"]["annotations"] = annotations.clone();
                }
                if *object != before {
                    object["metadata"]["resourceVersion"] = json!(version(&before).to_string());
                }
                FakeResponse::Json(200, object.clone())
            }
            (_, code) => FakeResponse::status(code),
        }
    }
}

/// A cluster with one resource, where requests for configurations get these status codes.
fn cluster(
    code: impl Fn(&FakeRequest) -> u16 + Send + Sync + 'static,
) -> (kopf_client::Client, Log) {
    let configurations = Configurations::default();
    serve(move |request| {
        if request.path.contains("webhookconfigurations") {
            let code = if request.method == "GET" {
                200
            } else {
                code(request)
            };
            return configurations.respond(request, code);
        }
        let kinds = [
            kind("one", "things"),
            kind(super::GROUP, "validatingwebhookconfigurations"),
            kind(super::GROUP, "mutatingwebhookconfigurations"),
        ]
        .map(|mut kind| {
            kind.namespaced = kind.group == "one";
            kind
        });
        discover(request, &kinds).unwrap_or_else(|| FakeResponse::list("Thing", &[]))
    })
}

/// Runs the operator for this number of seconds, or until it ends.
async fn run(operator: Operator, client: kopf_client::Client, seconds: u64) -> Result<(), Error> {
    let stop = CancellationToken::new();
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        stop.cancel();
    };
    tokio::join!(operator.run(client, stop.clone()), stopping).0
}

/// Returns the names and addresses that were written to one of the configurations.
fn written(log: &Log, type_: &str) -> Vec<Value> {
    let requests = log.all().into_iter();
    let patches =
        requests.filter(|request| request.method == "PATCH" && request.path.contains(type_));
    patches
        .map(|request| {
            let webhooks = request.body["webhooks"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let pairs = webhooks.iter();
            pairs
                .map(|webhook| json!([webhook["name"], webhook["clientConfig"]["url"]]))
                .collect()
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn handlers_without_a_server_are_rejected_with_a_fix() {
    let (client, log) = cluster(|_| 201);
    let error = run(operator(None, None), client, 1).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("'validating', 'mutating'"), "{text}");
    assert!(text.contains("settings.admission.server"), "{text}");
    assert!(log.all().is_empty(), "no requests are sent");
}

#[tokio::test(start_paused = true)]
async fn configurations_are_created_updated_and_reduced() {
    let captured = capture(Level::INFO);
    let (client, log) = cluster(|request| if request.method == "POST" { 409 } else { 200 });
    let server = Server::new(2, None);
    let operator = operator(Some(&server), Some("auto.kopf.dev"));
    run(operator, client, 100).await.unwrap();
    let posted: Vec<_> = log
        .all()
        .into_iter()
        .filter(|a| a.method == "POST")
        .collect();
    assert_eq!(posted.len(), 2);
    let bodies = posted
        .iter()
        .map(|request| &request.body["metadata"]["name"]);
    assert!(bodies.clone().all(|name| name == "auto.kopf.dev"));
    let validating = "validating.auto.kopf.dev";
    assert_eq!(
        written(&log, "/validating"),
        [
            json!([[validating, "https://place-0/validating"]]),
            json!([[validating, "https://place-1/validating"]]),
            json!([]),
        ]
    );
    let mutating = "mutating.auto.kopf.dev";
    assert_eq!(
        written(&log, "/mutating"),
        [
            json!([[mutating, "https://place-0/mutating"]]),
            json!([[mutating, "https://place-1/mutating"]]),
            json!([[mutating, "https://place-1/mutating"]]),
        ]
    );
    let said = captured.messages(Level::INFO);
    let count = |text: &str| said.iter().filter(|message| *message == text).count();
    assert_eq!(
        count("Reconfiguring the validating webhook auto.kopf.dev."),
        2
    );
    assert_eq!(
        count("Reconfiguring the mutating webhook auto.kopf.dev."),
        2
    );
    assert_eq!(count("Cleaning up the admission webhook auto.kopf.dev."), 2);
}

#[tokio::test(start_paused = true)]
async fn unmanaged_or_unannounced_webhooks_are_not_configured() {
    let captured = capture(Level::INFO);
    for (places, managed) in [(0, Some("auto.kopf.dev")), (1, None)] {
        let hints = || {
            let said = captured.messages(Level::INFO);
            let hint = "settings.admission.managed is not set";
            said.iter().filter(|text| text.contains(hint)).count()
        };
        assert_eq!(hints(), 0);
        let (client, log) = cluster(|request| if request.method == "POST" { 201 } else { 200 });
        let server = Server::new(places, None);
        run(operator(Some(&server), managed), client, 10)
            .await
            .unwrap();
        assert_eq!(hints(), usize::from(managed.is_none()));
        let patched = log
            .all()
            .into_iter()
            .filter(|request| request.method == "PATCH");
        assert_eq!(patched.count(), 0, "{managed:?}");
        let posted = log
            .all()
            .into_iter()
            .filter(|request| request.method == "POST");
        assert_eq!(posted.count(), if managed.is_some() { 2 } else { 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_end_the_operator_with_an_explanation() {
    for verb in ["create", "patch"] {
        let (client, _) = cluster(move |request| match request.method.as_str() {
            "POST" if verb == "create" => 403,
            "POST" => 201,
            _ => 403,
        });
        let server = Server::new(1, None);
        let outcome = run(operator(Some(&server), Some("a.b")), client, 100).await;
        let text = outcome.unwrap_err().to_string();
        let expected = format!("the operator is not permitted to {verb} ");
        assert!(text.starts_with(&expected), "{text}");
        assert!(text.contains("webhookconfigurations.v1"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_api_server_is_configured_later() {
    let failures = Mutex::new(0);
    let (client, log) = cluster(move |request| {
        let mut failures = failures.lock().unwrap();
        match request.method.as_str() {
            "POST" => 201,
            _ if request.path.contains("/validating") && *failures < 12 => {
                *failures += 1;
                503
            }
            _ => 200,
        }
    });
    let server = Server::new(1, None);
    let operator = operator(Some(&server), Some("a.b"));
    run(operator, client, 300).await.unwrap();
    assert_eq!(
        log.count("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/a.b"),
        2
    );
    let validating = written(&log, "/validating");
    assert_eq!(validating.len(), 12 + 2);
    assert_eq!(validating.last(), Some(&json!([])));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_configuration_is_created_again() {
    let calls = Mutex::new(0);
    let (client, log) = cluster(move |request| {
        let mut calls = calls.lock().unwrap();
        match request.method.as_str() {
            "POST" => 201,
            _ if request.path.contains("/validating") => {
                *calls += 1;
                if *calls == 2 { 404 } else { 200 }
            }
            _ => 200,
        }
    });
    let server = Server::new(2, None);
    run(operator(Some(&server), Some("a.b")), client, 100)
        .await
        .unwrap();
    let requests = log.all().into_iter();
    let posted =
        requests.filter(|request| request.method == "POST" && request.path.contains("/validating"));
    assert_eq!(posted.count(), 2);
    assert_eq!(written(&log, "/validating").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn contradictory_responses_do_not_cause_a_busy_loop() {
    let captured = capture(Level::WARN);
    let (client, log) = cluster(|request| if request.method == "POST" { 409 } else { 404 });
    let server = Server::new(1, None);
    run(operator(Some(&server), Some("a.b")), client, 100)
        .await
        .unwrap();
    let attempts = written(&log, "/validating").len();
    assert!((10..=30).contains(&attempts), "{attempts}");
    let warnings = captured.messages(Level::WARN).join("; ");
    assert!(warnings.contains("will be retried"), "{warnings}");
}

#[tokio::test(start_paused = true)]
async fn the_operator_ends_with_its_server_and_removes_the_webhooks() {
    for ending in [Ok(()), Err("no more ports")] {
        let (client, log) = cluster(|request| if request.method == "POST" { 201 } else { 200 });
        let server = Server::new(1, Some(ending));
        let outcome = run(operator(Some(&server), Some("a.b")), client, 600).await;
        match (ending, outcome.unwrap_err()) {
            (Ok(()), Error::Finished { task }) => assert_eq!(task, "Admission webhook server"),
            (Err(_), Error::Admission(super::Error::Server(error))) => {
                assert_eq!(error.to_string(), "no more ports");
            }
            (_, error) => panic!("{error:?}"),
        }
        assert_eq!(written(&log, "/validating").last(), Some(&json!([])));
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_starts_after_the_discovery_and_ends_after_the_configurations() {
    let server = Server::new(1, None);
    let (seen, moments) = (Arc::clone(&server), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&moments);
    let (client, log) = cluster(move |request| {
        let holders = seen
            .operator
            .lock()
            .unwrap()
            .as_ref()
            .map(Arc::strong_count);
        noted
            .lock()
            .unwrap()
            .push((request.method.clone(), holders));
        if request.method == "POST" { 201 } else { 200 }
    });
    let began = Instant::now();
    run(operator(Some(&server), Some("a.b")), client, 10)
        .await
        .unwrap();
    // One reference is held here, the other one by the running server.
    for (method, holders) in moments.lock().unwrap().iter() {
        match method.as_str() {
            "PATCH" => assert_eq!(*holders, Some(2)),
            _ => assert_ne!(*holders, Some(1), "{method}"),
        }
    }
    assert_eq!(
        moments.lock().unwrap().len(),
        6,
        "2 created, 2 written, 2 cleaned up"
    );
    assert_eq!(written(&log, "/validating").len(), 2);
    let left = server.operator.lock().unwrap().take().unwrap();
    assert_eq!(Arc::strong_count(&left), 1, "the server has ended");
    assert!(
        began.elapsed() >= Duration::from_secs(12),
        "API servers apply removals with a delay"
    );
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_removed_after_an_outage_at_exit() {
    let server = Server::new(1, None);
    let began = Instant::now();
    let (client, log) = cluster(move |request| {
        let is_away = (9..20).contains(&began.elapsed().as_secs());
        match (is_away, request.method.as_str()) {
            (true, _) => 503,
            (false, "POST") => 201,
            (false, _) => 200,
        }
    });
    run(operator(Some(&server), Some("a.b")), client, 10)
        .await
        .unwrap();
    assert_eq!(written(&log, "/validating").last(), Some(&json!([])));
    assert!(began.elapsed() >= Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn failed_creations_are_retried() {
    let captured = capture(Level::WARN);
    let server = Server::new(1, None);
    let began = Instant::now();
    let (client, log) = cluster(move |request| {
        let is_away = began.elapsed() < Duration::from_secs(100);
        match (is_away, request.method.as_str()) {
            (true, _) => 503,
            (false, "POST") => 201,
            (false, _) => 200,
        }
    });
    run(operator(Some(&server), Some("a.b")), client, 200)
        .await
        .unwrap();
    assert_eq!(written(&log, "/validating").len(), 2);
    let warnings = captured.messages(Level::WARN).join("; ");
    assert!(warnings.contains("cannot be created now"), "{warnings}");
}

#[test]
fn ids_that_are_invalid_in_urls_are_rejected() {
    let settings = kopf_core::settings::Admission::default();
    for id in ["/check", "check/", "a//b", "a/../b", "./a"] {
        let registry = registry_of(&[(id, WebhookType::Validating)]);
        let error = super::check(&registry, &settings).unwrap_err();
        assert!(matches!(error, super::Error::Unreachable { .. }), "{id:?}");
    }
}

#[test]
fn duplicate_ids_of_two_types_cause_a_warning() {
    let captured = capture(Level::WARN);
    let server: Arc<dyn WebhookServer> = Server::new(1, None);
    let mut settings = kopf_core::settings::Admission::default();
    settings.server = Some(server);
    let (validating, mutating) = (WebhookType::Validating, WebhookType::Mutating);
    for (handlers, expected) in [
        ([("a", validating), ("b", mutating)], 0),
        ([("a", validating), ("a", validating)], 0),
        ([("a", validating), ("a", mutating)], 1),
    ] {
        let before = captured.messages(Level::WARN).len();
        super::check(&registry_of(&handlers), &settings).unwrap();
        let warnings = captured.messages(Level::WARN).len() - before;
        assert_eq!(warnings, expected, "{handlers:?}");
    }
}
