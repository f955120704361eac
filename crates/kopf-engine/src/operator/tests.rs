//! Operators with a fake API server.

use std::time::Duration;

use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
use kopf_core::selector::Selector;
use serde_json::json;
use tracing::Level;

use super::*;
use crate::authentication::LoginError;
use crate::captured::{Captured, capture};
use crate::fake_api::{FakeRequest, FakeResponse, discover, kind, serve};
use crate::invocation::Noop;

fn operator() -> Operator {
    let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), HandlerKind::Event);
    spec.selector = Some(Selector::parse(&["things.one"]).unwrap());
    let mut registry = Registry::default();
    registry.add(spec.build(Arc::new(Noop) as _).unwrap());
    Operator::new(registry)
}

/// A cluster with one resource without objects and silent watch streams.
fn quiet(request: &FakeRequest) -> FakeResponse {
    if request.is_watch() {
        return FakeResponse::Never;
    }
    discover(request, &[kind("one", "things")]).unwrap_or_else(|| {
        FakeResponse::Json(
            200,
            json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}),
        )
    })
}

#[tokio::test(start_paused = true)]
async fn operator_without_handlers_runs_with_a_warning() {
    let captured = capture(Level::WARN);
    let (client, _) = serve(quiet);
    let (told, ready) = oneshot::channel();
    let operator = Operator::new(Registry::default()).on_ready(told);
    let stop = CancellationToken::new();
    let stopping = async {
        ready.await.unwrap();
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(operator.run(client, stop.clone()), stopping);
    outcome.unwrap();
    let warnings = captured.messages(Level::WARN);
    let expected = "No handlers are registered: the operator has nothing to do.";
    assert_eq!(warnings, [expected]);
}

#[test]
fn run_can_be_spawned() {
    fn check<T: Send + 'static>(_: T) {}
    let (client, _) = serve(quiet);
    check(operator().run(client, CancellationToken::new()));
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_are_rejected() {
    let (client, log) = serve(quiet);
    let mut settings = Settings::default();
    settings.queueing.max_events = 0;
    let operator = operator().settings(settings);
    let outcome = operator.run(client, CancellationToken::new()).await;
    assert!(matches!(outcome, Err(Error::Settings(_))), "{outcome:?}");
    assert!(log.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn handlers_whose_progress_cannot_be_stored_are_rejected() {
    let (client, log) = serve(quiet);
    let registry = |kind| -> Registry {
        let mut spec = HandlerSpec::new("my handler", FunctionId::Number(1), kind);
        spec.selector = Some(Selector::parse(&["things.one"]).unwrap());
        let handler = spec.build(Arc::new(Noop) as _).unwrap();
        [handler].into_iter().collect()
    };
    let operator = Operator::new(registry(HandlerKind::Create));
    let outcome = operator.run(client.clone(), CancellationToken::new()).await;
    let Err(Error::Handler(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(error.to_string().contains("\"my handler\""), "{error}");
    assert!(log.all().is_empty());

    // The id is valid for event handlers and for the storage in the status.
    let stop = CancellationToken::new();
    stop.cancel();
    let operator = Operator::new(registry(HandlerKind::Event));
    operator.run(client.clone(), stop.clone()).await.unwrap();
    let mut settings = Settings::default();
    let status = kopf_core::progress::StatusProgressStorage::default();
    settings.persistence.progress_storage = Arc::new(status);
    let operator = Operator::new(registry(HandlerKind::Create)).settings(settings);
    operator.run(client, stop).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn doubtful_handlers_cause_warnings_at_the_start() {
    let captured = capture(Level::WARN);
    let (client, _) = serve(quiet);
    let handlers = [1, 2].map(|number| {
        let function = FunctionId::Number(number);
        let mut spec = HandlerSpec::new("fn", function, HandlerKind::Create);
        spec.selector = Some(Selector::parse(&["things.one"]).unwrap());
        spec.retrying.backoff = (number == 1).then_some(Duration::ZERO);
        spec.build(Arc::new(Noop) as _).unwrap()
    });
    let (told, ready) = oneshot::channel();
    let operator = Operator::new(handlers.into_iter().collect()).on_ready(told);
    let stop = CancellationToken::new();
    let stopping = async {
        ready.await.unwrap();
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(operator.run(client, stop.clone()), stopping);
    outcome.unwrap();
    let warnings = captured.messages(Level::WARN);
    for text in [
        "Duplicate handler id 'fn'",
        "Handler 'fn' is retried immediately",
    ] {
        let told = warnings.iter().filter(|warning| warning.starts_with(text));
        assert_eq!(told.count(), 1, "{warnings:?}");
    }
}

/// Returns the log records about ended tasks, in their order.
fn ended(captured: &Captured) -> Vec<String> {
    let mut messages = captured.messages(Level::DEBUG);
    messages.retain(|message| message.ends_with("is cancelled."));
    messages
}

#[tokio::test(start_paused = true)]
async fn operator_runs_until_it_is_stopped() {
    let captured = capture(Level::DEBUG);
    let (client, log) = serve(quiet);
    let (told, ready) = oneshot::channel();
    let operator = operator().on_ready(told);
    let inspect = operator.inspect();
    let stop = CancellationToken::new();
    let stopping = async {
        ready.await.unwrap();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(inspect.snapshot().streams, 1);
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(operator.run(client, stop.clone()), stopping);
    outcome.unwrap();
    assert_eq!(inspect.snapshot().streams, 0);
    assert_eq!(log.count("/apis/one/v1/things"), 1);

    let ended = ended(&captured);
    assert_eq!(ended.len(), 4, "{ended:?}");
    assert_eq!(
        ended[3], "Poster of events is cancelled.",
        "after the streams"
    );
}

#[tokio::test(start_paused = true)]
async fn failure_of_a_required_task_ends_the_operator() {
    let captured = capture(Level::ERROR);
    let (client, _) = serve(|_| FakeResponse::status(403));
    let outcome = operator().run(client, CancellationToken::new()).await;
    let Err(Error::Discovery(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(error.is_forbidden());
    assert_eq!(captured.messages(Level::ERROR).len(), 1);
}

/// A login that uses the clients of the list in turn.
struct Given(std::sync::Mutex<Vec<kopf_client::vault::Credentials>>);

impl kopf_client::vault::Login for Given {
    fn login(
        &self,
    ) -> futures::future::BoxFuture<'_, Result<kopf_client::vault::Retrieved, LoginError>> {
        let next = self.0.lock().unwrap().pop();
        let retrieved = next.map(|credentials| vec![("fn".to_owned(), credentials)]);
        Box::pin(async { retrieved.ok_or(LoginError::Nothing) })
    }
}

#[tokio::test(start_paused = true)]
async fn operator_logs_in_and_ends_if_the_login_fails() {
    let captured = capture(Level::DEBUG);
    let (credentials, log) = crate::fake_api::credentials(quiet);
    let login = Access::Custom(Arc::new(Given(vec![credentials].into())));
    let (told, ready) = oneshot::channel();
    let stop = CancellationToken::new();
    let stopping = async {
        ready.await.unwrap();
        stop.cancel();
    };
    let operator = operator().on_ready(told);
    let (outcome, ()) = tokio::join!(operator.run(login, stop.clone()), stopping);
    outcome.unwrap();
    assert_eq!(log.count("/apis/one/v1/things"), 1);
    let ended = ended(&captured);
    assert_eq!(ended.len(), 5, "{ended:?}");
    let last = ended[3..].contains(&"Credentials retriever is cancelled.".to_owned());
    assert!(last, "{ended:?}");

    let (credentials, _) = crate::fake_api::credentials(|_| FakeResponse::status(401));
    let login = Access::Custom(Arc::new(Given(vec![credentials].into())));
    let outcome = self::operator().run(login, CancellationToken::new()).await;
    assert!(
        matches!(outcome, Err(Error::Login(LoginError::Nothing))),
        "{outcome:?}"
    );
}
