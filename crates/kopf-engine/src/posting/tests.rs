//! Posting to a fake API server.

use std::time::Duration;

use serde_json::{Value, json};
use tracing::Level as TracingLevel;

use super::*;
use crate::captured::capture;
use crate::fake_api::{FakeResponse, Log, serve};

fn object(namespace: Option<&str>) -> ObjectReference {
    let mut object = ObjectReference::default();
    object.api_version = Some("golden.example/v1".into());
    object.kind = Some("Thing".into());
    object.name = Some("obj".into());
    object.uid = Some("8f503325".into());
    object.namespace = namespace.map(Into::into);
    object
}

fn poster(change: impl FnOnce(&mut settings::Posting)) -> Poster {
    let mut settings = Settings::default();
    change(&mut settings.posting);
    let start = "2026-11-15T00:40:05.808732Z".parse().unwrap();
    Poster::new(Arc::new(settings), Clock::starting_at(start))
}

fn created() -> (Client, Log) {
    serve(|request| FakeResponse::Json(201, request.body.clone()))
}

/// Sends all queued events.
async fn send_all(poster: &Poster, client: Client) {
    let sent = async {
        while !poster.is_idle() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = run(poster.clone(), client) => panic!("the poster has ended"),
        () = sent => {}
    }
}

fn bodies(log: &Log) -> Vec<Value> {
    log.all().into_iter().map(|request| request.body).collect()
}

#[tokio::test(start_paused = true)]
async fn posted_events_equal_those_of_the_original() {
    let (client, log) = created();
    let poster = poster(|_| {});
    let message = "hello world".to_owned();
    poster.record(&object(Some("g-s16")), Level::Info, message);
    send_all(&poster, client).await;

    let requests = log.all();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].method, "POST");
    assert_eq!(requests[0].path, "/api/v1/namespaces/g-s16/events");
    let now = "2026-11-15T00:40:05.808732+00:00";
    assert_eq!(
        requests[0].body,
        json!({
            "metadata": {"generateName": "kopf-event-", "namespace": "g-s16"},
            "involvedObject": {"kind": "Thing", "namespace": "g-s16", "name": "obj",
                               "uid": "8f503325", "apiVersion": "golden.example/v1"},
            "reason": "Logging", "message": "hello world", "source": {"component": "kopf"},
            "firstTimestamp": now, "lastTimestamp": now, "eventTime": now,
            "type": "Normal", "action": "Action?",
            "reportingComponent": "kopf", "reportingInstance": "dev",
        })
    );
}

#[tokio::test(start_paused = true)]
async fn settings_define_the_reporter() {
    let (client, log) = created();
    let poster = poster(|posting| {
        posting.event_name_prefix = "my-".to_owned();
        posting.reporting_component = "me".to_owned();
        posting.reporting_instance = "here".to_owned();
    });
    poster.event(&object(Some("ns")), "T", "R", String::new());
    send_all(&poster, client).await;
    let body = &bodies(&log)[0];
    assert_eq!(body["metadata"]["generateName"], "my-");
    assert_eq!(body["reportingComponent"], "me");
    assert_eq!(body["source"]["component"], "me");
    assert_eq!(body["reportingInstance"], "here");
}

#[tokio::test(start_paused = true)]
async fn repeats_are_folded_into_one() {
    let (client, log) = created();
    let poster = poster(|_| {});
    let object = object(Some("ns"));
    for message in ["same", "other", "same", "same"] {
        poster.event(&object, "Normal", "Reason", message.to_owned());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    poster.event(&object, "Warning", "Reason", "same".to_owned());
    send_all(&poster, client).await;

    let bodies = bodies(&log);
    let seen: Vec<_> = bodies
        .iter()
        .map(|body| (body["message"].as_str().unwrap(), &body["count"]))
        .collect();
    let expected = [
        ("same", &json!(3)),
        ("other", &Value::Null),
        ("same", &Value::Null),
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        bodies[0]["firstTimestamp"],
        "2026-11-15T00:40:05.808732+00:00"
    );
    assert_eq!(bodies[0]["eventTime"], bodies[0]["firstTimestamp"]);
    assert_eq!(
        bodies[0]["lastTimestamp"],
        "2026-11-15T00:40:08.808732+00:00"
    );
}

#[tokio::test(start_paused = true)]
async fn repeats_of_posted_events_are_posted_ever_more_rarely() {
    let (client, log) = created();
    let poster = poster(|_| {});
    let failing = async {
        let mut pause = Duration::from_millis(500);
        for _ in 0..3_600 {
            poster.event(&object(Some("ns")), "Error", "Reason", "failed".to_owned());
            poster.event(
                &object(Some("other")),
                "Error",
                "Reason",
                "failed".to_owned(),
            );
            tokio::time::sleep(pause).await;
            pause = Duration::from_secs(1);
        }
    };
    tokio::select! {
        () = run(poster.clone(), client) => panic!("the poster has ended"),
        () = failing => {}
    }
    let mut messages: Vec<_> = bodies(&log)
        .iter()
        .filter(|body| body["involvedObject"]["namespace"] == "ns")
        .map(|body| body["message"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(messages.len(), 14);
    messages.truncate(5);
    let expected = [
        "failed",
        "failed (2 times)",
        "failed (4 times)",
        "failed (8 times)",
        "failed (16 times)",
    ];
    assert_eq!(messages, expected);
}

#[tokio::test(start_paused = true)]
async fn repeats_are_posted_when_they_are_due() {
    let (client, log) = created();
    let poster = poster(|_| {});
    let repeating = async {
        for pause in [1, 100] {
            poster.event(&object(Some("ns")), "Error", "Reason", "failed".to_owned());
            tokio::time::sleep(Duration::from_secs(pause)).await;
        }
    };
    tokio::select! {
        () = run(poster.clone(), client) => panic!("the poster has ended"),
        () = repeating => {}
    }
    let times: Vec<_> = bodies(&log)
        .iter()
        .map(|body| (body["message"].clone(), body["lastTimestamp"].clone()))
        .collect();
    let expected = [
        (json!("failed"), json!("2026-11-15T00:40:05.808732+00:00")),
        (json!("failed"), json!("2026-11-15T00:40:06.808732+00:00")),
    ];
    assert_eq!(times, expected);
}

#[tokio::test(start_paused = true)]
async fn repeats_take_no_room_of_other_events() {
    let (client, log) = created();
    let poster = poster(|posting| posting.queue_limit = 20);
    let posting = async {
        for number in 0..40 {
            for _ in 0..2 {
                let message = number.to_string();
                poster.event(&object(Some("ns")), "Error", "Reason", message);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    tokio::select! {
        () = run(poster.clone(), client) => panic!("the poster has ended"),
        () = posting => {}
    }
    assert_eq!(log.all().len(), 40);
    assert_eq!(poster.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn drops_are_counted_and_reported_once_per_burst() {
    let captured = capture(TracingLevel::WARN);
    let (client, log) = created();
    let poster = poster(|posting| posting.queue_limit = 20);
    for number in 0..27 {
        poster.event(&object(None), "Normal", "Reason", number.to_string());
    }
    assert_eq!(poster.dropped(), 7);
    // Folded events take no capacity.
    poster.event(&object(None), "Normal", "Reason", "0".to_owned());
    assert_eq!(poster.dropped(), 7);
    send_all(&poster, client).await;
    assert_eq!(log.all().len(), 20);
    assert_eq!(
        captured.messages(TracingLevel::WARN),
        [
            "Too many k8s-events are waiting to be posted: new ones are dropped. See the \
             setting posting.queue_limit.",
            "7 k8s-events were dropped: they were created faster than they could be posted.",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn events_of_cluster_objects_go_to_the_namespace_of_the_credentials() {
    let (client, log) = created();
    let poster = poster(|_| {});
    poster.event(&object(None), "T", "R", String::new());
    send_all(&poster, client).await;
    let requests = log.all();
    assert_eq!(requests[0].path, "/api/v1/namespaces/credentials/events");
    assert_eq!(
        requests[0].body["involvedObject"]["namespace"],
        "credentials"
    );
    assert_eq!(requests[0].body["metadata"]["namespace"], "credentials");
}

#[tokio::test(start_paused = true)]
async fn failed_posts_are_logged_and_dropped() {
    let captured = capture(TracingLevel::WARN);
    let (client, log) = serve(|request| match request.body["reason"].as_str() {
        Some("Bad") => FakeResponse::status(403),
        _ => FakeResponse::Json(201, json!({})),
    });
    let poster = poster(|_| {});
    poster.event(&object(None), "T", "Bad", "first".to_owned());
    poster.event(&object(None), "T", "Good", "second".to_owned());
    send_all(&poster, client).await;
    assert_eq!(bodies(&log)[1]["message"], "second");
    let warnings = captured.messages(TracingLevel::WARN);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("Failed to post an event."),
        "{warnings:?}"
    );
    assert!(warnings[0].contains("first"), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn terminating_namespaces_cause_no_warnings() {
    let captured = capture(TracingLevel::DEBUG);
    let (client, log) = serve(|request| match request.body["reason"].as_str() {
        Some("Terminating") => {
            let cause = json!({"reason": "NamespaceTerminating",
                               "message": "namespace ns is being terminated"});
            let status = json!({"kind": "Status", "code": 403, "reason": "Forbidden",
                                "message": "forbidden", "details": {"causes": [cause]}});
            FakeResponse::Json(403, status)
        }
        _ => FakeResponse::status(404),
    });
    let poster = poster(|_| {});
    for reason in ["Terminating", "Gone"] {
        poster.event(&object(Some("ns")), "T", reason, "text".to_owned());
    }
    send_all(&poster, client).await;
    assert_eq!(log.all().len(), 2);
    assert!(captured.messages(TracingLevel::WARN).is_empty());
    let messages = captured.messages(TracingLevel::DEBUG);
    let skipped = messages
        .iter()
        .filter(|text| text.contains("namespace 'ns' is terminating or gone"));
    assert_eq!(skipped.count(), 2);
}

#[test]
fn events_of_events_are_skipped() {
    let poster = poster(|_| {});
    for api_version in ["v1", "events.k8s.io/v1"] {
        let mut event = object(Some("ns"));
        event.api_version = Some(api_version.into());
        event.kind = Some("Event".into());
        poster.event(&event, "T", "R", String::new());
        poster.record(&event, Level::Error, String::new());
        assert!(poster.is_idle(), "{api_version}");
    }
}

#[test]
fn disabled_poster_drops_everything() {
    let poster = Poster::disabled();
    poster.post(&object(None), "T", "R", String::new(), None);
    assert!(poster.is_idle() && !poster.is_enabled());
    assert!(!poster.takes_records(Level::Error));
}

#[test]
fn settings_select_the_posted_events() {
    type Call = fn(&Poster, &ObjectReference);
    let event: Call = |poster, object| poster.event(object, "T", "R", String::new());
    let info: Call = |poster, object| poster.info(object, "R", String::new());
    let warn: Call = |poster, object| poster.warn(object, "R", String::new());
    let exception: Call = |poster, object| poster.exception(object, "R", String::new());
    let calls = [event, info, warn, exception];
    for (enabled, level, expected) in [
        (true, Level::Debug, [true, true, true, true]),
        (true, Level::Info, [true, true, true, true]),
        (true, Level::Warning, [true, false, true, true]),
        (true, Level::Error, [true, false, false, true]),
        (false, Level::Debug, [false, false, false, false]),
    ] {
        let posted = calls.map(|call| {
            let poster = poster(|posting| {
                posting.enabled = enabled;
                posting.level = level;
            });
            call(&poster, &object(None));
            !poster.is_idle()
        });
        assert_eq!(posted, expected, "enabled={enabled} level={level:?}");
    }
}

#[test]
fn log_records_are_posted_by_level_unless_disabled() {
    let by_default = poster(|_| {});
    assert!(!by_default.takes_records(Level::Debug));
    assert!(by_default.takes_records(Level::Info));
    assert!(!poster(|posting| posting.loggers = false).takes_records(Level::Error));
    assert!(!poster(|posting| posting.enabled = false).takes_records(Level::Error));
}
