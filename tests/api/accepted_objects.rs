//! Objects of built-in kinds that use their features, as in the documentation of Kubernetes and in
//! charts. The servers must accept all of them: a rule that rejects one is wrong.

use http::Method;
use kopf_tests::{Api, with_query};

/// One document of a file: the path to which it is posted, its feature, and its text.
struct Document {
    path: String,
    feature: String,
    body: String,
}

/// Splits a file into its documents.
fn documents(file: &str, namespace: &str) -> Vec<Document> {
    let mut documents: Vec<Document> = Vec::new();
    for line in file.lines() {
        if let Some(header) = line.strip_prefix("--- # ") {
            let (path, feature) = header.split_once(": ").expect("a header has a feature");
            documents.push(Document {
                path: path.replace("{ns}", &format!("namespaces/{namespace}")),
                feature: feature.to_owned(),
                body: String::new(),
            });
        } else if let Some(document) = documents.last_mut() {
            document
                .body
                .push_str(&line.replace("{namespace}", namespace));
            document.body.push('\n');
        }
    }
    for document in &mut documents {
        if !document.body.contains("metadata: {name: ") && !document.body.starts_with("metadata:") {
            document.body.push_str("metadata: {name: x}\n");
        }
    }
    documents
}

/// Asserts that all objects of a file are accepted. They are not stored.
async fn accepts(file: &str, at_least: usize) {
    let api = Api::start().await;
    let documents = documents(file, api.namespace());
    assert!(documents.len() >= at_least, "{}", documents.len());
    let mut rejected = Vec::new();
    for document in documents {
        let path = with_query(&document.path, &[("dryRun", "All")]);
        let request = api.request(Method::POST, &path);
        let request = request.header("content-type", "application/yaml");
        let response = request.body(document.body).send().await;
        if response.code != 201 {
            let (code, why) = (response.code, response.message());
            rejected.push(format!(
                "{} ({}): {code} {why}",
                document.path, document.feature
            ));
        }
    }
    assert!(rejected.is_empty(), "{}", rejected.join("\n"));
}

#[tokio::test]
async fn features_of_pods_are_accepted() {
    accepts(include_str!("accepted/pods.yaml"), 25).await;
}

#[tokio::test]
async fn features_of_workloads_are_accepted() {
    accepts(include_str!("accepted/workloads.yaml"), 25).await;
}

#[tokio::test]
async fn features_of_networks_are_accepted() {
    accepts(include_str!("accepted/networking.yaml"), 25).await;
}

#[tokio::test]
async fn features_of_storage_are_accepted() {
    accepts(include_str!("accepted/storage.yaml"), 18).await;
}

#[tokio::test]
async fn features_of_other_kinds_are_accepted() {
    accepts(include_str!("accepted/others.yaml"), 55).await;
}
