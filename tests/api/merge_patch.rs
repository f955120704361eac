//! Merge patches (RFC 7386), and malformed patches.

use http::Method;
use kopf_tests::{Api, PatchType, objects};
use serde_json::json;

#[tokio::test]
async fn merge_patch_adds_replaces_and_removes() {
    let api = Api::start().await;
    let object = objects::config_map("one", json!({"kept": "1", "changed": "1", "removed": "1"}));
    api.created(&api.ns_path("configmaps"), &object).await;
    let patch = json!({
        "metadata": {"labels": {"new": "label"}},
        "data": {"changed": "2", "removed": null, "added": "2", "never-there": null},
    });
    let patched = api.merged(&api.ns_path("configmaps/one"), &patch).await;
    assert_eq!(
        patched.json["data"],
        json!({"kept": "1", "changed": "2", "added": "2"})
    );
    assert_eq!(patched.at("/metadata/labels"), &json!({"new": "label"}));
}

#[tokio::test]
async fn merge_patch_replaces_lists_as_a_whole() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let spec = json!({"list": [{"name": "a"}, {"name": "b"}], "map": {"x": {"y": 1}}, "gone": {}});
    crd.created("one", spec).await;
    let patch = json!({"spec": {"list": [{"name": "c"}], "map": {"x": {"z": 2}}, "gone": null}});
    let patched = crd.merged("one", &patch).await;
    let expected = json!({"list": [{"name": "c"}], "map": {"x": {"y": 1, "z": 2}}});
    assert_eq!(patched.json["spec"], expected);
}

#[tokio::test]
async fn nulls_in_added_values_of_a_merge_patch_are_dropped() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    crd.created("one", json!({})).await;
    let patch = json!({"spec": {"new": {"deep": {"kept": 1, "dropped": null}}}});
    let patched = crd.merged("one", &patch).await;
    assert_eq!(patched.json["spec"], json!({"new": {"deep": {"kept": 1}}}));
}

#[tokio::test]
async fn merge_patch_with_null_removes_whole_sections() {
    let api = Api::start().await;
    let mut object = objects::config_map("one", json!({"a": "1"}));
    object["metadata"]["labels"] = json!({"a": "b"});
    object["metadata"]["annotations"] = json!({"a": "b"});
    api.created(&api.ns_path("configmaps"), &object).await;
    let patch = json!({"metadata": {"labels": null, "annotations": null}, "data": null});
    let patched = api.merged(&api.ns_path("configmaps/one"), &patch).await;
    assert!(patched.at("/metadata/labels").is_null());
    assert!(patched.at("/metadata/annotations").is_null());
    assert!(patched.json["data"].is_null());
}

#[tokio::test]
async fn result_of_a_merge_patch_is_validated() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({"a": "1"}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    for patch in [
        json!({"metadata": {"labels": {"bad key": "x"}}}),
        json!({"data": {"bad key": "x"}}),
        json!({"data": {"a": 1}}),
        json!({"data": "text"}),
        json!({"kind": "Secret"}),
    ] {
        api.merge(&path, &patch)
            .await
            .expect_failure(422, "Invalid");
    }
    assert_eq!(api.get(&path).await.json, made.json);
}

#[tokio::test]
async fn malformed_patches_are_rejected() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    let object = objects::config_map("one", json!({"a": "1"}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    for (kind, bodies) in [
        (PatchType::Json, &["garbage", "{}", "[1]", "5", ""][..]),
        (
            PatchType::Merge,
            &["garbage", "[]", "\"text\"", "5", ""][..],
        ),
        (
            PatchType::Strategic,
            &["garbage", "[]", "\"text\"", "5", ""][..],
        ),
    ] {
        for body in bodies {
            let response = api
                .request(Method::PATCH, &path)
                .header("content-type", kind.content_type())
                .body(*body)
                .send()
                .await;
            assert_eq!(response.code, 400, "{kind:?} {body:?}: {}", response.text());
            response.expect_failure(400, "BadRequest");
        }
    }
    assert_eq!(api.get(&path).await.json, made.json);
}

#[tokio::test]
async fn patches_require_a_known_content_type() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps/one");
    api.create(
        &api.ns_path("configmaps"),
        &objects::config_map("one", json!({})),
    )
    .await
    .ok();
    for content_type in [
        "application/json",
        "text/plain",
        "application/strategic+json",
    ] {
        let response = api
            .request(Method::PATCH, &path)
            .header("content-type", content_type)
            .body("{}")
            .send()
            .await;
        response.expect_failure(415, "UnsupportedMediaType");
    }
    let with_charset = api
        .request(Method::PATCH, &path)
        .header(
            "content-type",
            "application/merge-patch+json; charset=utf-8",
        )
        .body("{}")
        .send()
        .await;
    with_charset.expect_code(200);
}
