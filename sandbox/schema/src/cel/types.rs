//! Static types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::signatures::split;
use super::values::reserved;

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Any type, which is checked when the expression is evaluated.
    Dyn,
    /// A type without parameters: `int`, `kubernetes.Quantity`.
    Plain(String),
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Optional(Box<Self>),
    /// A type as a value.
    Meta(Box<Self>),
    Object(Arc<ObjectType>),
    /// A type that is inferred. Signatures have the variables 0 and 1.
    Variable(usize),
}

/// An object with declared fields. Types of the same name are equal.
#[derive(Debug)]
pub struct ObjectType {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
}

impl ObjectType {
    /// Returns the type of a field. Reserved words are declared with underscores.
    pub(super) fn field(&self, name: &str) -> Option<&Type> {
        let get = |name: &str| self.fields.get(name);
        get(name).or_else(|| get(&reserved(name)?))
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ObjectType {}

impl Type {
    /// Returns a type without parameters.
    pub fn plain(name: &str) -> Self {
        Self::Plain(name.to_owned())
    }

    /// Returns the type of lists.
    pub fn list(item: Self) -> Self {
        Self::List(Box::new(item))
    }

    /// Returns the type of maps with keys of type string.
    pub fn map(value: Self) -> Self {
        Self::Map(Box::new(Self::plain("string")), Box::new(value))
    }

    /// Returns the type of objects with these fields.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (String, Self)>) -> Self {
        Self::Object(Arc::new(ObjectType {
            name: name.to_owned(),
            fields: fields.into_iter().collect(),
        }))
    }

    /// Parses a type of a signature: `list(A)`, `map(string, int)`, `opt(A)`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let Some((name, inner)) = text.split_once('(') else {
            return Some(match text {
                "A" => Self::Variable(0),
                "B" => Self::Variable(1),
                "dyn" => Self::Dyn,
                name => Self::plain(name),
            });
        };
        let inner = split(inner.strip_suffix(')')?);
        let mut inner = inner.into_iter().map(Self::parse);
        let first = Box::new(inner.next()??);
        Some(match name {
            "list" => Self::List(first),
            "map" => Self::Map(first, Box::new(inner.next()??)),
            "opt" => Self::Optional(first),
            "type" => Self::Meta(first),
            _ => return None,
        })
    }

    /// Returns the type with variables of higher numbers.
    pub(super) fn shifted(&self, by: usize) -> Self {
        let boxed = |of: &Self| Box::new(of.shifted(by));
        match self {
            Self::Variable(number) => Self::Variable(number + by),
            Self::List(item) => Self::List(boxed(item)),
            Self::Map(key, value) => Self::Map(boxed(key), boxed(value)),
            Self::Optional(content) => Self::Optional(boxed(content)),
            Self::Meta(of) => Self::Meta(boxed(of)),
            other => other.clone(),
        }
    }

    /// Returns `true` if a value of the type can be null.
    fn is_nullable(&self) -> bool {
        match self {
            Self::Object(_) | Self::Optional(_) => true,
            Self::Plain(name) => name.contains('.') || ["timestamp", "duration"].contains(&&**name),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Variable(_) => formatter.write_str("dyn"),
            Self::Plain(name) => formatter.write_str(name),
            Self::List(item) => write!(formatter, "list({item})"),
            Self::Map(key, value) => write!(formatter, "map({key}, {value})"),
            Self::Optional(content) => write!(formatter, "optional_type({content})"),
            Self::Meta(of) => write!(formatter, "type({of})"),
            Self::Object(object) => formatter.write_str(&object.name),
        }
    }
}

/// Inferred types of variables.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings(Vec<Option<Type>>);

impl Bindings {
    /// Adds variables, and returns the number of the first.
    pub(super) fn fresh(&mut self, count: usize) -> usize {
        let first = self.0.len();
        self.0.resize(first + count, None);
        first
    }

    /// Returns a type with inferred types in place of variables.
    pub(super) fn resolved(&self, of: &Type) -> Type {
        let boxed = |of: &Type| Box::new(self.resolved(of));
        match of {
            Type::Variable(number) => match self.0.get(*number) {
                Some(Some(bound)) => self.resolved(bound),
                _ => of.clone(),
            },
            Type::List(item) => Type::List(boxed(item)),
            Type::Map(key, value) => Type::Map(boxed(key), boxed(value)),
            Type::Optional(content) => Type::Optional(boxed(content)),
            Type::Meta(inner) => Type::Meta(boxed(inner)),
            other => other.clone(),
        }
    }

    /// Returns `true` if two types can be equal. Infers variables.
    pub(super) fn unify(&mut self, left: &Type, right: &Type) -> bool {
        let (left, right) = (self.resolved(left), self.resolved(right));
        match (&left, &right) {
            (Type::Variable(a), Type::Variable(b)) if a == b => true,
            (Type::Variable(number), other) | (other, Type::Variable(number)) => {
                if let Some(binding) = self.0.get_mut(*number) {
                    *binding = Some(other.clone());
                }
                true
            }
            (Type::Dyn, _) | (_, Type::Dyn) | (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.unify(a, b)
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.unify(key, other_key) && self.unify(value, other_value)
            }
            (Type::Plain(null), other) | (other, Type::Plain(null)) if null == "null" => {
                other.is_nullable() || *other == Type::plain("null")
            }
            _ => left == right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_inferred() {
        let mut bindings = Bindings::default();
        let first = bindings.fresh(2);
        let wanted = Type::parse("map(A, list(B))").unwrap().shifted(first);
        let given = Type::parse("map(string, list(int))").unwrap();
        assert!(bindings.unify(&wanted, &given));
        assert_eq!(
            bindings.resolved(&wanted).to_string(),
            "map(string, list(int))"
        );
        assert!(!bindings.unify(&wanted, &Type::parse("map(string, list(bool))").unwrap()));
        assert!(bindings.unify(&Type::plain("timestamp"), &Type::plain("null")));
        assert!(!bindings.unify(&Type::plain("int"), &Type::plain("null")));
    }
}
