//! The served kinds: built-in ones and those of CRDs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// A kind of objects in all its versions: a row of `kubectl api-resources`.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    pub kind: Arc<str>,
    pub list_kind: Arc<str>,
    pub plural: Arc<str>,
    pub singular: Arc<str>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// Served versions, the preferred one first.
    pub versions: Vec<KindVersion>,
    /// The version in which objects are stored.
    pub storage_version: Arc<str>,
    /// Custom resources only: `spec.conversion.webhook` if the strategy is `Webhook`.
    pub conversion_webhook: Option<Arc<Value>>,
    pub origin: Origin,
    /// The CRD is terminating: creations are rejected.
    pub terminating: bool,
}

/// The origin of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    /// Defined by the CRD of this name that was created at this revision.
    Custom {
        crd: Arc<str>,
        born: u64,
    },
}

/// One served version of a kind.
#[derive(Debug, Clone)]
pub struct KindVersion {
    pub name: Arc<str>,
    /// Verbs of the main resource, as discovery lists them.
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    /// Custom resources only: the compiled schema.
    pub schema: Option<Arc<crate::schema::Structural>>,
    /// Custom resources only: `additionalPrinterColumns`.
    pub columns: Vec<PrinterColumn>,
    /// Custom resources only: the paths of the scale subresource.
    pub scale: Option<ScalePaths>,
    /// Custom resources only: JSON paths that field selectors support.
    pub selectable_fields: Vec<String>,
    /// The value of the `Warning` header of a deprecated version.
    pub deprecation_warning: Option<String>,
}

impl KindVersion {
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

/// A subresource of one version of a kind.
#[derive(Debug, Clone)]
pub struct Subresource {
    pub name: String,
    /// Group, version and kind of the payload, e.g. `autoscaling/v1 Scale`.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

/// One entry of `additionalPrinterColumns`.
#[derive(Debug, Clone, PartialEq)]
pub struct PrinterColumn {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i32,
    pub json_path: String,
}

/// JSON paths of the scale subresource of a custom resource, e.g. `.spec.replicas`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl Kind {
    pub fn version(&self, name: &str) -> Option<&KindVersion> {
        self.versions.iter().find(|version| &*version.name == name)
    }

    /// Returns `plural` or `plural.group`, as in error messages.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns `v1` or `group/version`, as in objects.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group)
        }
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom { .. })
    }
}

/// An immutable set of all kinds. It is replaced as a whole when a CRD changes.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    /// By group, then by plural.
    kinds: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<Kind>>>,
    /// Groups in the order of discovery.
    group_order: Vec<Arc<str>>,
}

impl Kinds {
    pub fn insert(&mut self, kind: impl Into<Arc<Kind>>) {
        let kind = kind.into();
        if !self.group_order.contains(&kind.group) {
            self.group_order.push(Arc::clone(&kind.group));
        }
        let group = self.kinds.entry(Arc::clone(&kind.group)).or_default();
        group.insert(Arc::clone(&kind.plural), kind);
    }

    pub fn remove(&mut self, group: &str, plural: &str) {
        let Some(kinds) = self.kinds.get_mut(group) else {
            return;
        };
        kinds.remove(plural);
        if kinds.is_empty() {
            self.kinds.remove(group);
            self.group_order.retain(|known| &**known != group);
        }
    }

    /// Returns the kind of `/apis/GROUP/…/PLURAL`, in any version.
    pub fn by_plural(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.kinds.get(group)?.get(plural)
    }

    /// Returns the kind of objects with this `apiVersion` and `kind`.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.of_group(group).find(|known| &*known.kind == kind)
    }

    /// Returns the groups in the order of discovery; the core group is first and named "".
    pub fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.group_order.iter()
    }

    /// Returns the kinds of one group, ordered by plural.
    pub fn of_group(&self, group: &str) -> impl Iterator<Item = &Arc<Kind>> + use<'_> {
        self.kinds.get(group).into_iter().flat_map(BTreeMap::values)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values().flat_map(BTreeMap::values)
    }

    /// Returns the non-empty versions of one group, the preferred one first.
    pub fn versions_of_group(&self, group: &str) -> Vec<Arc<str>> {
        let mut versions: Vec<Arc<str>> = Vec::new();
        for kind in self.of_group(group) {
            for version in &kind.versions {
                if !versions.contains(&version.name) {
                    versions.push(Arc::clone(&version.name));
                }
            }
        }
        versions.sort_by(|a, b| compare_versions(b, a));
        versions
    }
}

/// Compares version names as Kubernetes does: `v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > others`.
pub(crate) fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, Some(_)) => std::cmp::Ordering::Less,
        // Other names are ordered alphabetically, the first one having the highest priority.
        (None, None) => b.cmp(a),
    }
}

/// Parses stability, major and minor number of a name such as `v1beta2`.
fn rank(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let major = rest.get(..digits)?.parse().ok()?;
    let tail = rest.get(digits..)?;
    if tail.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, number) = match tail.strip_prefix("beta") {
        Some(number) => (1, number),
        None => (0, tail.strip_prefix("alpha")?),
    };
    Some((stability, major, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_first() {
        let mut names = [
            "foo10",
            "v1alpha1",
            "v11beta2",
            "v10",
            "v3beta1",
            "v2",
            "foo1",
            "v12alpha1",
        ];
        names.sort_by(|a, b| compare_versions(b, a));
        assert_eq!(
            names,
            [
                "v10",
                "v2",
                "v11beta2",
                "v3beta1",
                "v12alpha1",
                "v1alpha1",
                "foo1",
                "foo10"
            ]
        );
    }
}
