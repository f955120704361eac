//! Creation of the objects of manifests in a sandbox, with their owners, status and namespaces.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::client::{Client, Rejection, segment};
use super::kinds::{Kinds, version_path};
use super::owners::{Owners, with_references};
use super::{Document, Error};

/// The collection and the name of the service of the API server, which exists in every cluster.
const API_SERVER: (&str, &str) = ("/api/v1/namespaces/default/services", "kubernetes");

/// A loaded object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// The name in kubectl's notation: "deployment.apps/web".
    pub object: String,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The origin of the object, or the object it was created for.
    pub place: String,
    /// Kinds and names of owners that are not loaded. The references to them are dropped, because
    /// the garbage collector would delete the object.
    pub dropped_owners: Vec<String>,
}

/// Returns a one-line warning if references to owners were dropped.
pub fn dropped_owners(loaded: &[Loaded]) -> Option<String> {
    let count: usize = loaded
        .iter()
        .map(|loaded| loaded.dropped_owners.len())
        .sum();
    let (first, owner) = loaded
        .iter()
        .find_map(|loaded| Some((loaded, loaded.dropped_owners.first()?)))?;
    let Loaded { object, place, .. } = first;
    let example = format!("{owner} of {object} ({place})");
    Some(if count == 1 {
        format!("an owner is not among the loaded objects; the reference is dropped: {example}")
    } else {
        format!(
            "{count} references to owners that are not among the loaded objects are dropped, the \
             first to {example}"
        )
    })
}

/// Creates all objects. Failures do not stop the loading, so that all errors are reported at once.
///
/// Cancel-safe between any two objects.
pub(super) async fn load(client: &Client, documents: &[Document]) -> Result<Vec<Loaded>, Error> {
    let mut loading = Loading {
        client,
        kinds: Kinds::new(client),
        owners: Owners::of(documents),
        namespaces: BTreeSet::new(),
        loaded: Vec::new(),
        late: Vec::new(),
    };
    let mut problems = Vec::new();
    for document in documents {
        // The in-process server never yields. Other tasks, such as signal handlers, run here.
        tokio::task::yield_now().await;
        if let Err(problem) = loading.load(document).await {
            problems.push(problem);
        }
    }
    if problems.is_empty() {
        problems = loading.join_late_owners().await;
    }
    if problems.is_empty() {
        return Ok(loading.loaded);
    }
    let mut error = Error::new(format!(
        "{} of {} objects cannot be created",
        problems.len(),
        documents.len(),
    ));
    for problem in problems {
        error = error.because(problem);
    }
    Err(error.advise("correct the manifests and start again"))
}

struct Loading<'a> {
    client: &'a Client,
    kinds: Kinds<'a>,
    owners: Owners,
    /// Namespaces that are known to exist.
    namespaces: BTreeSet<String>,
    loaded: Vec<Loaded>,
    /// Objects, by path, that were created before their owners.
    late: Vec<(&'a Document, String)>,
}

impl<'a> Loading<'a> {
    async fn load(&mut self, document: &'a Document) -> Result<(), String> {
        let problem = |cause: &str| problem(document, cause);
        let Document {
            kind, api_version, ..
        } = document;
        let resource = match self.kinds.find(api_version, kind).await {
            Ok(Some(resource)) => resource,
            Ok(None) => {
                return Err(problem(&format!(
                    "unknown kind {kind} in {api_version}; is its CustomResourceDefinition \
                     missing?"
                )));
            }
            Err(rejection) => return Err(problem(&rejection.to_string())),
        };
        let namespace = document.namespace.as_deref().unwrap_or("default");
        let namespace = resource.namespaced.then(|| namespace.to_owned());
        let root = version_path(api_version);
        let collection = match &namespace {
            Some(namespace) => {
                self.ensure_namespace(namespace, document).await?;
                let namespace = segment(namespace);
                format!("{root}/namespaces/{namespace}/{}", resource.plural)
            }
            None => format!("{root}/{}", resource.plural),
        };

        let translated = self.owners.translate(&document.value);
        let changed = translated
            .as_ref()
            .map(|translated| with_references(&document.value, translated.references.clone()));
        let value = changed.as_ref().unwrap_or(&document.value);
        let created = match self.create(document, &collection, value).await {
            // An initial object of the server, such as the namespace "default". Repeated objects of
            // manifests are rejected earlier.
            Err(rejection) if rejection.reason == "AlreadyExists" => {
                let name = document.name.as_deref().unwrap_or_default();
                let path = format!("{collection}/{}", segment(name));
                self.client.merge(&path, value).await
            }
            result => result,
        };
        let created = created.map_err(|rejection| problem(&rejection.to_string()))?;
        self.owners.learn(document, &created);

        let name = created.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let path = format!("{collection}/{}", segment(name));
        if resource.status_apart {
            self.copy_status(document, &path).await?;
        }
        let translated = translated.unwrap_or_default();
        if translated.incomplete {
            self.late.push((document, path));
        }
        self.loaded.push(Loaded {
            object: object_name(document, name),
            namespace,
            place: document.place.clone(),
            dropped_owners: translated.dropped,
        });
        Ok(())
    }

    async fn copy_status(&self, document: &Document, path: &str) -> Result<(), String> {
        let Some(status) = status_to_copy(document) else {
            return Ok(());
        };
        let change = json!({"status": status});
        let result = self.client.merge(&format!("{path}/status"), &change).await;
        match result {
            Ok(_) => Ok(()),
            Err(rejection) => Err(problem(document, &format!("its status: {rejection}"))),
        }
    }

    /// Creates an object. The service of the API server has an address of the sandbox, so that of a
    /// dump is ignored.
    async fn create(
        &self,
        document: &Document,
        collection: &str,
        value: &Value,
    ) -> Result<Value, Rejection> {
        let is_service = document.group().is_empty() && document.kind == "Service";
        let name = document.name.as_deref().unwrap_or_default();
        if is_service && collection == API_SERVER.0 && name == API_SERVER.1 {
            let path = format!("{collection}/{name}");
            if let Ok(present) = self.client.get(&path).await {
                return Ok(present);
            }
        }
        self.client.create(collection, value).await
    }

    /// Creates a missing namespace: dumps of single objects rarely contain their namespaces.
    async fn ensure_namespace(&mut self, name: &str, document: &Document) -> Result<(), String> {
        if self.namespaces.contains(name) {
            return Ok(());
        }
        let problem = |cause: &str| problem(document, cause);
        match self
            .client
            .get(&format!("/api/v1/namespaces/{}", segment(name)))
            .await
        {
            Ok(_) => {}
            Err(rejection) if rejection.code == 404 => {
                let namespace =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                let result = self.client.create("/api/v1/namespaces", &namespace).await;
                result.map_err(|rejection| problem(&format!("its namespace: {rejection}")))?;
                let first = object_name(document, document.name.as_deref().unwrap_or("…"));
                self.loaded.push(Loaded {
                    object: format!("namespace/{name}"),
                    namespace: None,
                    place: format!("made for {first}"),
                    dropped_owners: Vec::new(),
                });
            }
            Err(rejection) => return Err(problem(&rejection.to_string())),
        }
        self.namespaces.insert(name.to_owned());
        Ok(())
    }

    /// Adds the references to owners that were created later.
    async fn join_late_owners(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (document, path) in &self.late {
            tokio::task::yield_now().await;
            let Some(translated) = self.owners.translate(&document.value) else {
                continue;
            };
            let change = json!({"metadata": {"ownerReferences": translated.references}});
            if let Err(rejection) = self.client.merge(path, &change).await {
                problems.push(problem(document, &format!("its owners: {rejection}")));
            }
        }
        problems
    }
}

pub(super) fn problem(document: &Document, cause: &str) -> String {
    let Document { place, kind, .. } = document;
    let name = document.name.as_deref().unwrap_or("(generated name)");
    format!("{place}: {kind} {name}: {cause}")
}

pub(super) fn object_name(document: &Document, name: &str) -> String {
    let group = document.group();
    let dot = if group.is_empty() { "" } else { "." };
    format!("{}{dot}{group}/{name}", document.kind.to_lowercase())
}

/// Returns the status to write after the object, if the manifest has one.
fn status_to_copy(document: &Document) -> Option<&Value> {
    // These statuses belong to the server: CRD generators write an empty one, with which the kind
    // would not be served, and a namespace that is terminating elsewhere is not terminating here.
    let of_the_server = matches!(
        (document.group(), document.kind.as_str()),
        ("apiextensions.k8s.io", "CustomResourceDefinition") | ("", "Namespace")
    );
    let status = document.value.get("status")?;
    let filled = status.as_object().is_some_and(|fields| !fields.is_empty());
    (filled && !of_the_server).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sandbox;
    use crate::manifests::Manifests;

    fn read(text: &str) -> Vec<Document> {
        Manifests::parse([("f", text)]).unwrap().documents
    }

    #[test]
    fn dropped_owners_are_summarised_in_one_line() {
        let loaded = |owners: &[&str]| Loaded {
            object: "pod/a".to_owned(),
            place: "f".to_owned(),
            dropped_owners: owners.iter().map(|&owner| owner.to_owned()).collect(),
            ..Loaded::default()
        };
        assert_eq!(dropped_owners(&[loaded(&[])]), None);
        let one = dropped_owners(&[loaded(&[]), loaded(&["Job x"])]).unwrap();
        assert!(one.ends_with("dropped: Job x of pod/a (f)"), "{one}");
        let more = dropped_owners(&[loaded(&["Job x", "Job y"]), loaded(&["Job z"])]).unwrap();
        assert!(more.starts_with("3 references"), "{more}");
    }

    #[tokio::test]
    async fn objects_of_every_cluster_are_loaded() {
        let sandbox = Sandbox::builder().build().unwrap();
        let client = Client::new(sandbox.service());
        let path = "/api/v1/namespaces/default/services/kubernetes";
        let before = client.get(path).await.unwrap();
        let documents = read(
            "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: kubernetes, namespace: default}
  spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 443}]}
  status: {loadBalancer: {}}
- apiVersion: apiregistration.k8s.io/v1
  kind: APIService
  metadata: {name: v1.}
  spec: {version: v1, groupPriorityMinimum: 18000, versionPriority: 1}
",
        );
        let loaded = load(&client, &documents).await.unwrap();
        assert_eq!(loaded.len(), 2);
        let after = client.get(path).await.unwrap();
        assert_eq!(after["spec"], before["spec"]);
        sandbox.shutdown().await;
    }

    const OWNED: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: dependent
    namespace: shop
    uid: 00000000-0000-0000-0000-000000000002
    ownerReferences:
    - {apiVersion: v1, kind: ConfigMap, name: owner, uid: 00000000-0000-0000-0000-000000000001}
    - {apiVersion: v1, kind: ConfigMap, name: absent, uid: 00000000-0000-0000-0000-000000000009}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: owner, namespace: shop, uid: 00000000-0000-0000-0000-000000000001}
- apiVersion: v1
  kind: Namespace
  metadata:
    name: early
    ownerReferences:
    - {apiVersion: v1, kind: Node, name: late, uid: 00000000-0000-0000-0000-000000000003}
- apiVersion: v1
  kind: Node
  metadata: {name: late, uid: 00000000-0000-0000-0000-000000000003}
";

    #[tokio::test]
    async fn owner_references_get_new_uids_and_absent_owners_are_dropped() {
        let sandbox = Sandbox::builder().build().unwrap();
        let client = Client::new(sandbox.service());
        let documents = read(OWNED);
        let loaded = load(&client, &documents).await.unwrap();
        let dropped: Vec<_> = loaded
            .iter()
            .filter(|loaded| !loaded.dropped_owners.is_empty())
            .map(|loaded| (loaded.object.as_str(), loaded.dropped_owners.join(",")))
            .collect();
        assert_eq!(
            dropped,
            [("configmap/dependent", "ConfigMap absent".to_owned())]
        );

        for (owner, dependent) in [
            (
                "/api/v1/namespaces/shop/configmaps/owner",
                "/api/v1/namespaces/shop/configmaps/dependent",
            ),
            ("/api/v1/nodes/late", "/api/v1/namespaces/early"),
        ] {
            let owner = client.get(owner).await.unwrap();
            let dependent = client.get(dependent).await.unwrap();
            let references = dependent["metadata"]["ownerReferences"].as_array().unwrap();
            assert_eq!(references.len(), 1, "{references:?}");
            assert_eq!(references[0]["uid"], owner["metadata"]["uid"]);
        }
        sandbox.shutdown().await;
    }

    #[tokio::test]
    async fn status_is_copied_except_for_server_controlled_kinds() {
        let sandbox = Sandbox::builder().build().unwrap();
        let client = Client::new(sandbox.service());
        let text = "
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop}
spec: {containers: [{name: c, image: i}]}
status: {phase: Running, podIP: 10.0.0.1}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
status: {phase: Terminating}
";
        let documents = read(text);
        load(&client, &documents).await.unwrap();
        let pod = client.get("/api/v1/namespaces/shop/pods/a").await.unwrap();
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["status"]["podIP"], "10.0.0.1");
        let namespace = client.get("/api/v1/namespaces/shop").await.unwrap();
        assert_eq!(namespace["status"]["phase"], "Active");
        sandbox.shutdown().await;
    }

    #[tokio::test]
    async fn missing_namespaces_are_created_once() {
        let sandbox = Sandbox::builder().build().unwrap();
        let client = Client::new(sandbox.service());
        let object = |name| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\n"
            )
        };
        let text = format!("{}---\n{}", object("a"), object("b"));
        let documents = read(&text);
        let loaded = load(&client, &documents).await.unwrap();
        let loaded: Vec<_> = loaded
            .iter()
            .map(|loaded| (loaded.object.as_str(), loaded.place.as_str()))
            .collect();
        let expected = [
            ("namespace/shop", "made for configmap/a"),
            ("configmap/a", "f, document 1"),
            ("configmap/b", "f, document 2"),
        ];
        assert_eq!(loaded, expected);
        sandbox.shutdown().await;
    }

    #[tokio::test]
    async fn loading_yields_to_other_tasks() {
        let sandbox = Sandbox::builder().build().unwrap();
        let client = Client::new(sandbox.service());
        let documents = read(OWNED);
        tokio::select! {
            biased;
            result = load(&client, &documents) => panic!("expected to be cancelled: {result:?}"),
            () = std::future::ready(()) => {}
        }
        sandbox.shutdown().await;
    }
}
