//! Custom resources in several versions: the same objects under each served version.

use kopf_tests::{Api, Crd, CrdBuilder, eventually};
use serde_json::{Value, json};

/// Returns a CRD with the versions v1 (stored), v2 (served) and v3 (neither).
fn three_versions(api: &Api) -> CrdBuilder<'_> {
    api.crd().edit(|crd| {
        let versions = crd["spec"]["versions"].as_array_mut().unwrap();
        for (name, served) in [("v2", true), ("v3", false)] {
            let mut version = versions[0].clone();
            version["name"] = json!(name);
            version["served"] = json!(served);
            version["storage"] = json!(false);
            versions.push(version);
        }
    })
}

fn path(api: &Api, crd: &Crd<'_>, version: &str, rest: &str) -> String {
    api.group_path(&format!("{}/{version}", crd.group()), rest)
}

#[tokio::test]
async fn object_is_readable_in_each_served_version() {
    let api = Api::start().await;
    let crd = three_versions(&api).create().await;
    let object = crd.object("a", json!({"x": 1}));
    let created = api
        .created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    let v2 = format!("{}/v2", crd.group());

    let other = api.found(&path(&api, &crd, "v2", "widgets/a")).await;
    assert_eq!(other.json["apiVersion"], v2);
    assert_eq!(other.uid(), created.uid());
    assert_eq!(other.resource_version(), created.resource_version());
    assert_eq!(
        other.json["spec"],
        json!({"x": 1}),
        "nothing but the version is converted"
    );
    let list = api.found(&path(&api, &crd, "v2", "widgets")).await;
    assert_eq!(list.json["apiVersion"], v2);
    assert_eq!(list.items()[0]["apiVersion"], v2);

    let mut watch = api.watch(&path(&api, &crd, "v2", "widgets")).await;
    assert_eq!(watch.next_change().await.object["apiVersion"], v2);
    let patch = json!({"spec": {"y": 2}});
    let patched = api
        .merged(&path(&api, &crd, "v2", "widgets/a"), &patch)
        .await;
    assert_eq!(patched.json["apiVersion"], v2);
    let event = watch.next_change().await;
    assert_eq!(event.brief(), ("MODIFIED", "a"));
    assert_eq!(event.object["apiVersion"], v2);
    let first = api.found(&path(&api, &crd, "v1", "widgets/a")).await;
    assert_eq!(first.json["spec"], json!({"x": 1, "y": 2}));
}

#[tokio::test]
async fn unserved_version_is_not_found() {
    let api = Api::start().await;
    let crd = three_versions(&api).create().await;
    api.get(&path(&api, &crd, "v3", "widgets"))
        .await
        .expect_code(404);
    let mut object = crd.object("a", json!({}));
    object["apiVersion"] = json!(format!("{}/v3", crd.group()));
    api.create(&path(&api, &crd, "v3", "widgets"), &object)
        .await
        .expect_code(404);
    // Clients should prefer the newest served version.
    let group = eventually("both versions to be listed", async || {
        let group = api.get(&format!("/apis/{}", crd.group())).await;
        (group.at("/versions/1") != &Value::Null).then_some(group)
    })
    .await;
    let version =
        |name| json!({"groupVersion": format!("{}/{name}", crd.group()), "version": name});
    assert_eq!(
        group.json["versions"],
        json!([version("v2"), version("v1")])
    );
    assert_eq!(group.json["preferredVersion"], version("v2"));
}

#[tokio::test]
async fn version_of_the_body_must_match_the_path() {
    let api = Api::start().await;
    let crd = three_versions(&api).create().await;
    let object = crd.object("a", json!({}));
    let refused = api
        .create(&path(&api, &crd, "v2", "widgets"), &object)
        .await;
    refused.expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn storage_version_can_be_changed() {
    let api = Api::start().await;
    let crd = three_versions(&api).create().await;
    crd.created("old", json!({"x": 1})).await;
    let mut definition = api.get(&crd.definition_path()).await.ok().json;
    definition["spec"]["versions"][0]["storage"] = json!(false);
    definition["spec"]["versions"][1]["storage"] = json!(true);
    let switched = api.replaced(&crd.definition_path(), &definition).await;
    assert_eq!(switched.at("/status/storedVersions"), &json!(["v1", "v2"]));
    assert_eq!(switched.generation(), 2);
    for version in ["v1", "v2"] {
        let object = api.found(&path(&api, &crd, version, "widgets/old")).await;
        assert_eq!(
            object.json["apiVersion"],
            format!("{}/{version}", crd.group())
        );
        assert_eq!(object.json["spec"], json!({"x": 1}));
    }

    // Objects may still be stored in the old version, so that it cannot be removed …
    let mut definition = switched.json.clone();
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    let refused = api
        .put(&crd.definition_path(), &definition)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [("FieldValueInvalid", "status.storedVersions[0]")]
    );
    // … but it does not need to be served.
    let mut definition = switched.json;
    definition["spec"]["versions"][0]["served"] = json!(false);
    api.replaced(&crd.definition_path(), &definition).await;
    eventually("the old version to be removed", async || {
        (api.get(&path(&api, &crd, "v1", "widgets")).await.code == 404).then_some(())
    })
    .await;
    api.found(&path(&api, &crd, "v2", "widgets/old")).await;
}
