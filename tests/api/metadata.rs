//! Validation of metadata, and its immutable fields.

use kopf_tests::{Api, PatchType, objects};
use serde_json::{Value, json};

/// Creates a ConfigMap with this metadata besides its name. Returns the causes of the rejection.
async fn refused(api: &Api, metadata: Value) -> Vec<(String, String)> {
    let mut object = objects::config_map("one", json!({}));
    for (key, value) in metadata.as_object().unwrap() {
        object["metadata"][key] = value.clone();
    }
    let response = api.create(&api.ns_path("configmaps"), &object).await;
    let response = response.expect_failure(422, "Invalid");
    let causes = response.causes().into_iter();
    let mut causes: Vec<_> = causes.map(|(r, f)| cause(r, f)).collect();
    // One value can violate several rules, and some rules are checked twice; the test ignores that.
    causes.dedup();
    causes
}

fn cause(reason: &str, field: &str) -> (String, String) {
    (reason.to_owned(), field.to_owned())
}

#[tokio::test]
async fn invalid_labels_are_rejected() {
    let api = Api::start().await;
    let invalid = [cause("FieldValueInvalid", "metadata.labels")];
    for labels in [
        json!({"": "x"}),
        json!({"sp ace": "x"}),
        json!({"a/b/c": "x"}),
        json!({"Upper.Prefix/key": "x"}),
        json!({"-key": "x"}),
        json!({"k".repeat(64): "x"}),
        json!({"key": "sp ace"}),
        json!({"key": "-value"}),
        json!({"key": "v".repeat(64)}),
    ] {
        assert_eq!(
            refused(&api, json!({"labels": labels})).await,
            invalid,
            "{labels}"
        );
    }
    let good = json!({
        "Key_1": "", "example.com/key": "Value.1_2-3", "k".repeat(63): "v".repeat(63),
    });
    let made = api
        .create(
            &api.ns_path("configmaps"),
            &objects::labelled("good", &good),
        )
        .await;
    assert_eq!(made.expect_code(201).at("/metadata/labels"), &good);
}

#[tokio::test]
async fn label_values_are_strings() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for value in [json!(1), json!(true), json!({}), json!([])] {
        let response = api
            .create(&path, &objects::labelled("one", &json!({"key": value})))
            .await;
        response.expect_failure(400, "BadRequest");
    }
}

#[tokio::test]
async fn annotations_have_qualified_keys_and_free_values() {
    let api = Api::start().await;
    let invalid = [cause("FieldValueInvalid", "metadata.annotations")];
    for annotations in [
        json!({"sp ace": "x"}),
        json!({"a/b/c": "x"}),
        json!({"-key": "x"}),
    ] {
        assert_eq!(
            refused(&api, json!({"annotations": annotations})).await,
            invalid
        );
    }
    let mut object = objects::config_map("good", json!({}));
    object["metadata"]["annotations"] = json!({"Upper.Example.com/Key": "{\"any\": \"text\"}\n…"});
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    assert_eq!(
        made.at("/metadata/annotations"),
        &object["metadata"]["annotations"]
    );
}

#[tokio::test]
async fn annotations_have_at_most_256_kilobytes() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let mut object = objects::config_map("one", json!({}));
    // Keys count as well: 2 × 1 byte.
    let half = "x".repeat(128 * 1024 - 1);
    object["metadata"]["annotations"] = json!({"a": half, "b": half});
    api.created(&path, &object).await;

    let patch = json!({"metadata": {"annotations": {"c": ""}}});
    let response = api.merge(&api.ns_path("configmaps/one"), &patch).await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(
        response.causes()[0],
        ("FieldValueTooLong", "metadata.annotations")
    );
}

#[tokio::test]
async fn owner_references_are_complete() {
    let api = Api::start().await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"});
    for field in ["apiVersion", "kind", "name", "uid"] {
        let mut owner = owner.clone();
        owner[field] = json!("");
        let causes = refused(&api, json!({"ownerReferences": [owner]})).await;
        let path = format!("metadata.ownerReferences.{field}");
        assert!(
            causes.iter().any(|(_, field)| *field == path),
            "{causes:?} without {path}"
        );
    }
}

#[tokio::test]
async fn object_has_at_most_one_controller() {
    let api = Api::start().await;
    let owner = |uid| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "controller": true,
        })
    };
    let causes = refused(&api, json!({"ownerReferences": [owner("a"), owner("b")]})).await;
    assert_eq!(
        causes,
        [cause("FieldValueInvalid", "metadata.ownerReferences")]
    );
}

#[tokio::test]
async fn event_cannot_be_an_owner() {
    let api = Api::start().await;
    let owner = json!({"apiVersion": "v1", "kind": "Event", "name": "owner", "uid": "u"});
    let causes = refused(&api, json!({"ownerReferences": [owner]})).await;
    assert_eq!(causes[0].1, "metadata.ownerReferences");
}

#[tokio::test]
async fn finalizers_are_qualified_names() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for finalizer in ["sp ace", "a/b/c", "unqualified"] {
        let mut object = objects::config_map("one", json!({}));
        object["metadata"]["finalizers"] = json!([finalizer]);
        let response = api.create(&api.ns_path("configmaps"), &object).await;
        let response = response.expect_failure(422, "Invalid");
        assert!(
            response.causes()[0].1.starts_with("metadata.finalizers"),
            "{}",
            response.text()
        );
    }
    let mut object = crd.object("one", json!({}));
    object["metadata"]["finalizers"] = json!(["a/b/c"]);
    let response = api
        .create(&crd.path(), &object)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(response.causes()[0].1, "metadata.finalizers");
}

#[tokio::test]
async fn uid_and_creation_time_are_immutable() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;

    let mut update = made.json.clone();
    update["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    api.put(&path, &update)
        .await
        .expect_failure(409, "Conflict");
    let patch = json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}});
    let response = api
        .merge(&path, &patch)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(response.causes()[0], ("FieldValueInvalid", "metadata.uid"));

    // A wrong timestamp is not rejected, but ignored.
    let mut update = made.json.clone();
    update["metadata"]["creationTimestamp"] = json!("2001-02-03T04:05:06Z");
    api.replaced(&path, &update).await;
    let patch = json!({"metadata": {"creationTimestamp": null}});
    api.merged(&path, &patch).await;

    assert_eq!(api.get(&path).await.json, made.json);
}

#[tokio::test]
async fn name_and_namespace_are_immutable() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    crd.created("one", json!({})).await;

    let name = json!({"metadata": {"name": "two"}});
    api.merge(&path, &name)
        .await
        .expect_failure(400, "BadRequest");
    api.patch(&path, PatchType::Strategic, &name)
        .await
        .expect_failure(400, "BadRequest");
    api.merge(&crd.path_of("one"), &name)
        .await
        .expect_failure(400, "BadRequest");
    let namespace = json!({"metadata": {"namespace": "default"}});
    api.merge(&path, &namespace)
        .await
        .expect_failure(400, "BadRequest");
    assert_eq!(api.get(&path).await.json, made.json);
}

#[tokio::test]
async fn deletion_timestamp_is_server_controlled() {
    let api = Api::start().await;
    let mut object = objects::config_map("one", json!({}));
    object["metadata"]["deletionTimestamp"] = json!("2030-02-03T04:05:06Z");
    object["metadata"]["deletionGracePeriodSeconds"] = json!(5);
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    assert!(made.at("/metadata/deletionTimestamp").is_null());
    assert!(made.at("/metadata/deletionGracePeriodSeconds").is_null());
}

#[tokio::test]
async fn kind_and_version_are_immutable() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({}));
    api.created(&api.ns_path("configmaps"), &object).await;
    let response = api.merge(&path, &json!({"kind": "Secret"})).await;
    assert!((400..500).contains(&response.code), "{}", response.text());
    let response = api.put(&path, &objects::secret("one", json!({}))).await;
    response.expect_failure(400, "BadRequest");
}
