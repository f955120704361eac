//! What is served, as it comes and goes at run time: namespaces and kinds.

use kopf_core::namespace::Scope;
use kopf_core::resource::Resource;
use kopf_core::selector::Selector;
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::{Value, json};
use tracing::Level;

use crate::front::on;
use crate::stage::{Stage, sandboxed};

fn namespaces(patterns: &[&str]) -> Scope {
    let patterns = patterns.iter().map(|text| text.parse().unwrap());
    Scope::Namespaces(patterns.collect())
}

/// Creates an object in any namespace.
async fn create_in(stage: &Stage, namespace: &str, name: &str) {
    let version = format!("{}/v1", stage.api.group());
    let path = format!("/apis/{version}/namespaces/{namespace}/things");
    let object = stage.thing(name, json!({}));
    stage.api.created(&path, &object).await;
}

fn handled(stage: &Stage) -> Vec<String> {
    let entries = stage.journal.all().into_iter();
    let mut names: Vec<_> = entries.map(|entry| entry.object).collect();
    names.sort();
    names
}

fn warnings(stage: &Stage, words: &str) -> usize {
    let records = stage.log.records();
    let is_it = |r: &&crate::stage::Record| r.level == Level::WARN && r.message.contains(words);
    records.iter().filter(is_it).count()
}

#[test]
fn namespaces_are_served_as_they_come_and_go() {
    sandboxed(async |stage| {
        let [served, excluded, later] = ["a", "b", "c"].map(|end| stage.api.unique(end));
        for name in [&served, &excluded] {
            stage.api.create_namespace(name).await;
        }
        let _operator = stage
            .operator([on::create("make")])
            .scope(namespaces(&["*,!b-*,!test-*,!c-*", &later]))
            .start()
            .await;
        create_in(stage, &served, "in-served").await;
        create_in(stage, &excluded, "in-excluded").await;
        stage.settled().await;
        assert_eq!(handled(stage), ["in-served"]);
        for round in ["first", "second"] {
            stage.api.create_namespace(&later).await;
            create_in(stage, &later, round).await;
            stage.pass(5.0).await;
            let path = format!("/api/v1/namespaces/{later}");
            stage.api.deleted(&path).await;
            stage.pass(60.0).await;
        }
        assert_eq!(handled(stage), ["first", "in-served", "second"]);
    });
}

#[test]
fn a_forbidden_namespace_does_not_stand_in_the_way_of_others() {
    sandboxed(async |stage| {
        let [open, closed] = ["open", "closed"].map(|end| stage.api.unique(end));
        for name in [&open, &closed] {
            stage.api.create_namespace(name).await;
        }
        let refusal = Fault::error(403).kind("things").namespace(&closed);
        let refusal = refusal.verb(Verb::List).verb(Verb::Watch);
        let id = stage.faults().inject(refusal);
        let _operator = stage
            .operator([on::create("make")])
            .scope(namespaces(&[&open, &closed]))
            .start()
            .await;
        create_in(stage, &open, "in-open").await;
        create_in(stage, &closed, "in-closed").await;
        stage.pass(10.0).await;
        assert_eq!(handled(stage), ["in-open"]);
        assert!(warnings(stage, &format!("in '{closed}' is not possible")) > 0);
        assert_eq!(warnings(stage, &format!("in '{open}' is not possible")), 0);
        assert!(stage.faults().remove(id));
        stage.pass(120.0).await;
        assert_eq!(
            handled(stage),
            ["in-closed", "in-open"],
            "it is tried again"
        );
    });
}

#[test]
fn without_permissions_for_namespaces_the_names_are_taken_as_they_are() {
    sandboxed(async |stage| {
        stage
            .faults()
            .inject(Fault::error(403).kind("namespaces").verb(Verb::List));
        let own = stage.api.namespace();
        let _operator = stage
            .operator([on::create("make")])
            .scope(namespaces(&[own, "others-*"]))
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage.pass(60.0).await;
        assert_eq!(handled(stage), ["obj"]);
        assert_eq!(
            warnings(stage, "Not enough permissions to list namespaces."),
            1
        );
    });
}

#[test]
fn kinds_are_served_as_they_come_and_go() {
    sandboxed(async |stage| {
        let group = stage.api.group();
        let late = on::create("late").on(&[&group, "v1", "gadgets"]);
        let _operator = stage.run([on::create("make"), late]).await;
        assert_eq!(warnings(stage, "gadgets"), 1, "it is not there yet");
        let version = format!("{group}/v1");
        let path = stage.api.group_path(&version, "gadgets");
        for round in ["first", "second"] {
            let crd = stage.api.crd().named("gadgets", "gadget", "Gadget");
            let definition = crd.with_status().create().await.definition_path();
            let object: Value = json!({"apiVersion": version, "kind": "Gadget",
                                       "metadata": {"name": round}, "spec": {}});
            stage.api.created(&path, &object).await;
            stage.pass(60.0).await;
            stage.api.deleted(&definition).await;
            stage.pass(60.0).await;
        }
        assert_eq!(handled(stage), ["first", "second"]);
        stage.create_settled("thing", json!({})).await;
        assert_eq!(
            stage.journal.ids(),
            ["late", "late", "make"],
            "the others go on"
        );
    });
}

#[test]
fn a_kind_that_gets_a_category_is_served_by_those_who_want_it() {
    sandboxed(async |stage| {
        let group = stage.api.group();
        let both = [
            on::event("by_name").on(&[&group, "v1", "gadgets"]),
            on::event("by_category").on_category("interesting"),
        ];
        let crd = stage.api.crd().named("gadgets", "gadget", "Gadget");
        let definition = crd.create().await.definition_path();
        let _operator = stage.run(both).await;
        let version = format!("{group}/v1");
        let object: Value = json!({"apiVersion": version, "kind": "Gadget",
                                   "metadata": {"name": "it"}, "spec": {}});
        let path = stage.api.group_path(&version, "gadgets");
        stage.api.created(&path, &object).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.ids(), ["by_name"]);
        let patch = json!({"spec": {"names": {"categories": ["interesting"]}}});
        stage.api.merged(&definition, &patch).await;
        stage.pass(60.0).await;
        assert_eq!(stage.journal.count("by_category"), 1);
    });
}

#[test]
fn functions_and_everything_select_kinds_too() {
    sandboxed(async |stage| {
        let own = stage.api.group();
        let is_own = move |resource: &Resource| resource.group == own;
        let handlers = [
            on::event("predicate").on_all(Selector::predicate(is_own)),
            on::event("everything").on_all(Selector::everything()),
        ];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
        let path = stage.api.ns_path("configmaps");
        stage.api.created(&path, &map).await;
        stage.settled().await;
        let seen = |id: &str| {
            let entries = stage.journal.of(id).into_iter();
            let mut names: Vec<_> = entries
                .map(|entry| entry.body["metadata"]["name"].to_string())
                .collect();
            names.dedup();
            names
        };
        assert_eq!(seen("predicate"), ["\"obj\""]);
        let all = seen("everything");
        assert!(all.contains(&"\"obj\"".to_owned()), "{all:?}");
        assert!(all.contains(&"\"map\"".to_owned()), "{all:?}");
    });
}
