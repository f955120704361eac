//! What comes out of handlers (§2.5-7, §3, §4).

use std::time::Duration;

use kopf_core::admission::Operation;
use kopf_core::patch::PatchFn;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Desk, creation, patch, review, staffed};
use crate::front::{arbitrary, denied, done, gives, on, permanent, temporary};
use crate::metrics::{Samples, assert_count};
use crate::stage::{everywhere, finalizers, sandboxed};

#[test]
fn results_are_ignored_and_all_is_allowed() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let check = on::validate("check").does(|_| async { gives(json!("ignored")) });
        let _operator = staffed(stage, &desk, [check]).open(&desk).await;
        let response = desk.ask(creation(stage, json!({}))).await;
        assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
        assert_eq!(stage.journal.only("check").retry, 0);
    });
}

#[test]
fn every_error_denies_and_is_told() {
    sandboxed(async |stage| {
        let desk = Desk::default();
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
        let _operator = staffed(stage, &desk, [check, block]).open(&desk).await;
        for (field, message, code) in [
            ("wrong", "Not this.", 418),
            ("permanent", "Permanently.", 500),
            ("temporary", "Later.", 500),
            ("arbitrary", "Arbitrary.", 500),
            ("panic", "the handler has panicked: on purpose", 500),
            ("block", "the handler has panicked: ", 500),
        ] {
            let response = desk.ask(creation(stage, json!({"field": field}))).await;
            assert_eq!(response["allowed"], false, "{field}");
            assert_eq!(response["status"]["code"], code, "{field}");
            let told = response["status"]["message"].as_str().unwrap();
            assert!(told.starts_with(message), "{field}: {told}");
        }
        let response = desk.ask(creation(stage, json!({"field": "right"}))).await;
        assert_eq!(response["allowed"], true, "the operator has survived it");
        stage.pass(3_600.0).await;
        let calls = (stage.journal.count("check"), stage.journal.count("block"));
        assert_eq!(
            calls,
            (7, 7),
            "each is called once, and nothing is tried again"
        );
    });
}

#[test]
fn all_handlers_are_called_and_the_most_telling_error_is_told() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let handlers = [
            on::validate("a").does(|_| async { arbitrary("arbitrary") }),
            on::mutate("b").does(|_| async { denied("first", 409) }),
            on::validate("c").does(|_| async { denied("second", 418) }),
            on::validate("d").does(|_| async { permanent("permanent") }),
        ];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        let response = desk.ask(creation(stage, json!({}))).await;
        assert_eq!(response["status"], json!({"message": "first", "code": 409}));
        assert_eq!(stage.journal.ids(), ["a", "b", "c", "d"]);
    });
}

#[test]
fn handlers_share_the_patch_and_the_warnings() {
    everywhere(async |stage| {
        let desk = Desk::default();
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
        let _operator = staffed(stage, &desk, [first, second]).open(&desk).await;
        let spec = json!({"field": "x", "same": "same", "items": [1]});
        let response = desk.ask(creation(stage, spec)).await;
        assert_eq!(response["warnings"], json!(["one", "two"]));
        assert_eq!(
            response["allowed"], false,
            "the patch is there nevertheless"
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
fn a_mutation_that_changes_nothing_sends_no_patch() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let idle = on::mutate("idle").does(|call| async move {
            call.patch.with(|patch| {
                patch.spec_mut();
                patch.set(&"spec.field".into(), json!("x"));
                patch.set(&"spec.absent".into(), json!(null));
                patch.add_fn(PatchFn::new("nothing", |_| Ok(())));
            });
            done()
        });
        let _operator = staffed(stage, &desk, [idle]).open(&desk).await;
        let response = desk.ask(creation(stage, json!({"field": "x"}))).await;
        assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
    });
}

#[test]
fn a_transformation_that_fails_is_the_operators_fault() {
    sandboxed(async |stage| {
        let desk = Desk::default();
        let bad = on::mutate("bad").does(|call| async move {
            call.patch.with(|patch| {
                patch.add_fn(PatchFn::new("mine", |_| Err("it cannot be".into())));
            });
            done()
        });
        let _operator = staffed(stage, &desk, [bad]).open(&desk).await;
        let incoming = kopf_core::admission::Incoming::new(creation(stage, json!({})));
        let refusal = desk.put(incoming).await.unwrap_err();
        assert_eq!(refusal.code(), 500);
        let text = refusal.to_string();
        assert!(
            text.contains("mine") && text.contains("it cannot be"),
            "{text}"
        );
    });
}

#[test]
fn nothing_is_posted_and_nothing_is_written() {
    sandboxed(async |stage| {
        let desk = Desk::default();
        let check = on::mutate("check").does(|call| async move {
            call.logger.warning("something is odd");
            call.patch
                .with(|patch| patch.set(&"spec.x".into(), json!(1)));
            match call.body().spec()["field"].as_str() {
                Some("wrong") => denied("Not this.", 418),
                _ => done(),
            }
        });
        let operator = staffed(stage, &desk, [check]).settings(|settings| {
            settings.posting.loggers = true;
            settings.posting.level = kopf_core::settings::Level::Debug;
        });
        let operator = operator.open(&desk).await;
        let object = stage.create("obj", json!({"field": "right"})).await;
        assert!(finalizers(&object).is_empty());
        desk.ask(creation(stage, json!({"field": "right"}))).await;
        desk.ask(review(stage, "UPDATE", Some(object.clone()), Some(object)))
            .await;
        desk.ask(creation(stage, json!({"field": "wrong"}))).await;
        stage.pass(60.0).await;
        assert!(stage.posts().is_empty() && stage.writes().is_empty());
        assert_eq!(
            operator.inspect().snapshot().streams,
            0,
            "nothing is watched"
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
        let desk = Desk::default();
        let check = on::validate("check").does(|_| async { denied("Not this.", 418) });
        let setup = staffed(stage, &desk, [check]).native_style();
        let _operator = setup.open(&desk).await;
        desk.ask(creation(stage, json!({}))).await;
        let record = stage.log.of("obj").pop().unwrap();
        assert_eq!(record.level, tracing::Level::INFO);
        let expected = "Webhook 'check' denied the request with 418: Not this.";
        assert_eq!(record.message, expected);
    });
}

#[test]
fn who_goes_away_too_early_is_told_of() {
    sandboxed(async |stage| {
        let desk = Desk::default();
        let check = on::validate("check").does(|_| async {
            sleep(Duration::from_secs(100)).await;
            done()
        });
        let _operator = staffed(stage, &desk, [check]).open(&desk).await;
        let asking = desk.ask(creation(stage, json!({})));
        let patience = Duration::from_secs(2);
        assert!(tokio::time::timeout(patience, asking).await.is_err());
        let said = stage.log.of("obj").pop().unwrap().message;
        let expected = "Webhook 'check' is cancelled after 2.0 seconds: ";
        assert!(said.starts_with(expected), "{said}");
    });
}

#[test]
fn reviews_that_are_nested_too_deeply_are_denied() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let check = on::validate("check").ignore_failures();
        let _operator = staffed(stage, &desk, [check]).open(&desk).await;
        let nested = |levels: usize| {
            let body = creation(stage, json!({"field": "NESTED"})).to_string();
            // API servers write the uid first.
            let body = body.replace("\"uid\":\"u-1\",", "");
            let body = body.replace("\"request\":{", "\"request\":{\"uid\":\"u-1\",");
            let value = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
            body.replace("\"NESTED\"", &value)
        };
        let response = desk.post(&nested(100)).await["response"].take();
        assert_eq!(response["allowed"], true, "{response}");
        assert_eq!(stage.journal.count("check"), 1);
        let response = desk.post(&nested(200)).await["response"].take();
        assert_eq!(response["uid"], "u-1");
        assert_eq!(response["allowed"], false);
        assert!(!response["status"]["message"].is_null() && !response["warnings"].is_null());
        assert_eq!(stage.journal.count("check"), 1, "handlers cannot check it");
    });
}

#[test]
fn patches_of_deleted_objects_are_warned_of() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let change = on::mutate("change").operations([Operation::Delete]);
        let change = change.does(|call| async move {
            call.patch
                .with(|patch| patch.set(&"spec.x".into(), json!(1)));
            done()
        });
        let _operator = staffed(stage, &desk, [change]).open(&desk).await;
        let thing = stage.thing("obj", json!({}));
        let response = desk.ask(review(stage, "DELETE", None, Some(thing))).await;
        assert_eq!(response["allowed"], true);
        let last = stage.log.of("obj").pop().unwrap().message;
        assert!(last.contains("rejects deletions with changes"), "{last}");
    });
}

#[test]
fn validating_handlers_that_change_objects_are_warned_of() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let change = on::validate("validate").does(|call| async move {
            call.patch
                .with(|patch| patch.set(&"spec.x".into(), json!(1)));
            done()
        });
        let mutate = change.also(on::mutate("mutate"));
        let _operator = staffed(stage, &desk, [change, mutate]).open(&desk).await;
        for (id, is_warned) in [("mutate", false), ("validate", true)] {
            let mut incoming = kopf_core::admission::Incoming::new(creation(stage, json!({})));
            incoming.webhook = Some(id.to_owned());
            let answer = desk.put(incoming).await.unwrap();
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
fn requests_do_not_wait_for_each_other() {
    sandboxed(async |stage| {
        let desk = Desk::default();
        let slow = on::validate("slow").does(|_| async {
            sleep(Duration::from_secs(10)).await;
            done()
        });
        let again = slow.also(on::validate("again"));
        let _operator = staffed(stage, &desk, [slow, again]).open(&desk).await;
        let since = Instant::now();
        let requests = (0..100).map(|_| desk.ask(creation(stage, json!({}))));
        let responses = futures::future::join_all(requests).await;
        assert!(responses.iter().all(|response| response["allowed"] == true));
        assert_eq!(
            since.elapsed().as_secs(),
            20,
            "but handlers of one request do"
        );
    });
}

#[test]
fn reviews_are_counted_by_outcome() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let check = on::validate("check").does(|call| async move {
            if call.body().spec()["field"] == "wrong" {
                return denied("Not this.", 418);
            }
            done()
        });
        let operator = staffed(stage, &desk, [check]).open(&desk).await;
        for field in ["right", "wrong", "right"] {
            desk.ask(creation(stage, json!({"field": field}))).await;
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
