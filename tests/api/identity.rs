//! Server-controlled fields: uid, timestamps, generation, resource version, generated name.

use kopf_tests::{Api, objects};
use serde_json::json;

#[tokio::test]
async fn uid_and_creation_time_are_server_controlled() {
    let api = Api::start().await;
    let mut object = objects::config_map("one", json!({}));
    object["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    object["metadata"]["creationTimestamp"] = json!("2001-02-03T04:05:06Z");
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    assert_eq!(made.uid().len(), 36);
    assert_ne!(made.uid(), "11111111-2222-3333-4444-555555555555");
    let time = made.at("/metadata/creationTimestamp").as_str().unwrap();
    assert!(
        time.starts_with("20") && time.ends_with('Z') && time.len() == 20,
        "{time}"
    );
    assert!(!time.starts_with("2001"), "{time}");
    assert_eq!(made.at("/metadata/namespace"), api.namespace());
}

#[tokio::test]
async fn recreated_object_has_another_uid() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let object = objects::config_map("one", json!({}));
    let first = api.created(&path, &object).await;
    api.deleted(&api.ns_path("configmaps/one")).await;
    let second = api.created(&path, &object).await;
    assert_ne!(first.uid(), second.uid());
}

#[tokio::test]
async fn generation_of_a_custom_object_counts_changes_of_its_spec() {
    let api = Api::start().await;
    let crd = api.crd().with_status().create().await;
    let path = crd.path_of("one");
    let mut object = crd.object("one", json!({"a": 1}));
    object["metadata"]["generation"] = json!(77);
    let made = api.created(&crd.path(), &object).await;
    assert_eq!(made.generation(), 1);

    let labels = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    assert_eq!(api.merged(&path, &labels).await.generation(), 1);
    let spec = json!({"spec": {"a": 2}});
    assert_eq!(api.merged(&path, &spec).await.generation(), 2);
    assert_eq!(api.merged(&path, &spec).await.generation(), 2);
    let forged = json!({"metadata": {"generation": 99}});
    assert_eq!(api.merged(&path, &forged).await.generation(), 2);
    let status = json!({"status": {"phase": "Ready"}});
    let status = crd.merged("one/status", &status).await;
    assert_eq!(status.generation(), 2);
}

#[tokio::test]
async fn without_a_status_subresource_everything_but_metadata_counts() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let path = crd.path_of("one");
    crd.created("one", json!({"a": 1})).await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(api.merged(&path, &labels).await.generation(), 1);
    let status = json!({"status": {"phase": "Ready"}});
    assert_eq!(api.merged(&path, &status).await.generation(), 2);
}

#[tokio::test]
async fn generation_of_a_deployment_counts_changes_of_its_spec() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments/one");
    let all = api.group_path("apps/v1", "deployments");
    let made = api.created(&all, &objects::deployment("one")).await;
    assert_eq!(made.generation(), 1);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(api.merged(&path, &labels).await.generation(), 1);
    let spec = json!({"spec": {"replicas": 3}});
    assert_eq!(api.merged(&path, &spec).await.generation(), 2);
}

#[tokio::test]
async fn kinds_without_a_spec_have_no_generation() {
    let api = Api::start().await;
    let object = objects::config_map("one", json!({"a": "b"}));
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    assert!(made.at("/metadata/generation").is_null());
}

#[tokio::test]
async fn resource_versions_grow_with_every_write() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let maps = api.ns_path("configmaps");
    let secrets = api.ns_path("secrets");
    let one = api.ns_path("configmaps/one");
    let version = |response: kopf_tests::ApiResponse| {
        response.ok().resource_version().parse::<u64>().unwrap()
    };
    let versions = [
        version(
            api.create(&maps, &objects::config_map("one", json!({})))
                .await,
        ),
        version(
            api.create(&secrets, &objects::secret("one", json!({})))
                .await,
        ),
        version(api.create(&crd.path(), &crd.object("one", json!({}))).await),
        version(api.merge(&one, &json!({"data": {"a": "b"}})).await),
        version(
            api.create(&maps, &objects::config_map("two", json!({})))
                .await,
        ),
    ];
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    let list = version(api.get(&maps).await);
    assert!(list >= versions[4], "{list} after {versions:?}");
}

#[tokio::test]
async fn generated_name_is_the_prefix_and_five_characters() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"},
    });
    let first = api.created(&path, &object).await;
    let second = api.created(&path, &object).await;
    assert!(first.name().starts_with("some-"), "{}", first.name());
    assert_eq!(first.name().len(), "some-".len() + 5);
    assert_eq!(first.at("/metadata/generateName"), "some-");
    assert_ne!(first.name(), second.name());
    api.found(&api.ns_path(&format!("configmaps/{}", first.name())))
        .await;
}

#[tokio::test]
async fn generated_name_has_at_most_63_characters() {
    let api = Api::start().await;
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x".repeat(80)},
    });
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    assert_eq!(made.name().len(), 63);
}

#[tokio::test]
async fn name_takes_precedence_over_generate_name() {
    let api = Api::start().await;
    let mut object = objects::config_map("given", json!({}));
    object["metadata"]["generateName"] = json!("some-");
    let made = api.created(&api.ns_path("configmaps"), &object).await;
    assert_eq!(made.name(), "given");
}
