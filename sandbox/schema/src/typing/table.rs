//! The immutable table of types, parsed once from recorded data.

use super::defaults::Defaults;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A type in a [`TypeTable`]; invalid in any other table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeRef(u32);

/// The types of the built-in kinds, shared by all their versions.
#[derive(Debug)]
pub struct TypeTable {
    /// By `apiVersion`, a space, and the kind: `apps/v1 Deployment`.
    roots: BTreeMap<Box<str>, TypeRef>,
    types: Vec<Type>,
}

/// One Go type.
#[derive(Debug)]
pub struct Type {
    /// The Go syntax, e.g. `[]v1.Container`; empty for pointers, which never occur in messages.
    pub go: Box<str>,
    /// Group and version of the package of a struct: `core/v1`.
    pub(crate) package: Box<str>,
    pub shape: Shape,
    /// Lists only: in protobuf, the list is a message with the items as its field 1.
    pub wrapped: bool,
    pub(super) defaults: Defaults,
}

/// The shape of a type, by which it is decoded.
#[derive(Debug)]
pub enum Shape {
    /// Fields are sorted by name.
    Struct(Vec<Field>),
    Pointer(TypeRef),
    Slice(TypeRef),
    Map(TypeRef),
    Bytes,
    String,
    Bool,
    Int32,
    Int64,
    Float,
    Custom(Custom),
}

/// Types with their own decoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Custom {
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON: `RawExtension`, `FieldsV1`, the `JSON` of schemas.
    Raw,
    SchemaOrBool(TypeRef),
    SchemaOrArray(TypeRef),
    SchemaOrStrings(TypeRef),
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    pub name: Box<str>,
    pub of: TypeRef,
    /// Omitted from the JSON when it is false, zero, empty or nil.
    pub(crate) omit_empty: bool,
    /// Omitted from the JSON when the whole struct is zero.
    pub(crate) omit_zero: bool,
    /// Serialised even if it is unset.
    pub shown: bool,
    /// The embedded structs between the struct and the field, for error messages.
    pub(crate) via: Vec<Box<str>>,
    /// The number in protobuf, after those of the embedded structs, which are messages there. Empty
    /// for fields that are only in the envelope of the message.
    pub numbers: Box<[u32]>,
    pub strategy: Strategy,
}

/// The treatment of a field by strategic merge patches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strategy {
    /// Lists: elements are merged instead of the list being replaced.
    pub merge: bool,
    /// Maps: the value is replaced instead of being merged.
    pub replace: bool,
    /// The merge key of the elements of a merged list; `None` for lists of scalars.
    pub(crate) merge_key: Option<Box<str>>,
}

/// The reason why the recorded data cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the recorded types have an unexpected format")]
    Format(#[from] serde_json::Error),
    #[error("the recorded types have no type {0:?}")]
    Unknown(String),
    #[error("the recorded types refer to an undefined type")]
    Dangling,
}

#[derive(Deserialize)]
struct Recorded<'a> {
    #[serde(borrow)]
    roots: BTreeMap<&'a str, u32>,
    types: Vec<RecordedType<'a>>,
}

#[derive(Deserialize)]
struct RecordedType<'a> {
    k: &'a str,
    #[serde(default)]
    g: &'a str,
    #[serde(default)]
    p: &'a str,
    #[serde(default)]
    w: bool,
    e: Option<u32>,
    #[serde(default)]
    f: Vec<RecordedField<'a>>,
}

#[derive(Deserialize)]
struct RecordedField<'a> {
    n: &'a str,
    t: u32,
    #[serde(default)]
    o: bool,
    #[serde(default)]
    z: bool,
    #[serde(default)]
    v: Vec<&'a str>,
    #[serde(default)]
    b: Vec<u32>,
    #[serde(default)]
    s: &'a str,
    #[serde(default)]
    k: &'a str,
}

impl TypeTable {
    /// Parses the recorded `types.json`.
    pub fn parse(recorded: &[u8]) -> Result<Self, Error> {
        let recorded: Recorded<'_> = serde_json::from_slice(recorded)?;
        let count = recorded.types.len();
        let check = |at: u32| {
            if (at as usize) < count {
                Ok(TypeRef(at))
            } else {
                Err(Error::Dangling)
            }
        };
        let roots = recorded.roots.into_iter();
        let roots = roots.map(|(name, at)| Ok((name.into(), check(at)?)));
        let roots = roots.collect::<Result<_, Error>>()?;
        let types = recorded.types.into_iter().map(|of| convert(&of, &check));
        let mut types = types.collect::<Result<Vec<Type>, Error>>()?;
        let always: Vec<bool> = types
            .iter()
            .map(|of| matches!(of.shape, Shape::Struct(_) | Shape::Custom(_)))
            .collect();
        for of in &mut types {
            let Shape::Struct(fields) = &mut of.shape else {
                continue;
            };
            for field in fields {
                let always = always.get(field.of.0 as usize).copied().unwrap_or_default();
                field.shown = !field.omit_zero && (always || !field.omit_empty);
            }
        }
        Ok(Self { roots, types })
    }

    /// Returns the type of a kind: `root("apps/v1", "Deployment")`.
    pub fn root(&self, api_version: &str, kind: &str) -> Option<TypeRef> {
        self.roots
            .get(format!("{api_version} {kind}").as_str())
            .copied()
    }

    pub fn get(&self, at: TypeRef) -> &Type {
        self.types
            .get(at.0 as usize)
            .expect("parse() rejects references out of range")
    }

    /// Returns the type behind all pointers.
    pub fn target(&self, at: TypeRef) -> TypeRef {
        let mut at = at;
        while let Shape::Pointer(to) = self.get(at).shape {
            at = to;
        }
        at
    }
}

impl Shape {
    /// Returns `true` for lists, maps and binary data, which can be nil.
    pub(crate) fn is_nullable(&self) -> bool {
        matches!(self, Self::Slice(_) | Self::Map(_) | Self::Bytes)
    }

    /// Returns the kind in Go's reflection.
    pub(crate) fn go_kind(&self) -> &'static str {
        match self {
            Self::Struct(_) | Self::Custom(_) => "struct",
            Self::Pointer(_) => "ptr",
            Self::Slice(_) | Self::Bytes => "slice",
            Self::Map(_) => "map",
            Self::String => "string",
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float64",
        }
    }
}

impl Type {
    /// Returns the name without the package: `PodSpec`.
    pub fn name(&self) -> &str {
        self.go.rsplit('.').next().unwrap_or(&self.go)
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        let Shape::Struct(fields) = &self.shape else {
            return None;
        };
        let at = fields
            .binary_search_by(|field| (*field.name).cmp(name))
            .ok()?;
        fields.get(at)
    }
}

fn convert(
    of: &RecordedType<'_>,
    check: &impl Fn(u32) -> Result<TypeRef, Error>,
) -> Result<Type, Error> {
    let elem = || check(of.e.ok_or(Error::Dangling)?);
    let shape = match of.k {
        "struct" => {
            let mut fields = Vec::with_capacity(of.f.len());
            for field in &of.f {
                fields.push(Field {
                    name: field.n.into(),
                    of: check(field.t)?,
                    omit_empty: field.o,
                    omit_zero: field.z,
                    shown: false,
                    via: field.v.iter().map(|&name| name.into()).collect(),
                    numbers: field.b.as_slice().into(),
                    strategy: Strategy {
                        merge: field.s.split(',').any(|one| one == "merge"),
                        replace: field.s.split(',').any(|one| one == "replace"),
                        merge_key: (!field.k.is_empty()).then(|| field.k.into()),
                    },
                });
            }
            // Lookups require this order, regardless of the file.
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            Shape::Struct(fields)
        }
        "pointer" => Shape::Pointer(elem()?),
        "slice" => Shape::Slice(elem()?),
        "map" => Shape::Map(elem()?),
        "bytes" => Shape::Bytes,
        "string" => Shape::String,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "float64" => Shape::Float,
        "custom" => Shape::Custom(match of.g {
            "v1.Time" => Custom::Time,
            "v1.MicroTime" => Custom::MicroTime,
            "resource.Quantity" => Custom::Quantity,
            "intstr.IntOrString" => Custom::IntOrString,
            "runtime.RawExtension" | "v1.FieldsV1" | "v1.JSON" => Custom::Raw,
            "v1.JSONSchemaPropsOrBool" => Custom::SchemaOrBool(elem()?),
            "v1.JSONSchemaPropsOrArray" => Custom::SchemaOrArray(elem()?),
            "v1.JSONSchemaPropsOrStringArray" => Custom::SchemaOrStrings(elem()?),
            other => return Err(Error::Unknown(other.to_owned())),
        }),
        other => return Err(Error::Unknown(other.to_owned())),
    };
    let name = of.g.rsplit('.').next().unwrap_or_default();
    let defaults = Defaults::of(of.p, name);
    Ok(Type {
        go: of.g.into(),
        package: of.p.into(),
        shape,
        wrapped: of.w,
        defaults,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typing::recorded;

    #[test]
    fn kinds_and_fields_are_found() {
        let table = recorded();
        let root = table.root("apps/v1", "Deployment").unwrap();
        assert_eq!(table.get(table.target(root)).name(), "Deployment");
        assert_eq!(table.root("apps/v1", "Pod"), None);
        let spec = table.get(table.target(root)).field("spec").unwrap();
        let replicas = table.get(spec.of).field("replicas").unwrap();
        assert!(matches!(table.get(replicas.of).shape, Shape::Pointer(_)));
        assert_eq!(
            table.get(spec.of).field("nope").map(|field| &field.name),
            None
        );
    }

    #[test]
    fn strategies_of_merge_patches_are_kept() {
        let table = recorded();
        let pod = table.get(table.target(table.root("v1", "Pod").unwrap()));
        let spec = table.get(pod.field("spec").unwrap().of);
        let volumes = &spec.field("volumes").unwrap().strategy;
        assert!(volumes.merge && !volumes.replace);
        assert_eq!(volumes.merge_key.as_deref(), Some("name"));
        assert_eq!(
            spec.field("tolerations").unwrap().strategy,
            Strategy::default()
        );
    }

    #[test]
    fn embedded_structs_are_separate_messages() {
        let table = recorded();
        let pod = table.get(table.target(table.root("v1", "Pod").unwrap()));
        assert_eq!(*pod.field("metadata").unwrap().numbers, [1]);
        assert!(pod.field("kind").unwrap().numbers.is_empty());
        let volumes = table.get(
            table
                .get(pod.field("spec").unwrap().of)
                .field("volumes")
                .unwrap()
                .of,
        );
        let Shape::Slice(volume) = volumes.shape else {
            panic!("not a list: {volumes:?}");
        };
        assert!(!volumes.wrapped);
        assert_eq!(*table.get(volume).field("name").unwrap().numbers, [1]);
        assert_eq!(
            *table.get(volume).field("emptyDir").unwrap().numbers,
            [2, 2]
        );
    }

    #[test]
    fn malformed_tables_are_rejected() {
        let cases: [&[u8]; 5] = [
            b"",
            b"{}",
            br#"{"roots":{"v1 Pod":7},"types":[]}"#,
            br#"{"roots":{},"types":[{"k":"slice","e":1}]}"#,
            br#"{"roots":{},"types":[{"k":"custom","g":"v1.New"}]}"#,
        ];
        for data in cases {
            assert!(TypeTable::parse(data).is_err());
        }
    }
}
