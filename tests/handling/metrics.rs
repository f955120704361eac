//! Metrics of operators after known stories: the counts are exact.

use kopf_engine::metrics::Format;
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::front::{done, on, permanent, register, temporary};
use crate::stage::{Actor, Stage, everywhere, sandboxed};

/// The samples of an operator.
pub(crate) struct Samples {
    text: String,
    resource: String,
}

impl Samples {
    pub(crate) fn of(stage: &Stage, operator: &Actor<'_>) -> Self {
        let text = operator.inspect().metrics(Format::OpenMetrics);
        Self {
            text: text.expect("the operator is measured"),
            resource: format!("things.v1.{}", stage.api.group()),
        }
    }

    /// The value of the sample with this name and exactly these labels; NaN without such a sample.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let matches = |line: &&str| {
            let (series, _) = line.rsplit_once(' ').unwrap_or_default();
            let (its_name, rest) = series.split_once('{').unwrap_or((series, ""));
            let rest = rest.trim_end_matches('}');
            let pairs: Vec<_> = rest.split(',').filter(|pair| !pair.is_empty()).collect();
            let expected = labels
                .iter()
                .map(|(key, value)| format!("{key}=\"{value}\""));
            let expected: Vec<_> = expected.collect();
            its_name == name
                && pairs.len() == expected.len()
                && expected.iter().all(|pair| pairs.contains(&pair.as_str()))
        };
        let line = self.text.lines().find(matches);
        let value = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
        value.unwrap_or(f64::NAN)
    }

    /// The value of a sample of the case's resource.
    pub(crate) fn of_resource(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let resource = ("resource", self.resource.as_str());
        let labels: Vec<_> = std::iter::once(resource)
            .chain(labels.iter().copied())
            .collect();
        self.value(name, &labels)
    }

    /// The number of attempts of a handler by outcome.
    pub(crate) fn calls(&self, handler: &str, kind: &str, outcome: &str) -> f64 {
        let labels = [("handler", handler), ("kind", kind), ("outcome", outcome)];
        self.value("kopf_handler_calls_total", &labels)
    }

    fn in_error(&self, handler: &str) -> f64 {
        self.value("kopf_objects_in_error", &[("handler", handler)])
    }
}

/// Asserts equality of floats that are counts.
#[track_caller]
pub(crate) fn assert_count(actual: f64, expected: f64, samples: &Samples) {
    let is_equal = (actual - expected).abs() < 1e-9;
    assert!(is_equal, "{actual} is not {expected}: {}", samples.text);
}

#[test]
fn handlers_events_and_patches_are_counted() {
    sandboxed(async |stage| {
        let flaky = on::create("flaky").does(|call| async move {
            if call.retry == 0 {
                return temporary("not yet", 10.0);
            }
            done()
        });
        let operator = stage.run([on::create("make"), flaky]).await;
        stage.create("obj", json!({})).await;
        stage.pass(5.0).await;
        let samples = Samples::of(stage, &operator);
        assert_count(samples.calls("make", "create", "succeeded"), 1.0, &samples);
        assert_count(samples.calls("flaky", "create", "retried"), 1.0, &samples);
        assert_count(samples.in_error("flaky"), 1.0, &samples);
        assert_count(samples.in_error("make"), 0.0, &samples);
        let sleeping = [("state", "sleeping")];
        assert_count(
            samples.value("kopf_object_workers", &sleeping),
            1.0,
            &samples,
        );

        stage.until_settled("obj").await;
        let samples = Samples::of(stage, &operator);
        let flaky = [("handler", "flaky"), ("kind", "create")];
        assert_count(samples.calls("flaky", "create", "succeeded"), 1.0, &samples);
        assert_count(
            samples.value("kopf_handler_retries_total", &flaky),
            1.0,
            &samples,
        );
        assert_count(
            samples.value("kopf_handler_duration_seconds_count", &flaky),
            2.0,
            &samples,
        );
        assert_count(samples.value("kopf_handler_running", &flaky), 0.0, &samples);
        assert_count(samples.in_error("flaky"), 0.0, &samples);
        // One event of the user, and one for each write.
        let writes = stage.writes_to("obj").len();
        assert_eq!(writes, 3, "after each of the three attempts");
        let added = samples.of_resource("kopf_events_total", &[("type", "added")]);
        let modified = samples.of_resource("kopf_events_total", &[("type", "modified")]);
        assert_count(added, 1.0, &samples);
        assert_count(modified, 3.0, &samples);
        let accepted = [("outcome", "accepted")];
        assert_count(
            samples.of_resource("kopf_patches_total", &accepted),
            3.0,
            &samples,
        );
        let patched = [("verb", "patch"), ("code", "200")];
        assert_count(
            samples.of_resource("kopf_api_requests_total", &patched),
            3.0,
            &samples,
        );
        assert_count(samples.of_resource("kopf_objects", &[]), 1.0, &samples);
        assert_count(samples.of_resource("kopf_queue_events", &[]), 0.0, &samples);

        stage.delete_wholly("obj").await;
        stage.settled().await;
        let samples = Samples::of(stage, &operator);
        assert_count(samples.of_resource("kopf_objects", &[]), 0.0, &samples);
        let deleted = samples.of_resource("kopf_events_total", &[("type", "deleted")]);
        assert_count(deleted, 1.0, &samples);
    });
}

#[test]
fn failures_for_good_last_until_the_next_cause() {
    sandboxed(async |stage| {
        let fails = on::create("fails").does(|_| async { permanent("never") });
        let operator = stage.run([fails, on::update("fix")]).await;
        stage.create("one", json!({})).await;
        stage.create("two", json!({})).await;
        stage.until_handled("one").await;
        stage.until_handled("two").await;
        stage.pass(100.0).await;
        let samples = Samples::of(stage, &operator);
        assert_count(samples.calls("fails", "create", "failed"), 2.0, &samples);
        assert_count(samples.in_error("fails"), 2.0, &samples);
        stage.merge("one", json!({"spec": {"field": 1}})).await;
        stage
            .until_so("the update", || stage.journal.count("fix") == 1)
            .await;
        stage.settled().await;
        let samples = Samples::of(stage, &operator);
        assert_count(samples.in_error("fails"), 1.0, &samples);
        stage.delete_wholly("two").await;
        stage.settled().await;
        let samples = Samples::of(stage, &operator);
        assert_count(samples.in_error("fails"), 0.0, &samples);
    });
}

#[test]
fn sub_handlers_are_counted_together() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            for id in ["a", "b"] {
                register(&call, &on::sub(id));
            }
            done()
        });
        let operator = stage.run([make]).await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let samples = Samples::of(stage, &operator);
        assert_count(samples.calls("make/*", "sub", "succeeded"), 2.0, &samples);
        assert_count(samples.calls("make", "create", "unfinished"), 1.0, &samples);
        assert_count(samples.calls("make", "create", "succeeded"), 1.0, &samples);
        assert!(!samples.text.contains("make/a"), "{}", samples.text);
    });
}

#[test]
fn daemons_and_timers_are_counted_while_they_run() {
    sandboxed(async |stage| {
        let sick = on::timer("sick")
            .interval(10.0)
            .backoff(10.0)
            .does(|call| async move {
                if call.retry == 0 {
                    return temporary("not yet", 10.0);
                }
                done()
            });
        let operator = stage.run([on::daemon("watchman").waits(), sick]).await;
        stage.create("obj", json!({})).await;
        stage.pass(5.0).await;
        let tasks = |samples: &Samples, handler: &str, kind: &str| {
            let labels = [("handler", handler), ("kind", kind)];
            samples.value("kopf_background_tasks", &labels)
        };
        let samples = Samples::of(stage, &operator);
        assert_count(tasks(&samples, "watchman", "daemon"), 1.0, &samples);
        assert_count(tasks(&samples, "sick", "timer"), 1.0, &samples);
        assert_count(samples.in_error("sick"), 1.0, &samples);
        stage.pass(10.0).await;
        let samples = Samples::of(stage, &operator);
        assert_count(samples.in_error("sick"), 0.0, &samples);
        stage.delete_wholly("obj").await;
        stage.settled().await;
        let samples = Samples::of(stage, &operator);
        assert_count(tasks(&samples, "watchman", "daemon"), 0.0, &samples);
        assert_count(tasks(&samples, "sick", "timer"), 0.0, &samples);
    });
}

#[test]
fn streams_are_counted_with_their_reconnects_and_relists() {
    sandboxed(async |stage| {
        let operator = stage.run([on::create("make")]).await;
        stage.settled().await;
        let samples = Samples::of(stage, &operator);
        let watching = [("state", "watching")];
        assert_count(
            samples.of_resource("kopf_watch_streams", &watching),
            1.0,
            &samples,
        );
        assert_count(
            samples.of_resource("kopf_watch_reconnects_total", &[]),
            0.0,
            &samples,
        );
        assert_count(
            samples.of_resource("kopf_watch_relists_total", &[]),
            0.0,
            &samples,
        );
        stage.pass(20.0).await;
        stage.faults().kill_watches();
        stage.pass(1.0).await;
        let samples = Samples::of(stage, &operator);
        assert_count(
            samples.of_resource("kopf_watch_reconnects_total", &[]),
            1.0,
            &samples,
        );
        stage.pass(20.0).await;
        stage.relist();
        stage.pass(5.0).await;
        let samples = Samples::of(stage, &operator);
        assert_count(
            samples.of_resource("kopf_watch_reconnects_total", &[]),
            2.0,
            &samples,
        );
        assert_count(
            samples.of_resource("kopf_watch_relists_total", &[]),
            1.0,
            &samples,
        );
        stage.pass(40.0).await;
        let age = Samples::of(stage, &operator).of_resource("kopf_watch_age_seconds", &[]);
        assert!((0.0..60.0).contains(&age), "{age}");
    });
}

#[test]
fn rejected_patches_are_counted() {
    sandboxed(async |stage| {
        let rejection = Fault::error(422).verb(Verb::Patch).kind("things").times(1);
        stage.faults().inject(rejection);
        let operator = stage.run([on::create("make")]).await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let samples = Samples::of(stage, &operator);
        let patches = |outcome| samples.of_resource("kopf_patches_total", &[("outcome", outcome)]);
        assert_count(patches("rejected"), 1.0, &samples);
        assert_count(patches("accepted"), 1.0, &samples);
        assert_count(
            samples.of_resource("kopf_cycle_failures_total", &[]),
            1.0,
            &samples,
        );
    });
}

#[test]
fn nothing_is_measured_if_the_settings_disable_it() {
    everywhere(async |stage| {
        let operator = stage
            .operator([on::create("make")])
            .settings(|settings| settings.process.metrics = false)
            .start()
            .await;
        stage.create_handled("obj", json!({})).await;
        assert!(operator.inspect().metrics(Format::OpenMetrics).is_none());
    });
}

#[test]
fn kubernetes_events_are_counted() {
    everywhere(async |stage| {
        let operator = stage
            .operator([on::create("make")])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage
            .until_so("both events", || stage.posts().len() == 2)
            .await;
        stage.settled().await;
        let samples = Samples::of(stage, &operator);
        let events = |outcome| samples.value("kopf_k8s_events_total", &[("outcome", outcome)]);
        assert_count(events("posted"), 2.0, &samples);
        assert_count(events("dropped"), 0.0, &samples);
        assert_count(samples.value("kopf_k8s_events_queued", &[]), 0.0, &samples);
    });
}

/// The code and the body of a response.
async fn get(operator: &Actor<'_>, path: &str) -> (String, String) {
    let address = operator.inspect().probed_at().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let code = response.split(' ').nth(1).unwrap_or_default().to_owned();
    let (_, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    (code, body.to_owned())
}

#[test]
fn the_probe_endpoint_serves_metrics_and_reasons() {
    sandboxed(async |stage| {
        let outage = || Fault::error(503).kind("things").verb(Verb::List);
        let outage = stage.faults().inject(outage());
        let operator = stage.operator([on::create("make")]).probed().start().await;
        stage.sleep(2.0).await;
        let (code, body) = get(&operator, "/readyz").await;
        assert_eq!(code, "503");
        let body: Value = serde_json::from_str(&body).unwrap();
        let reason = &body["reasons"][0];
        assert_eq!(reason["check"], "streams", "{body}");
        let message = reason["message"].as_str().unwrap();
        assert!(
            message.contains("things") && message.contains("not listed yet"),
            "{message}"
        );
        assert_eq!(get(&operator, "/livez").await.0, "200");

        stage.faults().remove(outage);
        stage.pass(60.0).await;
        let (code, body) = get(&operator, "/readyz").await;
        assert_eq!(code, "200", "{body}");
        let (code, body) = get(&operator, "/metrics").await;
        assert_eq!(code, "200");
        let expected = "\n# TYPE kopf_handler_calls_total counter\n";
        assert!(body.contains(expected), "{body}");
        assert!(!body.contains("# EOF"), "{body}");
        operator.stop().await;
    });
}
