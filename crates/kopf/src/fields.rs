//! Conversion of field paths.

use kopf_core::field::FieldPath;

/// A path to a field: a string with dots, `"spec.field"`, or a list of keys, `["metadata",
/// "annotations", "example.com/key"]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a path to a field",
    label = "not a path to a field",
    note = "expected a string with dots, \"spec.field\", or a list of keys, [\"spec\", \"field\"]"
)]
pub trait IntoFieldPath {
    /// Converts the value.
    fn into_field_path(self) -> FieldPath;
}

impl IntoFieldPath for FieldPath {
    fn into_field_path(self) -> FieldPath {
        self
    }
}

impl IntoFieldPath for &FieldPath {
    fn into_field_path(self) -> FieldPath {
        self.clone()
    }
}

impl IntoFieldPath for &str {
    fn into_field_path(self) -> FieldPath {
        FieldPath::parse(self)
    }
}

impl IntoFieldPath for String {
    fn into_field_path(self) -> FieldPath {
        FieldPath::parse(&self)
    }
}

fn joined(keys: impl IntoIterator<Item = impl Into<String>>) -> FieldPath {
    let mut path = FieldPath::root();
    for key in keys {
        path = path.join(key.into());
    }
    path
}

impl<S: Into<String>, const N: usize> IntoFieldPath for [S; N] {
    fn into_field_path(self) -> FieldPath {
        joined(self)
    }
}

impl<S: Into<String>> IntoFieldPath for Vec<S> {
    fn into_field_path(self) -> FieldPath {
        joined(self)
    }
}

impl<S: Clone + Into<String>> IntoFieldPath for &[S] {
    fn into_field_path(self) -> FieldPath {
        joined(self.iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_lists_are_paths() {
        let expected = FieldPath::parse("spec.field");
        assert_eq!("spec.field".into_field_path(), expected);
        assert_eq!(["spec", "field"].into_field_path(), expected);
        assert_eq!(vec!["spec", "field"].into_field_path(), expected);
        let dotted = ["metadata", "annotations", "a.b/c"].into_field_path();
        assert_eq!(dotted.steps().len(), 3);
    }
}
