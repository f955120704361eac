//! Admission reviews: the content of requests to webhooks.

use kopf_tests::{
    Api,
    objects::{config_map, labelled, pod},
    webhook::{Verdict, Webhook, rule},
    with_query,
};
use serde_json::{Value, json};

/// Starts a webhook that allows and records everything.
async fn witness(api: &Api, rules: &[Value]) -> Webhook {
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let hook = webhook.hook(api, "witness.example.com", "/seen", rules);
    webhook.validate_with(api, "witness", &[hook]).await;
    webhook
}

/// Returns the only request to the webhook since the last call.
#[track_caller]
fn only_request(webhook: &Webhook) -> Value {
    let calls = webhook.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    webhook.forget();
    calls[0].request().clone()
}

#[tokio::test]
async fn creation_is_reviewed() {
    let api = Api::start().await;
    let webhook = witness(&api, &[rule("", "v1", &["configmaps"], &["*"])]).await;
    let created = api
        .create(
            &api.ns_path("configmaps"),
            &config_map("a", json!({"x": "1"})),
        )
        .await;
    let created = created.expect_code(201);
    let call = webhook.calls().remove(0);
    assert_eq!(call.review["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(call.review["kind"], "AdmissionReview");
    assert_eq!(call.query, "timeout=10s");
    let request = only_request(&webhook);
    assert!(
        request["uid"].as_str().is_some_and(|uid| uid.len() == 36),
        "{request}"
    );
    assert_ne!(
        request["uid"],
        created.uid(),
        "the request has an identity of its own"
    );
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!(request["kind"], kind);
    assert_eq!(request["requestKind"], kind);
    assert_eq!(request["resource"], resource);
    assert_eq!(request["requestResource"], resource);
    assert_eq!(request["subResource"], Value::Null);
    assert_eq!(request["name"], "a");
    assert_eq!(request["namespace"], api.namespace());
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(request["dryRun"], false);
    assert_eq!(request["oldObject"], Value::Null);
    assert_eq!(request["options"]["kind"], "CreateOptions");
    assert_eq!(request["options"]["apiVersion"], "meta.k8s.io/v1");
    let object = &request["object"];
    assert_eq!(object["apiVersion"], "v1");
    assert_eq!(object["kind"], "ConfigMap");
    assert_eq!(object["metadata"]["namespace"], api.namespace());
    assert_eq!(object["metadata"]["uid"], created.uid());
    assert_eq!(object["metadata"]["resourceVersion"], Value::Null);
    assert_eq!(object["data"], json!({"x": "1"}));
}

#[tokio::test]
async fn review_contains_the_user() {
    let api = Api::start().await;
    let webhook = witness(&api, &[rule("", "v1", &["configmaps"], &["CREATE"])]).await;
    api.create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    let user = only_request(&webhook)["userInfo"].clone();
    let me = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let me = api
        .create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &me)
        .await
        .ok();
    assert_eq!(user["username"], *me.at("/status/userInfo/username"));
    assert_eq!(user["groups"], *me.at("/status/userInfo/groups"));
    let groups = user["groups"].as_array().unwrap();
    assert!(
        groups.contains(&json!("system:authenticated")),
        "{groups:?}"
    );
}

#[tokio::test]
async fn review_of_an_update_has_both_objects() {
    let api = Api::start().await;
    let created = api
        .create(
            &api.ns_path("configmaps"),
            &config_map("a", json!({"x": "1"})),
        )
        .await;
    let version = created.ok().resource_version();
    let webhook = witness(&api, &[rule("", "v1", &["configmaps"], &["*"])]).await;
    let path = api.ns_path("configmaps/a");
    let path = with_query(&path, &[("fieldManager", "manager")]);
    api.merged(&path, &json!({"data": {"x": "2"}})).await;
    let request = only_request(&webhook);
    assert_eq!(request["operation"], "UPDATE");
    assert_eq!(request["name"], "a");
    assert_eq!(request["oldObject"]["data"], json!({"x": "1"}));
    assert_eq!(request["object"]["data"], json!({"x": "2"}));
    for object in ["object", "oldObject"] {
        assert_eq!(request[object]["kind"], "ConfigMap");
        assert_eq!(request[object]["apiVersion"], "v1");
        assert_eq!(
            request[object]["metadata"]["resourceVersion"], version,
            "{object}"
        );
    }
    assert!(
        ["PatchOptions", "UpdateOptions"].contains(&request["options"]["kind"].as_str().unwrap())
    );
    assert_eq!(request["options"]["fieldManager"], "manager");
}

#[tokio::test]
async fn review_of_a_deletion_has_the_old_object() {
    let api = Api::start().await;
    let created = api
        .create(
            &api.ns_path("configmaps"),
            &config_map("a", json!({"x": "1"})),
        )
        .await;
    let uid = created.ok().uid().to_owned();
    let webhook = witness(&api, &[rule("", "v1", &["configmaps"], &["*"])]).await;
    let path = api.ns_path("configmaps/a");
    let dry = with_query(&path, &[("dryRun", "All"), ("gracePeriodSeconds", "3")]);
    api.deleted(&dry).await;
    let request = only_request(&webhook);
    assert_eq!(request["operation"], "DELETE");
    assert_eq!(request["dryRun"], true);
    assert_eq!(request["options"]["kind"], "DeleteOptions");
    assert_eq!(request["options"]["dryRun"], json!(["All"]));
    assert_eq!(request["options"]["gracePeriodSeconds"], 3);

    api.deleted(&path).await;
    let request = only_request(&webhook);
    assert_eq!(request["operation"], "DELETE");
    assert_eq!(request["name"], "a");
    assert_eq!(request["dryRun"], false);
    assert_eq!(request["object"], Value::Null);
    assert_eq!(request["oldObject"]["kind"], "ConfigMap");
    assert_eq!(request["oldObject"]["metadata"]["uid"], uid);
    assert_eq!(request["oldObject"]["data"], json!({"x": "1"}));
}

#[tokio::test]
async fn each_object_of_a_deleted_collection_is_reviewed() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    for name in ["a", "b"] {
        api.create(&maps, &labelled(name, &json!({"sort": "old"})))
            .await
            .ok();
    }
    api.create(&maps, &config_map("c", Value::Null)).await.ok();
    let webhook = witness(&api, &[rule("", "v1", &["configmaps"], &["DELETE"])]).await;
    api.deleted(&with_query(&maps, &[("labelSelector", "sort=old")]))
        .await;
    let calls = webhook.calls();
    let mut seen: Vec<_> = calls
        .iter()
        .map(|call| {
            call.request()["oldObject"]["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, ["a", "b"]);
    assert!(
        calls
            .iter()
            .all(|call| call.request().get("name").is_none())
    );
}

#[tokio::test]
async fn status_write_is_reviewed_as_a_subresource() {
    let api = Api::start().await;
    api.create(&api.ns_path("pods"), &pod("p")).await.ok();
    let webhook = witness(&api, &[rule("", "v1", &["pods/status"], &["*"])]).await;
    api.merge(
        &api.ns_path("pods/p"),
        &json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await
    .ok();
    assert!(
        webhook.calls().is_empty(),
        "the rule speaks of the status alone"
    );
    api.cached(&api.ns_path("pods/p")).await;
    let status = json!({"status": {"message": "so it is"}});
    api.merged(&api.ns_path("pods/p/status"), &status).await;
    let request = only_request(&webhook);
    assert_eq!(request["operation"], "UPDATE");
    assert_eq!(request["subResource"], "status");
    assert_eq!(request["requestSubResource"], "status");
    assert_eq!(request["resource"]["resource"], "pods");
    assert_eq!(request["kind"]["kind"], "Pod");
    assert_eq!(request["object"]["status"]["message"], "so it is");
}

#[tokio::test]
async fn scale_is_reviewed_as_a_scale() {
    let api = Api::start().await;
    let crd = api.crd().with_scale().create().await;
    api.create(&crd.path(), &crd.object("a", json!({"replicas": 1})))
        .await
        .ok();
    let webhook = witness(&api, &[rule(crd.group(), "v1", &["widgets/scale"], &["*"])]).await;
    let scale = json!({"spec": {"replicas": 3}});
    crd.merged("a/scale", &scale).await;
    let request = only_request(&webhook);
    assert_eq!(request["subResource"], "scale");
    assert_eq!(
        request["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(
        request["resource"],
        json!({"group": crd.group(), "version": "v1", "resource": "widgets"})
    );
    assert_eq!(request["object"]["kind"], "Scale");
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["oldObject"]["spec"]["replicas"], 1);
}

#[tokio::test]
async fn review_of_a_dry_run_is_marked() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let rules = [rule("", "v1", &["configmaps"], &["*"])];
    let mut hook = webhook.hook(&api, "dry.example.com", "/dry", &rules);
    hook["sideEffects"] = json!("NoneOnDryRun");
    webhook.validate_with(&api, "dry", &[hook]).await;
    let path = with_query(&api.ns_path("configmaps"), &[("dryRun", "All")]);
    api.created(&path, &config_map("a", Value::Null)).await;
    let request = only_request(&webhook);
    assert_eq!(request["dryRun"], true);
    assert_eq!(request["options"]["dryRun"], json!(["All"]));
    api.get(&api.ns_path("configmaps/a"))
        .await
        .expect_failure(404, "NotFound");
}

#[tokio::test]
async fn generated_name_is_set_before_the_review() {
    let api = Api::start().await;
    let webhook = witness(&api, &[rule("", "v1", &["configmaps"], &["CREATE"])]).await;
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"},
    });
    let created = api.created(&api.ns_path("configmaps"), &object).await;
    let request = only_request(&webhook);
    assert_eq!(request["name"], created.name());
    assert_eq!(request["object"]["metadata"]["name"], created.name());
}

#[tokio::test]
async fn actions_are_reviewed_as_creations() {
    let api = Api::start().await;
    let pods = api.ns_path("pods");
    api.created(&pods, &pod("p")).await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = api.ns_path("serviceaccounts");
    api.created(&accounts, &account).await;
    let rules = [rule(
        "",
        "v1",
        &["pods/binding", "pods/eviction", "serviceaccounts/token"],
        &["*"],
    )];
    let webhook = witness(&api, &rules).await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "node"},
    });
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["x"]}});
    for (path, body, group) in [
        (format!("{pods}/p/binding"), binding, ""),
        (format!("{pods}/p/eviction"), eviction, "policy"),
        (
            format!("{accounts}/robot/token"),
            token,
            "authentication.k8s.io",
        ),
    ] {
        api.create(&path, &body).await.expect_code(201);
        let request = only_request(&webhook);
        assert_eq!(request["operation"], "CREATE", "{path}");
        assert_eq!(request["object"]["kind"], body["kind"], "{path}");
        assert_eq!(
            request["kind"],
            json!({"group": group, "version": "v1", "kind": body["kind"]})
        );
        assert_eq!(request["oldObject"], Value::Null, "{path}");
        assert_eq!(request["options"]["kind"], "CreateOptions", "{path}");
        let subresource = path.rsplit('/').next().unwrap();
        assert_eq!(request["subResource"], subresource);
    }
}

#[tokio::test]
async fn denied_evictions_keep_the_pod() {
    let api = Api::start().await;
    let pods = api.ns_path("pods");
    api.created(&pods, &pod("p")).await;
    let webhook = Webhook::start(|_| Verdict::deny("not now")).await;
    let rules = [rule("", "v1", &["pods/eviction"], &["CREATE"])];
    let hook = webhook.hook(&api, "evictions.example.com", "/evictions", &rules);
    webhook.validate_with(&api, "evictions", &[hook]).await;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let refused = api.create(&format!("{pods}/p/eviction"), &eviction).await;
    refused.expect_code(400);
    api.get(&format!("{pods}/p")).await.ok();
}
