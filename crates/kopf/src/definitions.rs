//! CRDs of the types for which handlers are declared.

use std::marker::PhantomData;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::Version;
use kube::core::crd::merge_crds;
use serde_json::Value;

/// A function that returns the CRD of a type.
pub type Definition = fn() -> CustomResourceDefinition;

/// A check whether a type has a CRD. Both traits have a method of the same name: on a reference to
/// a probe, the compiler prefers that of [`Custom`] if it applies.
#[derive(Debug)]
pub struct Probe<K>(PhantomData<K>);

impl<K> Probe<K> {
    /// Creates a probe for a type.
    #[allow(clippy::new_without_default, reason = "for macros only")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

/// Types with a CRD.
pub trait Custom {
    /// Returns the CRD.
    fn definition(&self) -> Option<Definition>;
}

impl<K: CustomResourceExt> Custom for Probe<K> {
    fn definition(&self) -> Option<Definition> {
        Some(K::crd)
    }
}

/// Types without a CRD.
pub trait Builtin {
    /// Returns `None`.
    fn definition(&self) -> Option<Definition>;
}

impl<K> Builtin for &Probe<K> {
    fn definition(&self) -> Option<Definition> {
        None
    }
}

/// The types of a resource cannot be merged into a CRD.
#[derive(Debug, thiserror::Error)]
#[error("cannot build the CRD {name}: {message}")]
pub struct DefinitionError {
    /// The name of the CRD.
    name: String,
    /// The reason.
    message: String,
}

/// The CRDs of an operator.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// One CRD for all versions of a resource, sorted by name.
    pub(crate) complete: Vec<Value>,
    /// Names of CRDs without a schema, which the API server rejects.
    pub(crate) without_schema: Vec<String>,
}

impl Definitions {
    /// Merges CRDs of the same resource into one, which stores the newest version.
    pub(crate) fn of(
        functions: impl IntoIterator<Item = Definition>,
    ) -> Result<Self, DefinitionError> {
        let mut versions: Vec<CustomResourceDefinition> = Vec::new();
        for definition in functions.into_iter().map(|function| function()) {
            if !versions.iter().any(|known| is_same(known, &definition)) {
                versions.push(definition);
            }
        }
        versions.sort_by_key(|definition| definition.metadata.name.clone());
        let mut definitions = Self::default();
        for versions in versions.chunk_by(|one, other| one.metadata.name == other.metadata.name) {
            let name = versions[0].metadata.name.clone().unwrap_or_default();
            let has_schema = |definition: &CustomResourceDefinition| {
                let mut versions = definition.spec.versions.iter();
                versions.all(|version| {
                    let schema = version.schema.as_ref();
                    schema.is_some_and(|schema| schema.open_api_v3_schema.is_some())
                })
            };
            if !versions.iter().all(has_schema) {
                definitions.without_schema.push(name);
                continue;
            }
            let wrong = |message: String| DefinitionError {
                name: name.clone(),
                message,
            };
            let merged = merge_crds(versions.to_vec(), &newest(versions));
            let merged = merged.map_err(|error| wrong(error.to_string()))?;
            let merged = serde_json::to_value(merged).map_err(|error| wrong(error.to_string()))?;
            definitions.complete.push(merged);
        }
        Ok(definitions)
    }
}

/// Returns `true` for the same versions of the same resource, as of one type used by many handlers.
fn is_same(one: &CustomResourceDefinition, other: &CustomResourceDefinition) -> bool {
    let versions = |definition: &CustomResourceDefinition| -> Vec<String> {
        let versions = definition.spec.versions.iter();
        versions.map(|version| version.name.clone()).collect()
    };
    one.metadata.name == other.metadata.name && versions(one) == versions(other)
}

fn newest(definitions: &[CustomResourceDefinition]) -> String {
    let versions = definitions.iter().flat_map(|one| &one.spec.versions);
    let newest = versions.max_by_key(|version| Version::parse(&version.name).priority());
    newest
        .map(|version| version.name.clone())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    mod v1 {
        use kube::CustomResource;
        use serde::{Deserialize, Serialize};

        #[derive(CustomResource, Serialize, Deserialize, schemars::JsonSchema, Clone, Debug)]
        #[kube(group = "g", version = "v1", kind = "Thing", namespaced)]
        pub(super) struct ThingSpec {
            size: u32,
        }
    }

    mod v1beta1 {
        use kube::CustomResource;
        use serde::{Deserialize, Serialize};

        #[derive(CustomResource, Serialize, Deserialize, schemars::JsonSchema, Clone, Debug)]
        #[kube(group = "g", version = "v1beta1", kind = "Thing", namespaced)]
        pub(super) struct ThingSpec {
            size: u32,
        }
    }

    mod unchecked {
        use kube::CustomResource;
        use serde::{Deserialize, Serialize};

        #[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
        #[kube(group = "g", version = "v1", kind = "Loose", schema = "disabled")]
        pub(super) struct LooseSpec {
            size: u32,
        }
    }

    #[test]
    fn only_custom_resources_have_definitions() {
        let (custom, builtin) = (&Probe::<v1::Thing>::new(), &Probe::<Pod>::new());
        assert!(custom.definition().is_some());
        assert!(builtin.definition().is_none());
    }

    #[test]
    fn versions_of_a_resource_are_merged_and_the_newest_is_stored() {
        let functions: [Definition; 3] = [v1beta1::Thing::crd, v1::Thing::crd, v1::Thing::crd];
        let definitions = Definitions::of(functions).unwrap();
        let [definition] = definitions.complete.as_slice() else {
            panic!("not one: {definitions:?}");
        };
        assert_eq!(definition["metadata"]["name"], "things.g");
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let stored: Vec<_> = versions
            .iter()
            .map(|version| {
                (
                    version["name"].as_str().unwrap(),
                    version["storage"] == true,
                )
            })
            .collect();
        assert_eq!(stored, [("v1", true), ("v1beta1", false)]);
    }

    #[test]
    fn definitions_without_schemas_are_listed_separately() {
        let functions: [Definition; 1] = [unchecked::Loose::crd];
        let definitions = Definitions::of(functions).unwrap();
        assert!(definitions.complete.is_empty());
        assert_eq!(definitions.without_schema, ["looses.g"]);
    }
}
