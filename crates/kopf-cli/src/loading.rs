//! Creates the objects of manifests in a sandbox.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client::{Api, Client, Refusal, segment};
use crate::failure::Failure;
use crate::manifest::Document;

/// An object that is there now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// As kubectl names it: "deployment.apps/web".
    pub(crate) object: String,
    pub(crate) namespace: Option<String>,
    pub(crate) place: String,
}

/// Creates all objects. All are tried, so that one look at the failures is enough to mend them all.
pub(crate) async fn load<A: Api>(
    client: &Client<A>,
    documents: &[Document],
) -> Result<Vec<Loaded>, Failure> {
    let mut kinds = Kinds {
        client,
        known: BTreeMap::new(),
    };
    let mut loaded = Vec::new();
    let mut problems = Vec::new();
    for document in documents {
        match load_one(&mut kinds, document).await {
            Ok(object) => loaded.push(object),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        return Ok(loaded);
    }
    let mut failure = Failure::plain(format!(
        "{} of {} objects cannot be created",
        problems.len(),
        documents.len(),
    ));
    for problem in problems {
        failure = failure.because(problem);
    }
    Err(failure.advise("correct the manifests and start again; nothing is left running"))
}

async fn load_one<A: Api>(kinds: &mut Kinds<'_, A>, document: &Document) -> Result<Loaded, String> {
    let Document {
        place,
        kind,
        api_version,
        ..
    } = document;
    let name = document.name.as_deref().unwrap_or("(generated name)");
    let problem = |cause: &str| format!("{place}: {kind} {name}: {cause}");

    let resource = match kinds.find(api_version, kind).await {
        Ok(Some(resource)) => resource,
        Ok(None) => {
            return Err(problem(&format!(
                "there is no kind {kind} in {api_version}; is its CustomResourceDefinition missing?"
            )));
        }
        Err(refusal) => return Err(problem(&refusal.to_string())),
    };
    let namespace = resource.namespaced.then(|| {
        document
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned())
    });
    let root = version_path(api_version);
    let collection = match &namespace {
        Some(namespace) => format!(
            "{root}/namespaces/{}/{}",
            segment(namespace),
            resource.plural
        ),
        None => format!("{root}/{}", resource.plural),
    };

    let client = kinds.client;
    let result = match client.create(&collection, &document.value).await {
        // The server has made it by itself at the start, such as the namespace "default". Repeated
        // objects of manifests are refused earlier.
        Err(refusal) if refusal.reason == "AlreadyExists" => {
            let path = format!("{collection}/{}", segment(name));
            client.merge(&path, &document.value).await
        }
        result => result,
    };
    let object = result.map_err(|refusal| problem(&refusal.to_string()))?;
    let name = object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or(name);
    let group = document.group();
    let dot = if group.is_empty() { "" } else { "." };
    let singular = kind.to_lowercase();
    Ok(Loaded {
        object: format!("{singular}{dot}{group}/{name}"),
        namespace,
        place: place.clone(),
    })
}

/// The path of a version: the core group has one of its own.
fn version_path(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", segment(group), segment(version)),
        None => format!("/api/{}", segment(api_version)),
    }
}

#[derive(Debug, Clone)]
struct Resource {
    plural: String,
    namespaced: bool,
}

/// Asks the server which path a kind has, once per kind.
struct Kinds<'a, A> {
    client: &'a Client<A>,
    known: BTreeMap<(String, String), Resource>,
}

impl<A: Api> Kinds<'_, A> {
    async fn find(&mut self, api_version: &str, kind: &str) -> Result<Option<Resource>, Refusal> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(resource) = self.known.get(&key) {
            return Ok(Some(resource.clone()));
        }
        let list = match self.client.get(&version_path(api_version)).await {
            Ok(list) => list,
            Err(refusal) if refusal.code == 404 => return Ok(None),
            Err(refusal) => return Err(refusal),
        };
        let found = find_in(&list, kind);
        if let Some(resource) = &found {
            self.known.insert(key, resource.clone());
        }
        Ok(found)
    }
}

/// Looks into an `APIResourceList`; names with a slash are subresources.
fn find_in(list: &Value, kind: &str) -> Option<Resource> {
    let resources = list.get("resources")?.as_array()?;
    resources.iter().find_map(|resource| {
        let plural = resource.get("name")?.as_str()?;
        let matches = resource.get("kind")?.as_str()? == kind && !plural.contains('/');
        matches.then(|| Resource {
            plural: plural.to_owned(),
            namespaced: resource
                .get("namespaced")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subresources_are_not_taken_for_the_kind() {
        let list = json!({"resources": [
            {"name": "pods/eviction", "kind": "Pod", "namespaced": true},
            {"name": "pods", "kind": "Pod", "namespaced": true},
            {"name": "nodes", "kind": "Node", "namespaced": false},
        ]});
        assert_eq!(find_in(&list, "Pod").unwrap().plural, "pods");
        assert!(!find_in(&list, "Node").unwrap().namespaced);
        assert!(find_in(&list, "Nothing").is_none());
        assert!(find_in(&json!({}), "Pod").is_none());
    }

    #[test]
    fn versions_have_paths() {
        assert_eq!(version_path("v1"), "/api/v1");
        assert_eq!(version_path("apps/v1"), "/apis/apps/v1");
        assert_eq!(version_path("a/b/c"), "/apis/a/b%2Fc");
    }
}
