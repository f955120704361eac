//! Log records posted as k8s-events.

use std::collections::BTreeSet;

use serde_json::json;

use crate::front::{done, gives, indexed, on, permanent, temporary};
use crate::stage::{Kind, Stage, everywhere, everywhere_on, sandboxed};

#[test]
fn by_default_the_log_of_an_object_goes_to_its_events() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            call.logger.info("an info");
            call.logger.debug("a secret");
            call.logger.warning("a warning");
            call.logger.error("an error");
            gives(json!(1))
        });
        let _operator = stage
            .operator([make])
            .settings(|settings| {
                settings.posting = kopf_core::settings::Settings::default().posting;
            })
            .start()
            .await;
        let object = stage.create("obj", json!({})).await;
        stage
            .until_so("all events", || stage.posts().len() >= 5)
            .await;
        stage.settled().await;
        let posts = stage.posts();
        let posts: Vec<_> = posts
            .iter()
            .map(|post| {
                (
                    post["type"].as_str().unwrap(),
                    post["message"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            posts,
            [
                ("Normal", "an info"),
                ("Warning", "a warning"),
                ("Error", "an error"),
                ("Normal", "Handler 'make' succeeded."),
                ("Normal", "Creation is processed: 1 succeeded; 0 failed."),
            ]
        );
        let post = &stage.posts()[0];
        assert_eq!(post["reason"], "Logging");
        assert_eq!(post["involvedObject"]["uid"], object["metadata"]["uid"]);
        assert_eq!(post["metadata"]["generateName"], "kopf-event-");
        assert_eq!(post["metadata"]["namespace"], stage.api.namespace());
        let list = stage.api.get(&stage.api.ns_path("events")).await;
        assert_eq!(list.items().len(), 5);
    });
}

/// Texts of all posted events, sorted, without repeats.
fn messages(stage: &Stage) -> Vec<String> {
    let posts = stage.posts();
    let texts = posts.iter().filter_map(|post| post["message"].as_str());
    let unique: BTreeSet<_> = texts.map(str::to_owned).collect();
    unique.into_iter().collect()
}

#[test]
fn routine_records_are_not_posted_and_records_of_handlers_are() {
    everywhere(async |stage| {
        let tick = on::timer("tick").interval(0.1).does(|call| async move {
            call.logger.info("from the timer");
            done()
        });
        let stay = on::daemon("stay").does(|call| async move {
            call.logger.info("from the daemon");
            done()
        });
        let see = on::event("see").does(|call| async move {
            call.logger.info("from the event handler");
            done()
        });
        let list = on::index("list").does(|call| async move {
            call.logger.info("from the index handler");
            indexed(&call, json!({"key": 1}))
        });
        let _operator = stage
            .operator([tick, stay, see, list])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        let expected = [
            "from the daemon",
            "from the event handler",
            "from the index handler",
            "from the timer",
        ];
        stage
            .until_so("records of all handlers", || {
                messages(stage).len() >= expected.len()
            })
            .await;
        stage
            .until_so("several ticks", || stage.journal.count("tick") >= 5)
            .await;
        assert_eq!(messages(stage), expected);
        assert!(stage.log.has("obj", "Timer 'tick' succeeded."));
        assert!(stage.log.has("obj", "Daemon 'stay' succeeded."));
        assert!(stage.log.has("obj", "Handler 'see' succeeded."));
    });
}

#[test]
fn failures_of_timers_are_posted() {
    everywhere(async |stage| {
        let tick = on::timer("tick").does(|_| async { permanent("no way") });
        let _operator = stage
            .operator([tick])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage
            .until_so("the event", || !stage.posts().is_empty())
            .await;
        assert_eq!(messages(stage), ["Timer 'tick' failed permanently: no way"]);
    });
}

#[test]
fn posting_can_be_switched_off() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            call.logger.error("an error");
            done()
        });
        let _operator = stage
            .operator([make])
            .settings(|settings| {
                settings.posting.loggers = true;
                settings.posting.enabled = false;
            })
            .start()
            .await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        assert_eq!(stage.posts(), [json!(null); 0]);
    });
}

#[test]
fn repeats_are_folded_and_handling_never_waits() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|call| async move {
            for _ in 0..1000 {
                call.logger.info("again and again");
            }
            if call.retry < 3 {
                return temporary("not yet", 0.0);
            }
            done()
        });
        let _operator = stage
            .operator([make])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage.pass(120.0).await;
        let posts = stage.posts();
        let again: Vec<_> = posts
            .iter()
            .filter(|p| p["message"] == "again and again")
            .collect();
        assert!(
            !again.is_empty() && again.len() < 100,
            "{} posts",
            again.len()
        );
        let counted: u64 = again
            .iter()
            .map(|post| post["count"].as_u64().unwrap_or(1))
            .sum();
        assert_eq!(counted, 4000);
    });
}

#[test]
fn a_server_that_takes_no_events_is_not_in_the_way() {
    sandboxed(async |stage| {
        let refusal = kopf_sandbox::fault::Fault::error(403).kind("events");
        stage.faults().inject(refusal);
        let _operator = stage
            .operator([on::create("make")])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create_handled("obj", json!({})).await;
        stage.pass(30.0).await;
        let warned = stage.log.records().into_iter();
        let warned = warned.filter(|record| record.level == tracing::Level::WARN);
        assert!(warned.count() > 0, "nobody was told");
    });
}

#[test]
fn events_of_objects_outside_of_namespaces_go_to_the_default_one() {
    everywhere_on(Kind::Cluster, async |stage| {
        let _operator = stage
            .operator([on::create("make")])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage
            .until_so("all events", || stage.posts().len() >= 2)
            .await;
        let posts = stage.posts();
        assert_eq!(posts[0]["metadata"]["namespace"], "default");
        let calls = stage.recorder.calls();
        assert!(
            calls
                .iter()
                .filter(|call| call.is_event())
                .all(kopf_testing::recording::Call::is_accepted)
        );
    });
}
