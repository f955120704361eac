//! The order of lists over several namespaces, and their pages.

use kopf_tests::{Api, objects, with_query};
use serde_json::Value;

fn places(items: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let place = |item: &Value| {
        (
            text(&item["metadata"]["namespace"]),
            text(&item["metadata"]["name"]),
        )
    };
    items.iter().map(place).collect()
}

#[tokio::test]
async fn lists_over_namespaces_are_in_the_order_of_their_paths() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    // A dash sorts before the slash that ends the name of a namespace, so `x-b/…` comes before
    // `x/…`.
    let first = format!("{}-b", api.namespace());
    let last = format!("{}0", api.namespace());
    api.create_namespace(&first).await;
    api.create_namespace(&last).await;
    let mut expected = Vec::new();
    for (namespace, name) in [
        (first.as_str(), "z"),
        (api.namespace(), "a"),
        (api.namespace(), "a-b"),
        (api.namespace(), "a.b"),
        (api.namespace(), "ab"),
        (last.as_str(), "a"),
    ] {
        let object = objects::labelled(name, &serde_json::json!({"test": api.namespace()}));
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        api.created(&path, &object).await;
        let path = format!("/apis/{}/namespaces/{namespace}/widgets", crd.api_version());
        let object = crd.object(name, Value::Null);
        api.created(&path, &object).await;
        expected.push((namespace.to_owned(), name.to_owned()));
    }
    let selector = format!("test={}", api.namespace());
    let maps = with_query("/api/v1/configmaps", &[("labelSelector", &selector)]);
    for path in [maps, crd.path_everywhere()] {
        let list = api.found(&path).await;
        assert_eq!(places(list.items()), expected, "{path}");

        let mut paged = Vec::new();
        let mut token = String::new();
        loop {
            let query = [("limit", "1"), ("continue", token.as_str())];
            let page = api.found(&with_query(&path, &query)).await;
            assert!(page.items().len() <= 1, "{}", page.text());
            paged.extend(places(page.items()));
            let next = page.at("/metadata/continue").as_str().unwrap_or_default();
            if next.is_empty() {
                break;
            }
            next.clone_into(&mut token);
        }
        assert_eq!(paged, expected, "{path}");
    }
}
