//! Owned objects: child handlers, and handlers that wait for children.

use kopf_core::cause::EventType;
use kopf_core::field::FieldPath;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use crate::front::{Declaration, done, gives, on, register, temporary};
use crate::stage::{Stage, everywhere, is_handled, progress, sandboxed};

pub(crate) async fn create_child(stage: &Stage, name: &str, owner: &Value) {
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"n": "0"},
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        }]},
    });
    let path = stage.api.ns_path("configmaps");
    stage.api.created(&path, &child).await;
}

pub(crate) async fn change_child(stage: &Stage, name: &str, data: Value) {
    let path = stage.api.ns_path(&format!("configmaps/{name}"));
    stage.api.merged(&path, &json!({"data": data})).await;
}

pub(crate) async fn delete_child(stage: &Stage, name: &str) {
    let path = stage.api.ns_path(&format!("configmaps/{name}"));
    stage.api.deleted(&path).await;
}

/// Returns a handler that writes the state of the child to the status of its owner.
fn observing() -> Declaration {
    on::child("observe", "configmaps").does(|call: Call| async move {
        let child = call.child.clone().unwrap();
        let (name, event) = (child.body.name().unwrap(), child.event);
        let text = if event == EventType::Deleted {
            json!("deleted")
        } else {
            child.body.get("data")["n"].clone()
        };
        let path = FieldPath::root().join("status").join("seen").join(name);
        call.patch.with(|patch| patch.set(&path, text));
        done()
    })
}

#[test]
fn owners_see_changes_of_their_children() {
    everywhere(async |stage| {
        let _operator = stage.run([on::create("make"), observing()]).await;
        let one = stage.create("one", json!({})).await;
        let two = stage.create("two", json!({})).await;
        create_child(stage, "a", &one).await;
        create_child(stage, "b", &two).await;
        let seen = |child: &'static str, text: &'static str| {
            move |object: &Value| object["status"]["seen"][child] == text
        };
        stage.until("one", "seen", seen("a", "0")).await;
        stage.until("two", "seen", seen("b", "0")).await;
        change_child(stage, "a", json!({"n": "1"})).await;
        stage.until("one", "changed", seen("a", "1")).await;
        delete_child(stage, "a").await;
        let object = stage.until("one", "deleted", seen("a", "deleted")).await;
        assert_eq!(object["status"]["seen"].get("b"), None);
        let calls = stage.journal.count("observe");
        assert!(calls >= 4, "{calls}");
    });
}

#[test]
fn children_of_other_owners_are_ignored() {
    sandboxed(async |stage| {
        let _operator = stage.run([on::create("make"), observing()]).await;
        let owner = stage.create("obj", json!({})).await;
        let mut foreign = owner.clone();
        foreign["kind"] = json!("Other");
        create_child(stage, "a", &foreign).await;
        let mut unknown = owner.clone();
        unknown["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
        create_child(stage, "b", &unknown).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("observe"), 0);
        let child = stage.api.get(&stage.api.ns_path("configmaps/b")).await;
        assert!(
            child.json["metadata"]["annotations"].is_null(),
            "it is not annotated"
        );
    });
}

#[test]
fn existing_children_are_seen_at_startup() {
    everywhere(async |stage| {
        let owner = stage.create("obj", json!({})).await;
        create_child(stage, "a", &owner).await;
        let operator = stage.run([on::create("make"), observing()]).await;
        let is_seen = |object: &Value| object["status"]["seen"]["a"] == "0";
        stage.until("obj", "seen", is_seen).await;
        operator.stop().await;
        change_child(stage, "a", json!({"n": "5"})).await;
        operator.start().await;
        let is_seen = |object: &Value| object["status"]["seen"]["a"] == "5";
        stage.until("obj", "seen again", is_seen).await;
    });
}

#[test]
fn children_removed_while_disconnected_are_deleted() {
    sandboxed(async |stage| {
        let operator = stage.run([on::create("make"), observing()]).await;
        let owner = stage.create("obj", json!({})).await;
        create_child(stage, "a", &owner).await;
        stage.settled().await;
        let fault = kopf_sandbox::fault::Fault::error(410);
        let expired = fault
            .verb(kopf_sandbox::fault::Verb::Watch)
            .kind("configmaps");
        let broken = kopf_sandbox::fault::Fault::error(500).verb(kopf_sandbox::fault::Verb::List);
        stage.faults().inject(broken.kind("configmaps").times(1));
        stage.faults().inject(expired.times(1));
        stage.faults().kill_watches();
        delete_child(stage, "a").await;
        stage.pass(60.0).await;
        let object = stage.get("obj").await;
        assert_eq!(object["status"]["seen"]["a"], "deleted");
        drop(operator);
    });
}

#[test]
fn idle_owners_are_seen_in_their_newest_version() {
    sandboxed(async |stage| {
        let observe = on::child("observe", "configmaps").does(|call: Call| async move {
            let spec = call.body().spec()["n"].clone();
            let path = FieldPath::root().join("status").join("spec");
            call.patch.with(|patch| patch.set(&path, spec));
            done()
        });
        let _operator = stage.run([on::create("make"), observe]).await;
        let owner = stage.create("obj", json!({"n": 0})).await;
        stage.pass(10.0).await;
        for n in 1..4 {
            stage.merge("obj", json!({"spec": {"n": n}})).await;
            stage.pass(10.0).await;
            let name = format!("child-{n}");
            create_child(stage, &name, &owner).await;
            stage.pass(10.0).await;
            assert_eq!(stage.get("obj").await["status"]["spec"], n);
        }
    });
}

/// Returns a handler that fails until the child is ready.
fn waiting() -> Declaration {
    on::create("make")
        .owns("configmaps")
        .does(|call: Call| async move {
            if call.retry < 2 {
                return temporary("not yet", 1000.0);
            }
            done()
        })
}

#[test]
fn changes_of_owned_objects_wake_waiting_handlers() {
    sandboxed(async |stage| {
        let operator = stage.run([waiting()]).await;
        let owner = stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        assert_eq!(operator.inspect().snapshot().sleeping, 1);
        create_child(stage, "a", &owner).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("make"), 2);
        assert_eq!(progress(&stage.get("obj").await, "make")["retries"], 2);
        change_child(stage, "a", json!({"n": "1"})).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("make"), 3);
        assert!(is_handled(&stage.get("obj").await));
        change_child(stage, "a", json!({"n": "2"})).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("make"), 3, "no handler waits");
    });
}

#[test]
fn handlers_without_owned_resources_keep_waiting() {
    sandboxed(async |stage| {
        let other = on::create("other").does(|call: Call| async move {
            if call.retry < 1 {
                return temporary("not yet", 1000.0);
            }
            done()
        });
        let _operator = stage.run([waiting(), other]).await;
        let owner = stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        create_child(stage, "a", &owner).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("make"), 2);
        assert_eq!(stage.journal.count("other"), 1);
        stage.pass(1100.0).await;
        assert_eq!(stage.journal.count("other"), 2);
    });
}

#[test]
fn sub_handlers_are_woken_with_their_parents() {
    sandboxed(async |stage| {
        let make = on::create("make")
            .owns("configmaps")
            .does(|call: Call| async move {
                let sub = on::sub("sub").does(|call: Call| async move {
                    if call.retry < 1 {
                        return temporary("not yet", 1000.0);
                    }
                    done()
                });
                register(&call, &sub);
                done()
            });
        let _operator = stage.run([make]).await;
        let owner = stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("make/sub"), 1);
        create_child(stage, "a", &owner).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("make/sub"), 2);
        assert!(is_handled(&stage.get("obj").await));
    });
}

/// Returns a handler that waits until the status of its object contains the state of the child.
fn waiting_for_status() -> Declaration {
    on::create("make")
        .owns("configmaps")
        .does(|call: Call| async move {
            if call.body().status()["seen"]["a"] == "1" {
                return done();
            }
            temporary("not yet", 1000.0)
        })
}

#[test]
fn woken_handlers_see_the_changes_of_child_handlers() {
    sandboxed(async |stage| {
        let _operator = stage.run([waiting_for_status(), observing()]).await;
        let owner = stage.create("obj", json!({})).await;
        create_child(stage, "a", &owner).await;
        stage.pass(10.0).await;
        let calls = stage.journal.count("make");
        change_child(stage, "a", json!({"n": "1"})).await;
        stage.pass(10.0).await;
        assert!(is_handled(&stage.get("obj").await));
        let attempts = stage.journal.count("make") - calls;
        assert_eq!(attempts, 1, "it is called once for one change");
    });
}

#[test]
fn woken_handlers_are_called_if_child_handlers_change_nothing() {
    sandboxed(async |stage| {
        let same = on::child("observe", "configmaps").does(|call: Call| async move {
            let path = FieldPath::root().join("status").join("seen");
            call.patch.with(|patch| patch.set(&path, json!("always")));
            done()
        });
        let _operator = stage.run([waiting(), same]).await;
        let owner = stage.create("obj", json!({})).await;
        create_child(stage, "a", &owner).await;
        stage.pass(10.0).await;
        change_child(stage, "a", json!({"n": "1"})).await;
        stage.pass(10.0).await;
        change_child(stage, "a", json!({"n": "2"})).await;
        stage.pass(10.0).await;
        assert!(is_handled(&stage.get("obj").await));
        assert_eq!(stage.journal.count("make"), 3);
    });
}

#[test]
fn handlers_read_the_existing_children_of_their_objects() {
    everywhere(async |stage| {
        let count = on::update("count")
            .owns("configmaps")
            .does(|call: Call| async move {
                let children = call.children();
                let names = children.iter().filter_map(|child| child.body.name());
                let mut names: Vec<_> = names.map(str::to_owned).collect();
                names.sort();
                gives(json!(names))
            });
        let operator = stage.run([on::create("make"), count]).await;
        let owner = stage.create("obj", json!({})).await;
        let other = stage.create("other", json!({})).await;
        stage.settled().await;
        for (child, owner) in [("a", &owner), ("b", &owner), ("c", &other)] {
            create_child(stage, child, owner).await;
        }
        let counts = |expected: Value| move |object: &Value| object["status"]["count"] == expected;
        stage.sleep(0.5).await;
        stage.merge("obj", json!({"spec": {"n": 1}})).await;
        stage
            .until("obj", "counted", counts(json!(["a", "b"])))
            .await;
        delete_child(stage, "a").await;
        operator.restart().await;
        stage.sleep(0.5).await;
        stage.merge("obj", json!({"spec": {"n": 2}})).await;
        stage.until("obj", "counted", counts(json!(["b"]))).await;
    });
}
