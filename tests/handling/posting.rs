//! Log records posted as Kubernetes events.

use std::collections::BTreeSet;

use serde_json::json;

use crate::front::{arbitrary, done, gives, indexed, on, permanent, temporary};
use crate::stage::{Kind, Stage, everywhere, everywhere_on, sandboxed};

#[test]
fn logs_of_objects_are_posted_as_events() {
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
            .wait_for("all events", || stage.posts().len() >= 5)
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

/// Returns the messages of all posted events, sorted and deduplicated.
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
            .wait_for("records of all handlers", || {
                messages(stage).len() >= expected.len()
            })
            .await;
        stage
            .wait_for("several ticks", || stage.journal.count("tick") >= 5)
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
            .wait_for("the event", || !stage.posts().is_empty())
            .await;
        assert_eq!(messages(stage), ["Timer 'tick' failed permanently: no way"]);
    });
}

#[test]
fn posting_can_be_disabled() {
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
fn repeats_are_merged_and_handling_never_waits() {
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
            .filter(|p| {
                p["message"]
                    .as_str()
                    .unwrap()
                    .starts_with("again and again")
            })
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
fn rejected_events_do_not_affect_handling() {
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
        assert!(warned.count() > 0, "the rejection is logged");
    });
}

#[test]
fn events_of_cluster_scoped_objects_are_posted_to_the_default_namespace() {
    everywhere_on(Kind::Cluster, async |stage| {
        let _operator = stage
            .operator([on::create("make")])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage
            .wait_for("all events", || stage.posts().len() >= 2)
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

#[test]
fn repeated_failures_are_posted_ever_more_rarely() {
    sandboxed(async |stage| {
        let tick = on::timer("tick").interval(1.0).backoff(1.0);
        let tick = tick.does(|call| async move {
            let body = call.body();
            let poster = call.logger.poster();
            poster.event(
                &body.reference(),
                "Warning",
                "Explicit",
                "still failing".to_owned(),
            );
            arbitrary("boom")
        });
        let _operator = stage
            .operator([tick])
            .settings(|settings| {
                settings.posting = kopf_core::settings::Settings::default().posting;
            })
            .start()
            .await;
        for n in 0..20 {
            stage.create(&format!("obj-{n}"), json!({})).await;
        }
        stage.sleep(60.0).await;
        let calls = stage.journal.count("tick");
        assert!(calls >= 20 * 55, "{calls} failures");
        let posts = stage.posts();
        for reason in ["Logging", "Explicit"] {
            for n in 0..20 {
                let name = format!("obj-{n}");
                let of_object = posts.iter().filter(|post| {
                    post["involvedObject"]["name"] == name.as_str() && post["reason"] == reason
                });
                let messages: Vec<_> = of_object.map(|post| post["message"].clone()).collect();
                assert!((4..=8).contains(&messages.len()), "{name}: {messages:#?}");
                let last = messages.last().unwrap().as_str().unwrap();
                assert!(last.ends_with(" times)"), "{last}");
            }
        }
    });
}
