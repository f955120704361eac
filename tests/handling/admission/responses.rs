//! Responses to admission requests.

use std::time::Duration;

use kopf_core::admission::Operation;
use kopf_core::patch::PatchFn;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{FakeServer, admitting, creation, patch, review};
use crate::front::{arbitrary, denied, done, gives, on, permanent, temporary};
use crate::metrics::{Samples, assert_count};
use crate::stage::{everywhere, finalizers, sandboxed};

#[test]
fn results_are_ignored_and_requests_are_allowed() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let check = on::validate("check").does(|_| async { gives(json!("ignored")) });
        let _operator = admitting(stage, &server, [check]).open(&server).await;
        let response = server.ask(creation(stage, json!({}))).await;
        assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
        assert_eq!(stage.journal.only("check").retry, 0);
    });
}

#[test]
fn every_error_denies_the_request_with_its_message() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let check = on::validate("check").does(|call| async move {
            match call.body().spec()["field"].as_str() {
                Some("wrong") => denied("Not this.", 418),
                Some("permanent") => permanent("Permanently."),
                Some("temporary") => temporary("Later.", 5.0),
                Some("arbitrary") => arbitrary("Arbitrary."),
                Some("panic") => panic!("on purpose"),
                _ => done(),
            }
        });
        let block = on::validate("block").blocks(|call| {
            assert_ne!(call.body().spec()["field"], "block", "on purpose");
            done()
        });
        let _operator = admitting(stage, &server, [check, block])
            .open(&server)
            .await;
        for (field, message, code) in [
            ("wrong", "Not this.", 418),
            ("permanent", "Permanently.", 500),
            ("temporary", "Later.", 500),
            ("arbitrary", "Arbitrary.", 500),
            ("panic", "the handler has panicked: on purpose", 500),
            ("block", "the handler has panicked: ", 500),
        ] {
            let response = server.ask(creation(stage, json!({"field": field}))).await;
            assert_eq!(response["allowed"], false, "{field}");
            assert_eq!(response["status"]["code"], code, "{field}");
            let reason = response["status"]["message"].as_str().unwrap();
            assert!(reason.starts_with(message), "{field}: {reason}");
        }
        let response = server.ask(creation(stage, json!({"field": "right"}))).await;
        assert_eq!(response["allowed"], true, "the operator survived the panic");
        stage.pass(3_600.0).await;
        let calls = (stage.journal.count("check"), stage.journal.count("block"));
        assert_eq!(calls, (7, 7), "each is called once, without retries");
    });
}

#[test]
fn all_handlers_are_called_and_the_most_specific_error_is_reported() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            on::validate("a").does(|_| async { arbitrary("arbitrary") }),
            on::mutate("b").does(|_| async { denied("first", 409) }),
            on::validate("c").does(|_| async { denied("second", 418) }),
            on::validate("d").does(|_| async { permanent("permanent") }),
        ];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        let response = server.ask(creation(stage, json!({}))).await;
        assert_eq!(response["status"], json!({"message": "first", "code": 409}));
        assert_eq!(stage.journal.ids(), ["a", "b", "c", "d"]);
    });
}

#[test]
fn handlers_share_the_patch_and_the_warnings() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let first = on::mutate("first").does(|call| async move {
            call.admission().unwrap().warnings.push("one");
            call.patch.with(|patch| {
                patch.set(&"spec.added".into(), json!({"deep": 1}));
                patch.set(&"spec.field".into(), json!(null));
                patch.set(&"spec.same".into(), json!("same"));
            });
            done()
        });
        let second = on::mutate("second").does(|call| async move {
            call.admission().unwrap().warnings.push("two");
            call.patch.with(|patch| {
                let added = patch.get(&"spec.added.deep".into()).cloned();
                patch.set(&"spec.seen".into(), json!(added));
                patch.add_fn(PatchFn::new("append", |body| {
                    body["spec"]["items"] = json!([body["spec"]["seen"], "c"]);
                    Ok(())
                }));
            });
            arbitrary("and yet")
        });
        let _operator = admitting(stage, &server, [first, second])
            .open(&server)
            .await;
        let spec = json!({"field": "x", "same": "same", "items": [1]});
        let response = server.ask(creation(stage, spec)).await;
        assert_eq!(response["warnings"], json!(["one", "two"]));
        assert_eq!(
            response["allowed"], false,
            "the patch is sent despite the denial"
        );
        let mut operations = patch(&response);
        operations.sort_by_key(|operation| operation["path"].to_string());
        assert_eq!(
            json!(operations),
            json!([
                {"op": "add", "path": "/spec/added", "value": {"deep": 1}},
                {"op": "remove", "path": "/spec/field"},
                {"op": "add", "path": "/spec/items/1", "value": "c"},
                {"op": "add", "path": "/spec/seen", "value": 1},
            ])
        );
    });
}

#[test]
fn mutation_without_changes_sends_no_patch() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let idle = on::mutate("idle").does(|call| async move {
            call.patch.with(|patch| {
                patch.spec_mut();
                patch.set(&"spec.field".into(), json!("x"));
                patch.set(&"spec.absent".into(), json!(null));
                patch.add_fn(PatchFn::new("nothing", |_| Ok(())));
            });
            done()
        });
        let _operator = admitting(stage, &server, [idle]).open(&server).await;
        let response = server.ask(creation(stage, json!({"field": "x"}))).await;
        assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
    });
}

#[test]
fn failed_transformation_is_an_internal_error() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let bad = on::mutate("bad").does(|call| async move {
            call.patch.with(|patch| {
                patch.add_fn(PatchFn::new("mine", |_| Err("it cannot be".into())));
            });
            done()
        });
        let _operator = admitting(stage, &server, [bad]).open(&server).await;
        let incoming = kopf_core::admission::Incoming::new(creation(stage, json!({})));
        let refusal = server.put(incoming).await.unwrap_err();
        assert_eq!(refusal.code(), 500);
        let text = refusal.to_string();
        assert!(
            text.contains("mine") && text.contains("it cannot be"),
            "{text}"
        );
    });
}

#[test]
fn reviews_post_no_events_and_write_nothing() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let check = on::mutate("check").does(|call| async move {
            call.logger.warning("something is odd");
            call.patch
                .with(|patch| patch.set(&"spec.x".into(), json!(1)));
            match call.body().spec()["field"].as_str() {
                Some("wrong") => denied("Not this.", 418),
                _ => done(),
            }
        });
        let operator = admitting(stage, &server, [check]).settings(|settings| {
            settings.posting.loggers = true;
            settings.posting.level = kopf_core::settings::Level::Debug;
        });
        let operator = operator.open(&server).await;
        let object = stage.create("obj", json!({"field": "right"})).await;
        assert!(finalizers(&object).is_empty());
        server.ask(creation(stage, json!({"field": "right"}))).await;
        server
            .ask(review(stage, "UPDATE", Some(object.clone()), Some(object)))
            .await;
        server.ask(creation(stage, json!({"field": "wrong"}))).await;
        stage.pass(60.0).await;
        assert!(stage.posts().is_empty() && stage.writes().is_empty());
        assert_eq!(
            operator.inspect().snapshot().streams,
            0,
            "the resource is not watched"
        );
        let said: Vec<String> = stage.log.of("obj").into_iter().map(|r| r.message).collect();
        let succeeded = [
            "Webhook 'check' is invoked.",
            "something is odd",
            "Webhook 'check' succeeded.",
        ];
        let failed = [
            "Webhook 'check' is invoked.",
            "something is odd",
            "Webhook 'check' failed permanently: Not this.",
        ];
        assert_eq!(said, [succeeded, succeeded, failed].concat());
    });
}

#[test]
fn denials_are_not_errors_in_native_style() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let check = on::validate("check").does(|_| async { denied("Not this.", 418) });
        let setup = admitting(stage, &server, [check]).native_style();
        let _operator = setup.open(&server).await;
        server.ask(creation(stage, json!({}))).await;
        let record = stage.log.of("obj").pop().unwrap();
        assert_eq!(record.level, tracing::Level::INFO);
        let expected = "Webhook 'check' denied the request with 418: Not this.";
        assert_eq!(record.message, expected);
    });
}

#[test]
fn disconnected_clients_are_logged() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let check = on::validate("check").does(|_| async {
            sleep(Duration::from_secs(100)).await;
            done()
        });
        let _operator = admitting(stage, &server, [check]).open(&server).await;
        let asking = server.ask(creation(stage, json!({})));
        let limit = Duration::from_secs(2);
        assert!(tokio::time::timeout(limit, asking).await.is_err());
        let said = stage.log.of("obj").pop().unwrap().message;
        let expected = "Webhook 'check' is cancelled after 2.0 seconds: ";
        assert!(said.starts_with(expected), "{said}");
    });
}

#[test]
fn too_deeply_nested_reviews_are_denied() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let check = on::validate("check").ignore_failures();
        let _operator = admitting(stage, &server, [check]).open(&server).await;
        let nested = |levels: usize| {
            let body = creation(stage, json!({"field": "NESTED"})).to_string();
            // API servers write the uid first.
            let body = body.replace("\"uid\":\"u-1\",", "");
            let body = body.replace("\"request\":{", "\"request\":{\"uid\":\"u-1\",");
            let value = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
            body.replace("\"NESTED\"", &value)
        };
        let response = server.post(&nested(100)).await["response"].take();
        assert_eq!(response["allowed"], true, "{response}");
        assert_eq!(stage.journal.count("check"), 1);
        let response = server.post(&nested(200)).await["response"].take();
        assert_eq!(response["uid"], "u-1");
        assert_eq!(response["allowed"], false);
        assert!(!response["status"]["message"].is_null() && !response["warnings"].is_null());
        assert_eq!(
            stage.journal.count("check"),
            1,
            "the handler is not called for it"
        );
    });
}

#[test]
fn patches_of_deletions_are_logged_as_warnings() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let change = on::mutate("change").operations([Operation::Delete]);
        let change = change.does(|call| async move {
            call.patch
                .with(|patch| patch.set(&"spec.x".into(), json!(1)));
            done()
        });
        let _operator = admitting(stage, &server, [change]).open(&server).await;
        let thing = stage.thing("obj", json!({}));
        let response = server.ask(review(stage, "DELETE", None, Some(thing))).await;
        assert_eq!(response["allowed"], true);
        let last = stage.log.of("obj").pop().unwrap().message;
        assert!(last.contains("rejects deletions with changes"), "{last}");
    });
}

#[test]
fn patches_of_validating_handlers_are_logged_as_warnings() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let change = on::validate("validate").does(|call| async move {
            call.patch
                .with(|patch| patch.set(&"spec.x".into(), json!(1)));
            done()
        });
        let mutate = change.also(on::mutate("mutate"));
        let _operator = admitting(stage, &server, [change, mutate])
            .open(&server)
            .await;
        for (id, is_warned) in [("mutate", false), ("validate", true)] {
            let mut incoming = kopf_core::admission::Incoming::new(creation(stage, json!({})));
            incoming.webhook = Some(id.to_owned());
            let answer = server.put(incoming).await.unwrap();
            assert_eq!(patch(&answer["response"]).len(), 1, "{id}");
            let log = stage.log.of("obj");
            let warned = log
                .iter()
                .any(|record| record.message.contains("Validating handlers have changed"));
            assert_eq!(warned, is_warned, "{id}");
        }
    });
}

#[test]
fn requests_are_handled_concurrently() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let slow = on::validate("slow").does(|_| async {
            sleep(Duration::from_secs(10)).await;
            done()
        });
        let again = slow.also(on::validate("again"));
        let _operator = admitting(stage, &server, [slow, again]).open(&server).await;
        let since = Instant::now();
        let requests = (0..100).map(|_| server.ask(creation(stage, json!({}))));
        let responses = futures::future::join_all(requests).await;
        assert!(responses.iter().all(|response| response["allowed"] == true));
        assert_eq!(
            since.elapsed().as_secs(),
            20,
            "handlers of one request run sequentially"
        );
    });
}

#[test]
fn reviews_are_counted_by_outcome() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let check = on::validate("check").does(|call| async move {
            if call.body().spec()["field"] == "wrong" {
                return denied("Not this.", 418);
            }
            done()
        });
        let operator = admitting(stage, &server, [check]).open(&server).await;
        for field in ["right", "wrong", "right"] {
            server.ask(creation(stage, json!({"field": field}))).await;
        }
        let samples = Samples::of(stage, &operator);
        let reviews = |outcome| {
            let labels = [("outcome", outcome)];
            samples.of_resource("kopf_admission_reviews_total", &labels)
        };
        assert_count(reviews("allowed"), 2.0, &samples);
        assert_count(reviews("denied"), 1.0, &samples);
        assert_count(
            samples.calls("check", "validating", "denied"),
            1.0,
            &samples,
        );
        let duration = "kopf_admission_review_duration_seconds_count";
        assert_count(samples.of_resource(duration, &[]), 3.0, &samples);
    });
}
