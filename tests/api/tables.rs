//! Tables, for `kubectl get`.

use http::Method;
use kopf_tests::{
    Api, ApiResponse,
    objects::{config_map, deployment, pod},
    with_query,
};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn table(api: &Api, path: &str) -> ApiResponse {
    let table = api
        .request(Method::GET, path)
        .header("accept", TABLE)
        .send()
        .await;
    let table = table.expect_code(200);
    assert_eq!(table.json["kind"], "Table");
    assert_eq!(table.json["apiVersion"], "meta.k8s.io/v1");
    table
}

/// Returns the names of the columns with the priority 0.
fn columns(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let shown = columns.filter(|column| column["priority"] == 0);
    shown
        .map(|column| column["name"].as_str().unwrap_or_default())
        .collect()
}

#[tokio::test]
async fn list_of_a_built_in_kind_becomes_a_table() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    api.create(&maps, &config_map("a", json!({"x": "1", "y": "2"})))
        .await
        .ok();
    api.create(&maps, &config_map("b", Value::Null)).await.ok();
    let table = table(&api, &maps).await;
    assert_eq!(columns(&table.json), ["Name", "Data", "Age"]);
    assert_eq!(table.at("/columnDefinitions/0/type"), "string");
    assert_eq!(table.at("/columnDefinitions/0/format"), "name");
    assert!(!table.resource_version().is_empty());
    let rows = table.json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["cells"][0], "a");
    assert_eq!(rows[0]["cells"][1], 2);
    assert!(rows[0]["cells"][2].is_string());
    assert_eq!(rows[1]["cells"][1], 0);
    // The metadata of the object is included, because kubectl shows labels and namespaces.
    assert_eq!(rows[0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(rows[0]["object"]["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(rows[0]["object"]["metadata"]["name"], "a");
    assert_eq!(rows[0]["object"]["data"], Value::Null);
}

#[tokio::test]
async fn built_in_kinds_have_columns_of_their_own() {
    let api = Api::start().await;
    api.create(&api.ns_path("pods"), &pod("p")).await.ok();
    let deployments = api.group_path("apps/v1", "deployments");
    api.create(&deployments, &deployment("d")).await.ok();

    let pods = table(&api, &api.ns_path("pods")).await;
    assert_eq!(
        columns(&pods.json),
        ["Name", "Ready", "Status", "Restarts", "Age"]
    );
    assert_eq!(pods.at("/rows/0/cells/0"), "p");
    assert_eq!(pods.at("/rows/0/cells/1"), "0/1");
    assert_eq!(pods.at("/rows/0/cells/2"), "Pending");
    let deployments = table(&api, &deployments).await;
    assert_eq!(
        columns(&deployments.json),
        ["Name", "Ready", "Up-to-date", "Available", "Age"]
    );
    assert_eq!(deployments.at("/rows/0/cells/1"), "0/1");
    let namespace = table(&api, &format!("/api/v1/namespaces/{}", api.namespace())).await;
    assert_eq!(columns(&namespace.json), ["Name", "Status", "Age"]);
    assert_eq!(namespace.at("/rows/0/cells/1"), "Active");
    for (path, wanted) in [
        (
            api.ns_path("services"),
            &[
                "Name",
                "Type",
                "Cluster-IP",
                "External-IP",
                "Port(s)",
                "Age",
            ][..],
        ),
        (api.ns_path("secrets"), &["Name", "Type", "Data", "Age"]),
        (
            api.ns_path("events"),
            &["Last Seen", "Type", "Reason", "Object", "Message"],
        ),
        (
            api.group_path("batch/v1", "jobs"),
            &["Name", "Status", "Completions", "Duration", "Age"],
        ),
        (
            api.group_path("coordination.k8s.io/v1", "leases"),
            &["Name", "Holder", "Age"],
        ),
    ] {
        assert_eq!(columns(&table(&api, &path).await.json), wanted, "{path}");
    }
}

#[tokio::test]
async fn include_object_selects_the_object_of_the_rows() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/a");
    let maps = api.ns_path("configmaps");
    let created = api
        .create(&maps, &config_map("a", json!({"x": "1"})))
        .await
        .ok();

    let whole = table(&api, &with_query(&path, &[("includeObject", "Object")])).await;
    assert_eq!(whole.at("/rows/0/object/kind"), "ConfigMap");
    assert_eq!(whole.at("/rows/0/object/data"), &json!({"x": "1"}));
    let none = table(&api, &with_query(&path, &[("includeObject", "None")])).await;
    assert_eq!(none.at("/rows/0/cells/0"), "a");
    assert_eq!(none.at("/rows/0/object"), &Value::Null);
    let metadata = table(&api, &with_query(&path, &[("includeObject", "Metadata")])).await;
    assert_eq!(metadata.at("/rows/0/object/kind"), "PartialObjectMetadata");
    assert_eq!(metadata.at("/rows/0/object/metadata/uid"), created.uid());
    let bogus = with_query(&path, &[("includeObject", "Bogus")]);
    let bogus = api
        .request(Method::GET, &bogus)
        .header("accept", TABLE)
        .send()
        .await;
    bogus.expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn custom_resources_have_name_and_age_by_default() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    api.create(&crd.path(), &crd.object("a", json!({})))
        .await
        .ok();
    let table = table(&api, &crd.path()).await;
    assert_eq!(columns(&table.json), ["Name", "Age"]);
    assert_eq!(table.at("/columnDefinitions/1/type"), "date");
    assert_eq!(table.at("/rows/0/cells/0"), "a");
    assert!(table.at("/rows/0/cells/1").is_string());
}

#[tokio::test]
async fn printer_columns_replace_the_default_ones() {
    let api = Api::start().await;
    let crd = api
        .crd()
        .edit(|crd| {
            crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "First", "type": "string", "jsonPath": ".spec.list[0].name"},
                {"name": "Ready", "type": "string",
                 "jsonPath": ".spec.conditions[?(@.type==\"Ready\")].status"},
                {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                {"name": "Wide", "type": "boolean", "jsonPath": ".spec.wide", "priority": 1,
                 "description": "only in wide tables"},
            ]);
        })
        .create()
        .await;
    let spec = json!({
        "size": 5,
        "list": [{"name": "one"}, {"name": "two"}],
        "conditions": [{"type": "Sick", "status": "no"}, {"type": "Ready", "status": "yes"}],
        "wide": true,
    });
    api.create(&crd.path(), &crd.object("full", spec))
        .await
        .ok();
    api.create(&crd.path(), &crd.object("none", json!({})))
        .await
        .ok();
    let table = table(&api, &crd.path()).await;
    assert_eq!(
        columns(&table.json),
        ["Name", "Size", "First", "Ready", "Since"]
    );
    assert_eq!(table.at("/columnDefinitions/1/type"), "integer");
    let wide = table.at("/columnDefinitions/5");
    assert_eq!(wide["name"], "Wide");
    assert_eq!(wide["priority"], 1);
    assert_eq!(wide["description"], "only in wide tables");
    let cells = table.at("/rows/0/cells");
    assert_eq!(cells[0], "full");
    assert_eq!(cells[1], 5);
    assert_eq!(cells[2], "one");
    assert_eq!(cells[3], "yes");
    assert!(cells[4].is_string());
    assert_eq!(cells[5], true);
    let cells = table.at("/rows/1/cells");
    assert_eq!(cells[0], "none");
    assert_eq!(cells[1], Value::Null);
    assert_eq!(cells[2], Value::Null);
    assert_eq!(cells[3], Value::Null);
}

#[tokio::test]
async fn watch_sends_a_table_per_event() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    api.create(&maps, &config_map("a", json!({"x": "1"})))
        .await
        .ok();
    let path = with_query(&maps, &[("watch", "1")]);
    let mut watch = api
        .request(Method::GET, &path)
        .header("accept", TABLE)
        .watch()
        .await;
    let first = watch.next_change().await;
    assert_eq!(first.kind, "ADDED");
    assert_eq!(first.object["kind"], "Table");
    assert_eq!(
        columns(&first.object),
        ["Name", "Data", "Age"],
        "the first one has the columns"
    );
    assert_eq!(first.object["rows"][0]["cells"][0], "a");
    assert_eq!(first.object["rows"][0]["object"]["metadata"]["name"], "a");

    api.merge(&api.ns_path("configmaps/a"), &json!({"data": {"y": "2"}}))
        .await
        .ok();
    let second = watch.next_change().await;
    assert_eq!(second.kind, "MODIFIED");
    assert_eq!(second.object["rows"][0]["cells"][1], 2);
    assert!(
        columns(&second.object).is_empty(),
        "and the others leave them out"
    );
    api.delete(&api.ns_path("configmaps/a")).await.ok();
    assert_eq!(watch.next_change().await.kind, "DELETED");
}

#[tokio::test]
async fn unknown_table_versions_fall_back_or_are_rejected() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let unknown = "application/json;as=Table;v=v9;g=meta.k8s.io";
    let refused = api
        .request(Method::GET, &maps)
        .header("accept", unknown)
        .send()
        .await;
    refused.expect_failure(406, "NotAcceptable");
    let either = format!("{unknown},application/json");
    let list = api
        .request(Method::GET, &maps)
        .header("accept", &either)
        .send()
        .await;
    assert_eq!(list.expect_code(200).json["kind"], "ConfigMapList");
}

#[tokio::test]
async fn tables_and_metadata_are_served_in_v1beta1() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    for (form, kind) in [
        ("Table", "Table"),
        ("PartialObjectMetadataList", "PartialObjectMetadataList"),
    ] {
        let accept = format!("application/json;as={form};v=v1beta1;g=meta.k8s.io");
        let list = api
            .request(Method::GET, &maps)
            .header("accept", &accept)
            .send()
            .await
            .expect_code(200);
        assert_eq!(list.json["kind"], kind);
        assert_eq!(list.json["apiVersion"], "meta.k8s.io/v1beta1");
    }
}
