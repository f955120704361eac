//! Strategic merge patches: lists of built-in kinds merge by their keys, controlled by directives.

use kopf_tests::{Api, ApiResponse, PatchType, objects};
use serde_json::{Value, json};

/// Starts a server with a deployment of two containers. Returns the path of the deployment as well.
async fn start() -> (Api, String) {
    let api = Api::start().await;
    let mut object = objects::deployment("one");
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    object["spec"]["template"]["metadata"]["annotations"] = json!({"a": "1", "b": "2"});
    object["spec"]["template"]["spec"]["containers"] = json!([
        {
            "name": "main", "image": "main:1", "args": ["x", "y"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        },
        {"name": "side", "image": "side:1"},
    ]);
    let path = api.group_path("apps/v1", "deployments");
    api.created(&path, &object).await;
    let path = format!("{path}/one");
    (api, path)
}

async fn finish(api: Api, path: &str) {
    let patch = json!({"metadata": {"finalizers": null}});
    api.merged(path, &patch).await;
}

async fn patch(api: &Api, path: &str, patch: Value) -> ApiResponse {
    api.patch(path, PatchType::Strategic, &patch).await
}

async fn patch_pods(api: &Api, path: &str, spec: Value) -> ApiResponse {
    patch(api, path, json!({"spec": {"template": {"spec": spec}}})).await
}

/// Returns the values of one field in a list of objects.
fn each(response: &ApiResponse, list: &str, field: &str) -> Vec<String> {
    let list = response.at(list).as_array().unwrap();
    list.iter()
        .map(|item| item[field].as_str().unwrap_or_default().to_owned())
        .collect()
}

const CONTAINERS: &str = "/spec/template/spec/containers";

#[tokio::test]
async fn containers_merge_by_name() {
    let (api, path) = start().await;
    let containers =
        json!([{"name": "side", "image": "side:2"}, {"name": "new", "image": "new:1"}]);
    let patched = patch_pods(&api, &path, json!({"containers": containers})).await;
    let patched = patched.expect_code(200);
    let mut images = each(&patched, CONTAINERS, "image");
    images.sort_unstable();
    assert_eq!(images, ["main:1", "new:1", "side:2"]);
    assert_eq!(patched.generation(), 2);
    finish(api, &path).await;
}

#[tokio::test]
async fn lists_merge_at_every_depth() {
    let (api, path) = start().await;
    let env = json!([{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]);
    let containers = json!({"containers": [{"name": "main", "env": env}]});
    let patched = patch_pods(&api, &path, containers).await.expect_code(200);
    let main = patched
        .at(CONTAINERS)
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["name"] == "main");
    let mut env: Vec<_> = main.unwrap()["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|env| {
            (
                env["name"].as_str().unwrap(),
                env["value"].as_str().unwrap(),
            )
        })
        .collect();
    env.sort_unstable();
    assert_eq!(env, [("A", "1"), ("B", "3"), ("C", "4")]);
    finish(api, &path).await;
}

#[tokio::test]
async fn lists_without_a_merge_key_are_replaced() {
    let (api, path) = start().await;
    let containers = json!({"containers": [{"name": "main", "args": ["z"]}]});
    let patched = patch_pods(&api, &path, containers).await.expect_code(200);
    let main = patched
        .at(CONTAINERS)
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["name"] == "main");
    assert_eq!(main.unwrap()["args"], json!(["z"]));
    finish(api, &path).await;
}

#[tokio::test]
async fn patch_delete_removes_an_element() {
    let (api, path) = start().await;
    let containers = json!({"containers": [{"name": "main", "$patch": "delete"}]});
    let patched = patch_pods(&api, &path, containers).await.expect_code(200);
    assert_eq!(each(&patched, CONTAINERS, "name"), ["side"]);
    assert!(!patched.text().contains("$patch"));
    finish(api, &path).await;
}

#[tokio::test]
async fn patch_replace_replaces_a_list() {
    let (api, path) = start().await;
    let containers =
        json!({"containers": [{"name": "only", "image": "only:1"}, {"$patch": "replace"}]});
    let patched = patch_pods(&api, &path, containers).await.expect_code(200);
    assert_eq!(each(&patched, CONTAINERS, "name"), ["only"]);
    finish(api, &path).await;
}

#[tokio::test]
async fn patch_replace_replaces_a_map() {
    let (api, path) = start().await;
    let metadata = json!({"annotations": {"c": "3", "$patch": "replace"}});
    let patched = patch(
        &api,
        &path,
        json!({"spec": {"template": {"metadata": metadata}}}),
    )
    .await;
    let patched = patched.expect_code(200);
    assert_eq!(
        patched.at("/spec/template/metadata/annotations"),
        &json!({"c": "3"})
    );
    finish(api, &path).await;
}

#[tokio::test]
async fn maps_merge_and_null_removes() {
    let (api, path) = start().await;
    let metadata = json!({"annotations": {"a": null, "b": "3", "c": "4"}});
    let patched = patch(
        &api,
        &path,
        json!({"spec": {"template": {"metadata": metadata}}}),
    )
    .await;
    let patched = patched.expect_code(200);
    assert_eq!(
        patched.at("/spec/template/metadata/annotations"),
        &json!({"b": "3", "c": "4"})
    );
    finish(api, &path).await;
}

#[tokio::test]
async fn patch_delete_empties_a_map() {
    let (api, path) = start().await;
    let metadata = json!({"annotations": {"$patch": "delete"}});
    let patched = patch(
        &api,
        &path,
        json!({"spec": {"template": {"metadata": metadata}}}),
    )
    .await;
    let patched = patched.expect_code(200);
    assert!(patched.at("/spec/template/metadata/annotations").is_null());
    finish(api, &path).await;
}

#[tokio::test]
async fn set_element_order_sorts_the_result() {
    let (api, path) = start().await;
    let spec = json!({
        "$setElementOrder/containers": [{"name": "new"}, {"name": "side"}, {"name": "main"}],
        "containers": [{"name": "new", "image": "new:1"}],
    });
    let patched = patch_pods(&api, &path, spec).await.expect_code(200);
    assert_eq!(each(&patched, CONTAINERS, "name"), ["new", "side", "main"]);
    assert!(!patched.text().contains("$setElementOrder"));
    finish(api, &path).await;
}

#[tokio::test]
async fn lists_of_strings_merge_as_sets() {
    let (api, path) = start().await;
    let added = json!({"metadata": {"finalizers": ["example.com/b", "example.com/c"]}});
    let patched = patch(&api, &path, added).await.expect_code(200);
    let mut finalizers = patched
        .at("/metadata/finalizers")
        .as_array()
        .unwrap()
        .clone();
    finalizers.sort_by_key(ToString::to_string);
    assert_eq!(
        finalizers,
        ["example.com/a", "example.com/b", "example.com/c"]
    );
    finish(api, &path).await;
}

#[tokio::test]
async fn delete_from_primitive_list_removes_strings() {
    let (api, path) = start().await;
    let removed =
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "none"]}});
    let patched = patch(&api, &path, removed).await.expect_code(200);
    assert_eq!(
        patched.at("/metadata/finalizers"),
        &json!(["example.com/b"])
    );
    finish(api, &path).await;
}

#[tokio::test]
async fn retain_keys_drops_all_others() {
    let (api, path) = start().await;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}});
    patch(&api, &path, json!({"spec": {"strategy": rolling}}))
        .await
        .expect_code(200);
    let recreate = json!({"$retainKeys": ["type"], "type": "Recreate"});
    let patched = patch(&api, &path, json!({"spec": {"strategy": recreate}})).await;
    let patched = patched.expect_code(200);
    assert_eq!(patched.at("/spec/strategy"), &json!({"type": "Recreate"}));
    finish(api, &path).await;
}

#[tokio::test]
async fn ports_of_a_service_merge_by_number() {
    let api = Api::start().await;
    api.created(&api.ns_path("services"), &objects::service("one"))
        .await;
    let ports = json!([{"port": 443, "name": "tls"}, {"port": 80, "targetPort": 8080}]);
    let path = api.ns_path("services/one");
    let patched = patch(&api, &path, json!({"spec": {"ports": ports}}))
        .await
        .expect_code(200);
    let mut ports: Vec<_> = patched
        .at("/spec/ports")
        .as_array()
        .unwrap()
        .iter()
        .map(|port| {
            (
                port["port"].as_u64().unwrap(),
                port["name"].as_str().unwrap(),
            )
        })
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [(80, "web"), (443, "tls")]);
}

#[tokio::test]
async fn owner_references_merge_by_uid() {
    let api = Api::start().await;
    let owner = |uid: &str, name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid});
    let namespace = api
        .get(&format!("/api/v1/namespaces/{}", api.namespace()))
        .await
        .ok();
    let default = api.get("/api/v1/namespaces/default").await.ok();
    let mut object = objects::config_map("one", json!({}));
    object["metadata"]["ownerReferences"] = json!([owner(namespace.uid(), namespace.name())]);
    api.created(&api.ns_path("configmaps"), &object).await;
    let more = json!({"metadata": {"ownerReferences": [owner(default.uid(), "default")]}});
    let path = api.ns_path("configmaps/one");
    let patched = patch(&api, &path, more).await.expect_code(200);
    let mut uids = each(&patched, "/metadata/ownerReferences", "uid");
    uids.sort_unstable();
    let mut expected = [namespace.uid(), default.uid()];
    expected.sort_unstable();
    assert_eq!(uids, expected);

    let less = json!({"metadata": {"ownerReferences": [
        {"uid": default.uid(), "$patch": "delete"},
    ]}});
    let patched = patch(&api, &path, less).await.expect_code(200);
    assert_eq!(
        each(&patched, "/metadata/ownerReferences", "uid"),
        [namespace.uid()]
    );
}

#[tokio::test]
async fn invalid_strategic_patches_are_rejected_and_change_nothing() {
    let (api, path) = start().await;
    let before = api.get(&path).await;
    for spec in [
        json!({"containers": [{"image": "without-a-name:1"}]}),
        json!({"containers": [{"name": "main", "$patch": "unknown"}]}),
        json!({"containers": {"name": "main"}}),
        json!({"containers": ["main"]}),
        json!({"$setElementOrder/containers": [{"name": "side"}],
            "containers": [{"name": "main", "image": "main:2"}]}),
    ] {
        let response = patch_pods(&api, &path, spec.clone()).await;
        assert!(
            (400..600).contains(&response.code),
            "{spec}: {}",
            response.text()
        );
        assert_eq!(response.json["kind"], "Status", "{spec}");
    }
    assert_eq!(api.get(&path).await.json, before.json);
    finish(api, &path).await;
}

#[tokio::test]
async fn custom_objects_reject_strategic_patches() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    crd.created("one", json!({})).await;
    let response = patch(&api, &crd.path_of("one"), json!({"spec": {"a": 1}})).await;
    response.expect_failure(415, "UnsupportedMediaType");
}
