//! Deletion of single objects and of collections: finalizers, grace periods, preconditions,
//! responses.

use http::Method;
use kopf_tests::{
    Api,
    objects::{config_map, deployment, labelled, pod},
    with_query,
};
use serde_json::{Value, json};

fn held(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "finalizers": finalizers},
    })
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_one_is_removed() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/a");
    let created = api
        .create(
            &api.ns_path("configmaps"),
            &held("a", &["example.com/one", "example.com/two"]),
        )
        .await
        .ok();

    let deleted = api.deleted(&path).await;
    assert_eq!(
        deleted.json["kind"], "ConfigMap",
        "the object is still there, so it is the response"
    );
    assert!(deleted.at("/metadata/deletionTimestamp").is_string());
    assert_eq!(deleted.at("/metadata/deletionGracePeriodSeconds"), 0);
    assert_ne!(deleted.resource_version(), created.resource_version());

    let one_less = json!({"metadata": {"finalizers": ["example.com/two"]}});
    let patched = api.merged(&path, &one_less).await;
    assert_eq!(
        patched.at("/metadata/deletionTimestamp"),
        deleted.at("/metadata/deletionTimestamp")
    );
    api.found(&path).await;

    let released = api
        .merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await;
    released.expect_code(200);
    api.get(&path).await.expect_failure(404, "NotFound");
}

#[tokio::test]
async fn terminating_object_can_be_changed_and_deleted_again() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/a");
    api.create(
        &api.ns_path("configmaps"),
        &held("a", &["example.com/hold"]),
    )
    .await
    .ok();
    let first = api.deleted(&path).await;

    let patched = api.merged(&path, &json!({"data": {"a": "b"}})).await;
    assert_eq!(patched.json["data"], json!({"a": "b"}));
    let second = api.deleted(&path).await;
    assert_eq!(
        second.at("/metadata/deletionTimestamp"),
        first.at("/metadata/deletionTimestamp")
    );
    assert_eq!(
        second.resource_version(),
        patched.resource_version(),
        "nothing is left to change"
    );
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
}

#[tokio::test]
async fn no_finalizer_can_be_added_to_a_terminating_object() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/a");
    api.create(
        &api.ns_path("configmaps"),
        &held("a", &["example.com/hold"]),
    )
    .await
    .ok();
    api.deleted(&path).await;
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let refused = api.merge(&path, &more).await.expect_failure(422, "Invalid");
    assert!(
        refused
            .causes()
            .contains(&("FieldValueForbidden", "metadata.finalizers"))
    );
    assert_eq!(refused.details()["name"], "a");
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
}

#[tokio::test]
async fn deletion_timestamp_cannot_be_set_or_removed() {
    let api = Api::start().await;
    let all = api.ns_path("configmaps");
    let path = api.ns_path("configmaps/a");
    let mut object = held("a", &["example.com/hold"]);
    object["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    object["metadata"]["deletionGracePeriodSeconds"] = json!(5);
    let created = api.created(&all, &object).await;
    assert_eq!(created.at("/metadata/deletionTimestamp"), &Value::Null);
    assert_eq!(
        created.at("/metadata/deletionGracePeriodSeconds"),
        &Value::Null
    );

    let set = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}});
    let refused = api.merge(&path, &set).await.expect_failure(422, "Invalid");
    assert!(
        refused
            .causes()
            .contains(&("FieldValueInvalid", "metadata.deletionTimestamp"))
    );

    let deleted = api.deleted(&path).await;
    let unset = json!({
        "metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null},
    });
    let patched = api.merged(&path, &unset).await;
    assert_eq!(
        patched.at("/metadata/deletionTimestamp"),
        deleted.at("/metadata/deletionTimestamp")
    );
    assert_eq!(patched.resource_version(), deleted.resource_version());
    let moved = api.merged(&path, &set).await;
    assert_eq!(
        moved.at("/metadata/deletionTimestamp"),
        deleted.at("/metadata/deletionTimestamp")
    );
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
}

#[tokio::test]
async fn immediate_deletion_returns_a_status() {
    let api = Api::start().await;
    let created = api
        .create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    let deleted = api.deleted(&api.ns_path("configmaps/a")).await;
    assert_eq!(
        deleted.json,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": created.uid()},
        })
    );
    api.delete(&api.ns_path("configmaps/a"))
        .await
        .expect_failure(404, "NotFound");

    let deployments = api.group_path("apps/v1", "deployments");
    let created = api.create(&deployments, &deployment("d")).await.ok();
    let deleted = api.deleted(&format!("{deployments}/d")).await;
    assert_eq!(
        deleted.details(),
        &json!({"name": "d", "group": "apps", "kind": "deployments", "uid": created.uid()})
    );
}

#[tokio::test]
async fn unscheduled_pod_is_deleted_immediately() {
    let api = Api::start().await;
    api.create(&api.ns_path("pods"), &pod("p")).await.ok();
    let deleted = api.deleted(&api.ns_path("pods/p")).await;
    assert_eq!(deleted.json["kind"], "Pod", "the response contains the pod");
    assert_eq!(deleted.name(), "p");
    api.get(&api.ns_path("pods/p"))
        .await
        .expect_failure(404, "NotFound");
}

#[tokio::test]
async fn scheduled_pod_gets_its_grace_period() {
    let api = Api::start().await;
    let path = api.ns_path("pods/p");
    let mut object = pod("p");
    object["spec"]["nodeName"] = json!("nowhere");
    api.create(&api.ns_path("pods"), &object).await.ok();
    let deleted = api.deleted(&path).await;
    assert!(deleted.at("/metadata/deletionTimestamp").is_string());
    assert_eq!(
        deleted.at("/metadata/deletionGracePeriodSeconds"),
        30,
        "what pods have by default"
    );

    let shorter = api
        .delete(&with_query(&path, &[("gracePeriodSeconds", "5")]))
        .await;
    assert_eq!(
        shorter
            .expect_code(200)
            .at("/metadata/deletionGracePeriodSeconds"),
        5
    );
    let longer = api
        .delete_with(&path, &json!({"gracePeriodSeconds": 60}))
        .await;
    assert_eq!(
        longer
            .expect_code(200)
            .at("/metadata/deletionGracePeriodSeconds"),
        5
    );
    api.delete_with(&path, &json!({"gracePeriodSeconds": 0}))
        .await
        .expect_code(200);
    api.get(&path).await.expect_failure(404, "NotFound");
}

#[tokio::test]
async fn preconditions_of_a_deletion_are_checked() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/a");
    let created = api
        .create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    let (uid, version) = (created.uid(), created.resource_version());
    for wrong in [
        json!({"uid": "00000000-0000-0000-0000-000000000000"}),
        json!({"resourceVersion": "1"}),
        json!({"uid": uid, "resourceVersion": "1"}),
    ] {
        let refused = api
            .delete_with(&path, &json!({"preconditions": wrong}))
            .await;
        let refused = refused.expect_failure(409, "Conflict");
        assert_eq!(refused.details()["name"], "a");
    }
    let right = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    api.delete_with(&path, &right).await.expect_code(200);
    api.get(&path).await.expect_failure(404, "NotFound");
}

#[tokio::test]
async fn dry_run_deletes_nothing() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/a");
    let created = api
        .create(
            &api.ns_path("configmaps"),
            &held("a", &["example.com/hold"]),
        )
        .await;
    let version = created.ok().resource_version();
    let by_query = api.deleted(&with_query(&path, &[("dryRun", "All")])).await;
    assert!(
        by_query.at("/metadata/deletionTimestamp").is_string(),
        "what would become of it"
    );
    api.delete_with(&path, &json!({"dryRun": ["All"]}))
        .await
        .expect_code(200);
    let still = api.found(&path).await;
    assert_eq!(still.resource_version(), version);
    assert_eq!(still.at("/metadata/deletionTimestamp"), &Value::Null);
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
}

#[tokio::test]
async fn invalid_delete_options_are_rejected() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/a");
    api.create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    let bogus = api
        .delete_with(&path, &json!({"propagationPolicy": "Bogus"}))
        .await;
    bogus.expect_failure(422, "Invalid");
    let bogus = api
        .delete(&with_query(&path, &[("propagationPolicy", "Bogus")]))
        .await;
    bogus.expect_failure(422, "Invalid");
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    api.delete_with(&path, &both)
        .await
        .expect_failure(422, "Invalid");
    let dry = api.delete_with(&path, &json!({"dryRun": ["Some"]})).await;
    dry.expect_failure(422, "Invalid");
    let seconds = api
        .delete(&with_query(&path, &[("gracePeriodSeconds", "soon")]))
        .await;
    seconds.expect_failure(400, "BadRequest");
    let broken = api
        .request(Method::DELETE, &path)
        .header("content-type", "application/json");
    broken
        .body("{broken")
        .send()
        .await
        .expect_failure(400, "BadRequest");
    api.found(&path).await;
}

#[tokio::test]
async fn watchers_get_the_deletion_timestamp_and_then_the_deletion() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/a");
    let created = api
        .create(
            &api.ns_path("configmaps"),
            &held("a", &["example.com/hold"]),
        )
        .await;
    let from = created.ok().resource_version();
    let mut watch = api
        .watch(&with_query(
            &api.ns_path("configmaps"),
            &[("resourceVersion", &from)],
        ))
        .await;

    let deleted = api.deleted(&path).await;
    let marked = watch.next_change().await;
    assert_eq!(marked.brief(), ("MODIFIED", "a"));
    assert_eq!(marked.resource_version(), deleted.resource_version());
    assert!(marked.object["metadata"]["deletionTimestamp"].is_string());

    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    let gone = watch.next_change().await;
    assert_eq!(gone.brief(), ("DELETED", "a"));
    assert_ne!(
        gone.resource_version(),
        marked.resource_version(),
        "a deletion has its own version"
    );
}

#[tokio::test]
async fn collection_is_deleted_through_its_selector() {
    let api = Api::start().await;
    let all = api.ns_path("configmaps");
    for name in ["a", "b"] {
        api.create(&all, &labelled(name, &json!({"sort": "old"})))
            .await
            .ok();
    }
    api.create(&all, &labelled("c", &json!({"sort": "new"})))
        .await
        .ok();
    let mut stubborn = held("d", &["example.com/hold"]);
    stubborn["metadata"]["labels"] = json!({"sort": "old"});
    api.create(&all, &stubborn).await.ok();

    let deleted = api
        .delete(&with_query(&all, &[("labelSelector", "sort=old")]))
        .await;
    let deleted = deleted.expect_code(200);
    assert_eq!(deleted.json["kind"], "ConfigMapList");
    assert_eq!(deleted.item_names(), ["a", "b", "d"]);
    let left = api
        .get(&with_query(&all, &[("labelSelector", "sort")]))
        .await
        .ok();
    assert_eq!(left.item_names(), ["c", "d"]);
    assert!(left.items()[1]["metadata"]["deletionTimestamp"].is_string());

    let by_field = api
        .delete(&with_query(&all, &[("fieldSelector", "metadata.name=c")]))
        .await;
    by_field.expect_code(200);
    api.get(&api.ns_path("configmaps/c"))
        .await
        .expect_failure(404, "NotFound");
    api.merge(
        &api.ns_path("configmaps/d"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await
    .ok();
}
