//! The order of creation: dependencies first, webhook configurations last.

use std::collections::BTreeMap;

use super::Document;

/// Sorts by rank, then owners before their dependents, then in the given order.
pub(super) fn sort(documents: &mut Vec<Document>) {
    documents.sort_by_key(rank);
    let order = owners_first(documents);
    let mut taken: Vec<_> = std::mem::take(documents).into_iter().map(Some).collect();
    documents.extend(
        order
            .into_iter()
            .filter_map(|index| taken.get_mut(index).and_then(Option::take)),
    );
}

/// Returns the order of the indices: depth first, without recursion, because chains can be long.
/// Owners of a higher rank come later, and cycles are broken at an arbitrary object.
fn owners_first(documents: &[Document]) -> Vec<usize> {
    let by_uid: BTreeMap<&str, usize> = documents
        .iter()
        .enumerate()
        .filter_map(|(index, document)| Some((document.uid.as_deref()?, index)))
        .collect();
    let mut order = Vec::with_capacity(documents.len());
    let mut seen = vec![false; documents.len()];
    for start in 0..documents.len() {
        let mut pending = vec![(start, false)];
        while let Some((index, owners_are_done)) = pending.pop() {
            if owners_are_done {
                order.push(index);
                continue;
            }
            let (Some(document), Some(seen)) = (documents.get(index), seen.get_mut(index)) else {
                continue;
            };
            if std::mem::replace(seen, true) {
                continue;
            }
            pending.push((index, true));
            let owners = document.owners().filter_map(|uid| by_uid.get(uid).copied());
            let owners = owners.filter(|owner| {
                documents
                    .get(*owner)
                    .is_some_and(|owner| rank(owner) <= rank(document))
            });
            pending.extend(owners.map(|owner| (owner, false)));
        }
    }
    order
}

fn rank(document: &Document) -> u8 {
    match (document.group(), document.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 0,
        ("", "Namespace") => 1,
        // The webhook server is probably not running yet, so that creations would fail.
        ("admissionregistration.k8s.io", _) => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crds_and_namespaces_come_first_and_webhooks_last() {
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

    fn sorted(objects: &[(&str, &[&str])]) -> Vec<String> {
        let mut documents: Vec<_> = objects
            .iter()
            .map(|(name, owners)| {
                let owners: Vec<_> = owners.iter().map(|uid| json!({"uid": uid})).collect();
                let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata":
                    {"name": name, "uid": name, "ownerReferences": owners}});
                Document::new(String::new(), value).unwrap()
            })
            .collect();
        sort(&mut documents);
        documents.into_iter().filter_map(|d| d.name).collect()
    }

    #[test]
    fn owners_come_before_their_dependents() {
        let objects: [(&str, &[&str]); 4] = [
            ("pod", &["set", "elsewhere"]),
            ("other", &[]),
            ("set", &["deployment"]),
            ("deployment", &[]),
        ];
        assert_eq!(sorted(&objects), ["deployment", "set", "pod", "other"]);
    }

    #[test]
    fn cyclic_owners_are_all_kept() {
        let objects: [(&str, &[&str]); 3] = [("a", &["b"]), ("b", &["a"]), ("c", &["c"])];
        assert_eq!(sorted(&objects), ["b", "a", "c"]);
    }
}
