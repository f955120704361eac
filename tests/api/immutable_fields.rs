//! Immutable fields of built-in kinds.

use kopf_tests::{Api, objects};
use serde_json::{Value, json};

/// Creates the object and asserts that the patch is rejected because of the field.
async fn refuses(api: &Api, all: &str, object: Value, patch: Value, cause: (&str, &str)) {
    let made = api.created(all, &object).await;
    let path = format!("{all}/{}", made.name());
    let refused = api.merge(&path, &patch).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(refused.causes(), [cause]);
    let read = api.found(&path).await;
    assert_eq!(read.json["spec"], made.json["spec"]);
    assert_eq!(read.resource_version(), made.resource_version());
}

#[tokio::test]
async fn template_of_a_job_is_immutable() {
    let api = Api::start().await;
    let all = api.group_path("batch/v1", "jobs");
    let containers = json!([{"name": "main", "image": "example.com/main:2"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let cause = ("FieldValueInvalid", "spec.template");
    refuses(&api, &all, objects::job("one"), patch, cause).await;
    let patch = json!({"spec": {"parallelism": 3}});
    let patched = api.merge(&format!("{all}/one"), &patch).await;
    assert_eq!(patched.expect_code(200).at("/spec/parallelism"), 3);
}

#[tokio::test]
async fn service_name_of_a_stateful_set_is_immutable() {
    let api = Api::start().await;
    let all = api.group_path("apps/v1", "statefulsets");
    let patch = json!({"spec": {"serviceName": "other"}});
    let cause = ("FieldValueForbidden", "spec");
    refuses(&api, &all, objects::stateful_set("one"), patch, cause).await;
    let patch = json!({"spec": {"replicas": 4}});
    let patched = api.merge(&format!("{all}/one"), &patch).await;
    assert_eq!(patched.expect_code(200).at("/spec/replicas"), 4);
}

#[tokio::test]
async fn cluster_ip_of_a_service_is_immutable() {
    let api = Api::start().await;
    let all = api.ns_path("services");
    // All tests on one server share its few addresses: takes a free one.
    let unique = api.unique("");
    let start = usize::from_str_radix(&unique[unique.len() - 4..], 16).unwrap();
    let mut taken = None;
    for attempt in 0..250 {
        let address = format!("10.0.0.{}", 2 + (start + attempt) % 250);
        let mut object = objects::service("one");
        object["spec"]["clusterIP"] = json!(address);
        let response = api.create(&all, &object).await;
        if response.code != 422 {
            taken = Some((address, response.expect_code(201)));
            break;
        }
    }
    let (address, made) = taken.unwrap();
    assert_eq!(made.at("/spec/clusterIP"), &json!(address));
    assert_eq!(made.at("/spec/clusterIPs"), &json!([address]));
    let other = if address == "10.0.0.2" {
        "10.0.0.3"
    } else {
        "10.0.0.2"
    };
    let patch = json!({"spec": {"clusterIP": other}});
    let refused = api.merge(&format!("{all}/one"), &patch).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [("FieldValueInvalid", "spec.clusterIPs[0]")]
    );
    let patch = json!({"spec": {"selector": {"app": "other"}}});
    let patched = api.merge(&format!("{all}/one"), &patch).await;
    assert_eq!(
        patched.expect_code(200).at("/spec/clusterIP"),
        &json!(address)
    );
}

#[tokio::test]
async fn spec_of_a_pod_is_immutable_except_for_images() {
    let api = Api::start().await;
    let all = api.ns_path("pods");
    let patch = json!({"spec": {"hostname": "other"}});
    let cause = ("FieldValueForbidden", "spec");
    refuses(&api, &all, objects::pod("one"), patch, cause).await;
    let containers = json!([{"name": "main", "image": "example.com/main:2"}]);
    let patch = json!({"spec": {"containers": containers}});
    let patched = api.merge(&format!("{all}/one"), &patch).await;
    assert_eq!(
        patched.expect_code(200).at("/spec/containers/0/image"),
        "example.com/main:2"
    );
}

#[tokio::test]
async fn access_modes_of_a_claim_are_immutable() {
    let api = Api::start().await;
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "one"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let patch = json!({"spec": {"accessModes": ["ReadOnlyMany"]}});
    let cause = ("FieldValueForbidden", "spec");
    let all = api.ns_path("persistentvolumeclaims");
    refuses(&api, &all, claim, patch, cause).await;
    // Some servers add a finalizer to claims, which would block the deletion of the namespace.
    let patch = json!({"metadata": {"finalizers": null}});
    api.merged(&format!("{all}/one"), &patch).await;
}

#[tokio::test]
async fn address_type_of_an_endpoint_slice_is_immutable() {
    let api = Api::start().await;
    let all = api.group_path("discovery.k8s.io/v1", "endpointslices");
    let patch = json!({"addressType": "IPv6"});
    let cause = ("FieldValueInvalid", "addressType");
    refuses(&api, &all, objects::endpoint_slice("one"), patch, cause).await;
}

#[tokio::test]
async fn value_of_a_priority_class_is_immutable() {
    let api = Api::start().await;
    let name = api.unique("class");
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": 7,
    });
    api.created(classes, &class).await;
    let path = format!("{classes}/{name}");
    api.delete_at_end(path.clone());
    let refused = api.merge(&path, &json!({"value": 8})).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueForbidden", "value")]);
}
