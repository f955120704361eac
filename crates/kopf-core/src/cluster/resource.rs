//! Resources of the cluster, and the URL paths of their objects.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};

/// One resource in one version, as discovered in the cluster.
///
/// Equality depends on group, version and plural only: other fields can differ from one discovery
/// to the next.
///
/// Minor releases can add fields: create values with `..Resource::default()`.
///
/// ```
/// use kopf_core::resource::Resource;
///
/// let pods = Resource {
///     version: "v1".into(),
///     plural: "pods".into(),
///     namespaced: true,
///     ..Resource::default()
/// };
/// assert_eq!(pods.to_string(), "pods.v1");
/// assert_eq!(pods.url(Some("ns"), Some("web"), None).unwrap(), "/api/v1/namespaces/ns/pods/web");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, such as `v1`.
    pub version: String,
    /// The name in URLs, such as `pods`.
    pub plural: String,
    /// The name in manifests, such as `Pod`.
    pub kind: String,
    /// The singular name, such as `pod`.
    pub singular: String,
    /// Short names, such as `po`.
    pub shortcuts: BTreeSet<String>,
    /// The categories, such as `all`.
    pub categories: BTreeSet<String>,
    /// The subresources, such as `status`.
    pub subresources: BTreeSet<String>,
    /// The supported verbs, such as `list` and `watch`.
    pub verbs: BTreeSet<String>,
    /// `true` if its objects are in namespaces.
    pub namespaced: bool,
    /// `true` if the server prefers this version of the group.
    pub preferred: bool,
}

/// The error of an invalid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A subresource requires the name of an object.
    #[error("a subresource of {resource} needs the name of an object")]
    SubresourceWithoutName {
        /// The resource.
        resource: String,
    },
    /// The resource is cluster-scoped.
    #[error("{resource} is cluster-scoped, it has no objects in the namespace {namespace:?}")]
    NamespaceOfClusterScoped {
        /// The resource.
        resource: String,
        /// The given namespace.
        namespace: String,
    },
    /// An object of a namespaced resource requires a namespace.
    #[error("{resource} is namespaced, the object {name:?} needs a namespace")]
    NamespaceMissing {
        /// The resource.
        resource: String,
        /// The given name.
        name: String,
    },
}

impl Resource {
    /// Returns the `apiVersion` of objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Compares all details of two discoveries. `==` compares group, version and plural only.
    ///
    /// ```
    /// use kopf_core::resource::Resource;
    ///
    /// let before = Resource { plural: "pods".into(), ..Resource::default() };
    /// let after = Resource { namespaced: true, ..before.clone() };
    /// assert!(before == after && !before.is_identical(&after));
    /// ```
    pub fn is_identical(&self, other: &Self) -> bool {
        self == other
            && self.kind == other.kind
            && self.singular == other.singular
            && self.shortcuts == other.shortcuts
            && self.categories == other.categories
            && self.subresources == other.subresources
            && self.verbs == other.verbs
            && self.namespaced == other.namespaced
            && self.preferred == other.preferred
    }

    /// Returns `true` if the resource has a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.contains("status")
    }

    /// Returns the path of all objects, of those in a namespace, of one object, or of its
    /// subresource.
    pub fn url(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
        subresource: Option<&str>,
    ) -> Result<String, Error> {
        match (namespace, name) {
            (_, None) if subresource.is_some() => {
                return Err(Error::SubresourceWithoutName {
                    resource: self.to_string(),
                });
            }
            (Some(namespace), _) if !self.namespaced => {
                return Err(Error::NamespaceOfClusterScoped {
                    resource: self.to_string(),
                    namespace: namespace.to_owned(),
                });
            }
            (None, Some(name)) if self.namespaced => {
                return Err(Error::NamespaceMissing {
                    resource: self.to_string(),
                    name: name.to_owned(),
                });
            }
            _ => {}
        }

        let mut path = String::with_capacity(96);
        if self.group.is_empty() && self.version == "v1" {
            path.push_str("/api");
        } else {
            path.push_str("/apis");
        }
        let namespaces = namespace.map(|_| "namespaces");
        let parts = [
            Some(self.group.as_str()),
            Some(self.version.as_str()),
            namespaces,
            namespace,
            Some(self.plural.as_str()),
            name,
            subresource,
        ];
        for part in parts.into_iter().flatten().filter(|part| !part.is_empty()) {
            path.push('/');
            path.push_str(part);
        }
        Ok(path)
    }

    fn identity(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Resource {}

impl Hash for Resource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Resource {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        for part in [&self.version, &self.group] {
            if !part.is_empty() {
                write!(f, ".{part}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, version: &str, plural: &str, namespaced: bool) -> Resource {
        Resource {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            namespaced,
            ..Resource::default()
        }
    }

    #[test]
    fn text_is_plural_version_group_without_trailing_dots() {
        assert_eq!(resource("", "v1", "pods", true).to_string(), "pods.v1");
        assert_eq!(
            resource("kopf.dev", "v1", "kopfexamples", true).to_string(),
            "kopfexamples.v1.kopf.dev"
        );
    }

    #[test]
    fn api_version_has_no_slash_in_the_core_group() {
        assert_eq!(resource("", "v1", "pods", true).api_version(), "v1");
        assert_eq!(
            resource("apps", "v1", "deployments", true).api_version(),
            "apps/v1"
        );
    }

    #[test]
    fn identity_is_group_version_plural() {
        let one = resource("g", "v1", "things", true);
        let mut same = one.clone();
        same.kind = "Thing".into();
        same.preferred = true;
        assert_eq!(one, same);
        assert_ne!(one, resource("g", "v2", "things", true));
        assert_ne!(one, resource("h", "v1", "things", true));
        assert_ne!(one, resource("g", "v1", "others", true));
    }

    #[test]
    fn urls_of_namespaced_kinds() {
        let pods = resource("", "v1", "pods", true);
        let things = resource("g.example", "v1", "things", true);
        let url = |r: &Resource, ns, name, sub| r.url(ns, name, sub).unwrap();
        assert_eq!(url(&pods, None, None, None), "/api/v1/pods");
        assert_eq!(
            url(&pods, Some("ns"), None, None),
            "/api/v1/namespaces/ns/pods"
        );
        assert_eq!(url(&things, None, None, None), "/apis/g.example/v1/things");
        assert_eq!(
            url(&things, Some("ns"), Some("x"), Some("status")),
            "/apis/g.example/v1/namespaces/ns/things/x/status"
        );
    }

    #[test]
    fn urls_of_cluster_scoped_kinds() {
        let nodes = resource("", "v1", "nodes", false);
        assert_eq!(nodes.url(None, Some("n"), None).unwrap(), "/api/v1/nodes/n");
        let crds = resource(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            false,
        );
        assert_eq!(
            crds.url(None, None, None).unwrap(),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        );
    }

    #[test]
    fn only_v1_of_the_core_group_is_under_api() {
        let odd = resource("", "v2", "pods", false);
        assert_eq!(odd.url(None, None, None).unwrap(), "/apis/v2/pods");
    }

    #[test]
    fn invalid_paths_are_rejected_with_the_resource() {
        let pods = resource("", "v1", "pods", true);
        let nodes = resource("", "v1", "nodes", false);
        let message = |result: Result<String, Error>| result.unwrap_err().to_string();
        assert_eq!(
            message(pods.url(Some("ns"), None, Some("status"))),
            "a subresource of pods.v1 needs the name of an object"
        );
        assert_eq!(
            message(pods.url(None, Some("x"), None)),
            "pods.v1 is namespaced, the object \"x\" needs a namespace"
        );
        assert_eq!(
            message(nodes.url(Some("ns"), Some("x"), None)),
            "nodes.v1 is cluster-scoped, it has no objects in the namespace \"ns\""
        );
    }
}
