//! Nothing but indexing happens before all indices are filled.

use std::time::Duration;

use kopf_core::cause::EventType;
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::json;

use super::by_key;
use crate::front::{Declaration, gives, indexed, look, on};
use crate::stage::{Stage, everywhere, is_handled, sandboxed};

/// An index handler that takes its time.
fn slow(id: &str, seconds: u64) -> Declaration {
    on::index(id).does(move |call| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let name = call.body().name().unwrap_or_default().to_owned();
        indexed(&call, json!({"all": name}))
    })
}

/// Says how many entries it has found.
fn counting(handler: Declaration, id: &'static str) -> Declaration {
    handler.does(move |call| async move {
        gives(json!(look(&call.operator.indices, id).get("all").len()))
    })
}

async fn populate(stage: &Stage, count: usize) {
    for number in 0..count {
        stage
            .create(&format!("obj-{number}"), json!({"key": "all"}))
            .await;
    }
}

#[test]
fn all_objects_are_indexed_before_any_is_handled() {
    everywhere(async |stage| {
        populate(stage, 20).await;
        let handlers = [
            by_key("keys"),
            counting(on::create("made"), "keys"),
            on::event("seen"),
        ];
        let _operator = stage.run(handlers).await;
        for number in 0..20 {
            let name = format!("obj-{number}");
            let object = stage
                .until(&name, "handled", |object| {
                    is_handled(object) && !object["status"].is_null()
                })
                .await;
            assert_eq!(object["status"]["made"], 20);
        }
        let first = stage.journal.ids().into_iter().take(20);
        assert!(first.into_iter().all(|id| id == "keys"));
    });
}

#[test]
fn few_workers_are_enough() {
    sandboxed(async |stage| {
        populate(stage, 20).await;
        let handlers = [slow("slow", 1), counting(on::create("made"), "slow")];
        let _operator = stage
            .operator(handlers)
            .settings(|settings| {
                settings.queueing.worker_limit = Some(1);
                settings.networking.concurrency = 1;
                settings.queueing.max_events = 1;
                settings.queueing.max_bytes = 1;
            })
            .start()
            .await;
        stage.pass(15.0).await;
        assert_eq!(stage.journal.count("made"), 20, "after the settling");
        assert_eq!(stage.get("obj-19").await["status"]["made"], 20);
    });
}

#[test]
fn index_handlers_count_against_the_limit() {
    sandboxed(async |stage| {
        populate(stage, 10).await;
        let _operator = stage
            .operator([slow("slow", 10), on::create("made")])
            .settings(|settings| settings.queueing.worker_limit = Some(1))
            .start()
            .await;
        tokio::time::sleep(Duration::from_secs(95)).await;
        assert_eq!(stage.journal.count("slow"), 10);
        assert_eq!(stage.journal.count("made"), 0);
        stage.pass(30.0).await;
        assert_eq!(stage.journal.count("made"), 10);
    });
}

#[test]
fn other_kinds_wait_too_and_only_once() {
    sandboxed(async |stage| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
        let path = stage.api.ns_path("configmaps");
        stage.api.created(&path, &map).await;
        let handlers = [
            slow("slow", 10).on(&["v1", "configmaps"]),
            counting(on::create("made"), "slow"),
        ];
        stage.create("obj", json!({})).await;
        let _operator = stage.run(handlers).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!(stage.journal.count("made"), 0);
        stage.pass(10.0).await;
        assert_eq!(stage.get("obj").await["status"]["made"], 1);
        // From now on, nobody waits for anything.
        let mut later = map.clone();
        later["metadata"]["name"] = json!("later");
        stage.api.created(&path, &later).await;
        stage.create("other", json!({})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stage.journal.count("made"), 2);
        assert_eq!(stage.get("other").await["status"]["made"], 1);
        stage.pass(20.0).await;
    });
}

#[test]
fn event_handlers_find_their_own_version_in_the_indices() {
    sandboxed(async |stage| {
        stage.create("obj", json!({"key": "one"})).await;
        stage.create("slow", json!({"key": "slow"})).await;
        let keys = on::index("keys").does(|call| async move {
            let key = call.body().spec()["key"].as_str().unwrap_or("-").to_owned();
            if key == "slow" {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            indexed(&call, json!({ key: 1 }))
        });
        let seen = on::event("seen").does(|call| async move {
            let key = call.body().spec()["key"].as_str().unwrap_or("-").to_owned();
            let entries = look(&call.operator.indices, "keys").get(&key).len();
            gives(json!({ key: entries }))
        });
        let _operator = stage.run([keys, seen, on::create("made")]).await;
        for key in ["two", "three"] {
            tokio::time::sleep(Duration::from_secs(5)).await;
            stage.merge("obj", json!({"spec": {"key": key}})).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(stage.index("keys"), json!({"one": [1]}));
        assert_eq!(stage.journal.count("seen"), 0);
        stage.pass(120.0).await;
        let seen = stage.journal.of("seen").into_iter();
        let seen = seen.filter(|entry| entry.object == "obj");
        let mut seen: Vec<_> = seen.map(|e| e.body["spec"]["key"].clone()).collect();
        seen.dedup();
        assert_eq!(seen, ["one", "two", "three"], "each version, in order");
        let found = &stage.get("obj").await["status"]["seen"];
        assert_eq!(*found, json!({"one": 1, "two": 1, "three": 1}));
        assert_eq!(
            stage
                .journal
                .of("made")
                .iter()
                .filter(|e| e.object == "obj")
                .count(),
            1
        );
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn an_object_that_is_deleted_meanwhile_leaves_nothing() {
    sandboxed(async |stage| {
        populate(stage, 2).await;
        let keys = on::index("keys").does(|call| async move {
            if call.body().name() == Some("obj-1") {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            indexed(&call, json!({"all": call.body().name()}))
        });
        let operator = stage.run([keys, on::create("made")]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage.delete("obj-0").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stage.index("keys"), json!({}));
        stage.pass(100.0).await;
        assert_eq!(stage.index("keys"), json!({"all": ["obj-1"]}));
        assert_eq!(stage.journal.only("made").object, "obj-1");
        assert_eq!(operator.inspect().snapshot().objects, 1);
    });
}

#[test]
fn a_kind_that_cannot_be_listed_for_now_holds_everything_up() {
    sandboxed(async |stage| {
        stage.create("obj", json!({})).await;
        let faults = stage.faults();
        let broken = faults.inject(Fault::error(503).verb(Verb::List).kind("configmaps"));
        let handlers = [by_key("maps").on(&["v1", "configmaps"]), on::create("made")];
        let _operator = stage.run(handlers).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(stage.journal.count("made"), 0);
        let says = |text: &str| {
            let records = stage.log.records().into_iter();
            records
                .filter(|record| record.message.contains(text))
                .count()
        };
        assert!(says("No handlers are called until configmaps") > 0);
        assert!(faults.remove(broken));
        stage.pass(120.0).await;
        assert_eq!(stage.journal.count("made"), 1);
    });
}

#[test]
fn a_kind_that_must_not_be_listed_does_not() {
    sandboxed(async |stage| {
        stage.create("obj", json!({})).await;
        stage
            .faults()
            .inject(Fault::error(403).verb(Verb::List).kind("configmaps"));
        let handlers = [by_key("maps").on(&["v1", "configmaps"]), on::create("made")];
        let _operator = stage.run(handlers).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("made"), 1);
        let records = stage.log.records().into_iter();
        let warnings = records.filter(|record| record.message.contains("without configmaps"));
        assert_eq!(warnings.count(), 1);
    });
}

#[test]
fn an_operator_can_be_stopped_while_objects_wait() {
    sandboxed(async |stage| {
        populate(stage, 3).await;
        let operator = stage.run([slow("slow", 1_000), on::create("made")]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let since = tokio::time::Instant::now();
        operator.stop().await;
        assert!(
            since.elapsed() < Duration::from_secs(10),
            "{:?}",
            since.elapsed()
        );
        assert_eq!(stage.journal.count("made"), 0);
    });
}

#[test]
fn without_indices_nobody_waits() {
    sandboxed(async |stage| {
        stage.create("obj", json!({})).await;
        let _operator = stage.run([on::create("made")]).await;
        stage.until_handled("obj").await;
    });
}

#[test]
fn kinds_that_come_later_do_not_hold_up_those_that_had_no_objects() {
    sandboxed(async |stage| {
        let group = stage.api.group();
        let index = slow("late", 0).on(&[&group, "v1", "gadgets"]);
        let _operator = stage.run([index, on::create("made")]).await;
        stage.settled().await;
        let outage = Fault::error(500).kind(format!("gadgets.{group}"));
        stage.faults().inject(outage);
        let crd = stage.api.crd().named("gadgets", "gadget", "Gadget");
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let created = stage.api.create(definitions, crd.definition()).await;
        created.expect_code(201);
        tokio::time::sleep(Duration::from_secs(60)).await;
        stage.create("obj", json!({})).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(stage.journal.count("made"), 1);
    });
}

#[test]
fn repeated_listings_replace_what_waits_for_the_indices() {
    sandboxed(async |stage| {
        populate(stage, 5).await;
        let faults = stage.faults();
        let listing = |fault: Fault| fault.verb(Verb::List).kind("things");
        let slowly = Fault::latency(Duration::from_secs(2));
        faults.inject(listing(slowly).times(3));
        // The listing expires after its first page, and begins again.
        let expired = Fault::error(410).starting_after(Duration::from_secs(1));
        let expired = faults.inject(listing(expired).times(1));
        let setup = stage.operator([by_key("keys"), on::event("seen"), on::create("made")]);
        let _operator = setup
            .settings(|settings| {
                settings.watching.page_size = 2;
                // Each object must be taken before the next one is read.
                settings.queueing.max_bytes = 1;
            })
            .start()
            .await;
        stage
            .until_so("all objects to be handled", || {
                stage.journal.count("made") == 5
            })
            .await;
        stage.settled().await;
        assert_eq!(faults.count(expired), 1);
        for number in 0..5 {
            let name = format!("obj-{number}");
            let seen = stage.journal.of("seen").into_iter();
            let listed =
                seen.filter(|entry| entry.object == name && entry.event == Some(EventType::Listed));
            assert_eq!(listed.count(), 1, "{name}");
        }
    });
}
