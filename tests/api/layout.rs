//! The layout of responses: line breaks, indentation, and the audit id.

use http::Method;
use kopf_tests::{Api, objects::config_map};
use serde_json::{Value, json};

async fn text(api: &Api, path: &str, header: (&str, &str)) -> String {
    let request = api
        .request(Method::GET, path)
        .header("accept", "application/json");
    let response = request.header(header.0, header.1).send().await;
    response.text()
}

/// Returns the text of a response to a program.
async fn plain(api: &Api, path: &str) -> String {
    text(api, path, ("user-agent", "kopf/1")).await
}

#[tokio::test]
async fn documents_end_with_a_line_break_unless_they_are_indented() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let empty = json!({ "list": "[]", "braces": "{\"a\": 1}" });
    api.create(&maps, &config_map("a", empty)).await.ok();
    for path in [
        &*maps,
        &format!("{maps}/a"),
        &format!("{maps}/absent"),
        "/api/v1",
        "/apis/apps",
    ] {
        let compact = plain(&api, path).await;
        assert!(compact.starts_with("{\""), "{compact}");
        assert!(
            compact.ends_with("}\n") && !compact.trim_end().contains('\n'),
            "{compact}"
        );
        let indented = plain(&api, &format!("{path}?pretty=true")).await;
        assert!(indented.starts_with("{\n  \""), "{indented}");
        assert!(indented.ends_with("\n}"), "{indented}");
        let read = |text: &str| {
            let mut document: Value = serde_json::from_str(text).unwrap();
            // The version of a list is that of the whole server, which other cases change.
            if let Some(metadata) = document.get_mut("metadata") {
                metadata["resourceVersion"] = Value::Null;
            }
            document
        };
        assert_eq!(read(&indented), read(&compact));
    }
}

#[tokio::test]
async fn browsers_get_indented_documents() {
    let api = Api::start().await;
    let path = format!("/api/v1/namespaces/{}", api.namespace());
    for (header, query, is_indented) in [
        (("user-agent", "curl/8.5.0"), "", true),
        (("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"), "", true),
        (("user-agent", "curl/8.5.0"), "?pretty=false", false),
        (("user-agent", "kubectl/v1.36"), "?pretty=1", true),
        (("user-agent", "kubectl/v1.36"), "?pretty=yes", false),
        (("user-agent", "kubectl/v1.36"), "?pretty", false),
    ] {
        let text = text(&api, &format!("{path}{query}"), header).await;
        assert_eq!(
            text.starts_with("{\n  \""),
            is_indented,
            "{header:?} {query}: {text}"
        );
    }
    let versions = plain(&api, "/version?pretty=false").await;
    assert!(
        versions.starts_with("{\n  \"") && versions.ends_with("\n}"),
        "{versions}"
    );
}

#[tokio::test]
async fn responses_have_an_audit_id() {
    let api = Api::start().await;
    let path = format!("/api/v1/namespaces/{}", api.namespace());
    let mut ids = Vec::new();
    for path in [&*path, "/version", "/api/v1/namespaces/no-such", "/healthz"] {
        let response = api.get(path).await;
        let id = response
            .headers
            .get("audit-id")
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        assert_eq!(id.len(), 36, "{id}");
        assert!(!ids.contains(&id), "{id}");
        ids.push(id);
    }
    let own = "a".repeat(80);
    let request = api.request(Method::GET, &path).header("audit-id", &own);
    let response = request.send().await;
    assert_eq!(response.headers.get("audit-id").unwrap(), own.as_str());
}

#[tokio::test]
async fn negative_timeouts_end_watches_at_once() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    api.create(&maps, &config_map("a", Value::Null)).await.ok();
    for seconds in ["-1", "-9999999999999"] {
        let path = format!("{maps}?watch=true&timeoutSeconds={seconds}");
        let response = api
            .request(Method::GET, &path)
            .send()
            .await
            .expect_code(200);
        // A real server sends an error if it has read the objects before it notices the timeout.
        assert!(
            !response.text().contains("ADDED"),
            "{seconds}: {}",
            response.text()
        );
        let list = api.get(&format!("{maps}?timeoutSeconds={seconds}")).await;
        assert_eq!(list.item_names(), ["a"]);
    }
}
