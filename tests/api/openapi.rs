//! OpenAPI schemas, which kubectl reads before it applies, patches or explains.

use http::Method;
use kopf_tests::{Api, eventually};
use serde_json::{Value, json};

#[tokio::test]
async fn index_has_a_document_per_group() {
    let api = Api::start().await;
    let index = api.found("/openapi/v3").await;
    for path in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"] {
        let url = index.json["paths"][path]["serverRelativeURL"]
            .as_str()
            .unwrap_or_default();
        assert!(
            url.starts_with(&format!("/openapi/v3/{path}?hash=")),
            "{path}: {url:?}"
        );
        let document = api.found(url).await;
        let version = document.json["openapi"].as_str().unwrap_or_default();
        assert!(version.starts_with("3.0"), "{path}: {version}");
        assert!(document.json["paths"].is_object(), "{path}");
    }
}

#[tokio::test]
async fn document_has_the_fields_that_kubectl_reads() {
    let api = Api::start().await;
    let document = api.found("/openapi/v3/apis/apps/v1").await;
    let path = &document.json["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    // kubectl checks this before it sends `fieldValidation` with a patch.
    let operation = &path["patch"];
    let parameters = operation["parameters"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let names: Vec<_> = parameters
        .iter()
        .filter_map(|p| p["name"].as_str())
        .collect();
    assert!(names.contains(&"fieldValidation"), "{names:?}");
    assert!(names.contains(&"dryRun"), "{names:?}");
    assert_eq!(
        operation["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );

    // kubectl finds the schema by this extension, and builds the patch by the merge keys.
    let deployment = &document.json["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    let core = api.found("/openapi/v3/api/v1").await;
    let pod = &core.json["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"];
    assert_eq!(pod["containers"]["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(pod["containers"]["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(
        pod["containers"]["x-kubernetes-list-map-keys"],
        json!(["name"])
    );
    assert_eq!(pod["containers"]["x-kubernetes-list-type"], "map");
}

#[tokio::test]
async fn kinds_fields_and_operations_are_described() {
    let api = Api::start().await;
    let document = api.found("/openapi/v3/apis/apps/v1").await;
    let deployment = &document.json["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["description"],
        "Deployment enables declarative updates for Pods and ReplicaSets."
    );
    let kind = deployment["properties"]["kind"]["description"].as_str();
    assert!(kind.is_some_and(|text| text.starts_with("Kind is a string value")));
    let path = &document.json["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    assert_eq!(path["get"]["description"], "read the specified Deployment");
}

#[tokio::test]
async fn openapi_v2_is_served() {
    let api = Api::start().await;
    let document = api
        .request(Method::GET, "/openapi/v2")
        .header("accept", "application/json")
        .send()
        .await
        .expect_code(200);
    assert_eq!(document.json["swagger"], "2.0");
    let definitions = &document.json["definitions"];
    assert_eq!(
        definitions["io.k8s.api.core.v1.ConfigMap"]["x-kubernetes-group-version-kind"],
        json!([{"group": "", "version": "v1", "kind": "ConfigMap"}])
    );
}

#[tokio::test]
async fn openapi_v2_protobuf_declares_field_validation() {
    let api = Api::start().await;
    let name = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let document = api
        .request(Method::GET, "/openapi/v2")
        .header("accept", name)
        .send()
        .await
        .expect_code(200);
    assert_eq!(document.headers["content-type"], name);
    let text = String::from_utf8_lossy(&document.bytes).into_owned();
    for part in [
        "fieldValidation",
        "x-kubernetes-group-version-kind",
        "Namespace",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

#[tokio::test]
async fn schema_of_a_crd_is_published() {
    let api = Api::start().await;
    let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let crd = api.crd().spec_schema(schema).create().await;
    let path = format!("/openapi/v3/apis/{}", crd.api_version());
    let wanted = json!([{"group": crd.group(), "version": "v1", "kind": "Widget"}]);
    let widget = eventually("the schema to be published", async || {
        let document = api.get(&path).await;
        let schemas = document.json["components"]["schemas"].as_object()?.clone();
        let mut schemas = schemas.into_iter().map(|(_, schema)| schema);
        schemas.find(|schema| schema["x-kubernetes-group-version-kind"] == wanted)
    })
    .await;
    assert_eq!(
        widget["properties"]["spec"]["properties"]["size"],
        json!({"type": "integer"})
    );
    assert_ne!(widget["properties"]["metadata"], Value::Null);
}

#[tokio::test]
async fn open_roots_are_published_without_properties_in_v2() {
    let api = Api::start().await;
    let schema = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
    });
    let crd = api.crd().schema(schema).create().await;
    let wanted = json!([{"group": crd.group(), "version": "v1", "kind": "Widget"}]);
    let definition = eventually("the schema to be published", async || {
        let document = api.get("/openapi/v2").await;
        let definitions = document.json["definitions"].as_object()?.clone();
        let mut definitions = definitions.into_iter().map(|(_, definition)| definition);
        definitions.find(|it| it["x-kubernetes-group-version-kind"] == wanted)
    })
    .await;
    assert_eq!(definition["type"], "object");
    assert!(definition.get("properties").is_none(), "{definition}");
}
