//! Paged lists: `limit` and `continue`.

use kopf_tests::{Api, objects, with_query};
use serde_json::json;

async fn start() -> (Api, String) {
    let api = Api::start().await;
    let path = api.ns_path("configmaps");
    for name in ["a", "b", "c", "d", "e"] {
        let colour = if name == "c" { "red" } else { "blue" };
        let object = objects::labelled(name, &json!({"colour": colour}));
        api.created(&path, &object).await;
    }
    (api, path)
}

fn token(list: &kopf_tests::ApiResponse) -> String {
    list.at("/metadata/continue")
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn list_continues_after_a_page() {
    let (api, path) = start().await;
    let first = api.found(&with_query(&path, &[("limit", "2")])).await;
    assert_eq!(first.item_names(), ["a", "b"]);
    assert_eq!(first.at("/metadata/remainingItemCount"), 3);

    let parameters = [("limit", "2"), ("continue", &token(&first))];
    let second = api.found(&with_query(&path, &parameters)).await;
    assert_eq!(second.item_names(), ["c", "d"]);
    assert_eq!(second.at("/metadata/remainingItemCount"), 1);
    assert_eq!(second.resource_version(), first.resource_version());

    let parameters = [("limit", "2"), ("continue", &token(&second))];
    let third = api.found(&with_query(&path, &parameters)).await;
    assert_eq!(third.item_names(), ["e"]);
    assert_eq!(token(&third), "");
    assert!(third.at("/metadata/remainingItemCount").is_null());
}

#[tokio::test]
async fn custom_objects_are_listed_in_pages() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    for name in ["a", "b", "c"] {
        crd.created(name, json!({})).await;
    }
    let everywhere = crd.path_everywhere();
    let first = api.found(&with_query(&everywhere, &[("limit", "2")])).await;
    assert_eq!(first.item_names(), ["a", "b"]);
    let parameters = [("limit", "2"), ("continue", &token(&first))];
    let second = api.found(&with_query(&everywhere, &parameters)).await;
    assert_eq!(second.item_names(), ["c"]);
}

#[tokio::test]
async fn list_within_its_limit_has_no_continue_token() {
    let (api, path) = start().await;
    for limit in ["5", "6", "0"] {
        let list = api.found(&with_query(&path, &[("limit", limit)])).await;
        assert_eq!(list.items().len(), 5, "limit {limit}");
        assert_eq!(token(&list), "", "limit {limit}");
        assert!(
            list.at("/metadata/remainingItemCount").is_null(),
            "limit {limit}"
        );
    }
}

#[tokio::test]
async fn pages_are_of_one_version() {
    let (api, path) = start().await;
    let first = api.found(&with_query(&path, &[("limit", "2")])).await;
    api.created(&path, &objects::config_map("bb", json!({})))
        .await;
    api.deleted(&api.ns_path("configmaps/d")).await;
    let changed = json!({"data": {"key": "new"}});
    api.merged(&api.ns_path("configmaps/c"), &changed).await;

    let rest = token(&first);
    let parameters = [("continue", rest.as_str())];
    let rest = api.found(&with_query(&path, &parameters)).await;
    assert_eq!(rest.item_names(), ["c", "d", "e"]);
    assert!(rest.at("/items/0/data").is_null());
    assert_eq!(rest.resource_version(), first.resource_version());
}

#[tokio::test]
async fn pages_with_selectors_have_no_remaining_count() {
    let (api, path) = start().await;
    let parameters = [("limit", "2"), ("labelSelector", "colour=blue")];
    let first = api.found(&with_query(&path, &parameters)).await;
    assert_eq!(first.item_names(), ["a", "b"]);
    assert!(first.at("/metadata/remainingItemCount").is_null());
    let parameters = [
        ("limit", "2"),
        ("labelSelector", "colour=blue"),
        ("continue", &token(&first)),
    ];
    let second = api.found(&with_query(&path, &parameters)).await;
    assert_eq!(second.item_names(), ["d", "e"]);
}

#[tokio::test]
async fn invalid_limits_and_tokens_are_rejected() {
    let (api, path) = start().await;
    let first = api.found(&with_query(&path, &[("limit", "2")])).await;
    let cut = token(&first)[..10].to_owned();
    for parameters in [
        &[("limit", "many")][..],
        &[("limit", "2"), ("continue", "abc")],
        &[("limit", "2"), ("continue", "???")],
        &[("limit", "2"), ("continue", &cut)],
        &[
            ("limit", "2"),
            ("continue", &token(&first)),
            ("resourceVersion", "5"),
        ],
    ] {
        let response = api.get(&with_query(&path, parameters)).await;
        assert_eq!(response.code, 400, "{parameters:?}: {}", response.text());
        response.expect_failure(400, "BadRequest");
    }
}
