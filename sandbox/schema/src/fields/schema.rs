//! Types of objects for server-side apply.

use std::collections::BTreeMap;

use serde_json::Value;

/// A type in a [`Schema`]; invalid in any other schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeId(pub(super) u32);

/// The types of one group version, or of one custom resource.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(super) types: Vec<Type>,
    /// Root types by kind.
    pub(super) roots: BTreeMap<String, TypeId>,
}

/// A type: the shapes of values that it allows. Open schemas allow several.
#[derive(Debug, Clone, Default)]
pub(super) struct Type {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List>,
    pub(super) map: Option<Map>,
}

/// The scalars that a type allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Any,
    Boolean,
    Numeric,
    Text,
}

/// The identity of the items of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListKind {
    /// None: the list has one owner.
    Atomic,
    /// By their values.
    Set,
    /// By the values of these fields.
    Keyed(Vec<String>),
}

#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) kind: ListKind,
    pub(super) element: TypeId,
}

/// A struct (with fields), a map (with an element type), or both.
#[derive(Debug, Clone)]
pub(super) struct Map {
    pub(super) atomic: bool,
    pub(super) fields: BTreeMap<String, Field>,
    /// `None`: keys other than the fields are not allowed.
    pub(super) element: Option<TypeId>,
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) of: TypeId,
    pub(super) default: Option<Value>,
}

/// The shape of one value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    Scalar(Scalar),
    List(&'a List),
    Map(&'a Map),
    /// No value is allowed; does not occur in schemas of a real server.
    Nothing,
}

/// A value and its type.
#[derive(Debug, Clone, Copy)]
pub struct Typed<'a> {
    pub schema: &'a Schema,
    pub of: TypeId,
    pub value: &'a Value,
}

/// The type of values without a schema: scalars, atomic lists, granular maps of the same.
pub(super) const DEDUCED: TypeId = TypeId(0);
/// The type of items without a schema: everything is atomic.
pub(super) const UNTYPED: TypeId = TypeId(1);

impl Default for Schema {
    /// Returns the schema with the two predefined types.
    fn default() -> Self {
        let open = |element, atomic| Type {
            scalar: Some(Scalar::Any),
            list: Some(List {
                kind: ListKind::Atomic,
                element: UNTYPED,
            }),
            map: Some(Map {
                atomic,
                fields: BTreeMap::new(),
                element: Some(element),
            }),
        };
        Self {
            types: vec![open(DEDUCED, false), open(UNTYPED, true)],
            roots: BTreeMap::new(),
        }
    }
}

impl Schema {
    /// Returns the type of a kind, or the deduced type if the kind is unknown.
    pub fn root(&self, kind: &str) -> TypeId {
        self.roots.get(kind).copied().unwrap_or(DEDUCED)
    }

    pub(super) fn get(&self, id: TypeId) -> &Type {
        static NOTHING: Type = Type {
            scalar: None,
            list: None,
            map: None,
        };
        self.types.get(id.0 as usize).unwrap_or(&NOTHING)
    }

    /// Returns the shape of the type for a value; for null, the first shape that the type allows.
    pub(super) fn shape(&self, id: TypeId, value: &Value) -> Shape<'_> {
        let of = self.get(id);
        let fitting = match value {
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => of.scalar.map(Shape::Scalar),
            Value::Array(_) => of.list.as_ref().map(Shape::List),
            Value::Object(_) => of.map.as_ref().map(Shape::Map),
        };
        fitting.unwrap_or(match of {
            Type { map: Some(map), .. } => Shape::Map(map),
            Type {
                scalar: Some(scalar),
                ..
            } => Shape::Scalar(*scalar),
            Type {
                list: Some(list), ..
            } => Shape::List(list),
            _ => Shape::Nothing,
        })
    }

    pub(super) fn add(&mut self, of: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(of);
        id
    }
}

impl Map {
    /// Returns the type of a key. `None` if the schema has no such key.
    pub(super) fn of_key(&self, key: &str) -> Option<TypeId> {
        self.fields.get(key).map(|field| field.of).or(self.element)
    }

    pub(super) fn has_field(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }
}

impl Shape<'_> {
    /// Returns `true` if both shapes are the same kind of shape.
    pub(super) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}
