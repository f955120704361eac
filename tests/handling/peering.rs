//! Operators for the same objects: priorities, pauses, and peering records.

use std::time::Duration;

use kopf_core::namespace::Scope;
use kopf_core::settings::Settings;
use kopf_core::timestamp;
use kopf_engine::peering::{CommandError, freeze, resume};
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::json;
use tracing::Level;

use crate::front::on;
use crate::stage::{Actor, Kind, Stage, sandboxed, sandboxed_on};

async fn prepare(stage: &Stage) {
    stage.define_peerings().await;
    stage.create_peering("default").await;
}

/// Starts an operator with this name and priority. Its handler has the same name.
async fn peer<'a>(stage: &'a Stage, name: &str, priority: i64) -> Actor<'a> {
    let operator = stage.operator([on::create(name)]).peer(name, priority);
    let actor = operator.start().await;
    stage.settled().await;
    actor
}

/// Creates an object and returns the ids of the called handlers.
async fn handled_by(stage: &Stage, object: &str) -> Vec<String> {
    stage.journal.clear();
    stage.create(object, json!({})).await;
    stage.settled().await;
    stage.journal.ids()
}

fn logged(stage: &Stage, level: Level, text: &str) -> usize {
    let records = stage.log.records();
    let said = records
        .iter()
        .filter(|record| record.level == level && record.message.starts_with(text));
    said.count()
}

#[test]
fn record_has_the_format_of_the_original() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let operator = peer(stage, "one", 10).await;
        let peers = stage.peers().await;
        let record = peers["one"].as_object().unwrap();
        assert_eq!(record.len(), 3, "{record:?}");
        assert_eq!(record["priority"], 10);
        assert_eq!(record["lifetime"], 60);
        let lastseen = record["lastseen"].as_str().unwrap();
        let age = stage.now() - timestamp::parse(lastseen).unwrap();
        assert!(age.get_seconds() < 5, "{lastseen}");
        assert!(lastseen.ends_with("+00:00"), "{lastseen}");
        operator.stop().await;
        assert_eq!(stage.peers().await, json!({}), "it is removed at the exit");
        let writes = stage.writes_to("default");
        assert_eq!(writes.len(), 2);
        assert_eq!(writes[1].body, json!({"status": {"one": null}}));
        assert_eq!(
            logged(stage, Level::DEBUG, "Keep-alive in 'default' in 'test-"),
            2
        );
    });
}

#[test]
fn record_is_refreshed() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _operator = peer(stage, "one", 0).await;
        let seen = async || {
            let peers = stage.peers().await;
            timestamp::parse(peers["one"]["lastseen"].as_str().unwrap()).unwrap()
        };
        for _ in 0..10 {
            stage.pass(60.0).await;
            let age = stage.now() - seen().await;
            assert!(age.get_seconds() <= 56, "{age}");
        }
        let writes = stage.writes_to("default").len();
        assert!((11..=14).contains(&writes), "{writes} in ten minutes");
    });
}

#[test]
fn higher_priority_pauses_others() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _low = peer(stage, "low", 1).await;
        assert_eq!(handled_by(stage, "a").await, ["low"]);
        let high = peer(stage, "high", 2).await;
        assert_eq!(handled_by(stage, "b").await, ["high"]);
        assert_eq!(
            logged(
                stage,
                Level::INFO,
                "Pausing operations in favour of [<Peer high: "
            ),
            1
        );
        stage.pass(600.0).await;
        assert_eq!(handled_by(stage, "c").await, ["high"]);
        high.stop().await;
        stage.settled().await;
        assert_eq!(handled_by(stage, "d").await, ["low"]);
        assert_eq!(
            logged(
                stage,
                Level::INFO,
                "Resuming operations after the pause. Conflicting operators with the same priority are gone."
            ),
            1
        );
    });
}

#[test]
fn operator_of_a_lower_priority_never_starts_handling() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage.create("a", json!({})).await;
        let _high = peer(stage, "high", 2).await;
        assert_eq!(stage.journal.ids(), ["high"]);
        stage
            .faults()
            .inject(Fault::latency(Duration::from_secs(2)).kind("kopfpeerings"));
        let _low = peer(stage, "low", 1).await;
        stage.create("b", json!({})).await;
        stage.pass(60.0).await;
        assert_eq!(stage.journal.ids(), ["high", "high"]);
    });
}

#[test]
fn equal_priorities_pause_all_with_warnings() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _one = peer(stage, "one", 5).await;
        let two = peer(stage, "two", 5).await;
        assert!(handled_by(stage, "a").await.is_empty());
        let possibly = "Possibly conflicting operators with the same priority: [<Peer ";
        assert!(logged(stage, Level::WARN, possibly) >= 2);
        let pausing = "Pausing all operators, including self: [<Peer one: priority=5, ";
        assert_eq!(logged(stage, Level::WARN, pausing), 2);
        stage.pass(300.0).await;
        assert!(stage.journal.ids().is_empty());
        two.stop().await;
        stage.settled().await;
        assert_eq!(
            stage.journal.ids(),
            ["one"],
            "the object is handled after the pause"
        );
    });
}

#[test]
fn expired_records_are_ignored_and_removed() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage.put_peer("dead", 100, 60, 61).await;
        let _one = peer(stage, "one", 0).await;
        assert_eq!(handled_by(stage, "a").await, ["one"]);
        assert_eq!(stage.peer_names().await, ["one"]);
        let writes = stage.writes_to("default");
        assert!(
            writes
                .iter()
                .any(|write| write.body == json!({"status": {"dead": null}}))
        );
    });
}

#[test]
fn crashed_operator_blocks_until_its_record_expires() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _low = peer(stage, "low", 1).await;
        let high = peer(stage, "high", 2).await;
        high.kill().await;
        assert!(handled_by(stage, "a").await.is_empty());
        stage.pass(45.0).await;
        assert!(stage.journal.ids().is_empty());
        stage.pass(20.0).await;
        assert_eq!(stage.journal.ids(), ["low"]);
        assert_eq!(stage.peer_names().await, ["low"]);
    });
}

#[test]
fn invalid_records_are_kept() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage.write_peer("note", json!("hello")).await;
        stage
            .write_peer("odd", json!({"priority": "top", "lifetime": [1]}))
            .await;
        let _one = peer(stage, "one", 0).await;
        assert_eq!(handled_by(stage, "a").await, ["one"]);
        assert_eq!(stage.peer_names().await, ["note", "odd", "one"]);
    });
}

#[test]
fn operator_runs_without_peering_crds_or_objects() {
    sandboxed(async |stage| {
        let _one = peer(stage, "one", 0).await;
        assert_eq!(handled_by(stage, "a").await, ["one"]);
        stage.define_peerings().await;
        stage.pass(60.0).await;
        assert_eq!(
            handled_by(stage, "b").await,
            ["one"],
            "there is no peering object"
        );
        assert!(logged(stage, Level::DEBUG, "Keep-alive in 'default' in") > 0);
        stage.create_peering("default").await;
        stage.settled().await;
        assert_eq!(stage.peer_names().await, ["one"], "it joins the peering");
        stage.put_peer("boss", 1, 600, 0).await;
        stage.settled().await;
        assert!(handled_by(stage, "c").await.is_empty());
        stage.delete_peering("default").await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["one"]);
    });
}

#[test]
fn standalone_operator_ignores_peers() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage.put_peer("boss", 100, 600, 0).await;
        let _operator = stage.run([on::create("alone")]).await;
        assert_eq!(handled_by(stage, "a").await, ["alone"]);
        assert_eq!(stage.peer_names().await, ["boss"]);
    });
}

#[test]
fn mandatory_peering_pauses_the_operator_while_missing() {
    sandboxed(async |stage| {
        let operator = stage
            .operator([on::create("one")])
            .settings(|settings| {
                settings.peering.mandatory = true;
                settings.peering.name = "special".to_owned();
            })
            .peer("one", 0)
            .start()
            .await;
        assert!(handled_by(stage, "a").await.is_empty(), "without the CRDs");
        let missing = "The CRDs of peering objects are not found.";
        assert_eq!(logged(stage, Level::WARN, missing), 1);
        stage.define_peerings().await;
        stage.pass(60.0).await;
        assert!(stage.journal.ids().is_empty(), "without the object");
        stage.create_peering("default").await;
        stage.pass(10.0).await;
        assert!(stage.journal.ids().is_empty(), "with another object");
        stage.create_peering("special").await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["one"]);
        stage.delete_peering("special").await;
        stage.settled().await;
        assert!(
            handled_by(stage, "b").await.is_empty(),
            "the object is missing again"
        );
        operator.stop().await;
    });
}

#[test]
fn stealthy_operators_do_not_log_keepalives() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _operator = stage
            .operator([on::create("one")])
            .settings(|settings| settings.peering.stealth = true)
            .peer("one", 0)
            .start()
            .await;
        stage.pass(200.0).await;
        assert_eq!(stage.peer_names().await, ["one"]);
        assert_eq!(logged(stage, Level::DEBUG, "Keep-alive"), 0);
    });
}

#[test]
fn lifetime_is_configurable() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _operator = stage
            .operator([on::create("one")])
            .settings(|settings| settings.peering.lifetime = Duration::from_secs(600))
            .peer("one", 0)
            .start()
            .await;
        stage.pass(580.0).await;
        assert_eq!(stage.peers().await["one"]["lifetime"], 600);
        assert_eq!(stage.writes_to("default").len(), 1);
        stage.pass(20.0).await;
        assert_eq!(stage.writes_to("default").len(), 2);
    });
}

#[test]
fn both_groups_are_used_if_available() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage.define_legacy_peerings().await;
        stage.create_peering_in("zalando.org", "default").await;
        let one = peer(stage, "one", 0).await;
        assert_eq!(stage.peers_in("zalando.org").await["one"]["priority"], 0);
        assert_eq!(stage.peers().await["one"]["priority"], 0);
        one.stop().await;
        assert_eq!(stage.peers_in("zalando.org").await, json!({}));
        assert_eq!(stage.peers().await, json!({}));
    });
}

#[test]
fn cluster_wide_operators_use_cluster_scoped_peerings() {
    sandboxed_on(Kind::Cluster, async |stage| {
        stage.define_peerings().await;
        let path = "/apis/kopf.dev/v1/clusterkopfpeerings/default";
        let _one = peer(stage, "one", 0).await;
        let status = stage.api.get(path).await.json["status"].take();
        assert_eq!(status["one"]["priority"], 0);
        assert_eq!(
            logged(
                stage,
                Level::DEBUG,
                "Keep-alive in 'default' cluster-wide: ok."
            ),
            1
        );
        let boss = json!({"status": {"boss": {"priority": 1}}});
        stage.api.merged(path, &boss).await;
        stage.settled().await;
        assert!(handled_by(stage, "a").await.is_empty());
    });
}

#[test]
fn operator_without_peering_permissions_runs() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage
            .faults()
            .inject(Fault::error(403).kind("kopfpeerings"));
        let one = peer(stage, "one", 0).await;
        assert_eq!(handled_by(stage, "a").await, ["one"]);
        assert_eq!(
            logged(stage, Level::WARN, "Watching of kopfpeerings.v1.kopf.dev"),
            1
        );
        assert_eq!(
            logged(stage, Level::WARN, "Keep-alive in 'default' in 'test-"),
            1
        );
        stage.pass(3_600.0).await;
        assert_eq!(
            logged(stage, Level::WARN, "Watching of kopfpeerings.v1.kopf.dev"),
            1
        );
        one.stop().await;
    });
}

#[test]
fn exit_does_not_wait_for_an_unresponsive_server() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let one = peer(stage, "one", 0).await;
        let slow = Fault::latency(Duration::from_secs(3_600));
        stage
            .faults()
            .inject(slow.verb(Verb::Patch).kind("kopfpeerings"));
        let before = stage.now();
        one.stop().await;
        let took = stage.now() - before;
        assert!(took.get_seconds() <= 5, "{took}");
        assert_eq!(
            logged(stage, Level::WARN, "Couldn't remove self from the peering"),
            1
        );
    });
}

fn command(name: &str) -> Settings {
    let mut settings = Settings::default();
    name.clone_into(&mut settings.peering.name);
    settings.peering.priority = 100;
    settings.peering.lifetime = Duration::from_secs(600);
    settings
}

fn here(stage: &Stage) -> Scope {
    let pattern = stage.api.namespace().parse().unwrap();
    Scope::Namespaces(vec![pattern])
}

#[test]
fn operators_are_frozen_and_resumed_by_commands() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let (service, _line) = stage.recorder.record(stage.api.client().clone());
        let client = kopf_client::Client::from_service(service, "default");
        let _one = peer(stage, "one", 10).await;
        let outcome = freeze(&client, command("default"), &here(stage), "me@here")
            .await
            .unwrap();
        let place = format!("'default' in '{}'", stage.api.namespace());
        assert_eq!(outcome.changed, [place.as_str()]);
        assert!(
            outcome.others.is_empty() && outcome.unchanged.is_empty(),
            "{outcome:?}"
        );
        stage.settled().await;
        let peers = stage.peers().await;
        assert_eq!(peers["me@here"]["priority"], 100);
        assert_eq!(peers["me@here"]["lifetime"], 600);
        assert!(handled_by(stage, "a").await.is_empty());
        let back = async || {
            let outcome = resume(&client, command("default"), &here(stage), "me@here").await;
            outcome.unwrap()
        };
        let outcome = back().await;
        assert_eq!(outcome.changed, [place.as_str()]);
        assert!(
            outcome.others.is_empty() && outcome.unchanged.is_empty(),
            "{outcome:?}"
        );
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["one"]);
        assert_eq!(stage.peer_names().await, ["one"]);
        // Nothing is frozen by this identity, but another peer exists.
        let outcome = back().await;
        assert_eq!(outcome.unchanged, [place.as_str()]);
        assert!(outcome.changed.is_empty(), "{outcome:?}");
        assert_eq!(outcome.others[0].identity, "one");
    });
}

#[test]
fn operators_that_keep_running_are_reported() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _high = peer(stage, "high", 101).await;
        stage.put_peer("crashed", 200, 60, 1_000).await;
        stage.put_peer("equal", 100, 60, 0).await;
        let (service, _line) = stage.recorder.record(stage.api.client().clone());
        let client = kopf_client::Client::from_service(service, "default");
        let outcome = freeze(&client, command("default"), &here(stage), "me").await;
        let others = outcome.unwrap().others;
        let names: Vec<_> = others.iter().map(|peer| peer.identity.as_str()).collect();
        assert_eq!(names, ["high"]);
    });
}

#[test]
fn removed_record_is_restored_with_backoff() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _one = peer(stage, "one", 0).await;
        stage.pass(10.0).await;
        stage.remove_peer("one").await;
        stage.settled().await;
        assert_eq!(
            stage.peer_names().await,
            ["one"],
            "it is restored immediately"
        );
        // Another client removes the record repeatedly.
        let before = stage.writes_to("default").len();
        for _ in 0..30 {
            stage.remove_peer("one").await;
            stage.pass(1.0).await;
        }
        let writes = stage.writes_to("default").len() - before;
        assert!((4..=8).contains(&writes), "{writes} in half a minute");
    });
}

#[test]
fn commands_report_missing_resources() {
    sandboxed(async |stage| {
        let (service, _line) = stage.recorder.record(stage.api.client().clone());
        let client = kopf_client::Client::from_service(service, "default");
        let outcome = freeze(&client, command("default"), &here(stage), "me").await;
        assert!(
            matches!(
                outcome,
                Err(CommandError::NoKind {
                    plural: "kopfpeerings"
                })
            ),
            "{outcome:?}"
        );
        let outcome = freeze(&client, command("default"), &Scope::Cluster, "me").await;
        let Err(error) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(
            error.to_string().contains("no clusterkopfpeerings"),
            "{error}"
        );
        stage.define_peerings().await;
        let outcome = freeze(&client, command("default"), &here(stage), "me").await;
        assert!(
            matches!(outcome, Err(CommandError::NotFound { .. })),
            "{outcome:?}"
        );
        let outcome = freeze(&client, command("default"), &Scope::Cluster, "me").await;
        assert_eq!(outcome.unwrap().changed, ["'default' cluster-wide"]);
        let nowhere = Scope::Namespaces(vec!["no-such-*".parse().unwrap()]);
        let outcome = freeze(&client, command("default"), &nowhere, "me").await;
        assert!(
            matches!(outcome, Err(CommandError::NoNamespace)),
            "{outcome:?}"
        );
    });
}

#[test]
fn conflict_in_one_namespace_pauses_the_whole_operator() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let other = stage.api.unique("other");
        stage.api.create_namespace(&other).await;
        let path = format!("/apis/kopf.dev/v1/namespaces/{other}/kopfpeerings");
        let object = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfPeering",
                            "metadata": {"name": "default"}});
        stage.api.created(&path, &object).await;
        let Scope::Namespaces(mut patterns) = here(stage) else {
            return;
        };
        patterns.push(other.parse().unwrap());
        let operator = stage.operator([on::create("one")]).peer("one", 0);
        let _operator = operator.scope(Scope::Namespaces(patterns)).start().await;
        assert_eq!(handled_by(stage, "a").await, ["one"]);
        let path = format!("{path}/default");
        let boss = json!({"status": {"boss": {"priority": 1}}});
        let status = stage.api.merge(&path, &boss).await.json["status"].take();
        assert_eq!(
            status["one"]["priority"], 0,
            "the operator has a record there"
        );
        stage.settled().await;
        assert!(handled_by(stage, "b").await.is_empty());
        // Peers in removed namespaces are ignored.
        let namespace = format!("/api/v1/namespaces/{other}");
        stage.api.deleted(&namespace).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.ids(), ["one"]);
    });
}

#[test]
fn expired_peers_are_ignored_even_if_they_cannot_be_removed() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _low = peer(stage, "low", 1).await;
        let high = peer(stage, "high", 2).await;
        high.kill().await;
        let refused = Fault::error(422).kind("kopfpeerings").verb(Verb::Patch);
        stage.faults().inject(refused);
        assert!(handled_by(stage, "a").await.is_empty());
        stage.pass(100.0).await;
        assert_eq!(stage.journal.ids(), ["low"]);
    });
}

#[test]
fn failed_listing_of_peers_is_repeated_before_handling() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage.put_peer("boss", 100, 1_000_000, 0).await;
        stage.create("obj", json!({})).await;
        let failure = Fault::error(500).kind("kopfpeerings").verb(Verb::List);
        stage.faults().inject(failure.times(4));
        let _one = peer(stage, "one", 0).await;
        stage.pass(60.0).await;
        assert!(stage.journal.ids().is_empty());
    });
}

#[test]
fn outage_of_peerings_does_not_block_the_operator() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage.create("obj", json!({})).await;
        stage
            .faults()
            .inject(Fault::error(500).kind("kopfpeerings"));
        let operator = stage
            .operator([on::create("one")])
            .peer("one", 0)
            .start()
            .await;
        stage.pass(100.0).await;
        assert_eq!(stage.journal.ids(), ["one"]);
        let health = operator.inspect().health();
        assert!(health.is_alive(), "{health}");
        assert!(health.notes[0].contains("peering"), "{health}");
    });
}
