//! Routing of requests to handlers, and the arguments of handlers.

use std::collections::BTreeMap;

use kopf_core::admission::{Incoming, Operation};
use kopf_core::filter::{MetaCriterion, ValueCriterion};
use serde_json::{Value, json};

use super::{FakeServer, admitting, creation, review};
use crate::front::{done, indexed, look, on};
use crate::stage::{Stage, everywhere, sandboxed};

#[test]
fn handlers_receive_the_whole_request() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let check = on::validate("check").param("param").subresource("status");
        let check = check.does(|call| async move {
            let review = &call.admission().unwrap().review;
            assert_eq!(review.operation, Some(Operation::Update));
            assert_eq!(review.subresource.as_deref(), Some("status"));
            assert!(review.dryrun);
            assert_eq!(review.userinfo["username"], "someone");
            assert_eq!(review.headers["User-Agent"], "tester");
            assert_eq!(review.sslpeer, Some(json!({"version": 3})));
            assert_eq!(call.cause().unwrap().resource.plural, "things");
            assert!(call.param.is_some() && call.stopped.is_none() && call.subs.is_none());
            assert_eq!((call.retry, call.event()), (0, None));
            done()
        });
        let _operator = admitting(stage, &server, [check]).open(&server).await;
        let thing = |size: u64| stage.thing("obj", json!({"size": size}));
        let mut asked = review(stage, "UPDATE", Some(thing(2)), Some(thing(1)));
        asked["request"]["subResource"] = json!("status");
        asked["request"]["dryRun"] = json!(true);
        let mut incoming = Incoming::new(asked);
        incoming.webhook = Some("check".to_owned());
        incoming.headers = BTreeMap::from([("User-Agent".to_owned(), "tester".to_owned())]);
        incoming.sslpeer = Some(json!({"version": 3}));
        let reviewed = server.put(incoming).await.unwrap();
        assert_eq!(reviewed["response"]["allowed"], true, "{reviewed}");
        let entry = stage.journal.only("check");
        assert_eq!((&entry.old, &entry.new), (&thing(1), &thing(2)));
        assert_eq!(entry.body, thing(2));
        assert_eq!(entry.diff, json!([["change", ["spec", "size"], 1, 2]]));
    });
}

#[test]
fn deletion_reviews_have_the_old_object_as_body() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let only = on::mutate("only").operations([Operation::Delete]);
        let handlers = [on::validate("check"), on::mutate("change"), only];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        let thing = stage.thing("obj", json!({"keep": true}));
        server
            .ask(review(stage, "DELETE", None, Some(thing.clone())))
            .await;
        assert_eq!(stage.journal.ids(), ["check", "only"]);
        let entry = stage.journal.only("check");
        assert_eq!((entry.body, entry.old), (thing.clone(), thing));
        assert_eq!(entry.new, Value::Null);
    });
}

#[test]
fn requests_select_one_handler_or_all() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            on::validate("plain"),
            on::mutate("field").field("spec.field"),
            on::validate("status").subresource("status"),
            on::create("create"),
        ];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        for (hint, expected) in [
            (None, vec!["plain", "field/spec.field"]),
            (Some("plain"), vec!["plain"]),
            (Some("field/spec.field"), vec!["field/spec.field"]),
            (Some("status"), vec![]),
            (Some(""), vec!["plain", "field/spec.field"]),
        ] {
            stage.journal.clear();
            let mut incoming = Incoming::new(creation(stage, json!({"field": 1})));
            incoming.webhook = hint.map(str::to_owned);
            let reviewed = server.put(incoming).await.unwrap();
            let allowed = json!({"uid": "u-1", "allowed": true});
            assert_eq!(reviewed["response"], allowed, "{hint:?}");
            assert_eq!(stage.journal.ids(), expected, "{hint:?}");
        }
    });
}

#[test]
fn unknown_handler_ids_are_rejected() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let handlers = [on::validate("plain"), on::create("create")];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        for id in ["unknown", "create", "plain/", "/"] {
            let mut incoming = Incoming::new(creation(stage, json!({})));
            incoming.webhook = Some(id.to_owned());
            let refusal = server.put(incoming).await.unwrap_err();
            assert_eq!(refusal.code(), 404, "{id}");
            assert!(refusal.to_string().contains(id), "{refusal}");
        }
        assert!(stage.journal.all().is_empty());
        assert!(
            stage
                .log
                .has("obj", "A review is rejected: there is no admission handler")
        );
    });
}

#[test]
fn operations_are_checked_in_reviews() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            on::validate("all"),
            on::validate("creations").operations([Operation::Create]),
            on::mutate("changes").operations([Operation::Update, Operation::Create]),
            // Another operation at the same id and URL.
            on::validate("creations").operations([Operation::Delete]),
        ];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        let thing = || Some(stage.thing("obj", json!({})));
        for (asked, hint, expected) in [
            (
                review(stage, "CREATE", thing(), None),
                None,
                vec!["all", "creations", "changes"],
            ),
            (
                review(stage, "UPDATE", thing(), thing()),
                None,
                vec!["all", "changes"],
            ),
            (
                review(stage, "UPDATE", thing(), thing()),
                Some("creations"),
                vec![],
            ),
            (
                review(stage, "DELETE", None, thing()),
                Some("creations"),
                vec!["creations"],
            ),
        ] {
            stage.journal.clear();
            let operation = asked["request"]["operation"].clone();
            let mut incoming = Incoming::new(asked);
            incoming.webhook = hint.map(str::to_owned);
            let reviewed = server.put(incoming).await.unwrap();
            assert_eq!(
                reviewed["response"]["allowed"], true,
                "{operation} {hint:?}"
            );
            assert_eq!(stage.journal.ids(), expected, "{operation} {hint:?}");
        }
    });
}

#[test]
fn any_subresource_includes_the_main_resource() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            on::validate("main"),
            on::validate("any").subresource("*"),
            on::validate("status").subresource("status"),
        ];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        for (subresource, expected) in [
            (json!(null), vec!["main", "any"]),
            (json!("status"), vec!["any", "status"]),
            (json!("scale"), vec!["any"]),
        ] {
            stage.journal.clear();
            let thing = stage.thing("obj", json!({}));
            let mut asked = review(stage, "UPDATE", Some(thing.clone()), Some(thing));
            asked["request"]["subResource"] = subresource.clone();
            server.ask(asked).await;
            assert_eq!(stage.journal.ids(), expected, "{subresource}");
        }
    });
}

#[test]
fn filters_see_the_object_and_the_request() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            on::validate("labels").label("mine", MetaCriterion::Present),
            on::validate("annotations").annotation("mine", MetaCriterion::from("yes")),
            on::validate("value")
                .field("spec.field")
                .value(ValueCriterion::from("right")),
            on::validate("when").when(|cause| cause.body.spec()["field"] == "right"),
            on::validate("asked").when_asked(|review| {
                review.userinfo["groups"][0] == "people" && !review.dryrun && review.old.is_none()
            }),
        ];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        let mut thing = stage.thing("obj", json!({"field": "right"}));
        thing["metadata"]["labels"] = json!({"mine": ""});
        thing["metadata"]["annotations"] = json!({"mine": "yes"});
        let asked = review(stage, "CREATE", Some(thing.clone()), None);
        server.ask(asked.clone()).await;
        let all = ["labels", "annotations", "value/spec.field", "when", "asked"];
        assert_eq!(stage.journal.ids(), all);
        stage.journal.clear();
        let mut asked = review(
            stage,
            "UPDATE",
            Some(stage.thing("obj", json!({}))),
            Some(thing),
        );
        asked["request"]["dryRun"] = json!(true);
        server.ask(asked).await;
        assert!(
            stage.journal.all().is_empty(),
            "the old object is not filtered"
        );
    });
}

#[test]
fn failed_filter_denies_the_request() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            on::validate("first"),
            on::validate("bad").when_fails("it is broken"),
        ];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        let incoming = Incoming::new(creation(stage, json!({})));
        let refusal = server.put(incoming).await.unwrap_err();
        assert_eq!(refusal.code(), 500);
        let text = refusal.to_string();
        assert!(
            text.contains("\"bad\"") && text.contains("it is broken"),
            "{text}"
        );
        assert!(stage.journal.all().is_empty());
    });
}

#[test]
fn invalid_reviews_are_rejected() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let _operator = admitting(stage, &server, [on::validate("check")])
            .open(&server)
            .await;
        let mut unknown = creation(stage, json!({}));
        unknown["request"]["resource"]["resource"] = json!("nothings");
        let mut anonymous = creation(stage, json!({}));
        anonymous["request"]["userInfo"] = json!(null);
        let nothing = review(stage, "UPDATE", None, None);
        for (review, code) in [
            (unknown, 404),
            (anonymous, 400),
            (nothing, 400),
            (json!("garbage"), 400),
            (json!({"request": []}), 400),
        ] {
            let incoming = Incoming::new(review);
            assert_eq!(server.put(incoming).await.unwrap_err().code(), code);
        }
        assert!(stage.journal.all().is_empty());
    });
}

#[test]
fn resources_can_be_created_later() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let group = stage.api.group();
        let late = on::validate("late").on(&[&group, "v1", "others"]);
        let _operator = admitting(stage, &server, [late]).open(&server).await;
        let incoming = || {
            let mut review = creation(stage, json!({}));
            review["request"]["resource"]["resource"] = json!("others");
            Incoming::new(review)
        };
        assert_eq!(server.put(incoming()).await.unwrap_err().code(), 404);
        stage
            .api
            .crd()
            .named("others", "other", "Other")
            .create()
            .await;
        let reviewed = async {
            while server.put(incoming()).await.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        stage
            .within("the resource to be discovered", reviewed)
            .await;
        assert_eq!(stage.journal.count("late"), 1);
    });
}

#[test]
fn handlers_can_read_indices() {
    everywhere(async |stage| {
        stage.create("one", json!({"colour": "red"})).await;
        let server = FakeServer::default();
        let by_colour = on::index("colours").does(|call| async move {
            let colour = call.body().spec()["colour"].as_str().unwrap_or("none");
            indexed(&call, json!({colour: call.body().name()}))
        });
        let check = on::validate("check").does(|call| async move {
            let colours = look(&call.operator.indices, "colours");
            let names: Vec<_> = colours.items().into_iter().map(|(key, _)| key).collect();
            call.admission().unwrap().warnings.push(names.join(","));
            done()
        });
        let _operator = admitting(stage, &server, [by_colour, check])
            .open(&server)
            .await;
        stage
            .wait_for("the index", || stage.index("colours") != json!({}))
            .await;
        let response = server.ask(creation(stage, json!({}))).await;
        assert_eq!(response["warnings"], json!(["red"]));
    });
}

#[test]
fn startup_handlers_can_set_the_server() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let configured = server.clone();
        let configure = on::startup("configure").does(move |call| {
            let draft = call.operator.draft.clone().unwrap();
            let mut settings = draft.get();
            settings.admission.server = Some(std::sync::Arc::new(configured.clone()));
            draft.set(settings);
            async { done() }
        });
        let operator = stage.run([configure, on::validate("check")]).await;
        stage
            .wait_for("the server to start", || server.is_open())
            .await;
        server.ask(creation(stage, json!({}))).await;
        assert_eq!(stage.journal.count("check"), 1);
        operator.stop().await;
        assert!(!server.is_open());
    });
}

#[test]
fn server_is_stopped_by_the_signal_and_awaited() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let operator = admitting(stage, &server, [on::validate("check")])
            .open(&server)
            .await;
        assert!(!server.has_stopped());
        operator.stop().await;
        assert!(server.has_stopped());
        assert_eq!(hung(stage), 0);
    });
}

#[test]
fn server_that_ignores_the_signal_is_dropped_with_a_warning() {
    sandboxed(async |stage| {
        let server = FakeServer::ignoring_shutdown();
        let operator = admitting(stage, &server, [on::validate("check")])
            .open(&server)
            .await;
        operator.stop().await;
        assert!(!server.is_open() && !server.has_stopped());
        assert_eq!(hung(stage), 1);
    });
}

/// Returns the number of warnings about aborted server tasks.
fn hung(stage: &Stage) -> usize {
    let records = stage.log.records().into_iter();
    let hung = |message: &str| message == "Hung tasks are aborted: Admission webhook server.";
    records.filter(|record| hung(&record.message)).count()
}

#[test]
fn absent_and_empty_certificates_are_distinguished() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let check = on::validate("check").does(|call| async move {
            let admission = call.admission().unwrap();
            admission
                .warnings
                .push(format!("{:?}", admission.review.sslpeer));
            done()
        });
        let _operator = admitting(stage, &server, [check]).open(&server).await;
        for (sslpeer, expected) in [
            (None, "None"),
            (Some(json!(null)), "None"),
            (Some(json!({})), "Some(Object {})"),
        ] {
            let mut incoming = Incoming::new(creation(stage, json!({})));
            incoming.sslpeer = sslpeer;
            let reviewed = server.put(incoming).await.unwrap();
            assert_eq!(reviewed["response"]["warnings"], json!([expected]));
        }
    });
}
