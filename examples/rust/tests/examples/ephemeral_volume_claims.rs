use serde_json::{Value, json};

use crate::program::Program;
use crate::stage::{Stage, only};

/// A server with storage that can grow, and what nobody else does there: see `bound` and `gone`.
struct Walkthrough {
    stage: Stage,
    class: String,
}

impl Walkthrough {
    async fn start() -> Self {
        let definition = only(include_str!("../../ephemeral-volume-claims/crd.yaml"));
        let stage = Stage::start_with(&[definition]).await;
        let class = stage.api.unique("growing");
        let classes = "/apis/storage.k8s.io/v1/storageclasses";
        let object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
            "provisioner": "example.com/nothing", "allowVolumeExpansion": true,
        });
        stage.api.create(classes, &object).await.expect_code(201);
        stage.api.delete_at_end(format!("{classes}/{class}"));
        Self { stage, class }
    }

    fn run(&self) -> Program {
        self.stage.run("ephemeral-volume-claims")
    }

    fn evc(&self, name: &str) -> String {
        let rest = format!("ephemeralvolumeclaims/{name}");
        self.stage.api.group_path("kopf.dev/v1", &rest)
    }

    fn pvc(&self, name: &str) -> String {
        let rest = format!("persistentvolumeclaims/{name}");
        self.stage.api.ns_path(&rest)
    }

    /// Creates the object of the example with changes.
    async fn create(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut object = only(include_str!("../../ephemeral-volume-claims/obj.yaml"));
        object["spec"]["storageClass"] = json!(self.class);
        change(&mut object);
        let path = self
            .stage
            .api
            .group_path("kopf.dev/v1", "ephemeralvolumeclaims");
        let answer = self.stage.api.create(&path, &object).await;
        answer.expect_code(201).json
    }

    /// Waits for the PVC of the example to be as it should be.
    async fn pvc_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.stage.until(&self.pvc("my-claim"), what, is_so).await
    }

    async fn change(&self, path: &str, patch: Value) {
        self.stage.api.merge(path, &patch).await.expect_code(200);
    }

    /// What provides volumes does: a real server resizes only what is in use.
    async fn bind(&self, name: &str) {
        let path = format!("{}/status", self.pvc(name));
        self.change(&path, json!({"status": {"phase": "Bound"}}))
            .await;
    }

    /// Waits until the PVC is deleted. What protects it from being deleted while it is used (on a real
    /// server) would let it go then.
    async fn released(&self, name: &str) {
        let path = self.pvc(name);
        kopf_tests::eventually("the PVC to be deleted", async || {
            let found = self.stage.api.get(&path).await;
            let over = found.code == 404 || found.json["metadata"]["deletionTimestamp"].is_string();
            over.then_some(())
        })
        .await;
        let patch = json!({"metadata": {"finalizers": null}});
        let code = self.stage.api.merge(&path, &patch).await.code;
        assert!(matches!(code, 200 | 404), "{code}");
        self.stage.gone(&path).await;
    }
}

fn size(pvc: &Value) -> &Value {
    &pvc["spec"]["resources"]["requests"]["storage"]
}

#[tokio::test]
async fn the_claim_is_created_resized_relabelled_and_removed() {
    let play = Walkthrough::start().await;
    let program = play.run();
    let evc = play.create(|_| {}).await;
    let evc_path = play.evc("my-claim");
    let pvc = play.pvc_until("it is there", |_| true).await;
    assert_eq!(size(&pvc), "1G");
    assert_eq!(pvc["spec"]["storageClassName"], json!(play.class));
    assert_eq!(
        pvc["metadata"]["labels"],
        json!({"application": "some-app"})
    );
    let owner = &pvc["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], evc["metadata"]["uid"]);
    play.stage
        .until(&evc_path, "it knows its PVC", |evc| {
            evc["status"]["create_fn"] == json!({"pvc-name": "my-claim"})
        })
        .await;

    play.bind("my-claim").await;
    play.change(&evc_path, json!({"spec": {"size": "2G"}}))
        .await;
    play.pvc_until("it is resized", |pvc| size(pvc) == "2G")
        .await;

    // Those of others stay, whatever happens to ours, also to all at once.
    let foreign = json!({"metadata": {"labels": {"foreign": "label"}}});
    play.change(&play.pvc("my-claim"), foreign).await;
    for (labels, expected) in [
        (
            json!({"application": "other-app", "owner": "me"}),
            json!({"application": "other-app", "owner": "me", "foreign": "label"}),
        ),
        (
            json!({"owner": null}),
            json!({"application": "other-app", "foreign": "label"}),
        ),
        (json!(null), json!({"foreign": "label"})),
        (
            json!({"owner": "you"}),
            json!({"owner": "you", "foreign": "label"}),
        ),
    ] {
        let patch = json!({"metadata": {"labels": labels}});
        play.change(&evc_path, patch).await;
        play.pvc_until(&format!("its labels are {expected}"), |pvc| {
            pvc["metadata"]["labels"] == expected
        })
        .await;
    }

    play.stage.api.delete(&evc_path).await.ok();
    play.stage.gone(&evc_path).await;
    play.released("my-claim").await;
    program.stop().await;
    play.stage.finish().await;
}

#[tokio::test]
async fn a_claim_without_a_size_waits_for_one() {
    let play = Walkthrough::start().await;
    let mut program = play.run();
    play.create(|object| object["spec"]["size"] = Value::Null)
        .await;
    program
        .says("Handler 'create_fn' failed permanently: Size must be set.")
        .await;
    program.says("Creation is processed: ").await;
    let found = play.stage.api.get(&play.pvc("my-claim")).await;
    found.expect_code(404);

    let evc_path = play.evc("my-claim");
    play.change(&evc_path, json!({"spec": {"size": "3G"}}))
        .await;
    let pvc = play.pvc_until("it is there", |_| true).await;
    assert_eq!(size(&pvc), "3G");
    play.stage
        .until(&evc_path, "it knows its PVC", |evc| {
            evc["status"]["create_fn"] == json!({"pvc-name": "my-claim"})
        })
        .await;
    program.stop().await;
    play.stage.finish().await;
}

#[tokio::test]
async fn the_claim_of_somebody_else_is_left_alone() {
    let play = Walkthrough::start().await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "my-claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5G"}},
        },
    });
    let path = play.stage.api.ns_path("persistentvolumeclaims");
    let created = play.stage.api.create(&path, &foreign).await;
    let created = created.expect_code(201).json;
    let mut program = play.run();
    play.create(|_| {}).await;
    program
        .says("Handler 'create_fn' failed temporarily: the PVC my-claim is there already")
        .await;
    program.stop().await;
    let found = play.stage.api.get(&play.pvc("my-claim")).await;
    assert_eq!(found.expect_code(200).json, created);
    play.stage.finish().await;
}

#[tokio::test]
async fn a_claim_that_nobody_uses_expires_and_others_stay() {
    let play = Walkthrough::start().await;
    let mut pod = kopf_tests::objects::pod("user");
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "my-claim"}}]);
    let pods = play.stage.api.ns_path("pods");
    play.stage.api.create(&pods, &pod).await.expect_code(201);
    let mut program = play.run();
    play.create(|object| object["metadata"]["name"] = json!("lasting"))
        .await;
    play.create(|object| object["spec"]["expiresAfter"] = json!(1))
        .await;
    let path = play.evc("my-claim");
    play.stage
        .until(&path, "it is used", |evc| evc["status"]["inUse"] == true)
        .await;

    play.stage.api.delete(&format!("{pods}/user")).await.ok();
    program
        .says("/my-claim] Nobody uses it: it has expired after 1 seconds.")
        .await;
    play.stage.gone(&path).await;
    play.released("my-claim").await;
    let log = program.stop().await;
    assert!(!log.contains("/lasting] Nobody uses it"), "{log}");
    let lasting = play
        .stage
        .api
        .get(&play.evc("lasting"))
        .await
        .expect_code(200)
        .json;
    assert!(
        lasting["metadata"]["finalizers"].is_null(),
        "no timer holds it: {lasting}"
    );
    play.stage.finish().await;
}
