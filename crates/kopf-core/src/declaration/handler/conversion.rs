//! The versions of a conversion.

/// The versions between which a handler converts objects, without the API group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conversion {
    /// The version of the object that the handler gets.
    pub source: String,
    /// The version of the object that the handler returns.
    pub target: String,
}
