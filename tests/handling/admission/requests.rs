//! What is asked, who is asked, and what handlers get to know (§1, §2).

use std::collections::BTreeMap;

use kopf_core::admission::{Incoming, Operation};
use kopf_core::filter::{MetaCriterion, ValueCriterion};
use serde_json::{Value, json};

use super::{Desk, creation, review, staffed};
use crate::front::{done, indexed, look, on};
use crate::stage::{Stage, everywhere, sandboxed};

#[test]
fn handlers_get_all_of_the_request() {
    everywhere(async |stage| {
        let desk = Desk::default();
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
        let _operator = staffed(stage, &desk, [check]).open(&desk).await;
        let thing = |size: u64| stage.thing("obj", json!({"size": size}));
        let mut asked = review(stage, "UPDATE", Some(thing(2)), Some(thing(1)));
        asked["request"]["subResource"] = json!("status");
        asked["request"]["dryRun"] = json!(true);
        let mut incoming = Incoming::new(asked);
        incoming.webhook = Some("check".to_owned());
        incoming.headers = BTreeMap::from([("User-Agent".to_owned(), "tester".to_owned())]);
        incoming.sslpeer = Some(json!({"version": 3}));
        let answer = desk.put(incoming).await.unwrap();
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        let entry = stage.journal.only("check");
        assert_eq!((&entry.old, &entry.new), (&thing(1), &thing(2)));
        assert_eq!(entry.body, thing(2));
        assert_eq!(entry.diff, json!([["change", ["spec", "size"], 1, 2]]));
    });
}

#[test]
fn deletions_are_about_the_object_as_it_is() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let only = on::mutate("only").operations([Operation::Delete]);
        let handlers = [on::validate("check"), on::mutate("change"), only];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        let thing = stage.thing("obj", json!({"keep": true}));
        desk.ask(review(stage, "DELETE", None, Some(thing.clone())))
            .await;
        assert_eq!(stage.journal.ids(), ["check", "only"]);
        let entry = stage.journal.only("check");
        assert_eq!((entry.body, entry.old), (thing.clone(), thing));
        assert_eq!(entry.new, Value::Null);
    });
}

#[test]
fn one_handler_or_all_of_them_are_asked() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let handlers = [
            on::validate("plain"),
            on::mutate("field").field("spec.field"),
            on::validate("status").subresource("status"),
            on::create("create"),
        ];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
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
            let answer = desk.put(incoming).await.unwrap();
            let allowed = json!({"uid": "u-1", "allowed": true});
            assert_eq!(answer["response"], allowed, "{hint:?}");
            assert_eq!(stage.journal.ids(), expected, "{hint:?}");
        }
    });
}

#[test]
fn unknown_handler_ids_are_refused_and_never_admitted() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let handlers = [on::validate("plain"), on::create("create")];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        for id in ["unknown", "create", "plain/", "/"] {
            let mut incoming = Incoming::new(creation(stage, json!({})));
            incoming.webhook = Some(id.to_owned());
            let refusal = desk.put(incoming).await.unwrap_err();
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
fn operations_are_enforced_in_reviews() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let handlers = [
            on::validate("all"),
            on::validate("creations").operations([Operation::Create]),
            on::mutate("changes").operations([Operation::Update, Operation::Create]),
            // The same id and URL for other operations.
            on::validate("creations").operations([Operation::Delete]),
        ];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
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
            let answer = desk.put(incoming).await.unwrap();
            assert_eq!(answer["response"]["allowed"], true, "{operation} {hint:?}");
            assert_eq!(stage.journal.ids(), expected, "{operation} {hint:?}");
        }
    });
}

#[test]
fn any_subresource_includes_the_main_resource() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let handlers = [
            on::validate("main"),
            on::validate("any").subresource("*"),
            on::validate("status").subresource("status"),
        ];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        for (subresource, expected) in [
            (json!(null), vec!["main", "any"]),
            (json!("status"), vec!["any", "status"]),
            (json!("scale"), vec!["any"]),
        ] {
            stage.journal.clear();
            let thing = stage.thing("obj", json!({}));
            let mut asked = review(stage, "UPDATE", Some(thing.clone()), Some(thing));
            asked["request"]["subResource"] = subresource.clone();
            desk.ask(asked).await;
            assert_eq!(stage.journal.ids(), expected, "{subresource}");
        }
    });
}

#[test]
fn filters_look_at_the_object_and_at_the_request() {
    everywhere(async |stage| {
        let desk = Desk::default();
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
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        let mut thing = stage.thing("obj", json!({"field": "right"}));
        thing["metadata"]["labels"] = json!({"mine": ""});
        thing["metadata"]["annotations"] = json!({"mine": "yes"});
        let asked = review(stage, "CREATE", Some(thing.clone()), None);
        desk.ask(asked.clone()).await;
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
        desk.ask(asked).await;
        assert!(
            stage.journal.all().is_empty(),
            "what it was does not matter"
        );
    });
}

#[test]
fn a_filter_that_fails_is_no_permission() {
    sandboxed(async |stage| {
        let desk = Desk::default();
        let handlers = [
            on::validate("first"),
            on::validate("bad").when_fails("it is broken"),
        ];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        let incoming = Incoming::new(creation(stage, json!({})));
        let refusal = desk.put(incoming).await.unwrap_err();
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
fn what_is_no_review_of_a_known_kind_is_refused() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let _operator = staffed(stage, &desk, [on::validate("check")])
            .open(&desk)
            .await;
        let mut unknown = creation(stage, json!({}));
        unknown["request"]["resource"]["resource"] = json!("nothings");
        let mut nobody = creation(stage, json!({}));
        nobody["request"]["userInfo"] = json!(null);
        let nothing = review(stage, "UPDATE", None, None);
        for (review, code) in [
            (unknown, 404),
            (nobody, 400),
            (nothing, 400),
            (json!("garbage"), 400),
            (json!({"request": []}), 400),
        ] {
            let incoming = Incoming::new(review);
            assert_eq!(desk.put(incoming).await.unwrap_err().code(), code);
        }
        assert!(stage.journal.all().is_empty());
    });
}

#[test]
fn kinds_can_come_later() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let group = stage.api.group();
        let late = on::validate("late").on(&[&group, "v1", "others"]);
        let _operator = staffed(stage, &desk, [late]).open(&desk).await;
        let incoming = || {
            let mut review = creation(stage, json!({}));
            review["request"]["resource"]["resource"] = json!("others");
            Incoming::new(review)
        };
        assert_eq!(desk.put(incoming()).await.unwrap_err().code(), 404);
        stage
            .api
            .crd()
            .named("others", "other", "Other")
            .create()
            .await;
        let answered = async {
            while desk.put(incoming()).await.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        stage.within("the kind to be known", answered).await;
        assert_eq!(stage.journal.count("late"), 1);
    });
}

#[test]
fn indices_are_there() {
    everywhere(async |stage| {
        stage.create("one", json!({"colour": "red"})).await;
        let desk = Desk::default();
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
        let _operator = staffed(stage, &desk, [by_colour, check]).open(&desk).await;
        stage
            .until_so("the index", || stage.index("colours") != json!({}))
            .await;
        let response = desk.ask(creation(stage, json!({}))).await;
        assert_eq!(response["warnings"], json!(["red"]));
    });
}

#[test]
fn a_server_can_be_set_by_startup_handlers() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let server = desk.clone();
        let configure = on::startup("configure").does(move |call| {
            let draft = call.operator.draft.clone().unwrap();
            let mut settings = draft.get();
            settings.admission.server = Some(std::sync::Arc::new(server.clone()));
            draft.set(settings);
            async { done() }
        });
        let operator = stage.run([configure, on::validate("check")]).await;
        stage.until_so("the desk to open", || desk.is_open()).await;
        desk.ask(creation(stage, json!({}))).await;
        assert_eq!(stage.journal.count("check"), 1);
        operator.stop().await;
        assert!(!desk.is_open());
    });
}

#[test]
fn server_is_stopped_by_the_signal_and_awaited() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let operator = staffed(stage, &desk, [on::validate("check")])
            .open(&desk)
            .await;
        assert!(!desk.has_stopped());
        operator.stop().await;
        assert!(desk.has_stopped());
        assert_eq!(hung(stage), 0);
    });
}

#[test]
fn server_that_ignores_the_signal_is_dropped_with_a_warning() {
    sandboxed(async |stage| {
        let desk = Desk::ignoring_shutdown();
        let operator = staffed(stage, &desk, [on::validate("check")])
            .open(&desk)
            .await;
        operator.stop().await;
        assert!(!desk.is_open() && !desk.has_stopped());
        assert_eq!(hung(stage), 1);
    });
}

/// Number of warnings about tasks that do not end.
fn hung(stage: &Stage) -> usize {
    let records = stage.log.records().into_iter();
    let hung = |message: &str| message == "Hung tasks are aborted: Admission webhook server.";
    records.filter(|record| hung(&record.message)).count()
}

#[test]
fn absent_certificates_are_not_empty_ones() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let check = on::validate("check").does(|call| async move {
            let admission = call.admission().unwrap();
            admission
                .warnings
                .push(format!("{:?}", admission.review.sslpeer));
            done()
        });
        let _operator = staffed(stage, &desk, [check]).open(&desk).await;
        for (sslpeer, expected) in [
            (None, "None"),
            (Some(json!(null)), "None"),
            (Some(json!({})), "Some(Object {})"),
        ] {
            let mut incoming = Incoming::new(creation(stage, json!({})));
            incoming.sslpeer = sslpeer;
            let answer = desk.put(incoming).await.unwrap();
            assert_eq!(answer["response"]["warnings"], json!([expected]));
        }
    });
}
