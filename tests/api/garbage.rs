//! Garbage collection of dependents.

use kopf_tests::{Api, eventually, with_query};
use serde_json::{Value, json};

/// The objects of a case: ConfigMaps in the test's namespace.
pub(crate) struct Family<'a> {
    pub(crate) api: &'a Api,
}

impl Family<'_> {
    pub(crate) fn path(&self, name: &str) -> String {
        self.api.ns_path(&format!("configmaps/{name}"))
    }

    /// Creates an object with these owners and finalizers. Returns an owner reference to it.
    pub(crate) async fn add(&self, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers},
        });
        let created = self
            .api
            .create(&self.api.ns_path("configmaps"), &object)
            .await;
        let created = created.expect_code(201);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": created.uid()})
    }

    pub(crate) async fn delete(&self, name: &str, policy: &str) {
        let path = with_query(&self.path(name), &[("propagationPolicy", policy)]);
        self.api.deleted(&path).await;
    }

    pub(crate) async fn gone(&self, name: &str) {
        eventually(&format!("{name} to be gone"), async || {
            (self.api.get(&self.path(name)).await.code == 404).then_some(())
        })
        .await;
    }

    pub(crate) async fn release(&self, name: &str) {
        let released = json!({"metadata": {"finalizers": null}});
        self.api.merged(&self.path(name), &released).await;
    }
}

pub(crate) fn blocking(mut owner: Value) -> Value {
    owner["blockOwnerDeletion"] = json!(true);
    owner
}

#[tokio::test]
async fn dependents_are_deleted_after_their_owner() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = family.add("owner", &[], &[]).await;
    let child = family.add("child", &[owner], &[]).await;
    family.add("grandchild", &[child], &[]).await;
    family.add("stranger", &[], &[]).await;
    family.delete("owner", "Background").await;
    api.get(&family.path("owner"))
        .await
        .expect_failure(404, "NotFound");
    family.gone("child").await;
    family.gone("grandchild").await;
    api.found(&family.path("stranger")).await;
}

#[tokio::test]
async fn default_policy_deletes_dependents() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = family.add("owner", &[], &[]).await;
    family.add("child", &[owner], &[]).await;
    api.deleted(&family.path("owner")).await;
    family.gone("child").await;
}

#[tokio::test]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = family.add("owner", &[], &[]).await;
    family
        .add("child", &[blocking(owner)], &["example.com/hold"])
        .await;
    family.delete("owner", "Foreground").await;

    eventually("the child to be marked", async || {
        let child = api.found(&family.path("child")).await;
        child
            .at("/metadata/deletionTimestamp")
            .is_string()
            .then_some(())
    })
    .await;
    let owner = api.found(&family.path("owner")).await;
    assert!(owner.at("/metadata/deletionTimestamp").is_string());
    assert_eq!(
        owner.at("/metadata/finalizers"),
        &json!(["foregroundDeletion"])
    );

    family.release("child").await;
    family.gone("child").await;
    family.gone("owner").await;
}

#[tokio::test]
async fn foreground_deletion_does_not_wait_for_other_dependents() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = family.add("owner", &[], &[]).await;
    family.add("child", &[owner], &["example.com/hold"]).await;
    family.delete("owner", "Foreground").await;
    family.gone("owner").await;
    eventually("the child to be marked", async || {
        let child = api.found(&family.path("child")).await;
        child
            .at("/metadata/deletionTimestamp")
            .is_string()
            .then_some(())
    })
    .await;
    family.release("child").await;
    family.gone("child").await;
}

#[tokio::test]
async fn orphaning_deletion_removes_owner_references() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = family.add("owner", &[], &[]).await;
    let other = family.add("other", &[], &[]).await;
    family.add("child", std::slice::from_ref(&owner), &[]).await;
    family.add("shared", &[owner, other.clone()], &[]).await;
    family.delete("owner", "Orphan").await;
    family.gone("owner").await;
    let child = api.found(&family.path("child")).await;
    assert_eq!(child.at("/metadata/ownerReferences"), &Value::Null);
    let shared = api.found(&family.path("shared")).await;
    assert_eq!(shared.at("/metadata/ownerReferences"), &json!([other]));
}

#[tokio::test]
async fn dependent_is_deleted_with_its_last_owner() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let first = family.add("first", &[], &[]).await;
    let second = family.add("second", &[], &[]).await;
    family.add("child", &[first, second.clone()], &[]).await;
    family.delete("first", "Background").await;
    // The reference to the deleted owner is removed from the child: the collector has processed and
    // kept it.
    eventually("the child to lose its first owner", async || {
        let child = api.found(&family.path("child")).await;
        (child.at("/metadata/ownerReferences") == &json!([second])).then_some(())
    })
    .await;
    family.delete("second", "Background").await;
    family.gone("child").await;
}

#[tokio::test]
async fn dependent_of_a_nonexistent_owner_is_deleted() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let mut owner = family.add("owner", &[], &[]).await;
    // Another object of the same name.
    owner["uid"] = json!("11111111-2222-3333-4444-555555555555");
    family.add("child", std::slice::from_ref(&owner), &[]).await;
    owner["name"] = json!("absent");
    owner["uid"] = json!("66666666-2222-3333-4444-555555555555");
    family.add("orphan", &[owner], &[]).await;
    family.gone("child").await;
    family.gone("orphan").await;
    api.found(&family.path("owner")).await;
}

#[tokio::test]
async fn cluster_scoped_owner_deletes_namespaced_dependents() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let name = api.unique("owner");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let created = api.created("/api/v1/nodes", &node).await;
    let owner = json!({
        "apiVersion": "v1", "kind": "Node", "name": name, "uid": created.uid(),
    });
    family.add("child", &[owner], &[]).await;
    api.deleted(&format!("/api/v1/nodes/{name}")).await;
    family.gone("child").await;
}

#[tokio::test]
async fn custom_owner_deletes_its_dependents() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let crd = api.crd().create().await;
    let created = crd.created("owner", json!({})).await;
    let owner = json!({
        "apiVersion": crd.api_version(),
        "kind": "Widget",
        "name": "owner",
        "uid": created.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    });
    family.add("child", &[owner], &[]).await;
    crd.deleted("owner").await;
    family.gone("child").await;
}

#[tokio::test]
async fn invalid_owner_references_are_rejected() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = family.add("owner", &[], &[]).await;
    let create = async |references: Value| {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "child", "ownerReferences": references},
        });
        api.create(&api.ns_path("configmaps"), &object)
            .await
            .expect_failure(422, "Invalid")
    };
    let no_uid = create(json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}])).await;
    assert_eq!(
        no_uid.causes(),
        [("FieldValueInvalid", "metadata.ownerReferences.uid")]
    );

    let mut one = owner.clone();
    one["controller"] = json!(true);
    let mut two = one.clone();
    two["name"] = json!("other");
    two["uid"] = json!("11111111-2222-3333-4444-555555555555");
    let two_controllers = create(json!([one, two])).await;
    assert_eq!(
        two_controllers.causes(),
        [("FieldValueInvalid", "metadata.ownerReferences")]
    );
}
