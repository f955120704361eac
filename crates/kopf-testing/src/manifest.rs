//! Objects for tests: as JSON values, as YAML, or from files.

use serde_json::Value;

/// Objects to create, in the given order.
///
/// It is made by [`manifest!`](crate::manifest!), from a [`Value`], or from YAML with any number of
/// documents:
///
/// ```
/// use kopf_testing::Manifest;
///
/// let both = Manifest::from("
/// apiVersion: v1
/// kind: Namespace
/// metadata: {name: shop}
/// ---
/// apiVersion: v1
/// kind: ConfigMap
/// metadata: {name: settings, namespace: shop}
/// ");
/// assert_eq!(both.objects().len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    objects: Vec<Value>,
}

impl Manifest {
    /// Returns the objects in their order.
    pub fn objects(&self) -> &[Value] {
        &self.objects
    }

    pub(crate) fn into_objects(self) -> Vec<Value> {
        self.objects
    }
}

impl From<Value> for Manifest {
    fn from(object: Value) -> Self {
        Self {
            objects: vec![object],
        }
    }
}

impl From<&Value> for Manifest {
    fn from(object: &Value) -> Self {
        object.clone().into()
    }
}

impl From<&str> for Manifest {
    /// Parses YAML. Panics if it is invalid.
    #[track_caller]
    fn from(yaml: &str) -> Self {
        let objects: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .unwrap_or_else(|error| panic!("a manifest is not valid YAML: {error}"));
        let objects = objects.into_iter().filter(|object| !object.is_null());
        Self {
            objects: objects.collect(),
        }
    }
}

impl From<String> for Manifest {
    #[track_caller]
    fn from(yaml: String) -> Self {
        yaml.as_str().into()
    }
}

/// Creates a manifest from a file next to the source file (YAML or JSON, any number of documents),
/// or from JSON as with [`json!`](serde_json::json!).
///
/// ```
/// use kopf_testing::manifest;
///
/// let name = "settings";
/// let object = manifest!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
/// assert_eq!(object.objects()[0]["metadata"]["name"], "settings");
/// ```
///
/// From a file: `manifest!("obj.yaml")`. The file is compiled in: a missing file is a compile
/// error.
#[macro_export]
macro_rules! manifest {
    ($file:literal) => {
        $crate::Manifest::from(::std::include_str!($file))
    };
    ($($json:tt)+) => {
        $crate::Manifest::from($crate::__private::json!($($json)+))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_parsed_in_order_without_empty_ones() {
        let manifest = Manifest::from("---\nkind: A\n---\n---\nkind: B\n");
        let kinds: Vec<_> = manifest.objects().iter().map(|o| &o["kind"]).collect();
        assert_eq!(kinds, ["A", "B"]);
    }

    #[test]
    #[should_panic(expected = "a manifest is not valid YAML")]
    fn broken_yaml_fails_the_test() {
        let _ = Manifest::from("a: [1");
    }
}
