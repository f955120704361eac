//! Lifecycle of namespaces: defaults, and deletion with their content.

use kopf_tests::{Api, eventually, objects::config_map, with_query};
use serde_json::{Value, json};

#[tokio::test]
async fn namespace_starts_active_with_its_name_as_a_label() {
    let api = Api::start().await;
    let namespace = api
        .get(&format!("/api/v1/namespaces/{}", api.namespace()))
        .await;
    let namespace = namespace.expect_code(200);
    assert_eq!(
        namespace.at("/metadata/labels"),
        &json!({"kubernetes.io/metadata.name": api.namespace()})
    );
    assert_eq!(namespace.at("/spec/finalizers"), &json!(["kubernetes"]));
    assert_eq!(namespace.at("/status/phase"), "Active");
}

#[tokio::test]
async fn namespace_is_deleted_with_its_content() {
    let api = Api::start().await;
    let name = api.unique("doomed");
    api.create_namespace(&name).await;
    let crd = api.crd().create().await;
    let path = format!("/api/v1/namespaces/{name}");
    let maps = format!("{path}/configmaps");
    let widgets = format!("/apis/{}/namespaces/{name}/widgets", crd.api_version());
    api.create(&maps, &config_map("a", Value::Null)).await.ok();
    api.create(&widgets, &crd.object("w", json!({}))).await.ok();
    let by_name = format!("metadata.name={name}");
    let mut watch = api
        .watch(&with_query(
            "/api/v1/namespaces",
            &[("fieldSelector", &by_name)],
        ))
        .await;
    assert_eq!(watch.next_change().await.brief(), ("ADDED", name.as_str()));

    let deleted = api.deleted(&path).await;
    assert_eq!(deleted.json["kind"], "Namespace");
    assert_eq!(deleted.at("/status/phase"), "Terminating");
    assert!(deleted.at("/metadata/deletionTimestamp").is_string());
    assert_eq!(deleted.at("/spec/finalizers"), &json!(["kubernetes"]));
    loop {
        let event = watch.next_change().await;
        if event.kind == "DELETED" {
            break;
        }
        assert_eq!(event.object["status"]["phase"], "Terminating");
    }
    api.get(&path).await.expect_failure(404, "NotFound");
    assert!(api.get(&maps).await.ok().items().is_empty());
    assert!(api.get(&widgets).await.ok().items().is_empty());
    let late = api.create(&maps, &config_map("late", Value::Null)).await;
    let late = late.expect_failure(404, "NotFound");
    assert_eq!(late.details(), &json!({"name": name, "kind": "namespaces"}));
}

#[tokio::test]
async fn finalizers_of_objects_block_a_terminating_namespace() {
    let api = Api::start().await;
    let name = api.unique("held");
    api.create_namespace(&name).await;
    let path = format!("/api/v1/namespaces/{name}");
    let maps = format!("{path}/configmaps");
    let mut held = config_map("held", Value::Null);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.create(&maps, &held).await.ok();
    api.create(&maps, &config_map("free", Value::Null))
        .await
        .ok();
    api.deleted(&path).await;

    eventually("the contents to be deleted", async || {
        let list = api.get(&maps).await.ok();
        let marked = list
            .items()
            .iter()
            .all(|item| item["metadata"]["deletionTimestamp"].is_string());
        (list.item_names() == ["held"] && marked).then_some(())
    })
    .await;
    assert_eq!(api.found(&path).await.at("/status/phase"), "Terminating");

    let refused = api.create(&maps, &config_map("new", Value::Null)).await;
    let refused = refused.expect_failure(403, "Forbidden");
    assert_eq!(
        refused.causes(),
        [("NamespaceTerminating", "metadata.namespace")]
    );
    assert_eq!(refused.details()["name"], "new");
    assert_eq!(refused.details()["kind"], "configmaps");
    // Existing objects can still be changed: controllers must be able to clean up.
    let changed = api
        .merge(&format!("{maps}/held"), &json!({"data": {"a": "b"}}))
        .await;
    changed.expect_code(200);

    let again = api.deleted(&path).await;
    assert_eq!(again.at("/status/phase"), "Terminating");
    let released = json!({"metadata": {"finalizers": null}});
    api.merged(&format!("{maps}/held"), &released).await;
    eventually("the namespace to be deleted", async || {
        (api.get(&path).await.code == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn creation_in_a_missing_namespace_is_rejected() {
    let api = Api::start().await;
    let name = api.unique("nosuch");
    let maps = format!("/api/v1/namespaces/{name}/configmaps");
    let refused = api.create(&maps, &config_map("a", Value::Null)).await;
    let refused = refused.expect_failure(404, "NotFound");
    assert_eq!(
        refused.details(),
        &json!({"name": name, "kind": "namespaces"})
    );
    assert!(api.found(&maps).await.items().is_empty());
}

#[tokio::test]
async fn system_namespaces_cannot_be_deleted() {
    let api = Api::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        let refused = api.delete(&format!("/api/v1/namespaces/{name}")).await;
        let refused = refused.expect_failure(403, "Forbidden");
        assert_eq!(
            refused.details(),
            &json!({"name": name, "kind": "namespaces"})
        );
        api.found(&format!("/api/v1/namespaces/{name}")).await;
    }
}
