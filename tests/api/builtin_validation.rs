//! Rules of pods, workloads, services and quotas beyond the types of their fields.

use kopf_tests::{Api, objects};
use serde_json::{Value, json};

/// Creates an object that must be rejected. Returns the causes.
async fn refused(api: &Api, path: &str, object: &Value) -> Vec<(String, String)> {
    let response = api
        .create(path, object)
        .await
        .expect_failure(422, "Invalid");
    let causes = response.causes().into_iter();
    causes
        .map(|(reason, field)| (reason.to_owned(), field.to_owned()))
        .collect()
}

fn cause(reason: &str, field: &str) -> (String, String) {
    (format!("FieldValue{reason}"), field.to_owned())
}

#[tokio::test]
async fn invalid_containers_are_rejected() {
    let api = Api::start().await;
    let pods = api.ns_path("pods");
    let mut pod = objects::pod("one");
    pod["spec"]["containers"] = json!([]);
    assert_eq!(
        refused(&api, &pods, &pod).await,
        [cause("Required", "spec.containers")]
    );
    pod["spec"]["containers"] = json!([{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]);
    assert_eq!(
        refused(&api, &pods, &pod).await,
        [cause("Duplicate", "spec.containers[1].name")]
    );
    pod["spec"]["containers"] = json!([
        {"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    ]);
    let expected = cause("NotFound", "spec.containers[0].volumeMounts[0].name");
    assert_eq!(refused(&api, &pods, &pod).await, [expected]);
    pod["spec"]["containers"] = json!([
        {"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
    ]);
    let expected = cause("Invalid", "spec.containers[0].resources.requests");
    assert_eq!(refused(&api, &pods, &pod).await, [expected]);
}

#[tokio::test]
async fn host_names_and_sysctls_are_checked() {
    let api = Api::start().await;
    let pods = api.ns_path("pods");
    for (more, expected) in [
        (
            json!({"hostnameOverride": "a", "setHostnameAsFQDN": true}),
            cause("Forbidden", "spec.hostnameOverride"),
        ),
        (
            json!({"hostnameOverride": "Not-RFC1123"}),
            cause("Invalid", "spec.hostnameOverride"),
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "foo-", "value": "1"}]}}),
            cause("Invalid", "spec.securityContext.sysctls[0].name"),
        ),
    ] {
        let mut pod = objects::pod("one");
        let spec = pod["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        assert_eq!(refused(&api, &pods, &pod).await, [expected], "{more}");
    }
}

#[tokio::test]
async fn selectors_of_workloads_match_their_templates() {
    let api = Api::start().await;
    let path = api.group_path("apps/v1", "deployments");
    let mut deployment = objects::deployment("one");
    deployment["spec"]["selector"] = json!({"matchLabels": {"app": "other"}});
    let expected = cause("Invalid", "spec.template.metadata.labels");
    assert_eq!(refused(&api, &path, &deployment).await, [expected]);
    deployment = objects::deployment("one");
    deployment["spec"]["replicas"] = json!(-1);
    assert_eq!(
        refused(&api, &path, &deployment).await,
        [cause("Invalid", "spec.replicas")]
    );
    deployment = objects::deployment("one");
    deployment["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let expected = cause("NotSupported", "spec.template.spec.restartPolicy");
    assert_eq!(refused(&api, &path, &deployment).await, [expected]);
}

#[tokio::test]
async fn schedules_of_cron_jobs_are_checked() {
    let api = Api::start().await;
    let path = api.group_path("batch/v1", "cronjobs");
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "one"},
        "spec": {
            "schedule": "60 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}],
            }}}},
        },
    });
    assert_eq!(
        refused(&api, &path, &job).await,
        [cause("Invalid", "spec.schedule")]
    );
    job["spec"]["schedule"] = json!("*/5 9-17 * jan mon-fri");
    api.created(&path, &job).await;
}

#[tokio::test]
async fn services_and_quotas_are_checked() {
    let api = Api::start().await;
    let mut service = objects::service("one");
    service["spec"]["ports"] = json!([]);
    let services = api.ns_path("services");
    assert_eq!(
        refused(&api, &services, &service).await,
        [cause("Required", "spec.ports")]
    );
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"},
        "spec": {"hard": {"pods": "1"}, "scopes": ["Foo"]},
    });
    let quotas = api.ns_path("resourcequotas");
    let causes = refused(&api, &quotas, &quota).await;
    assert!(
        causes.contains(&cause("Invalid", "spec.scopes")),
        "{causes:?}"
    );
}
