//! Paths of kinds, from the server's discovery.

use std::collections::BTreeMap;

use serde_json::Value;

use super::client::{Client, Rejection, segment};

/// Returns the path of a version. The core group has its own form.
pub(super) fn version_path(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", segment(group), segment(version)),
        None => format!("/api/{}", segment(api_version)),
    }
}

#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) plural: String,
    pub(super) namespaced: bool,
    /// The status has its own endpoint and is dropped on creation.
    pub(super) status_apart: bool,
}

/// A cache of discovery: one request per kind.
pub(super) struct Kinds<'a> {
    client: &'a Client,
    known: BTreeMap<(String, String), Resource>,
}

impl<'a> Kinds<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self {
            client,
            known: BTreeMap::new(),
        }
    }

    pub(super) async fn find(
        &mut self,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Resource>, Rejection> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(resource) = self.known.get(&key) {
            return Ok(Some(resource.clone()));
        }
        let list = match self.client.get(&version_path(api_version)).await {
            Ok(list) => list,
            Err(rejection) if rejection.code == 404 => return Ok(None),
            Err(rejection) => return Err(rejection),
        };
        let found = find_in(&list, kind);
        if let Some(resource) = &found {
            self.known.insert(key, resource.clone());
        }
        Ok(found)
    }
}

/// Finds a kind in an `APIResourceList`. Names with a slash are subresources.
fn find_in(list: &Value, kind: &str) -> Option<Resource> {
    let resources = list.get("resources")?.as_array()?;
    let name = |resource: &Value| resource.get("name")?.as_str().map(str::to_owned);
    let mut found = resources.iter().find_map(|resource| {
        let plural = name(resource)?;
        let matches = resource.get("kind")?.as_str()? == kind && !plural.contains('/');
        matches.then(|| Resource {
            plural,
            namespaced: resource
                .get("namespaced")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
            status_apart: false,
        })
    })?;
    let status = format!("{}/status", found.plural);
    found.status_apart = resources
        .iter()
        .any(|resource| name(resource).is_some_and(|name| name == status));
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subresources_are_not_mistaken_for_the_kind() {
        let list = json!({"resources": [
            {"name": "pods/eviction", "kind": "Pod", "namespaced": true},
            {"name": "pods", "kind": "Pod", "namespaced": true},
            {"name": "pods/status", "kind": "Pod", "namespaced": true},
            {"name": "nodes", "kind": "Node", "namespaced": false},
        ]});
        let pods = find_in(&list, "Pod").unwrap();
        assert_eq!(pods.plural, "pods");
        assert!(pods.status_apart);
        let nodes = find_in(&list, "Node").unwrap();
        assert!(!nodes.namespaced);
        assert!(!nodes.status_apart);
        assert!(find_in(&list, "Nothing").is_none());
        assert!(find_in(&json!({}), "Pod").is_none());
    }

    #[test]
    fn core_and_named_groups_have_paths() {
        assert_eq!(version_path("v1"), "/api/v1");
        assert_eq!(version_path("apps/v1"), "/apis/apps/v1");
        assert_eq!(version_path("a/b/c"), "/apis/a/b%2Fc");
    }
}
