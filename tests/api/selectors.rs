//! Label selectors and field selectors of lists.

use kopf_tests::{Api, objects, with_query};
use serde_json::json;

async fn names(api: &Api, path: &str, kind: &str, selector: &str) -> Vec<String> {
    let list = api.get(&with_query(path, &[(kind, selector)])).await;
    assert_eq!(list.code, 200, "{selector}: {}", list.text());
    list.item_names()
        .into_iter()
        .map(ToOwned::to_owned)
        .collect()
}

#[tokio::test]
async fn label_selectors_support_all_operators() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let maps = api.ns_path("configmaps");
    for (name, labels) in [
        ("bare", json!({})),
        ("blue", json!({"colour": "blue", "size": "10"})),
        ("empty", json!({"colour": ""})),
        ("red", json!({"colour": "red", "size": "3"})),
    ] {
        api.created(&maps, &objects::labelled(name, &labels)).await;
        let mut object = crd.object(name, json!({}));
        object["metadata"]["labels"] = labels;
        api.created(&crd.path(), &object).await;
    }
    for (selector, expected) in [
        ("", &["bare", "blue", "empty", "red"][..]),
        ("colour=red", &["red"]),
        ("colour==red", &["red"]),
        ("colour = red", &["red"]),
        ("colour=", &["empty"]),
        ("colour!=red", &["bare", "blue", "empty"]),
        ("colour in (red, blue)", &["blue", "red"]),
        ("colour in (,red)", &["empty", "red"]),
        ("colour in ()", &["empty"]),
        ("colour notin (red, blue)", &["bare", "empty"]),
        ("colour", &["blue", "empty", "red"]),
        ("!colour", &["bare"]),
        ("size>3", &["blue"]),
        ("size<10", &["red"]),
        ("size > 2, colour != red", &["blue"]),
        ("colour,size", &["blue", "red"]),
        ("colour=red,colour=blue", &[]),
        ("none=x", &[]),
        ("none!=x", &["bare", "blue", "empty", "red"]),
    ] {
        for path in [&maps, &crd.path()] {
            let found = names(&api, path, "labelSelector", selector).await;
            assert_eq!(found, expected, "{selector} at {path}");
        }
    }
}

#[tokio::test]
async fn invalid_label_selectors_are_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for selector in [
        "a===b",
        "a in",
        "a in (b",
        "a notin b",
        ",",
        "a=b,,c=d",
        "a=x y",
        "!",
        "!a=b",
        "a>b",
        "a>1.5",
        "=b",
        "-a=b",
        "a=-b",
        "a/b/c=d",
        "a&b",
    ] {
        for path in [api.ns_path("configmaps"), crd.path()] {
            for watch in ["0", "1"] {
                let parameters = [("labelSelector", selector), ("watch", watch)];
                let response = api.get(&with_query(&path, &parameters)).await;
                assert_eq!(response.code, 400, "{selector}: {}", response.text());
                response.expect_failure(400, "BadRequest");
            }
        }
    }
}

#[tokio::test]
async fn metadata_fields_are_selectable_for_all_kinds() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let maps = api.ns_path("configmaps");
    for name in ["a", "b", "c"] {
        api.created(&maps, &objects::config_map(name, json!({})))
            .await;
        crd.created(name, json!({})).await;
    }
    let here = format!("metadata.namespace={}", api.namespace());
    let here_and_not_a = format!("{here},metadata.name!=a");
    for (selector, expected) in [
        ("metadata.name=b", &["b"][..]),
        ("metadata.name==b", &["b"]),
        ("metadata.name!=b", &["a", "c"]),
        ("metadata.name=b,metadata.name!=b", &[]),
        ("metadata.namespace=elsewhere", &[]),
        ("metadata.name=none", &[]),
        (&here, &["a", "b", "c"]),
        (&here_and_not_a, &["b", "c"]),
        ("", &["a", "b", "c"]),
    ] {
        for path in [&maps, &crd.path()] {
            let found = names(&api, path, "fieldSelector", selector).await;
            assert_eq!(found, expected, "{selector} at {path}");
        }
    }
    let found = names(
        &api,
        &crd.path_everywhere(),
        "fieldSelector",
        &here_and_not_a,
    )
    .await;
    assert_eq!(found, ["b", "c"]);
    let found = names(&api, "/api/v1/configmaps", "fieldSelector", &here_and_not_a).await;
    assert_eq!(found, ["b", "c"]);
}

#[tokio::test]
async fn pods_are_selected_by_their_fields() {
    let api = Api::start().await;
    let path = api.ns_path("pods");
    let mut bound = objects::pod("bound");
    bound["spec"]["nodeName"] = json!("a-node");
    bound["spec"]["restartPolicy"] = json!("Never");
    api.created(&path, &bound).await;
    let mut free = objects::pod("free");
    free["spec"]["restartPolicy"] = json!("Always");
    api.created(&path, &free).await;
    let running = json!({"status": {"phase": "Running", "podIP": "10.1.2.3"}});
    api.merged(&api.ns_path("pods/bound/status"), &running)
        .await;

    for (selector, expected) in [
        ("spec.nodeName=a-node", &["bound"][..]),
        ("spec.nodeName=", &["free"]),
        ("spec.nodeName!=a-node", &["free"]),
        ("spec.restartPolicy=Never", &["bound"]),
        ("status.phase=Running", &["bound"]),
        ("status.phase!=Running", &["free"]),
        ("status.podIP=10.1.2.3", &["bound"]),
        ("spec.nodeName=a-node,status.phase=Failed", &[]),
    ] {
        assert_eq!(
            names(&api, &path, "fieldSelector", selector).await,
            expected,
            "{selector}"
        );
    }
    // There is no kubelet to confirm the deletion of this pod.
    let at_once = json!({"gracePeriodSeconds": 0});
    api.delete_with(&api.ns_path("pods/bound"), &at_once)
        .await
        .expect_code(200);
}

#[tokio::test]
async fn events_are_selected_by_their_fields() {
    let api = Api::start().await;
    let path = api.ns_path("events");
    for (name, about, kind, reason) in [
        ("a", "x", "Normal", "Started"),
        ("b", "y", "Warning", "Failed"),
    ] {
        let mut event = objects::event(name, api.namespace(), about, kind, reason);
        event["involvedObject"]["uid"] = json!(format!("uid-of-{about}"));
        api.created(&path, &event).await;
    }
    let namespace = format!("involvedObject.namespace={}", api.namespace());
    for (selector, expected) in [
        ("involvedObject.name=x", &["a"][..]),
        ("involvedObject.kind=ConfigMap", &["a", "b"]),
        ("involvedObject.kind=Pod", &[]),
        ("involvedObject.uid=uid-of-y", &["b"]),
        ("involvedObject.apiVersion=v1", &["a", "b"]),
        (&namespace, &["a", "b"]),
        ("reason=Failed", &["b"]),
        ("type=Warning", &["b"]),
        ("type!=Warning", &["a"]),
        ("source=tests", &["a", "b"]),
        (
            "involvedObject.name=x,involvedObject.kind=ConfigMap,type=Normal",
            &["a"],
        ),
    ] {
        assert_eq!(
            names(&api, &path, "fieldSelector", selector).await,
            expected,
            "{selector}"
        );
    }
}

#[tokio::test]
async fn secrets_are_selected_by_their_type_and_namespaces_by_their_phase() {
    let api = Api::start().await;
    let path = api.ns_path("secrets");
    api.created(&path, &objects::secret("plain", json!({})))
        .await;
    let mut typed = objects::secret("typed", json!({}));
    typed["type"] = json!("example.com/typed");
    api.created(&path, &typed).await;
    assert_eq!(
        names(&api, &path, "fieldSelector", "type=Opaque").await,
        ["plain"]
    );
    assert_eq!(
        names(&api, &path, "fieldSelector", "type=example.com/typed").await,
        ["typed"]
    );

    let active = format!("status.phase=Active,metadata.name={}", api.namespace());
    let found = names(&api, "/api/v1/namespaces", "fieldSelector", &active).await;
    assert_eq!(found, [api.namespace()]);
}

#[tokio::test]
async fn unknown_and_invalid_field_selectors_are_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for selector in [
        "spec.unknown=x",
        "metadata.labels.a=x",
        "text",
        "metadata.name>a",
    ] {
        for path in [api.ns_path("configmaps"), api.ns_path("pods"), crd.path()] {
            for watch in ["0", "1"] {
                let parameters = [("fieldSelector", selector), ("watch", watch)];
                let response = api.get(&with_query(&path, &parameters)).await;
                assert_eq!(response.code, 400, "{selector}: {}", response.text());
                response.expect_failure(400, "BadRequest");
            }
        }
    }
}

#[tokio::test]
async fn label_and_field_selectors_can_be_combined() {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for (name, colour) in [("a", "red"), ("b", "red"), ("c", "blue")] {
        let object = objects::labelled(name, &json!({"colour": colour}));
        api.created(&path, &object).await;
    }
    let parameters = [
        ("labelSelector", "colour=red"),
        ("fieldSelector", "metadata.name!=a"),
    ];
    let list = api.found(&with_query(&path, &parameters)).await;
    assert_eq!(list.item_names(), ["b"]);
}
