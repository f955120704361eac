//! Replicas of one operator: a leader handles all objects, or each replica handles its shards.

use std::time::Duration;

use kopf_core::settings::{Settings, Shards};
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::{Value, json};

use crate::front::{Declaration, done, gives, indexed, on};
use crate::stage::{Setup, Stage, everywhere, is_handled, sandboxed};

/// Returns settings of a replica in the namespace of the test.
fn elected(namespace: &str) -> impl FnOnce(&mut Settings) + use<> {
    let namespace = namespace.to_owned();
    move |settings| {
        settings.leading.enabled = true;
        "op".clone_into(&mut settings.leading.name);
        settings.leading.namespace = Some(namespace);
    }
}

pub(crate) fn replica(stage: &Stage, handlers: impl IntoIterator<Item = Declaration>) -> Setup<'_> {
    let setup = stage.operator(handlers);
    setup.settings(elected(stage.api.namespace()))
}

pub(crate) fn shard(
    stage: &Stage,
    shards: u32,
    handlers: impl IntoIterator<Item = Declaration>,
) -> Setup<'_> {
    replica(stage, handlers).settings(|settings| {
        settings.leading.shards = Some(Shards::Fixed(shards));
    })
}

pub(crate) async fn lease(stage: &Stage) -> Value {
    let path = stage.api.group_path("coordination.k8s.io/v1", "leases/op");
    stage.api.get(&path).await.json["spec"].clone()
}

pub(crate) async fn holder(stage: &Stage) -> String {
    let lease = lease(stage).await;
    lease["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Takes the Lease as another process would.
pub(crate) async fn take(stage: &Stage, holder: &str) {
    let path = stage.api.group_path("coordination.k8s.io/v1", "leases/op");
    let renewed = "2026-01-02T03:04:05.678901Z";
    let spec = json!({"holderIdentity": holder, "renewTime": renewed});
    let taken = stage.api.merge(&path, &json!({"spec": spec})).await;
    taken.expect_code(200);
}

/// Waits until a replica holds the Lease.
pub(crate) async fn led(stage: &Stage) {
    stage
        .within("a leader", async {
            while holder(stage).await.is_empty() {
                stage.sleep(0.1).await;
            }
        })
        .await;
}

#[test]
fn standby_takes_over_when_the_leader_exits() {
    everywhere(async |stage| {
        let first = replica(stage, [on::create("first")]).start().await;
        led(stage).await;
        let second = [on::create("second"), on::resume("resumed")];
        let _second = replica(stage, second).start().await;
        stage.create_handled("a", json!({})).await;
        assert_eq!(stage.journal.ids(), ["first"]);
        first.stop().await;
        stage
            .wait_for("the takeover", || stage.journal.count("resumed") == 1)
            .await;
        stage.create_handled("b", json!({})).await;
        assert_eq!(stage.journal.count("second"), 1);
        assert_eq!(stage.journal.only("resumed").body["metadata"]["name"], "a");
    });
}

#[test]
fn lease_has_the_format_of_client_go_and_is_released() {
    everywhere(async |stage| {
        let operator = replica(stage, [on::create("make")]).start().await;
        led(stage).await;
        let held = lease(stage).await;
        assert_eq!(held["leaseDurationSeconds"], 15);
        assert_eq!(held["leaseTransitions"], 0);
        for field in ["acquireTime", "renewTime"] {
            let time = held[field].as_str().unwrap();
            assert!(time.len() == "2026-01-02T03:04:05.678901Z".len(), "{time}");
        }
        operator.stop().await;
        let released = lease(stage).await;
        assert_eq!(released["holderIdentity"].as_str().unwrap_or_default(), "");
        assert_eq!(released["leaseDurationSeconds"], 1);
        operator.start().await;
        led(stage).await;
        assert_eq!(lease(stage).await["leaseTransitions"], 1);
        operator.stop().await;
    });
}

#[test]
fn leader_continues_if_its_lease_is_deleted() {
    everywhere(async |stage| {
        let _first = replica(stage, [on::create("first")]).start().await;
        led(stage).await;
        let leader = holder(stage).await;
        let second = [on::create("second"), on::resume("resumed")];
        let _second = replica(stage, second).start().await;
        stage.sleep(3.0).await;
        for name in ["a", "b", "c"] {
            let path = stage.api.group_path("coordination.k8s.io/v1", "leases/op");
            stage.api.delete(&path).await;
            led(stage).await;
            assert_eq!(holder(stage).await, leader);
            stage.create_handled(name, json!({})).await;
        }
        assert_eq!(stage.journal.ids(), ["first", "first", "first"]);
    });
}

#[test]
fn missing_namespace_of_leases_is_reported() {
    sandboxed(async |stage| {
        let operator = replica(stage, [on::create("make")]);
        let operator = operator.settings(|settings| {
            settings.leading.namespace = Some("absent".to_owned());
        });
        let _operator = operator.start().await;
        stage.sleep(5.0).await;
        let records = stage.log.records();
        let problem = records.iter().find(|r| r.message.contains("absent/op"));
        assert!(problem.unwrap().message.contains("Create the namespace"));
    });
}

#[test]
fn standby_takes_over_when_the_lease_of_a_killed_leader_expires() {
    sandboxed(async |stage| {
        let first = replica(stage, [on::create("first")]).start().await;
        led(stage).await;
        let _second = replica(stage, [on::create("second")]).start().await;
        stage.settled().await;
        first.kill().await;
        stage.create("a", json!({})).await;
        stage.sleep(12.0).await;
        assert_eq!(stage.journal.ids(), Vec::<String>::new());
        stage.sleep(6.0).await;
        stage.until_handled("a").await;
        assert_eq!(stage.journal.ids(), ["second"]);
    });
}

#[test]
fn standby_fills_its_indices() {
    everywhere(async |stage| {
        let _first = replica(stage, [on::create("first")]).start().await;
        led(stage).await;
        let index = on::index("names").does(|call| async move {
            let name = call.cause().unwrap().body.name().unwrap().to_owned();
            indexed(&call, json!({"all": name}))
        });
        stage.create("before", json!({})).await;
        let _second = replica(stage, [index, on::create("second")]).start().await;
        stage.create("after", json!({})).await;
        let both = json!({"all": ["after", "before"]});
        stage
            .wait_for("the index", || stage.index("names") == both)
            .await;
        stage.delete("before").await;
        stage
            .wait_for("the removal", || {
                stage.index("names") == json!({"all": ["after"]})
            })
            .await;
        assert_eq!(stage.journal.count("second"), 0);
    });
}

#[test]
fn leader_that_cannot_renew_stops_before_its_lease_expires() {
    sandboxed(async |stage| {
        let handlers = [on::create("make"), on::daemon("watch").waits()];
        let operator = replica(stage, handlers).start().await;
        led(stage).await;
        stage.create_handled("a", json!({})).await;
        assert_eq!(operator.inspect().snapshot().daemons, 1);
        let failing = Fault::error(500).verb(Verb::Update).kind("leases");
        let fault = stage.faults().inject(failing);
        stage.sleep(15.0).await;
        assert_eq!(operator.inspect().snapshot().daemons, 0);
        stage.create("b", json!({})).await;
        stage.sleep(60.0).await;
        assert!(!is_handled(&stage.get("b").await));
        assert_eq!(stage.journal.count("make"), 1);
        stage.faults().remove(fault);
        stage.until_handled("b").await;
        stage
            .wait_for("the daemons", || operator.inspect().snapshot().daemons == 2)
            .await;
    });
}

#[test]
fn results_of_handlers_are_not_written_after_the_lease_is_lost() {
    sandboxed(async |stage| {
        let slow = on::create("make").does(|call| async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            gives(json!(call.retry))
        });
        let _operator = replica(stage, [slow]).start().await;
        led(stage).await;
        stage.create("a", json!({})).await;
        stage
            .wait_for("the call", || stage.journal.count("make") == 1)
            .await;
        take(stage, "another").await;
        stage.sleep(14.0).await;
        assert_eq!(stage.writes_to("a"), []);
        assert_eq!(stage.journal.count("make"), 1);
        stage.until_handled("a").await;
        assert_eq!(
            stage.journal.count("make"),
            2,
            "the first call is not recorded"
        );
    });
}

#[test]
fn lease_is_released_after_the_last_handler_ends() {
    sandboxed(async |stage| {
        let slow = on::create("first").does(|_| async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            done()
        });
        let first = replica(stage, [slow]);
        let first = first.settings(|settings| {
            settings.queueing.exit_timeout = Duration::from_secs(60);
        });
        let first = first.start().await;
        led(stage).await;
        let _second = replica(stage, [on::create("second")]).start().await;
        stage.create("a", json!({})).await;
        stage
            .wait_for("the call", || stage.journal.count("first") == 1)
            .await;
        first.stop().await;
        assert!(is_handled(&stage.get("a").await));
        stage.sleep(10.0).await;
        assert_eq!(stage.journal.ids(), ["first"]);
        assert!(!holder(stage).await.is_empty(), "the standby holds it");
    });
}

#[test]
fn peers_have_the_namespace_of_their_leases_in_their_names() {
    sandboxed(async |stage| {
        stage.define_peerings().await;
        stage.create_peering("default").await;
        let operator = replica(stage, [on::create("make")]).settings(|settings| {
            settings.leading.namespace = None;
        });
        let _operator = operator.peer("one", 0).start().await;
        stage.sleep(5.0).await;
        assert_eq!(stage.peer_names().await, ["replicas/default/op"]);
    });
}

#[test]
fn replicas_are_one_peer() {
    sandboxed(async |stage| {
        stage.define_peerings().await;
        stage.create_peering("default").await;
        let first = replica(stage, [on::create("first")])
            .peer("one", 0)
            .start()
            .await;
        led(stage).await;
        let _second = replica(stage, [on::create("second")])
            .peer("two", 0)
            .start()
            .await;
        stage.settled().await;
        assert_eq!(stage.peer_names().await.len(), 1);
        stage.create_handled("a", json!({})).await;
        first.stop().await;
        stage.create_handled("b", json!({})).await;
        assert_eq!(stage.journal.ids(), ["first", "second"]);
        assert_eq!(stage.peer_names().await.len(), 1);
    });
}

#[test]
fn replicas_without_a_name_are_rejected() {
    sandboxed(async |stage| {
        let setup = stage.operator([on::create("make")]);
        let error = setup
            .settings(|settings| settings.leading.enabled = true)
            .fails()
            .await;
        assert!(error.contains("Unnamed"), "{error}");
    });
}

/// Returns the names of the objects that a handler was called for, sorted.
fn names(stage: &Stage, id: &str) -> Vec<String> {
    let entries = stage.journal.of(id).into_iter();
    let mut names: Vec<String> = entries
        .map(|entry| entry.body["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

async fn create(stage: &Stage, prefix: &str) -> Vec<String> {
    let names: Vec<String> = (10..30)
        .map(|number| format!("{prefix}-{number}"))
        .collect();
    for name in &names {
        stage.create(name, json!({})).await;
    }
    for name in &names {
        stage.until_handled(name).await;
    }
    names
}

#[test]
fn shards_are_divided_among_running_replicas() {
    everywhere(async |stage| {
        let first = shard(stage, 4, [on::create("first"), on::resume("first-resumed")]);
        let first = first.start().await;
        let alone = create(stage, "a").await;
        assert_eq!(names(stage, "first"), alone);
        let second = shard(
            stage,
            4,
            [on::create("second"), on::resume("second-resumed")],
        );
        let _second = second.start().await;
        stage
            .wait_for("the handover", || stage.journal.count("second-resumed") > 0)
            .await;
        stage.sleep(5.0).await;
        create(stage, "b").await;
        let handled = |id: &str| {
            names(stage, id)
                .into_iter()
                .filter(|name| name.starts_with('b'))
        };
        let (ones, twos) = (handled("first").count(), handled("second").count());
        assert!(ones > 0 && twos > 0, "{ones} and {twos}");
        assert_eq!(ones + twos, 20, "each object is handled once");
        first.stop().await;
        stage
            .wait_for("everything to be resumed", || {
                let mut resumed = names(stage, "second-resumed");
                resumed.extend(names(stage, "second"));
                resumed.sort();
                resumed.dedup();
                resumed.len() == 40
            })
            .await;
        create(stage, "c").await;
        assert_eq!(
            names(stage, "second")
                .iter()
                .filter(|name| name.starts_with('c'))
                .count(),
            20
        );
    });
}

#[test]
fn shard_is_released_after_its_handlers_end() {
    sandboxed(async |stage| {
        let slow = on::create("first").does(|_| async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            done()
        });
        let _first = shard(stage, 1, [slow]).start().await;
        stage.sleep(5.0).await;
        stage.create("a", json!({})).await;
        stage
            .wait_for("the call", || stage.journal.count("first") == 1)
            .await;
        // The replica with the smaller identity gets the only shard.
        let second = shard(stage, 1, [on::create("second"), on::resume("resumed")]);
        let second = second
            .peer("!", 0)
            .settings(|settings| settings.peering.standalone = true);
        let _second = second.start().await;
        stage.sleep(60.0).await;
        assert_eq!(stage.journal.count("resumed"), 0, "the handler still runs");
        stage.until_handled("a").await;
        stage
            .wait_for("the handover", || stage.journal.count("resumed") == 1)
            .await;
        assert_eq!(
            stage.journal.count("second"),
            0,
            "it is recorded as finished"
        );
        assert_eq!(stage.journal.count("first"), 1);
    });
}

#[test]
fn replicas_with_another_number_of_shards_wait() {
    sandboxed(async |stage| {
        let first = shard(stage, 2, [on::create("first")]).start().await;
        stage.sleep(5.0).await;
        let _second = shard(stage, 3, [on::create("second")]).start().await;
        stage.sleep(60.0).await;
        create(stage, "a").await;
        assert_eq!(stage.journal.count("second"), 0);
        let says = |text: &str| stage.log.records().iter().any(|r| r.message.contains(text));
        assert!(says("another number of shards"));
        first.stop().await;
        stage.sleep(20.0).await;
        create(stage, "b").await;
        assert_eq!(stage.journal.count("second"), 20);
    });
}

#[test]
fn replicas_with_and_without_shards_wait_for_each_other() {
    for is_first_sharded in [true, false] {
        sandboxed(async move |stage| {
            let sharded = |name: &str| shard(stage, 2, [on::create(name)]);
            let elected = |name: &str| replica(stage, [on::create(name)]);
            let (first, second) = if is_first_sharded {
                (sharded("first"), elected("second"))
            } else {
                (elected("first"), sharded("second"))
            };
            let first = first.start().await;
            stage.sleep(5.0).await;
            let _second = second.start().await;
            stage.sleep(60.0).await;
            create(stage, "a").await;
            assert_eq!(stage.journal.count("first"), 20);
            assert_eq!(stage.journal.count("second"), 0);
            let says = |text: &str| stage.log.records().iter().any(|r| r.message.contains(text));
            assert!(says("Waiting for replicas with"));
            first.stop().await;
            stage.sleep(20.0).await;
            create(stage, "b").await;
            assert_eq!(stage.journal.count("second"), 20);
        });
    }
}

#[test]
fn indices_contain_all_objects_unless_they_are_sharded() {
    everywhere(async |stage| {
        let index = |id: &str| {
            on::index(id).does(|call| async move {
                let name = call.cause().unwrap().body.name().unwrap().to_owned();
                indexed(&call, json!({"all": name}))
            })
        };
        let _first = shard(stage, 4, [on::create("first")]).start().await;
        create(stage, "a").await;
        let second = shard(
            stage,
            4,
            [index("global"), index("own"), on::create("second")],
        );
        let second = second.settings(|settings| {
            settings.leading.sharded_indices = ["own".to_owned()].into();
        });
        let _second = second.start().await;
        let size = |id: &str| stage.index(id)["all"].as_array().map_or(0, Vec::len);
        stage
            .wait_for("the indices", || size("global") == 20 && size("own") > 0)
            .await;
        stage.sleep(5.0).await;
        assert_eq!(size("global"), 20);
        assert!(size("own") < 20, "{}", size("own"));
    });
}
