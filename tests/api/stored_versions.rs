//! Storage versions of custom objects, and deprecated versions.

use kopf_tests::{Api, CrdBuilder, eventually};
use serde_json::json;

/// Returns a CRD with the versions v1 (stored), v2 (deprecated) and v3 (deprecated with its own
/// warning).
fn versions(api: &Api) -> CrdBuilder<'_> {
    api.crd().edit(|crd| {
        let versions = crd["spec"]["versions"].as_array_mut().unwrap();
        for name in ["v2", "v3"] {
            let mut version = versions[0].clone();
            version["name"] = json!(name);
            version["storage"] = json!(false);
            version["deprecated"] = json!(true);
            versions.push(version);
        }
        versions[2]["deprecationWarning"] = json!("better go elsewhere");
    })
}

#[tokio::test]
async fn unchanged_object_is_rewritten_after_a_change_of_the_storage_version() {
    let api = Api::start().await;
    let crd = versions(&api).create().await;
    let path = crd.path_of("a");
    let made = crd.created("a", json!({"x": 1})).await;
    let same = api.replaced(&path, &made.json).await;
    assert_eq!(same.resource_version(), made.resource_version());

    let mut definition = api.get(&crd.definition_path()).await.ok().json;
    definition["spec"]["versions"][0]["storage"] = json!(false);
    definition["spec"]["versions"][1]["storage"] = json!(true);
    api.replaced(&crd.definition_path(), &definition).await;
    // The server serves the changed CRD with a delay.
    let written = eventually("an unchanged object to be rewritten", async || {
        let put = api.replaced(&path, &made.json).await;
        (put.resource_version() != made.resource_version()).then_some(put)
    })
    .await;
    assert_eq!(written.generation(), 1);
    assert_eq!(written.json["spec"], made.json["spec"]);
    assert_eq!(written.json["apiVersion"], crd.api_version());
    let same = api.replaced(&path, &written.json).await;
    assert_eq!(same.resource_version(), written.resource_version());
}

#[tokio::test]
async fn stored_version_is_removed_through_the_status() {
    let api = Api::start().await;
    let crd = versions(&api).create().await;
    let mut definition = api.get(&crd.definition_path()).await.ok().json;
    definition["spec"]["versions"][0]["storage"] = json!(false);
    definition["spec"]["versions"][1]["storage"] = json!(true);
    let switched = api.replaced(&crd.definition_path(), &definition).await;
    assert_eq!(switched.at("/status/storedVersions"), &json!(["v1", "v2"]));

    let patch = json!({"status": {"storedVersions": ["v2"]}});
    let patched = api
        .merged(&format!("{}/status", crd.definition_path()), &patch)
        .await;
    assert_eq!(patched.at("/status/storedVersions"), &json!(["v2"]));
    let mut definition = api.found(&crd.definition_path()).await.json;
    assert_eq!(definition["status"]["storedVersions"], json!(["v2"]));
    // Now the version can be removed.
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    versions.remove(0);
    let fewer = api.replaced(&crd.definition_path(), &definition).await;
    assert_eq!(fewer.at("/status/storedVersions"), &json!(["v2"]));
}

#[tokio::test]
async fn deprecated_versions_return_a_warning() {
    let api = Api::start().await;
    let crd = versions(&api).create().await;
    crd.created("a", json!({})).await;
    let group = crd.group();
    for (version, warnings) in [
        ("v1", vec![]),
        ("v2", vec![format!("{group}/v2 Widget is deprecated")]),
        ("v3", vec!["better go elsewhere".to_owned()]),
    ] {
        for rest in ["widgets", "widgets/a"] {
            let path = api.group_path(&format!("{group}/{version}"), rest);
            let read = api.found(&path).await;
            assert_eq!(read.warnings(), warnings, "{path}");
        }
    }
}

#[tokio::test]
async fn endpoints_return_a_warning() {
    let api = Api::start().await;
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}});
    let all = api.ns_path("endpoints");
    let warnings = ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"];
    let made = api.created(&all, &endpoints).await;
    assert_eq!(made.warnings(), warnings);
    for path in [&all, &api.ns_path("endpoints/a")] {
        let read = api.found(path).await;
        assert_eq!(read.warnings(), warnings);
    }
    let deleted = api.delete(&api.ns_path("endpoints/a")).await;
    assert_eq!(deleted.expect_code(200).warnings(), warnings);
    assert!(
        api.get(&api.ns_path("services"))
            .await
            .warnings()
            .is_empty()
    );
}
