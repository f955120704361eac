//! Validation of single built-in kinds that operators rely on.

use kopf_tests::{Api, objects};
use serde_json::json;

#[tokio::test]
async fn immutable_config_map_keeps_its_data() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let mut object = objects::config_map("one", json!({"key": "1"}));
    object["immutable"] = json!(true);
    api.created(&api.ns_path("configmaps"), &object).await;

    let response = api.merge(&path, &json!({"data": {"key": "2"}})).await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(response.causes(), [("FieldValueForbidden", "data")]);
    let response = api.merge(&path, &json!({"immutable": null})).await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(response.causes(), [("FieldValueForbidden", "immutable")]);
    api.merged(&path, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    api.deleted(&path).await;
}

#[tokio::test]
async fn immutable_secret_keeps_its_data() {
    let api = Api::start().await;
    let path = api.ns_path("secrets/one");
    let mut object = objects::secret("one", json!({"key": "MQ=="}));
    object["immutable"] = json!(true);
    api.created(&api.ns_path("secrets"), &object).await;
    let response = api.merge(&path, &json!({"data": {"key": "Mg=="}})).await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(response.causes(), [("FieldValueForbidden", "data")]);
    let response = api.merge(&path, &json!({"stringData": {"key": "2"}})).await;
    response.expect_failure(422, "Invalid");
}

#[tokio::test]
async fn string_data_of_a_secret_becomes_data() {
    let api = Api::start().await;
    let path = api.ns_path("secrets/one");
    let mut object = objects::secret("one", json!({"kept": "MQ==", "replaced": "MQ=="}));
    object["stringData"] = json!({"replaced": "two", "added": "three"});
    let made = api.created(&api.ns_path("secrets"), &object).await;
    let expected = json!({"kept": "MQ==", "replaced": "dHdv", "added": "dGhyZWU="});
    assert_eq!(made.json["data"], expected);
    assert!(made.json["stringData"].is_null());
    assert_eq!(made.json["type"], "Opaque");

    let patched = api
        .merge(&path, &json!({"stringData": {"added": "four"}}))
        .await;
    let patched = patched.expect_code(200);
    assert_eq!(patched.at("/data/added"), "Zm91cg==");
    assert_eq!(patched.at("/data/kept"), "MQ==");
    assert!(api.get(&path).await.json["stringData"].is_null());
}

#[tokio::test]
async fn data_of_a_secret_is_base64() {
    let api = Api::start().await;
    let object = objects::secret("one", json!({"key": "not base64!"}));
    let response = api.create(&api.ns_path("secrets"), &object).await;
    response.expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn type_of_a_secret_is_immutable() {
    let api = Api::start().await;
    api.created(&api.ns_path("secrets"), &objects::secret("one", json!({})))
        .await;
    let response = api
        .merge(
            &api.ns_path("secrets/one"),
            &json!({"type": "example.com/x"}),
        )
        .await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(response.causes()[0], ("FieldValueInvalid", "type"));
}

#[tokio::test]
async fn keys_of_a_config_map_are_file_names() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for key in ["", "sp ace", "sl/ash", "..", "."] {
        let response = api
            .create(&path, &objects::config_map("one", json!({key: "x"})))
            .await;
        let response = response.expect_failure(422, "Invalid");
        assert_eq!(response.causes()[0].0, "FieldValueInvalid", "{key:?}");
        assert!(
            response.causes()[0].1.starts_with("data["),
            "{key:?}: {}",
            response.text()
        );
    }
    let good = json!({"Key_1.txt-2": ""});
    api.created(&path, &objects::config_map("one", good)).await;
}

#[tokio::test]
async fn fields_of_wrong_types_are_rejected() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments");
    for (pointer, value) in [
        ("/spec/replicas", json!("1")),
        ("/spec/replicas", json!(1.5)),
        ("/spec/selector", json!([])),
        ("/spec/template/spec/containers", json!({})),
        ("/spec/template/spec/containers/0/image", json!(5)),
        ("/spec/template/spec/containers/0", json!("main")),
        ("/metadata/labels", json!("x")),
        ("/metadata/name", json!(1)),
        ("/spec", json!("x")),
    ] {
        let mut object = objects::deployment("one");
        object["metadata"]["labels"] = json!({});
        *object.pointer_mut(pointer).unwrap() = value.clone();
        let response = api.create(&path, &object).await;
        assert_eq!(
            response.code,
            400,
            "{pointer} = {value}: {}",
            response.text()
        );
        response.expect_failure(400, "BadRequest");
    }
}

#[tokio::test]
async fn namespace_is_active_and_labelled_with_its_name() {
    let api = Api::start().await;
    let path = format!("/api/v1/namespaces/{}", api.namespace());
    let namespace = api.found(&path).await;
    assert_eq!(namespace.at("/status/phase"), "Active");
    assert_eq!(namespace.at("/spec/finalizers"), &json!(["kubernetes"]));
    let label = "/metadata/labels/kubernetes.io~1metadata.name";
    assert_eq!(namespace.at(label), api.namespace());
}

#[tokio::test]
async fn default_namespaces_exist() {
    let api = Api::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        api.found(&format!("/api/v1/namespaces/{name}")).await;
    }
}

#[tokio::test]
async fn event_must_refer_to_an_object_in_its_namespace() {
    let api = Api::start().await;
    let mut event = objects::event("one", api.namespace(), "x", "Normal", "Because");
    api.created(&api.ns_path("events"), &event).await;
    event["metadata"]["name"] = json!("two");
    event["involvedObject"]["namespace"] = json!("default");
    let response = api
        .create(&api.ns_path("events"), &event)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(response.causes()[0].1, "involvedObject.namespace");
}

#[tokio::test]
async fn events_of_both_groups_are_the_same_objects() {
    let api = Api::start().await;
    let event = objects::event("one", api.namespace(), "x", "Normal", "Because");
    let made = api.created(&api.ns_path("events"), &event).await;
    let path = api.group_path("events.k8s.io/v1", "events/one");
    let other = api.found(&path).await;
    assert_eq!(other.json["apiVersion"], "events.k8s.io/v1");
    assert_eq!(other.uid(), made.uid());
    assert_eq!(other.at("/regarding/name"), "x");
    assert_eq!(other.json["note"], "something happened");
    assert_eq!(other.json["reason"], "Because");
}

#[tokio::test]
async fn negative_grace_periods_of_pods_become_one() {
    let api = Api::start().await;
    let mut pod = objects::pod("one");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(-1);
    let created = api.created(&api.ns_path("pods"), &pod).await;
    assert_eq!(created.at("/spec/terminationGracePeriodSeconds"), 1);
}
