//! The rules of activities, in virtual time.

use std::sync::Mutex;

use futures::future::BoxFuture;
use kopf_core::handler::{ErrorsMode, FunctionId, HandlerKind, HandlerSpec, Retrying};
use kopf_core::outcome::HandlerError;
use kopf_core::settings::Settings;
use serde_json::json;
use tracing::Level;

use super::*;
use crate::captured::capture;
use crate::clock::Clock;
use crate::fake_api::{FakeResponse, serve};
use crate::invocation::{Call, HandlerResult, Invoke, Work};

type Run = Box<dyn Fn(Call) -> BoxFuture<'static, HandlerResult> + Send + Sync>;

struct Function(Run);

impl Invoke for Function {
    fn invoke(&self, call: Call) -> Work {
        Work::Async((self.0)(call))
    }
}

/// Handlers to be called, and a record of the calls: id, second, number of the attempt.
#[derive(Default)]
struct Fixture {
    registry: Registry,
    calls: Arc<Mutex<Vec<(String, u64, u32)>>>,
}

impl Fixture {
    /// Adds a handler with these outcomes of its attempts; the last one repeats.
    fn handler(self, id: &str, retrying: Retrying, results: Vec<HandlerResult>) -> Self {
        let number = self.registry.handlers().len() as u64;
        self.numbered(id, number, retrying, results)
    }

    fn numbered(
        mut self,
        id: &str,
        number: u64,
        retrying: Retrying,
        results: Vec<HandlerResult>,
    ) -> Self {
        let calls = Arc::clone(&self.calls);
        let began = Instant::now();
        let run: Run = Box::new(move |call| {
            assert!(matches!(call.subject, Subject::Activity(Activity::Startup)));
            assert_eq!(call.runtime, began.elapsed());
            let entry = (call.id.to_string(), began.elapsed().as_secs(), call.retry);
            calls.lock().unwrap().push(entry);
            let last = results.len() - 1;
            let result = results[last.min(call.retry as usize)].clone();
            Box::pin(async move { result })
        });
        self.add(id, number, retrying, run);
        self
    }

    fn add(&mut self, id: &str, number: u64, retrying: Retrying, run: Run) {
        let kind = HandlerKind::Activity(Activity::Startup);
        let mut spec = HandlerSpec::new(id, FunctionId::Number(number), kind);
        spec.retrying = retrying;
        self.registry
            .add(spec.build(Arc::new(Function(run)) as _).unwrap());
    }

    async fn run(&self) -> Result<Finished, Error> {
        let (client, _) = serve(|_| FakeResponse::Never);
        let settings = Arc::new(Settings::default());
        let context = OperatorContext::new(client, settings, Clock::system(), Arc::new(()));
        let context = Arc::new(context);
        Activities::new(Activity::Startup, &self.registry, BlockingPool::new(None))
            .run(|| Arc::clone(&context))
            .await
    }

    fn calls(&self) -> Vec<(String, u64, u32)> {
        self.calls.lock().unwrap().clone()
    }
}

fn limited(change: impl FnOnce(&mut Retrying)) -> Retrying {
    let mut retrying = Retrying::default();
    change(&mut retrying);
    retrying
}

fn temporary(seconds: u64) -> HandlerResult {
    let delay = Some(Duration::from_secs(seconds));
    Err(HandlerError::temporary("not yet", delay))
}

#[tokio::test(start_paused = true)]
async fn activity_without_handlers_ends_at_once() {
    let fixture = Fixture::default();
    assert_eq!(fixture.run().await.unwrap().iter().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn handlers_are_called_in_order_until_all_are_finished() {
    let captured = capture(Level::INFO);
    let fixture = Fixture::default()
        .handler(
            "a",
            Retrying::default(),
            vec![temporary(10), temporary(10), Ok(Some(json!(1)))],
        )
        .handler("b", Retrying::default(), vec![temporary(15), Ok(None)])
        .handler("c", Retrying::default(), vec![Ok(Some(json!({"x": 3})))]);
    let finished = fixture.run().await.unwrap();
    let expected = [
        ("a", 0, 0),
        ("b", 0, 0),
        ("c", 0, 0),
        ("a", 10, 1),
        ("b", 15, 1),
        ("a", 20, 2),
    ];
    let expected = expected.map(|(id, second, retry)| (id.to_owned(), second, retry));
    assert_eq!(fixture.calls(), expected);
    let results: Vec<_> = finished
        .iter()
        .map(|returned| (&*returned.id, returned.value.clone()))
        .collect();
    assert_eq!(
        results,
        [
            ("a", Some(json!(1))),
            ("b", None),
            ("c", Some(json!({"x": 3})))
        ]
    );
    let records = captured.records();
    assert!(
        records
            .iter()
            .all(|record| record.target == "kopf.activities.startup")
    );
    assert_eq!(
        captured.messages(Level::INFO),
        ["c", "b", "a"].map(|id| format!("Activity '{id}' succeeded."))
    );
    assert_eq!(
        captured.messages(Level::ERROR)[0],
        "Activity 'a' failed temporarily: not yet"
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_function_is_called_once_per_id() {
    let fixture = Fixture::default()
        .numbered("same", 1, Retrying::default(), vec![Ok(None)])
        .numbered("same", 1, Retrying::default(), vec![Ok(None)])
        .numbered("same", 2, Retrying::default(), vec![Ok(None)])
        .numbered("other", 1, Retrying::default(), vec![Ok(None)]);
    fixture.run().await.unwrap();
    let ids: Vec<_> = fixture.calls().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["same", "same", "other"]);
}

#[tokio::test(start_paused = true)]
async fn one_failure_fails_the_activity_after_all_handlers() {
    let fixture = Fixture::default()
        .handler(
            "bad",
            Retrying::default(),
            vec![Err(HandlerError::permanent("never"))],
        )
        .handler(
            "slow",
            Retrying::default(),
            vec![temporary(100), Ok(Some(json!("done")))],
        );
    let error = fixture.run().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the startup has failed: Activity 'bad': never"
    );
    assert_eq!(error.failures().len(), 1);
    let succeeded: Vec<_> = error.succeeded().iter().map(|one| &*one.id).collect();
    assert_eq!(succeeded, ["slow"]);
    assert_eq!(fixture.calls().last().unwrap().1, 100);
}

#[tokio::test(start_paused = true)]
async fn limits_and_error_modes_apply() {
    let oops = || Err(HandlerError::arbitrary("oops"));
    // By default, errors are retried after the default delay.
    let fixture = Fixture::default().handler("fn", Retrying::default(), vec![oops(), Ok(None)]);
    fixture.run().await.unwrap();
    assert_eq!(fixture.calls().last().unwrap().1, 60);

    let backoff = limited(|limits| limits.backoff = Some(Duration::from_secs(7)));
    let fixture = Fixture::default().handler("fn", backoff, vec![oops(), Ok(None)]);
    fixture.run().await.unwrap();
    assert_eq!(fixture.calls().last().unwrap().1, 7);

    let permanent = limited(|limits| limits.errors = Some(ErrorsMode::Permanent));
    let fixture = Fixture::default().handler("fn", permanent, vec![oops()]);
    fixture.run().await.unwrap_err();
    assert_eq!(fixture.calls().len(), 1);

    let ignored = limited(|limits| limits.errors = Some(ErrorsMode::Ignored));
    let fixture = Fixture::default().handler("fn", ignored, vec![oops()]);
    let finished = fixture.run().await.unwrap();
    assert_eq!(finished.iter().next().unwrap().value, None);

    let retries = limited(|limits| limits.retries = Some(3));
    let fixture = Fixture::default().handler("fn", retries, vec![temporary(1)]);
    let error = fixture.run().await.unwrap_err();
    assert_eq!(fixture.calls().len(), 3);
    let expected =
        "the startup has failed: Activity 'fn' failed temporarily but will exceed 3 retries";
    assert!(error.to_string().starts_with(expected), "{error}");

    let timeout = limited(|limits| limits.timeout = Some(Duration::from_secs(25)));
    let fixture = Fixture::default().handler("fn", timeout, vec![temporary(10)]);
    fixture.run().await.unwrap_err();
    assert_eq!(fixture.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_cancelled_at_its_timeout() {
    let mut fixture = Fixture::default();
    let timeout = limited(|limits| limits.timeout = Some(Duration::from_secs(25)));
    let run: Run = Box::new(|_| Box::pin(std::future::pending()));
    fixture.add("fn", 1, timeout, run);
    let began = Instant::now();
    let error = fixture.run().await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::from_secs(25));
    assert!(error.to_string().contains("has timed out"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn results_can_be_of_any_type() {
    struct Ticket(u32);
    let mut fixture = Fixture::default();
    for number in [1, 2] {
        let run: Run = Box::new(move |call| {
            call.slot.put(Ticket(number));
            // A failed attempt leaves no result.
            let result = if call.retry < number {
                temporary(1)
            } else {
                Ok(None)
            };
            Box::pin(async move { result })
        });
        fixture.add(
            &format!("fn{number}"),
            number.into(),
            Retrying::default(),
            run,
        );
    }
    let taken = fixture.run().await.unwrap().take::<Ticket>();
    let taken: Vec<_> = taken.iter().map(|(id, ticket)| (&**id, ticket.0)).collect();
    assert_eq!(taken, [("fn1", 1), ("fn2", 2)]);
}

/// An operator with one handler of objects and handlers of activities, and a record of the calls.
mod startup_cleanup {
    use kopf_core::selector::Selector;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::operator::{self, Operator};

    type Steps = Arc<Mutex<Vec<String>>>;

    /// Returns a handler that records its name and returns this outcome.
    fn handler(
        activity: Activity,
        id: &str,
        steps: &Steps,
        result: impl Fn(&Call) -> HandlerResult + Send + Sync + 'static,
    ) -> Handler {
        let kind = HandlerKind::Activity(activity);
        let spec = HandlerSpec::new(
            id,
            FunctionId::Number(steps.lock().unwrap().len() as u64),
            kind,
        );
        let steps = Arc::clone(steps);
        let run: Run = Box::new(move |call| {
            steps.lock().unwrap().push(call.id.to_string());
            let result = result(&call);
            Box::pin(async move { result })
        });
        spec.build(Arc::new(Function(run)) as _).unwrap()
    }

    fn operator(handlers: impl IntoIterator<Item = Handler>) -> Operator {
        let mut registry: Registry = handlers.into_iter().collect();
        let run: Run = Box::new(|_| Box::pin(async { Ok(None) }));
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(100), HandlerKind::Event);
        spec.selector = Some(Selector::parse(&["things.one"]).unwrap());
        registry.add(spec.build(Arc::new(Function(run)) as _).unwrap());
        Operator::new(registry)
    }

    fn fails(_: &Call) -> HandlerResult {
        Err(HandlerError::permanent("no way"))
    }

    #[expect(clippy::unnecessary_wraps, reason = "one of several outcomes")]
    fn works(_: &Call) -> HandlerResult {
        Ok(None)
    }

    /// Runs the operator on a server that rejects all requests: it ends with an error.
    async fn run(operator: Operator, steps: &Steps) -> (Result<(), operator::Error>, Vec<String>) {
        let asked = Arc::clone(steps);
        let (client, _) = serve(move |_| {
            let mut steps = asked.lock().unwrap();
            if steps.last().is_none_or(|last| last != "asked") {
                steps.push("asked".to_owned());
            }
            FakeResponse::status(403)
        });
        let outcome = operator.run(client, CancellationToken::new()).await;
        (outcome, steps.lock().unwrap().clone())
    }

    #[tokio::test(start_paused = true)]
    async fn startup_runs_first_and_cleanup_last_even_after_an_error() {
        let steps = Steps::default();
        let operator = operator([
            handler(Activity::Startup, "begin", &steps, works),
            handler(Activity::Cleanup, "end", &steps, works),
        ]);
        let inspect = operator.inspect();
        assert!(inspect.settings().is_none());
        let (outcome, steps) = run(operator, &steps).await;
        assert!(
            matches!(outcome, Err(operator::Error::Discovery(_))),
            "{outcome:?}"
        );
        assert_eq!(steps, ["begin", "asked", "end"]);
        inspect.stopping().await;
        assert!(inspect.settings().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_startup_ends_the_operator() {
        let steps = Steps::default();
        let operator = operator([
            handler(Activity::Startup, "begin", &steps, fails),
            handler(Activity::Cleanup, "end", &steps, works),
        ]);
        let (outcome, steps) = run(operator, &steps).await;
        assert_eq!(
            outcome.unwrap_err().to_string(),
            "the startup has failed: Activity 'begin': no way"
        );
        assert_eq!(steps, ["begin"], "no requests, no cleanup");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_error_is_returned() {
        let steps = Steps::default();
        let captured = capture(Level::ERROR);
        let operator = operator([handler(Activity::Cleanup, "end", &steps, fails)]);
        let (outcome, _) = run(operator, &steps).await;
        assert!(
            matches!(outcome, Err(operator::Error::Discovery(_))),
            "{outcome:?}"
        );
        let errors = captured.messages(Level::ERROR);
        assert_eq!(
            errors.last().unwrap(),
            "the cleanup has failed: Activity 'end': no way"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_cleanup_is_an_error() {
        let steps = Steps::default();
        let operator = operator([handler(Activity::Cleanup, "end", &steps, fails)]);
        let stop = CancellationToken::new();
        let (client, _) = serve(|_| FakeResponse::Never);
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        let (outcome, ()) = tokio::join!(operator.run(client, stop.clone()), stopping);
        assert!(
            matches!(outcome, Err(operator::Error::Activity(_))),
            "{outcome:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_startup_is_not_an_error_and_skips_the_cleanup() {
        let captured = capture(Level::WARN);
        let steps = Steps::default();
        let operator = operator([
            handler(Activity::Startup, "begin", &steps, |_| temporary(3_600)),
            handler(Activity::Cleanup, "end", &steps, works),
        ]);
        let stop = CancellationToken::new();
        let (client, _) = serve(|_| FakeResponse::Never);
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        let (outcome, ()) = tokio::join!(operator.run(client, stop.clone()), stopping);
        outcome.unwrap();
        assert_eq!(*steps.lock().unwrap(), ["begin"]);
        assert_eq!(
            captured.messages(Level::WARN),
            ["Startup activity is only partially executed due to cancellation."]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn startup_handlers_can_change_settings() {
        let steps = Steps::default();
        let change = |change: fn(&mut Settings)| {
            move |call: &Call| {
                let draft = call.operator.draft.as_ref().unwrap();
                let mut settings = call.operator.settings.as_ref().clone();
                change(&mut settings);
                draft.set(settings);
                Ok(None)
            }
        };
        let operator = operator([
            handler(
                Activity::Startup,
                "one",
                &steps,
                change(|settings| settings.watching.page_size = 7),
            ),
            handler(
                Activity::Startup,
                "two",
                &steps,
                change(|settings| settings.watching.page_size += 1),
            ),
        ]);
        let inspect = operator.inspect();
        run(operator, &steps).await.0.unwrap_err();
        assert_eq!(inspect.settings().unwrap().watching.page_size, 8);
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_settings_of_startup_handlers_are_rejected_by_name() {
        let steps = Steps::default();
        let operator = operator([
            handler(Activity::Startup, "begin", &steps, |call| {
                let mut settings = Settings::default();
                settings.execution.max_workers = Some(0);
                call.operator.draft.as_ref().unwrap().set(settings);
                Ok(None)
            }),
            handler(Activity::Cleanup, "end", &steps, works),
        ]);
        let (outcome, steps) = run(operator, &steps).await;
        let Err(operator::Error::Settings(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(error.to_string().contains("settings.execution.max_workers"));
        assert_eq!(steps, ["begin", "end"]);
    }
}
