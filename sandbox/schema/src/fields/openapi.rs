//! Conversion of OpenAPI v3 schemas to types.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::schema::{DEDUCED, Field, List, ListKind, Map, Scalar, Schema, Type, TypeId, UNTYPED};

/// Maximum depth of schemas. Deeper parts are untyped.
const MAX_DEPTH: usize = 250;

/// Definitions whose types a real server does not derive from OpenAPI.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// The relevant keywords of an OpenAPI schema.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Definition {
    #[serde(rename = "type")]
    pub(super) of: Option<String>,
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(rename = "allOf")]
    all_of: Vec<Self>,
    pub(super) properties: BTreeMap<String, Self>,
    #[serde(rename = "additionalProperties")]
    additional: Option<Additional>,
    items: Option<Box<Self>>,
    format: Option<String>,
    default: Option<Value>,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    list_map_keys: Option<Vec<String>>,
    #[serde(rename = "x-kubernetes-map-type")]
    map_type: Option<String>,
    #[serde(rename = "x-kubernetes-patch-strategy")]
    patch_strategy: Option<String>,
    #[serde(rename = "x-kubernetes-patch-merge-key")]
    patch_merge_key: Option<String>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserve_unknown: Option<bool>,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    embedded: Option<bool>,
    #[serde(rename = "x-kubernetes-group-version-kind")]
    pub(super) kinds: Vec<KindName>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct KindName {
    pub(super) kind: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Additional {
    Flag(bool),
    Schema(Box<Definition>),
}

impl Definition {
    /// Returns a definition that refers to another one.
    pub(super) fn reference(name: &str) -> Self {
        Self {
            reference: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Returns the definition of a string.
    pub(super) fn text() -> Self {
        Self {
            of: Some("string".to_owned()),
            ..Self::default()
        }
    }
}

/// A converter from definitions to the types of one schema.
#[derive(Debug, Default)]
pub(super) struct Converter {
    pub(super) schema: Schema,
    named: BTreeMap<String, TypeId>,
    object_meta: Option<String>,
}

/// Properties that a definition inherits from the enclosing ones.
#[derive(Debug, Clone, Copy)]
struct Inherited {
    preserve_unknown: bool,
    depth: usize,
}

impl Converter {
    /// Returns a converter with the name of `ObjectMeta`, for embedded resources.
    pub(super) fn with_object_meta(name: &str) -> Self {
        Self {
            object_meta: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Adds definitions that can refer to each other.
    pub(super) fn add_named(&mut self, definitions: &BTreeMap<String, Definition>) {
        for name in definitions.keys() {
            let id = self.schema.add(Type::default());
            self.named.insert(name.clone(), id);
        }
        for (name, definition) in definitions {
            let inherited = Inherited {
                preserve_unknown: false,
                depth: 0,
            };
            let of = match name.as_str() {
                QUANTITY => Type {
                    scalar: Some(Scalar::Any),
                    ..Type::default()
                },
                RAW_EXTENSION => self.schema.get(UNTYPED).clone(),
                _ => self.convert(definition, inherited),
            };
            let Some(id) = self.named.get(name).copied() else {
                continue;
            };
            if let Some(place) = self.schema.types.get_mut(id.0 as usize) {
                *place = of;
            }
            for kind in &definition.kinds {
                self.schema.roots.insert(kind.kind.clone(), id);
            }
        }
    }

    /// Adds a definition as the root of a kind.
    pub(super) fn add_root(&mut self, kind: &str, definition: &Definition) {
        let inherited = Inherited {
            preserve_unknown: false,
            depth: 0,
        };
        let of = self.convert(definition, inherited);
        let id = self.schema.add(of);
        self.schema.roots.insert(kind.to_owned(), id);
    }

    fn convert(&mut self, definition: &Definition, mut inherited: Inherited) -> Type {
        inherited.preserve_unknown |= definition.preserve_unknown.unwrap_or_default();
        inherited.depth += 1;
        match definition.of.as_deref().unwrap_or_default() {
            "" => Type {
                scalar: Some(Scalar::Any),
                list: Some(self.list(definition, inherited)),
                map: Some(self.map(definition, inherited)),
            },
            "object" => Type {
                map: Some(self.map(definition, inherited)),
                ..Type::default()
            },
            "array" => Type {
                list: Some(self.list(definition, inherited)),
                ..Type::default()
            },
            of => Type {
                scalar: Some(scalar(of, definition.format.as_deref())),
                ..Type::default()
            },
        }
    }

    /// Returns the type of a definition inside of another one.
    fn refer(&mut self, definition: &Definition, inherited: Inherited) -> TypeId {
        let reference = definition.reference.as_ref().or_else(|| {
            let only = definition.all_of.first();
            only.filter(|_| definition.all_of.len() == 1)
                .and_then(|only| only.reference.as_ref())
        });
        if let Some(reference) = reference {
            let name = reference.rsplit('/').next().unwrap_or(reference);
            let id = self.named.get(name).copied().unwrap_or(DEDUCED);
            return match definition.map_type.as_deref() {
                Some(relation) => self.overridden(id, relation == "atomic"),
                None => id,
            };
        }
        if inherited.depth > MAX_DEPTH {
            return UNTYPED;
        }
        let of = self.convert(definition, inherited);
        self.schema.add(of)
    }

    /// Returns the type with another atomicity.
    fn overridden(&mut self, id: TypeId, atomic: bool) -> TypeId {
        let mut of = self.schema.get(id).clone();
        if let Some(map) = &mut of.map {
            map.atomic = atomic;
        }
        self.schema.add(of)
    }

    fn map(&mut self, definition: &Definition, inherited: Inherited) -> Map {
        let mut fields = BTreeMap::new();
        for (name, property) in &definition.properties {
            let of = self.refer(property, inherited);
            let default = property.default.clone();
            fields.insert(name.clone(), Field { of, default });
        }
        if definition.embedded.unwrap_or_default() {
            self.embed(&mut fields, inherited);
        }
        let element = match &definition.additional {
            None if inherited.preserve_unknown || fields.is_empty() => Some(DEDUCED),
            None | Some(Additional::Flag(false)) => None,
            Some(Additional::Flag(true)) => Some(DEDUCED),
            Some(Additional::Schema(schema)) => Some(self.refer(schema, inherited)),
        };
        Map {
            atomic: definition.map_type.as_deref() == Some("atomic"),
            fields,
            element,
        }
    }

    /// Adds the fields that every embedded resource has.
    fn embed(&mut self, fields: &mut BTreeMap<String, Field>, inherited: Inherited) {
        let Some(object_meta) = self.object_meta.clone() else {
            return;
        };
        for (name, definition) in [
            ("apiVersion", Definition::text()),
            ("kind", Definition::text()),
            ("metadata", Definition::reference(&object_meta)),
        ] {
            let of = self.refer(&definition, inherited);
            fields.insert(name.to_owned(), Field { of, default: None });
        }
    }

    fn list(&mut self, definition: &Definition, inherited: Inherited) -> List {
        let element = match &definition.items {
            Some(items) => self.refer(items, inherited),
            None => UNTYPED,
        };
        List {
            kind: list_kind(definition),
            element,
        }
    }
}

/// Returns the scalars that a primitive type allows.
fn scalar(of: &str, format: Option<&str>) -> Scalar {
    match (of, format.unwrap_or_default()) {
        ("integer" | "number", _) => Scalar::Numeric,
        ("boolean", _) => Scalar::Boolean,
        ("string", "" | "byte") => Scalar::Text,
        _ => Scalar::Any,
    }
}

fn list_kind(definition: &Definition) -> ListKind {
    match definition.list_type.as_deref() {
        Some("set") => return ListKind::Set,
        Some("map") => {
            return ListKind::Keyed(definition.list_map_keys.clone().unwrap_or_default());
        }
        Some(_) => return ListKind::Atomic,
        None => {}
    }
    // Older kinds have merge patch strategies instead of list types.
    match definition.patch_strategy.as_deref() {
        Some("merge" | "merge,retainKeys") => match &definition.patch_merge_key {
            Some(key) => ListKind::Keyed(vec![key.clone()]),
            None => ListKind::Set,
        },
        _ => ListKind::Atomic,
    }
}
