//! Leases that are renewed late, edited, deleted, or left behind.

use std::time::Duration;

use kopf_sandbox::fault::{Fault, Verb};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::front::{gives, on};
use crate::leading::{holder, lease, led, replica, shard};
use crate::stage::{Stage, everywhere, is_handled, sandboxed};

/// Returns a fault that delays all requests for Leases.
fn latency(seconds: u64) -> Fault {
    Fault::latency(Duration::from_secs(seconds)).kind("leases")
}

/// Returns the number of records that contain this text.
fn logged(stage: &Stage, text: &str) -> usize {
    let records = stage.log.records().into_iter();
    records
        .filter(|record| record.message.contains(text))
        .count()
}

/// Edits the Lease by hand.
async fn edit(stage: &Stage, spec: Value) {
    let path = stage.api.group_path("coordination.k8s.io/v1", "leases/op");
    let edited = stage.api.merge(&path, &json!({"spec": spec})).await;
    edited.expect_code(200);
}

/// Returns the names of all Leases.
async fn leases(stage: &Stage) -> Vec<String> {
    let path = stage.api.group_path("coordination.k8s.io/v1", "leases");
    let list = stage.api.get(&path).await.json;
    let items = list["items"].as_array().unwrap();
    let names = items.iter().map(|lease| lease["metadata"]["name"].as_str());
    names.map(|name| name.unwrap().to_owned()).collect()
}

#[test]
fn slow_renewals_keep_a_sole_leader() {
    for seconds in 1..=9 {
        sandboxed(async move |stage| {
            let _operator = replica(stage, [on::create("make")]).start().await;
            led(stage).await;
            let leader = holder(stage).await;
            stage.faults().inject(latency(seconds));
            for name in ["a", "b", "c", "d", "e"] {
                stage.sleep(13.0).await;
                stage.create_handled(name, json!({})).await;
            }
            assert_eq!(stage.journal.count("make"), 5);
            assert_eq!(holder(stage).await, leader);
            assert_eq!(lease(stage).await["leaseTransitions"], 0);
            assert_eq!(logged(stage, "not the leader any longer"), 0, "{seconds}");
        });
    }
}

#[test]
fn slow_replicas_always_have_one_that_handles() {
    sandboxed(async |stage| {
        stage.faults().inject(latency(5));
        let mut operators = Vec::new();
        for _ in 0..3 {
            operators.push(replica(stage, [on::create("make")]).start().await);
        }
        stage.create_handled("first", json!({})).await;
        let leader = holder(stage).await;
        for number in 0..20 {
            let name = format!("thing-{number}");
            stage.create(&name, json!({})).await;
            stage.sleep(5.0).await;
            assert!(is_handled(&stage.get(&name).await), "{name}");
        }
        assert_eq!(stage.journal.count("make"), 21);
        assert_eq!(holder(stage).await, leader);
    });
}

#[test]
fn slow_shards_are_always_handled() {
    for replicas in [2, 3] {
        sandboxed(async move |stage| {
            stage.faults().inject(latency(5));
            let mut operators = Vec::new();
            for _ in 0..replicas {
                operators.push(shard(stage, 4, [on::create("make")]).start().await);
            }
            stage.sleep(150.0).await;
            for number in 0..20 {
                let name = format!("thing-{number}");
                stage.create(&name, json!({})).await;
                stage.sleep(3.0).await;
                assert!(is_handled(&stage.get(&name).await), "{replicas}: {name}");
            }
            assert_eq!(stage.journal.count("make"), 20);
            assert_eq!(logged(stage, "is lost"), 0);
        });
    }
}

#[test]
fn late_renewals_do_not_list_the_objects_again() {
    for (seconds, shards) in [(7, 0), (9, 0), (7, 2), (9, 2)] {
        sandboxed(async move |stage| {
            let handlers = [
                on::create("make"),
                on::resume("resumed"),
                on::event("seen"),
                on::daemon("watch").waits(),
            ];
            let operator = match shards {
                0 => replica(stage, handlers),
                shards => shard(stage, shards, handlers),
            };
            let operator = operator.start().await;
            stage.create_handled("a", json!({})).await;
            stage.faults().inject(latency(seconds));
            stage.sleep(30.0).await;
            let seen = stage.journal.count("seen");
            stage.sleep(100.0).await;
            assert_eq!(
                stage.journal.count("seen"),
                seen,
                "{seconds} s, {shards} shards"
            );
            assert_eq!(stage.journal.count("resumed"), 0);
            stage.create_handled("b", json!({})).await;
            stage
                .wait_for("the daemons", || operator.inspect().snapshot().daemons == 2)
                .await;
        });
    }
}

#[test]
fn last_replica_exits_without_extra_seconds() {
    for shards in [0, 4] {
        sandboxed(async move |stage| {
            let slow = on::create("make").does(|_| async {
                tokio::time::sleep(Duration::from_secs(4)).await;
                gives(json!("made"))
            });
            let operator = match shards {
                0 => replica(stage, [slow]),
                shards => shard(stage, shards, [slow]),
            };
            let operator = operator.settings(|settings| {
                settings.queueing.exit_timeout = Duration::from_secs(60);
            });
            let operator = operator.start().await;
            stage.create_handled("a", json!({})).await;
            for (name, handling) in [("", 0.0), ("b", 4.0)] {
                if !name.is_empty() {
                    operator.start().await;
                    stage.sleep(5.0).await;
                    stage.create(name, json!({})).await;
                    stage
                        .wait_for("the call", || stage.journal.count("make") == 2)
                        .await;
                }
                let began = Instant::now();
                operator.stop().await;
                let took = began.elapsed().as_secs_f64();
                assert!(took < handling + 2.0, "{shards} shards: {took} s");
            }
        });
    }
}

#[test]
fn handling_waits_for_a_late_renewal_and_continues_at_once() {
    sandboxed(async |stage| {
        let slow = on::create("make").does(|_| async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            gives(json!("made"))
        });
        let resumed = on::resume("resumed");
        let _operator = replica(stage, [slow, on::update("change"), resumed])
            .start()
            .await;
        led(stage).await;
        stage.create("a", json!({})).await;
        stage
            .wait_for("the call", || stage.journal.count("make") == 1)
            .await;
        let failing = Fault::error(500).verb(Verb::Update).kind("leases");
        let fault = stage.faults().inject(failing);
        stage.sleep(40.0).await;
        assert_eq!(stage.writes_to("a"), [], "nothing is written meanwhile");
        assert_eq!(logged(stage, "No handlers are started"), 1);
        assert_eq!(logged(stage, "Daemons and timers are stopped"), 1);
        stage.faults().remove(fault);
        stage.until_handled("a").await;
        assert_eq!(stage.journal.count("make"), 1, "the result is kept");
        assert_eq!(logged(stage, "Handling continues:"), 1);
        assert_eq!(logged(stage, "not the leader any longer"), 0);
        assert_eq!(logged(stage, "held by"), 0, "there is no other replica");
        assert_eq!(lease(stage).await["leaseTransitions"], 0);
    });
}

#[test]
fn edited_durations_are_restored_by_the_holder() {
    everywhere(async |stage| {
        let _operator = replica(stage, [on::create("make")]).start().await;
        led(stage).await;
        let leader = holder(stage).await;
        edit(stage, json!({"leaseDurationSeconds": 3_600})).await;
        stage.sleep(5.0).await;
        let restored = lease(stage).await;
        assert_eq!(restored["leaseDurationSeconds"], 15);
        assert_eq!(restored["holderIdentity"], leader);
        assert_eq!(restored["leaseTransitions"], 0);
    });
}

#[test]
fn edited_leases_of_killed_leaders_are_taken() {
    for seconds in [3_600, (1_u64 << 31) - 1] {
        sandboxed(async move |stage| {
            let first = replica(stage, [on::create("first")]).start().await;
            led(stage).await;
            let _second = replica(stage, [on::create("second")]).start().await;
            stage.sleep(7.0).await;
            first.kill().await;
            edit(stage, json!({"leaseDurationSeconds": seconds})).await;
            stage.create("a", json!({})).await;
            stage.sleep(18.0).await;
            assert!(is_handled(&stage.get("a").await), "{seconds}");
            assert_eq!(stage.journal.ids(), ["second"]);
        });
    }
}

#[test]
fn deleted_leases_of_killed_leaders_are_taken() {
    sandboxed(async |stage| {
        let first = replica(stage, [on::create("first")]).start().await;
        led(stage).await;
        edit(stage, json!({"leaseDurationSeconds": 3_600})).await;
        let _second = replica(stage, [on::create("second")]).start().await;
        stage.sleep(7.0).await;
        first.kill().await;
        let path = stage.api.group_path("coordination.k8s.io/v1", "leases/op");
        stage.api.delete(&path).await;
        stage.create("a", json!({})).await;
        stage.sleep(19.0).await;
        assert!(is_handled(&stage.get("a").await));
        assert_eq!(stage.journal.ids(), ["second"]);
    });
}

#[test]
fn replicas_take_part_again_at_once_after_a_loss() {
    sandboxed(async |stage| {
        let _operator = replica(stage, [on::create("make")]).start().await;
        led(stage).await;
        let leader = holder(stage).await;
        crate::leading::take(stage, "another").await;
        stage.sleep(5.0).await;
        let lost = "is lost, because it is held by another";
        assert_eq!(logged(stage, lost), 1);
        assert_eq!(
            logged(stage, "Waiting as a standby"),
            0,
            "it is said already"
        );
        stage.sleep(14.0).await;
        assert_eq!(holder(stage).await, leader);
        stage.create_handled("a", json!({})).await;
        assert_eq!(logged(stage, "This replica is the leader now"), 2);
        assert_eq!(logged(stage, &format!("held by {leader}")), 0);
    });
}

#[test]
fn last_replica_removes_the_leases_of_its_shards() {
    everywhere(async |stage| {
        let first = shard(stage, 4, [on::create("first")]).start().await;
        stage.create_handled("a", json!({})).await;
        let second = shard(stage, 4, [on::create("second")]).start().await;
        stage.sleep(8.0).await;
        assert_eq!(leases(stage).await.len(), 4 + 2);
        first.stop().await;
        assert_eq!(leases(stage).await.len(), 4 + 1, "others use them");
        stage.sleep(5.0).await;
        second.stop().await;
        assert_eq!(leases(stage).await, Vec::<String>::new());
    });
}

#[test]
fn leases_of_killed_replicas_and_unused_shards_are_removed() {
    sandboxed(async |stage| {
        let first = shard(stage, 4, [on::create("first")]).start().await;
        stage.create_handled("a", json!({})).await;
        first.kill().await;
        let second = shard(stage, 2, [on::create("second")]).start().await;
        stage.create_handled("b", json!({})).await;
        stage.sleep(5.0).await;
        let left = leases(stage).await;
        assert_eq!(left.len(), 2 + 1, "{left:?}");
        second.kill().await;
        let _third = replica(stage, [on::create("third")]).start().await;
        stage.create_handled("c", json!({})).await;
        stage.sleep(5.0).await;
        assert_eq!(leases(stage).await, ["op"]);
    });
}
