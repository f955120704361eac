//! The status and scale subresources of custom resources, and their effect on the generation.

use kopf_tests::Api;
use serde_json::{Value, json};

#[tokio::test]
async fn main_writes_ignore_the_status_with_its_subresource() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let mut object = crd.object("a", json!({"x": 1}));
    object["status"] = json!({"phase": "Dreaming"});
    let created = api.created(&crd.path(), &object).await;
    assert_eq!(
        created.json["status"],
        Value::Null,
        "a new object has no status"
    );

    let status = json!({"status": {"phase": "Running"}});
    crd.merged("a/status", &status).await;
    let patch = json!({"spec": {"x": 2}, "status": {"phase": "Broken"}});
    let patched = crd.merged("a", &patch).await;
    assert_eq!(patched.json["spec"], json!({"x": 2}));
    assert_eq!(patched.json["status"], json!({"phase": "Running"}));
    let mut object = patched.json.clone();
    object.as_object_mut().unwrap().remove("status");
    let put = api.replaced(&crd.path_of("a"), &object).await;
    assert_eq!(put.json["status"], json!({"phase": "Running"}));
    assert_eq!(
        put.resource_version(),
        patched.resource_version(),
        "so there is no change"
    );
}

#[tokio::test]
async fn status_writes_ignore_other_fields() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    crd.created("a", json!({"x": 1})).await;
    let patch = json!({
        "metadata": {
            "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["example.com/hold"],
        },
        "spec": {"x": 2},
        "status": {"phase": "Running"},
    });
    let patched = crd.merged("a/status", &patch).await;
    assert_eq!(patched.json["kind"], "Widget");
    assert_eq!(patched.json["status"], json!({"phase": "Running"}));
    assert_eq!(patched.json["spec"], json!({"x": 1}));
    for field in ["labels", "annotations", "finalizers"] {
        assert_eq!(patched.json["metadata"][field], Value::Null, "{field}");
    }
    let read = crd.found("a/status").await;
    assert_eq!(read.json, api.get(&crd.path_of("a")).await.ok().json);

    let mut object = patched.json.clone();
    object["status"] = json!({"phase": "Done"});
    object["spec"] = json!({"x": 3});
    let put = api.replaced(&crd.path_of("a/status"), &object).await;
    assert_eq!(put.json["status"], json!({"phase": "Done"}));
    assert_eq!(put.json["spec"], json!({"x": 1}));
    let stale = api.put(&crd.path_of("a/status"), &object).await;
    stale.expect_failure(409, "Conflict");
}

#[tokio::test]
async fn status_is_validated_where_it_is_written() {
    let api = Api::start().await;
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
        },
    });
    let crd = api.crd().schema(schema).with_status().create().await;
    crd.created("a", json!({})).await;
    let bad = api
        .merge(
            &crd.path_of("a/status"),
            &json!({"status": {"count": "many"}}),
        )
        .await;
    let bad = bad.expect_failure(422, "Invalid");
    assert_eq!(bad.causes(), [("FieldValueTypeInvalid", "status.count")]);
    let good = json!({"status": {"count": 1, "unknown": true}});
    let good = crd.merged("a/status", &good).await;
    assert_eq!(good.json["status"], json!({"count": 1}));
}

#[tokio::test]
async fn status_without_its_subresource_is_a_plain_field() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let mut object = crd.object("a", json!({}));
    object["status"] = json!({"phase": "New"});
    let created = api.created(&crd.path(), &object).await;
    assert_eq!(created.json["status"], json!({"phase": "New"}));
    let patch = json!({"status": {"phase": "Running"}});
    let patched = crd.merged("a", &patch).await;
    assert_eq!(patched.json["status"], json!({"phase": "Running"}));
    assert_eq!(patched.generation(), 2, "and it counts");
    api.get(&crd.path_of("a/status"))
        .await
        .expect_failure(404, "NotFound");
    api.merge(&crd.path_of("a/status"), &patch)
        .await
        .expect_failure(404, "NotFound");
    api.get(&crd.path_of("a/scale"))
        .await
        .expect_failure(404, "NotFound");
}

#[tokio::test]
async fn generation_counts_effective_changes_only() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let path = crd.path_of("a");
    let mut object = crd.object("a", json!({"x": 1}));
    object["metadata"]["generation"] = json!(77);
    assert_eq!(api.create(&crd.path(), &object).await.ok().generation(), 1);
    let hold = json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/hold"]}});
    assert_eq!(api.merge(&path, &hold).await.ok().generation(), 1);
    let status = json!({"status": {"phase": "Running"}});
    assert_eq!(
        api.merge(&crd.path_of("a/status"), &status)
            .await
            .ok()
            .generation(),
        1
    );
    assert_eq!(
        api.merge(&path, &json!({"spec": {"x": 2}}))
            .await
            .ok()
            .generation(),
        2
    );
    assert_eq!(
        api.merge(&path, &json!({"spec": {"x": 2}}))
            .await
            .ok()
            .generation(),
        2
    );
    let forged = api
        .merge(&path, &json!({"metadata": {"generation": 9}}))
        .await
        .ok();
    assert_eq!(forged.generation(), 2);
    assert_eq!(
        api.delete(&path).await.ok().generation(),
        3,
        "an end is asked for, too"
    );
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
}

#[tokio::test]
async fn scale_reads_and_writes_the_replicas() {
    let api = Api::start().await;
    let crd = api.crd().with_status().with_scale().create().await;
    let created = api
        .create(&crd.path(), &crd.object("a", json!({"replicas": 2})))
        .await
        .ok();
    let status = json!({"status": {"replicas": 1, "selector": "app=a"}});
    let stated = crd.merged("a/status", &status).await;

    let scale = crd.found("a/scale").await;
    assert_eq!(scale.json["kind"], "Scale");
    assert_eq!(scale.json["apiVersion"], "autoscaling/v1");
    assert_eq!(scale.name(), "a");
    assert_eq!(scale.uid(), created.uid());
    assert_eq!(scale.resource_version(), stated.resource_version());
    assert_eq!(scale.json["spec"], json!({"replicas": 2}));
    assert_eq!(
        scale.json["status"],
        json!({"replicas": 1, "selector": "app=a"})
    );

    let mut wanted = scale.json.clone();
    wanted["spec"]["replicas"] = json!(4);
    wanted["status"]["replicas"] = json!(4);
    let put = api.replaced(&crd.path_of("a/scale"), &wanted).await;
    assert_eq!(put.json["spec"], json!({"replicas": 4}));
    assert_eq!(put.at("/status/replicas"), 1);
    api.put(&crd.path_of("a/scale"), &wanted)
        .await
        .expect_failure(409, "Conflict");
    let patch = json!({"spec": {"replicas": 6}});
    let patched = crd.merged("a/scale", &patch).await;
    assert_eq!(patched.json["spec"], json!({"replicas": 6}));
    let object = api.get(&crd.path_of("a")).await.ok();
    assert_eq!(object.json["spec"], json!({"replicas": 6}));
    assert_eq!(object.generation(), 3);
    assert_eq!(object.resource_version(), patched.resource_version());

    let negative = json!({"spec": {"replicas": -1}});
    api.merge(&crd.path_of("a/scale"), &negative)
        .await
        .expect_failure(422, "Invalid");
}
