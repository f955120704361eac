use serde_json::{Value, json};

use crate::program::Program;
use crate::stage::{Stage, only};

/// A server with an expandable storage class. [`bind`](Self::bind) and [`released`](Self::released)
/// do the work of controllers, which neither a sandbox nor the control plane runs.
struct Walkthrough {
    stage: Stage,
    class: String,
}

impl Walkthrough {
    async fn start() -> Self {
        let crd = only(include_str!("../../ephemeral-volume-claims/crd.yaml"));
        let stage = Stage::start_with(&[crd]).await;
        let class = stage.api.unique("growing");
        let classes = "/apis/storage.k8s.io/v1/storageclasses";
        let object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
            "provisioner": "example.com/nothing", "allowVolumeExpansion": true,
        });
        stage.api.created(classes, &object).await;
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
        let response = self.stage.api.create(&path, &object).await;
        response.expect_code(201).json
    }

    /// Waits until the PVC of the example meets a condition, and returns it.
    async fn pvc_until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.stage
            .until(&self.pvc("my-claim"), what, condition)
            .await
    }

    async fn change(&self, path: &str, patch: Value) {
        self.stage.api.merged(path, &patch).await;
    }

    /// Binds a PVC: a real server rejects the resizing of others.
    async fn bind(&self, name: &str) {
        let path = format!("{}/status", self.pvc(name));
        self.change(&path, json!({"status": {"phase": "Bound"}}))
            .await;
    }

    /// Waits until the PVC is being deleted, and removes its protection finalizer.
    async fn released(&self, name: &str) {
        let path = self.pvc(name);
        kopf_tests::eventually("the PVC to be deleted", async || {
            let found = self.stage.api.get(&path).await;
            let is_deleted =
                found.code == 404 || found.json["metadata"]["deletionTimestamp"].is_string();
            is_deleted.then_some(())
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
async fn pvc_is_created_resized_relabelled_and_deleted() {
    let fixture = Walkthrough::start().await;
    let program = fixture.run();
    let evc = fixture.create(|_| {}).await;
    let evc_path = fixture.evc("my-claim");
    let pvc = fixture.pvc_until("created", |_| true).await;
    assert_eq!(size(&pvc), "1G");
    assert_eq!(pvc["spec"]["storageClassName"], json!(fixture.class));
    assert_eq!(
        pvc["metadata"]["labels"],
        json!({"application": "some-app"})
    );
    let owner = &pvc["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], evc["metadata"]["uid"]);
    fixture
        .stage
        .until(&evc_path, "the result is stored", |evc| {
            evc["status"]["create_fn"] == json!({"pvc-name": "my-claim"})
        })
        .await;

    fixture.bind("my-claim").await;
    fixture
        .change(&evc_path, json!({"spec": {"size": "2G"}}))
        .await;
    fixture.pvc_until("resized", |pvc| size(pvc) == "2G").await;

    // Labels of other clients are kept, even if all labels of the claim are removed.
    let foreign = json!({"metadata": {"labels": {"foreign": "label"}}});
    fixture.change(&fixture.pvc("my-claim"), foreign).await;
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
        fixture.change(&evc_path, patch).await;
        fixture
            .pvc_until(&format!("the labels are {expected}"), |pvc| {
                pvc["metadata"]["labels"] == expected
            })
            .await;
    }

    fixture.stage.api.delete(&evc_path).await.ok();
    fixture.stage.gone(&evc_path).await;
    fixture.released("my-claim").await;
    program.stop().await;
}

#[tokio::test]
async fn claim_without_a_size_is_created_when_the_size_is_set() {
    let fixture = Walkthrough::start().await;
    let mut program = fixture.run();
    fixture
        .create(|object| object["spec"]["size"] = Value::Null)
        .await;
    program
        .await_log("Handler 'create_fn' failed permanently: spec.size must be set")
        .await;
    program.await_log("Creation is processed: ").await;
    let found = fixture.stage.api.get(&fixture.pvc("my-claim")).await;
    found.expect_code(404);

    let evc_path = fixture.evc("my-claim");
    fixture
        .change(&evc_path, json!({"spec": {"size": "3G"}}))
        .await;
    let pvc = fixture.pvc_until("created", |_| true).await;
    assert_eq!(size(&pvc), "3G");
    fixture
        .stage
        .until(&evc_path, "the result is stored", |evc| {
            evc["status"]["create_fn"] == json!({"pvc-name": "my-claim"})
        })
        .await;
    program.stop().await;
}

#[tokio::test]
async fn pvc_of_another_owner_is_not_changed() {
    let fixture = Walkthrough::start().await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "my-claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5G"}},
        },
    });
    let path = fixture.stage.api.ns_path("persistentvolumeclaims");
    let created = fixture.stage.api.create(&path, &foreign).await;
    let created = created.expect_code(201).json;
    let mut program = fixture.run();
    fixture.create(|_| {}).await;
    program
        .await_log("Handler 'create_fn' failed temporarily: PVC my-claim has another owner")
        .await;
    program.stop().await;
    let found = fixture.stage.api.get(&fixture.pvc("my-claim")).await;
    assert_eq!(found.expect_code(200).json, created);
}

#[tokio::test]
async fn unused_claim_expires_and_others_are_kept() {
    let fixture = Walkthrough::start().await;
    let mut pod = kopf_tests::objects::pod("user");
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "my-claim"}}]);
    let pods = fixture.stage.api.ns_path("pods");
    fixture.stage.api.created(&pods, &pod).await;
    let mut program = fixture.run();
    fixture
        .create(|object| object["metadata"]["name"] = json!("lasting"))
        .await;
    fixture
        .create(|object| object["spec"]["expiresAfter"] = json!(1))
        .await;
    let path = fixture.evc("my-claim");
    fixture
        .stage
        .until(&path, "used", |evc| evc["status"]["inUse"] == true)
        .await;

    fixture.stage.api.delete(&format!("{pods}/user")).await.ok();
    program
        .await_log("/my-claim] Unused for 1 seconds: deleting the claim.")
        .await;
    fixture.stage.gone(&path).await;
    fixture.released("my-claim").await;
    let log = program.stop().await;
    assert!(!log.contains("/lasting] Unused"), "{log}");
    let lasting = fixture.stage.api.found(&fixture.evc("lasting")).await.json;
    assert!(
        lasting["metadata"]["finalizers"].is_null(),
        "it has a finalizer without a timer: {lasting}"
    );
}
