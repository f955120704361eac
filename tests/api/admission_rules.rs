//! Matching of requests to admission webhooks.

use kopf_tests::{
    Api,
    objects::{config_map, labelled, pod},
    webhook::{Verdict, Webhook, rule},
};
use serde_json::{Value, json};

/// Installs one hook per rule; the path is the name of the case.
async fn listen(api: &Api, cases: &[(&str, Value)]) -> Webhook {
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let hooks: Vec<_> = cases
        .iter()
        .map(|(name, rule)| {
            let full_name = format!("{name}.rules.example.com");
            webhook.hook(
                api,
                &full_name,
                &format!("/{name}"),
                std::slice::from_ref(rule),
            )
        })
        .collect();
    webhook.validate_with(api, "rules", &hooks).await;
    webhook
}

#[tokio::test]
async fn rules_match_by_operation() {
    let api = Api::start().await;
    let on = |operations: &[&str]| rule("", "v1", &["configmaps"], operations);
    let webhook = listen(
        &api,
        &[
            ("any", on(&["*"])),
            ("create", on(&["CREATE"])),
            ("update", on(&["UPDATE"])),
            ("delete", on(&["DELETE"])),
            ("change", on(&["CREATE", "UPDATE"])),
        ],
    )
    .await;
    let path = api.ns_path("configmaps/a");
    let created = api
        .create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    assert_eq!(webhook.called(), ["/any", "/change", "/create"]);
    api.cached(&path).await;
    let mut object = created.json.clone();
    object["data"] = json!({"a": "b"});
    api.put(&path, &object).await.ok();
    assert_eq!(webhook.called(), ["/any", "/change", "/update"]);
    api.cached(&path).await;
    api.merge(&path, &json!({"data": {"c": "d"}})).await.ok();
    assert_eq!(webhook.called(), ["/any", "/change", "/update"]);
    api.cached(&path).await;
    api.get(&path).await.ok();
    api.get(&api.ns_path("configmaps")).await.ok();
    assert!(webhook.called().is_empty(), "reads are not reviewed");
    api.delete(&path).await.ok();
    assert_eq!(webhook.called(), ["/any", "/delete"]);
}

#[tokio::test]
async fn rules_match_by_resource_and_subresource() {
    let api = Api::start().await;
    let on = |resource: &str| rule("", "v1", &[resource], &["CREATE", "UPDATE"]);
    let webhook = listen(
        &api,
        &[
            ("pods", on("pods")),
            ("pods-status", on("pods/status")),
            ("pods-all", on("pods/*")),
            ("any", on("*")),
            ("any-status", on("*/status")),
            ("everything", on("*/*")),
            ("other", on("secrets")),
        ],
    )
    .await;
    api.create(&api.ns_path("pods"), &pod("p")).await.ok();
    assert_eq!(
        webhook.called(),
        ["/any", "/everything", "/pods", "/pods-all"]
    );
    api.cached(&api.ns_path("pods/p")).await;
    let status = json!({"status": {"message": "so it is"}});
    api.merge(&api.ns_path("pods/p/status"), &status).await.ok();
    assert_eq!(
        webhook.called(),
        ["/any-status", "/everything", "/pods-all", "/pods-status"]
    );
}

#[tokio::test]
async fn rules_match_by_group_and_version() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let on = |group: &str, version: &str| rule(group, version, &["widgets"], &["CREATE"]);
    let webhook = listen(
        &api,
        &[
            ("exact", on(crd.group(), "v1")),
            ("any-version", on(crd.group(), "*")),
            ("any-group", on("*", "v1")),
            ("other-version", on(crd.group(), "v9")),
            ("other-group", on("other.example.com", "v1")),
            ("core", on("", "v1")),
        ],
    )
    .await;
    api.create(&crd.path(), &crd.object("a", json!({})))
        .await
        .ok();
    assert_eq!(webhook.called(), ["/any-group", "/any-version", "/exact"]);
}

#[tokio::test]
async fn rules_match_by_scope() {
    let api = Api::start().await;
    let namespaced = api.crd().create().await;
    let cluster = api
        .crd()
        .named("worlds", "world", "World")
        .cluster_scoped()
        .create()
        .await;
    let on = |scope: &str| {
        let mut rule = rule(namespaced.group(), "v1", &["*"], &["CREATE"]);
        rule["scope"] = json!(scope);
        rule
    };
    let cases = [
        ("inside", on("Namespaced")),
        ("outside", on("Cluster")),
        ("both", on("*")),
    ];
    let webhook = listen(&api, &cases).await;
    api.create(&namespaced.path(), &namespaced.object("a", json!({})))
        .await
        .ok();
    assert_eq!(webhook.called(), ["/both", "/inside"]);
    // Namespace selectors do not apply to cluster-scoped objects.
    api.create(&cluster.path(), &cluster.object("a", json!({})))
        .await
        .ok();
    assert_eq!(webhook.called(), ["/both", "/outside"]);
}

#[tokio::test]
async fn namespace_selector_matches_by_labels() {
    let api = Api::start().await;
    let webhook = listen(
        &api,
        &[("here", rule("", "v1", &["configmaps"], &["CREATE"]))],
    )
    .await;
    let other = api.unique("other");
    api.create_namespace(&other).await;
    let there = format!("/api/v1/namespaces/{other}/configmaps");
    api.create(&there, &config_map("a", Value::Null)).await.ok();
    assert!(webhook.called().is_empty());
    api.create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    assert_eq!(webhook.called(), ["/here"]);
}

#[tokio::test]
async fn namespace_is_matched_by_its_own_labels() {
    let api = Api::start().await;
    let webhook = listen(
        &api,
        &[("namespace", rule("", "v1", &["namespaces"], &["UPDATE"]))],
    )
    .await;
    let path = format!("/api/v1/namespaces/{}", api.namespace());
    api.merge(&path, &json!({"metadata": {"annotations": {"a": "b"}}}))
        .await
        .ok();
    let calls = webhook.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].request()["name"], api.namespace());
    api.merge(
        "/api/v1/namespaces/default",
        &json!({"metadata": {"annotations": {}}}),
    )
    .await
    .ok();
    assert_eq!(webhook.calls().len(), 1);
}

#[tokio::test]
async fn object_selector_matches_the_old_or_the_new_object() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let rules = [rule("", "v1", &["configmaps"], &["*"])];
    let mut hook = webhook.hook(&api, "labels.example.com", "/labels", &rules);
    hook["objectSelector"] = json!({
        "matchExpressions": [{"key": "watched", "operator": "In", "values": ["yes", "sure"]}],
    });
    webhook.validate_with(&api, "labels", &[hook]).await;
    let maps = api.ns_path("configmaps");
    let path = api.ns_path("configmaps/a");
    let set = |value: Value| json!({"metadata": {"labels": {"watched": value}}});

    api.create(&maps, &config_map("b", Value::Null)).await.ok();
    api.create(&maps, &labelled("a", &json!({"watched": "no"})))
        .await
        .ok();
    assert!(webhook.called().is_empty());
    api.cached(&path).await;
    api.merge(&path, &set(json!("yes"))).await.ok();
    assert_eq!(webhook.called(), ["/labels"], "it is so from now on");
    api.cached(&path).await;
    api.merge(&path, &set(Value::Null)).await.ok();
    assert_eq!(webhook.called(), ["/labels"], "it was so until now");
    api.cached(&path).await;
    api.merge(&path, &json!({"data": {"a": "b"}})).await.ok();
    assert!(webhook.called().is_empty());
    api.cached(&path).await;
    api.merge(&path, &set(json!("sure"))).await.ok();
    webhook.called();
    api.cached(&path).await;
    api.delete(&path).await.ok();
    assert_eq!(
        webhook.called(),
        ["/labels"],
        "a deleted object is matched by its labels"
    );
}

#[tokio::test]
async fn match_policy_controls_equivalent_versions() {
    let api = Api::start().await;
    let crd = api.crd().with_status().with_second_version().create().await;
    let rules = [rule(
        crd.group(),
        "v1",
        &["widgets", "widgets/status"],
        &["*"],
    )];
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let hook = |name: &str, policy: &str| {
        let full_name = format!("{name}.policy.example.com");
        let mut hook = webhook.hook(&api, &full_name, &format!("/{name}"), &rules);
        hook["matchPolicy"] = json!(policy);
        hook
    };
    let hooks = [hook("exact", "Exact"), hook("equivalent", "Equivalent")];
    webhook.validate_with(&api, "policy", &hooks).await;

    api.create(&crd.path(), &crd.object("one", json!({})))
        .await
        .ok();
    assert_eq!(webhook.called(), ["/equivalent", "/exact"]);
    let path = api.group_path(&format!("{}/v2", crd.group()), "widgets");
    let mut object = crd.object("two", json!({"x": 1}));
    object["apiVersion"] = json!(format!("{}/v2", crd.group()));
    api.create(&path, &object).await.ok();
    let calls = webhook.calls();
    assert_eq!(webhook.called(), ["/equivalent"]);
    let request = calls[0].request();
    let version = |version: &str, field: &str, value: &str| json!({"group": crd.group(), "version": version, field: value});
    assert_eq!(request["kind"], version("v1", "kind", "Widget"));
    assert_eq!(request["resource"], version("v1", "resource", "widgets"));
    assert_eq!(request["requestKind"], version("v2", "kind", "Widget"));
    assert_eq!(
        request["requestResource"],
        version("v2", "resource", "widgets")
    );
    assert_eq!(
        request["object"]["apiVersion"],
        crd.api_version(),
        "it is converted for it"
    );

    let status = json!({"status": {"phase": "Running"}});
    api.merge(&format!("{path}/two/status"), &status).await.ok();
    assert_eq!(webhook.called(), ["/equivalent"]);
}

#[tokio::test]
async fn several_matching_rules_call_once() {
    let api = Api::start().await;
    let webhook = Webhook::start(|_| Verdict::allow()).await;
    let rules = [
        rule("", "v1", &["secrets"], &["*"]),
        rule("", "v1", &["configmaps"], &["CREATE"]),
        rule("", "v1", &["*"], &["*"]),
    ];
    let hook = webhook.hook(&api, "many.example.com", "/many", &rules);
    webhook.validate_with(&api, "many", &[hook]).await;
    api.create(&api.ns_path("configmaps"), &config_map("a", Value::Null))
        .await
        .ok();
    assert_eq!(webhook.called(), ["/many"]);
}
