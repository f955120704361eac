//! Admission plugins that depend on other objects: limits, priorities and classes.

use kopf_tests::{Api, eventually, objects};
use serde_json::{Value, json};

fn limit_range() -> Value {
    json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
        "spec": {"limits": [{
            "type": "Container",
            "min": {"cpu": "50m"},
            "max": {"cpu": "500m"},
            "default": {"cpu": "400m"},
            "defaultRequest": {"cpu": "100m"},
        }]},
    })
}

fn pod_with(name: &str, cpu: &str) -> Value {
    let mut pod = objects::pod(name);
    pod["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    pod
}

#[tokio::test]
async fn limit_ranges_set_defaults_and_bounds() {
    let api = Api::start().await;
    api.created(&api.ns_path("limitranges"), &limit_range())
        .await;
    let pods = api.ns_path("pods");
    // A real server reads limit ranges from a cache.
    let refused = eventually("the limit range is effective", async || {
        let response = api.create(&pods, &pod_with("small", "10m")).await;
        if response.code == 201 {
            api.delete(&api.ns_path("pods/small")).await;
            return None;
        }
        Some(response)
    })
    .await;
    let refused = refused.expect_failure(403, "Forbidden");
    let why = "minimum cpu usage per Container is 50m, but request is 10m";
    assert!(refused.text().contains(why), "{}", refused.text());
    let refused = api.create(&pods, &pod_with("large", "1")).await;
    let refused = refused.expect_failure(403, "Forbidden");
    let why = "maximum cpu usage per Container is 500m, but limit is 1";
    assert!(refused.text().contains(why), "{}", refused.text());

    let made = api.created(&pods, &objects::pod("plain")).await;
    let expected = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "400m"}});
    assert_eq!(made.at("/spec/containers/0/resources"), &expected);
    assert_eq!(
        made.json["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container main; cpu limit for container main"
    );
}

#[tokio::test]
async fn priorities_are_set_by_the_class() {
    let api = Api::start().await;
    let mut pod = objects::pod("critical");
    pod["spec"]["priorityClassName"] = json!("system-cluster-critical");
    let pods = api.ns_path("pods");
    let made = api.created(&pods, &pod).await;
    assert_eq!(made.at("/spec/priority"), &json!(2_000_000_000));
    assert_eq!(made.at("/spec/preemptionPolicy"), "PreemptLowerPriority");
    pod["metadata"]["name"] = json!("unknown");
    pod["spec"]["priorityClassName"] = json!("no-such-class");
    let refused = api
        .create(&pods, &pod)
        .await
        .expect_failure(403, "Forbidden");
    let why = "no PriorityClass with name no-such-class was found";
    assert!(refused.text().contains(why), "{}", refused.text());
    let mut numbered = objects::pod("numbered");
    numbered["spec"]["priority"] = json!(7);
    api.create(&pods, &numbered)
        .await
        .expect_failure(403, "Forbidden");
}

#[tokio::test]
async fn runtime_classes_must_exist_and_change_the_pod() {
    let api = Api::start().await;
    let name = api.unique("class");
    let mut pod = objects::pod("one");
    pod["spec"]["runtimeClassName"] = json!(name);
    pod["spec"]["nodeSelector"] = json!({"b": "2"});
    let pods = api.ns_path("pods");
    let refused = api
        .create(&pods, &pod)
        .await
        .expect_failure(403, "Forbidden");
    assert!(refused.text().contains("not found"), "{}", refused.text());

    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name},
        "handler": "handler",
        "overhead": {"podFixed": {"cpu": "10m"}},
        "scheduling": {"nodeSelector": {"a": "1"}},
    });
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    api.created(classes, &class).await;
    api.delete_at_end(format!("{classes}/{name}"));
    let made = api.created(&pods, &pod).await;
    assert_eq!(made.at("/spec/nodeSelector"), &json!({"a": "1", "b": "2"}));
    assert_eq!(made.at("/spec/overhead"), &json!({"cpu": "10m"}));
    pod["metadata"]["name"] = json!("two");
    pod["spec"]["nodeSelector"] = json!({"a": "other"});
    let refused = api
        .create(&pods, &pod)
        .await
        .expect_failure(403, "Forbidden");
    assert!(refused.text().contains("conflict"), "{}", refused.text());
}
