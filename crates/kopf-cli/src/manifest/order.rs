//! The order of creation: whatever others need comes first, whatever could refuse others comes last.

use super::Document;

/// Sorts by need; within one rank, the order in which the documents are given stays.
pub(crate) fn sort(documents: &mut [Document]) {
    documents.sort_by_key(rank);
}

fn rank(document: &Document) -> u8 {
    match (document.group(), document.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 0,
        ("", "Namespace") => 1,
        // A webhook's server is hardly up yet: it would fail the creation of the others.
        ("admissionregistration.k8s.io", _) => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_then_namespaces_then_the_rest_then_webhooks() {
        let kinds = [
            (
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
            ),
            ("v1", "Pod"),
            ("v1", "Namespace"),
            ("v1", "ConfigMap"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ];
        let mut documents: Vec<_> = kinds
            .iter()
            .map(|(version, kind)| {
                let value = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
                Document::new(String::new(), value).unwrap()
            })
            .collect();
        sort(&mut documents);
        let sorted: Vec<_> = documents
            .iter()
            .map(|document| document.kind.as_str())
            .collect();
        let expected = [
            "CustomResourceDefinition",
            "Namespace",
            "Pod",
            "ConfigMap",
            "ValidatingWebhookConfiguration",
        ];
        assert_eq!(sorted, expected);
    }
}
