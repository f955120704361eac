//! The manifest of a child as it is sent.

use std::fmt;

use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest as _};
use serde_json::{Map, Value};

use super::{Error, coverage};
use crate::body::Body;
use crate::hierarchy::{self, Adoption};

/// The prefix of the annotation with the digest; the manager follows.
const DIGEST_PREFIX: &str = "kopf.zalando.org/applied.";

/// The limit of names of annotations, without their prefix.
const NAME_LIMIT: usize = 63;

/// `apiVersion` and `kind` of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version without the group.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            version,
            kind,
        } = self;
        if group.is_empty() {
            write!(f, "{kind}.{version}")
        } else {
            write!(f, "{kind}.{version}.{group}")
        }
    }
}

/// The scope of the resource of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Its objects are in namespaces.
    Namespaced,
    /// Its objects are cluster-wide.
    Cluster,
}

/// Returns the kind of a manifest.
///
/// # Errors
/// If `apiVersion` or `kind` is absent or empty.
pub fn kind_of(manifest: &Value) -> Result<Kind, Error> {
    let text = |field: &'static str| {
        let text = manifest.get(field).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
            .ok_or(Error::NoKind { field })
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?.to_owned());
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    Ok(Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind,
    })
}

/// A child that is ready to be applied: with its owner, name, namespace, labels and digest.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    name: String,
    namespace: Option<String>,
    manager: String,
    digest_key: String,
    digest: String,
    manifest: Value,
}

impl Child {
    /// Prepares a manifest: adds the owner reference, the name of the owner if it has none, the
    /// namespace and the labels of the owner, and the digest; removes nulls and `managedFields`.
    ///
    /// ```
    /// use kopf_core::body::Body;
    /// use kopf_core::children::{Child, Scope};
    /// use serde_json::json;
    ///
    /// let owner = Body::new(json!({
    ///     "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
    ///     "metadata": {"name": "parent", "namespace": "ns", "uid": "u1", "labels": {"a": "b"}},
    /// }));
    /// let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    /// let child = Child::new(manifest, &owner, Scope::Namespaced, "my-operator")?;
    /// assert_eq!((child.name(), child.namespace()), ("parent", Some("ns")));
    /// assert_eq!(child.manifest()["metadata"]["ownerReferences"][0]["uid"], "u1");
    /// # Ok::<(), kopf_core::children::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the manifest is not one object with a kind, or the owner cannot own it: see [`Error`].
    pub fn new(manifest: Value, owner: &Body, scope: Scope, manager: &str) -> Result<Self, Error> {
        let kind = kind_of(&manifest)?.kind;
        let mut manifest = manifest;
        drop_nulls(&mut manifest);
        let metadata = manifest.get("metadata").and_then(Value::as_object);
        let has = |key: &str| metadata.is_some_and(|metadata| metadata.contains_key(key));
        if has("generateName") && !has("name") {
            return Err(Error::GeneratedName { kind });
        }
        let had_namespace = has("namespace");
        let adoption = Adoption {
            strict: true,
            ..Adoption::default()
        };
        hierarchy::adopt(&mut manifest, owner, &adoption)?;
        let metadata = manifest.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.remove("managedFields");
            metadata.retain(|_, value| !value.is_null());
            if scope == Scope::Cluster && !had_namespace {
                metadata.remove("namespace");
            }
        }
        let text = |key: &str| {
            let metadata = manifest.get("metadata")?;
            Some(metadata.get(key)?.as_str()?.to_owned())
        };
        let (name, namespace) = (text("name").unwrap_or_default(), text("namespace"));
        check_place(&kind, &name, namespace.as_deref(), owner, scope)?;
        Ok(Self::digested(manifest, name, namespace, manager))
    }

    fn digested(
        mut manifest: Value,
        name: String,
        namespace: Option<String>,
        manager: &str,
    ) -> Self {
        let digest = hex(&Blake2b::<U16>::digest(manifest.to_string().as_bytes()));
        let digest_key = digest_key(manager);
        if let Value::Object(object) = &mut manifest {
            let metadata = crate::field::object_at(object, "metadata");
            let annotations = crate::field::object_at(metadata, "annotations");
            annotations.insert(digest_key.clone(), Value::String(digest.clone()));
        }
        Self {
            name,
            namespace,
            manager: manager.to_owned(),
            digest_key,
            digest,
            manifest,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace; `None` for cluster-scoped children.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the manifest to send.
    pub fn manifest(&self) -> &Value {
        &self.manifest
    }

    /// Returns `true` if applying the manifest to this live object would change nothing: it was
    /// applied before by the same manager, which still owns all its fields.
    pub fn is_applied_to(&self, live: &Value) -> bool {
        let metadata = live.get("metadata");
        let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
        let digest = annotations.and_then(|annotations| annotations.get(&self.digest_key));
        digest.and_then(Value::as_str) == Some(&self.digest)
            && coverage::owned_fields(live, &self.manager, &self.manifest["apiVersion"])
                .is_some_and(|fields| coverage::covers(fields, &self.manifest))
    }
}

fn check_place(
    kind: &str,
    name: &str,
    namespace: Option<&str>,
    owner: &Body,
    scope: Scope,
) -> Result<(), Error> {
    let (kind, name) = (kind.to_owned(), name.to_owned());
    let place = match (scope, namespace, owner.namespace()) {
        (Scope::Namespaced, None, _) => return Err(Error::NoNamespace { kind, name }),
        (Scope::Namespaced, Some(own), Some(other)) if own != other => {
            format!("in the namespace {own:?}")
        }
        (Scope::Cluster, _, Some(_)) => "cluster-scoped".to_owned(),
        _ => return Ok(()),
    };
    let owner = owner.namespace().unwrap_or_default().to_owned();
    Err(Error::ForeignNamespace {
        kind,
        name,
        place,
        owner,
    })
}

/// Returns the key of the annotation with the digest. Every manager has its own one: several of
/// them can apply parts of one object.
fn digest_key(manager: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = manager.len() <= NAME_LIMIT - "applied.".len()
        && manager.chars().all(is_plain)
        && manager.ends_with(|c: char| c.is_ascii_alphanumeric());
    if is_name {
        format!("{DIGEST_PREFIX}{manager}")
    } else {
        format!(
            "{DIGEST_PREFIX}{}",
            hex(&Blake2b::<U16>::digest(manager.as_bytes()))
        )
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// Removes nulls: types of clients have them for unset fields, and an applied null would own the
/// field.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => drop_nulls_of(object),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn drop_nulls_of(object: &mut Map<String, Value>) {
    object.retain(|_, value| !value.is_null());
    object.values_mut().for_each(drop_nulls);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owner(namespace: Option<&str>) -> Body {
        Body::new(json!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
            "metadata": {"name": "parent", "uid": "u1", "namespace": namespace, "labels": {"a": "b"}},
        }))
    }

    fn child(manifest: Value) -> Result<Child, Error> {
        Child::new(manifest, &owner(Some("ns")), Scope::Namespaced, "me")
    }

    fn config_map(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data})
    }

    #[test]
    fn manifests_are_adopted_and_digested() {
        let typed = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {"creationTimestamp": null, "managedFields": [], "labels": {"a": "own"}}});
        let child = child(typed).unwrap();
        let metadata = &child.manifest()["metadata"];
        assert_eq!(metadata["name"], "parent");
        assert_eq!(metadata["namespace"], "ns");
        assert_eq!(metadata["labels"], json!({"a": "own"}));
        assert_eq!(metadata["ownerReferences"][0]["controller"], true);
        assert_eq!(metadata.get("managedFields"), None);
        assert_eq!(metadata.get("creationTimestamp"), None);
        let digest = metadata["annotations"]["kopf.zalando.org/applied.me"].as_str();
        assert_eq!(digest.unwrap().len(), 32);
    }

    #[test]
    fn digests_depend_on_the_content_only() {
        let digest = |data: &Value| child(config_map(data)).unwrap().digest;
        assert_eq!(
            digest(&json!({"a": "1", "b": "2"})),
            digest(&json!({"b": "2", "a": "1"}))
        );
        assert_ne!(digest(&json!({"a": "1"})), digest(&json!({"a": "2"})));
    }

    #[test]
    fn managers_with_unusual_names_have_keys() {
        assert_eq!(
            digest_key("my-operator"),
            "kopf.zalando.org/applied.my-operator"
        );
        let long = "x".repeat(100);
        for manager in ["two words", "end-", "", long.as_str()] {
            let key = digest_key(manager);
            assert!(key.len() <= "kopf.zalando.org/".len() + NAME_LIMIT, "{key}");
            assert!(crate::keys::is_qualified_name(&key), "{key}");
        }
    }

    #[test]
    fn invalid_manifests_are_rejected() {
        let message = |manifest: Value| child(manifest).unwrap_err().to_string();
        assert!(message(json!({"kind": "Pod"})).starts_with("child has no apiVersion"));
        assert!(message(json!({"apiVersion": "v1", "kind": ""})).starts_with("child has no kind"));
        assert!(message(json!([])).starts_with("child has no"));
        let generated =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}});
        assert!(message(generated).starts_with("child Pod has generateName"));
        let foreign = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "other"}});
        let error = message(foreign);
        assert!(
            error.contains("Pod/x is in the namespace \"other\""),
            "{error}"
        );
    }

    #[test]
    fn children_are_where_their_owners_can_be() {
        let role = || json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"});
        let error = Child::new(role(), &owner(Some("ns")), Scope::Cluster, "me").unwrap_err();
        assert!(error.to_string().contains("is cluster-scoped"), "{error}");
        let child = Child::new(role(), &owner(None), Scope::Cluster, "me").unwrap();
        assert_eq!(child.namespace(), None);
        let error = Child::new(
            config_map(&json!({})),
            &owner(None),
            Scope::Namespaced,
            "me",
        );
        assert!(matches!(error, Err(Error::NoNamespace { .. })), "{error:?}");
        let mut placed = config_map(&json!({}));
        placed["metadata"]["namespace"] = json!("any");
        let child = Child::new(placed, &owner(None), Scope::Namespaced, "me").unwrap();
        assert_eq!(child.namespace(), Some("any"));
    }

    fn live(child: &Child, fields: &Value) -> Value {
        let mut live = child.manifest().clone();
        live["metadata"]["managedFields"] = json!([
            {"manager": "other", "operation": "Update", "apiVersion": "v1", "fieldsV1": {}},
            {"manager": "me", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields},
        ]);
        live
    }

    #[test]
    fn applied_children_are_recognised() {
        let one = child(config_map(&json!({"k": "v"}))).unwrap();
        let metadata = json!({
            "f:annotations": {"f:kopf.zalando.org/applied.me": {}},
            "f:labels": {"f:a": {}},
            "f:ownerReferences": {"k:{\"uid\":\"u1\"}": {}},
        });
        let fields = json!({"f:data": {"f:k": {}}, "f:metadata": metadata});
        assert!(one.is_applied_to(&live(&one, &fields)));
        let other = child(config_map(&json!({"k": "w"}))).unwrap();
        assert!(
            !other.is_applied_to(&live(&one, &fields)),
            "the digest differs"
        );
        let taken = json!({"f:data": {"f:other": {}}, "f:metadata": metadata});
        assert!(
            !one.is_applied_to(&live(&one, &taken)),
            "another manager owns a field"
        );
        assert!(
            !one.is_applied_to(one.manifest()),
            "nothing is known about its fields"
        );
    }
}
