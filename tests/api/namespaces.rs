//! The events of a namespace that is deleted with its content.

use kopf_tests::{Api, objects::config_map, with_query};
use serde_json::{Value, json};

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
