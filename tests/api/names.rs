//! Validation of names, in the path and in the body.

use kopf_tests::{Api, objects};
use serde_json::json;

#[tokio::test]
async fn names_are_lower_case_subdomains() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for name in [
        "Upper",
        "under_score",
        "-start",
        "end-",
        "two..dots",
        "sp ace",
        "slash/ed",
    ] {
        let response = api
            .create(&path, &objects::config_map(name, json!({})))
            .await;
        let response = response.expect_failure(422, "Invalid");
        assert_eq!(
            response.causes(),
            [("FieldValueInvalid", "metadata.name")],
            "{name}"
        );
        assert_eq!(response.details()["name"], name);
        assert_eq!(response.details()["kind"], "ConfigMap");
    }
    for name in ["a", "0", "a.b-c.d", "1.2.3"] {
        api.created(&path, &objects::config_map(name, json!({})))
            .await;
    }
}

#[tokio::test]
async fn names_have_at_most_253_characters() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let longest = "x".repeat(253);
    api.created(&path, &objects::config_map(&longest, json!({})))
        .await;
    let longer = "x".repeat(254);
    let response = api
        .create(&path, &objects::config_map(&longer, json!({})))
        .await;
    let response = response.expect_failure(422, "Invalid");
    assert_eq!(response.causes()[0].1, "metadata.name");
}

#[tokio::test]
async fn names_of_custom_objects_follow_the_same_rules() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for name in ["Upper", "under_score"] {
        let response = api.create(&crd.path(), &crd.object(name, json!({}))).await;
        let response = response.expect_failure(422, "Invalid");
        assert_eq!(
            response.causes(),
            [("FieldValueInvalid", "metadata.name")],
            "{name}"
        );
        assert_eq!(response.details()["kind"], "Widget");
        assert_eq!(response.details()["group"], crd.group());
    }
    crd.created("a.b", json!({})).await;
}

#[tokio::test]
async fn namespaces_are_named_by_a_single_label() {
    let api = Api::start().await;
    for name in [api.unique("dotted.name"), "x".repeat(64)] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let response = api.create("/api/v1/namespaces", &object).await;
        let response = response.expect_failure(422, "Invalid");
        assert_eq!(response.causes()[0], ("FieldValueInvalid", "metadata.name"));
    }
}

#[tokio::test]
async fn roles_are_named_by_any_path_segment() {
    let api = Api::start().await;
    let path = api.group_path("rbac.authorization.k8s.io/v1", "roles");
    let role = |name| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name}, "rules": [],
        })
    };
    api.created(&path, &role("System:Some_Role")).await;
    let one = api.group_path("rbac.authorization.k8s.io/v1", "roles/System:Some_Role");
    api.found(&one).await;
    for name in ["a/b", "a%b", "..", "."] {
        let response = api
            .create(&path, &role(name))
            .await
            .expect_failure(422, "Invalid");
        assert_eq!(response.causes()[0], ("FieldValueInvalid", "metadata.name"));
    }
}

#[tokio::test]
async fn name_is_required() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let response = api.create(&api.ns_path("configmaps"), &nameless).await;
    let response = response.expect_failure(422, "Invalid");
    assert!(
        response
            .message()
            .contains("name or generateName is required"),
        "{}",
        response.message()
    );

    let nameless = json!({"apiVersion": crd.api_version(), "kind": "Widget", "metadata": {}});
    let response = api
        .create(&crd.path(), &nameless)
        .await
        .expect_failure(422, "Invalid");
    assert!(
        response
            .message()
            .contains("name or generateName is required"),
        "{}",
        response.message()
    );
}

#[tokio::test]
async fn path_and_body_must_agree_on_the_name() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = api.ns_path("configmaps");
    api.created(&path, &objects::config_map("one", json!({})))
        .await;
    let other = objects::config_map("two", json!({}));
    let response = api.put(&api.ns_path("configmaps/one"), &other).await;
    let response = response.expect_failure(400, "BadRequest");
    assert!(
        response
            .message()
            .contains("does not match the name on the URL"),
        "{}",
        response.message()
    );

    crd.created("one", json!({})).await;
    let response = api
        .put(&crd.path_of("one"), &crd.object("two", json!({})))
        .await;
    response.expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn path_and_body_must_agree_on_the_namespace() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let mut object = objects::config_map("one", json!({}));
    object["metadata"]["namespace"] = json!("default");
    let response = api
        .create(&path, &object)
        .await
        .expect_failure(400, "BadRequest");
    assert!(
        response.message().contains("namespace"),
        "{}",
        response.message()
    );

    object["metadata"]["namespace"] = json!(api.namespace());
    api.created(&path, &object).await;
    object["metadata"]["namespace"] = json!("default");
    let response = api.put(&api.ns_path("configmaps/one"), &object).await;
    response.expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn creation_in_a_missing_namespace_is_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let missing = api.unique("missing");
    let path = format!("/api/v1/namespaces/{missing}/configmaps");
    let response = api
        .create(&path, &objects::config_map("one", json!({})))
        .await;
    let response = response.expect_failure(404, "NotFound");
    assert_eq!(response.details()["kind"], "namespaces");
    assert_eq!(response.details()["name"], missing);

    let path = format!("/apis/{}/namespaces/{missing}/widgets", crd.api_version());
    let response = api.create(&path, &crd.object("one", json!({}))).await;
    let response = response.expect_failure(404, "NotFound");
    assert_eq!(response.details()["kind"], "namespaces");

    let list = api.found(&path).await;
    assert_eq!(list.items().len(), 0);
}

#[tokio::test]
async fn ip_addresses_are_named_by_canonical_addresses() {
    let api = Api::start().await;
    let path = "/apis/networking.k8s.io/v1/ipaddresses";
    // Tests share a server, so the address has random parts.
    let random = api.unique("").trim_start_matches('-').to_owned();
    let part = |skip: usize| {
        let bytes = random.bytes().skip(skip).take(3);
        bytes.fold(1, |number: u16, byte| number << 4 | u16::from(byte % 16))
    };
    let name = std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0x42, part(0), part(3)).to_string();
    let address = |name: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": name},
            "spec": {"parentRef": {"resource": "services", "name": "x", "namespace": "default"}},
        })
    };
    api.created(path, &address(&name)).await;
    api.delete_at_end(format!("{path}/{name}"));
    for bad in ["not-an-address", "FE80::1", "10.0.0"] {
        let response = api.create(path, &address(bad)).await;
        let response = response.expect_failure(422, "Invalid");
        assert_eq!(response.causes()[0].1, "metadata.name", "{bad}");
    }
}

#[tokio::test]
async fn namespaces_of_cluster_scoped_objects_are_cleared() {
    let api = Api::start().await;
    let name = api.unique("role");
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "namespace": "default"}, "rules": [],
    });
    let created = api.created(path, &role).await;
    api.delete_at_end(format!("{path}/{name}"));
    assert!(created.at("/metadata/namespace").is_null());
    let updated = api.replaced(&format!("{path}/{name}"), &role).await;
    assert!(updated.at("/metadata/namespace").is_null());
}
