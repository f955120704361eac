//! Field paths of errors about versions.
//!
//! The server validates CRDs in an internal form, in which parts that are equal in all versions are
//! moved to the top level. Its errors therefore point to fields such as `spec.validation`, which
//! are not in the request, unless versions differ.

use serde_json::Value;

/// A part of a version that moves to the top level if it is equal in all versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Schema,
    Subresources,
    Columns,
    SelectableFields,
}

impl Part {
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Subresources => "subresources",
            Self::Columns => "additionalPrinterColumns",
            Self::SelectableFields => "selectableFields",
        }
    }

    /// Returns the path of the part when it is equal in all versions.
    pub(super) fn common_path(self) -> &'static str {
        match self {
            Self::Schema => "spec.validation",
            Self::Subresources => "spec.subresources",
            Self::Columns => "spec.additionalPrinterColumns",
            Self::SelectableFields => "spec.selectableFields",
        }
    }

    pub(super) fn of(self, version: &Value) -> Option<&Value> {
        version.get(self.key()).filter(|part| !part.is_null())
    }

    /// Returns `true` if the part is equal in all versions, or absent from all.
    pub(super) fn is_common(self, versions: &[Value]) -> bool {
        let first = versions.first().and_then(|version| self.of(version));
        versions.iter().all(|version| self.of(version) == first)
    }
}

/// Returns the versions of a CRD, in its own order.
pub(super) fn versions(crd: &Value) -> &[Value] {
    crd.pointer("/spec/versions")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn schema(version: &Value) -> Option<&Value> {
    openapi(Part::Schema.of(version)?)
}

/// Returns the schema in a `schema` part.
pub(super) fn openapi(part: &Value) -> Option<&Value> {
    part.get("openAPIV3Schema")
        .filter(|schema| !schema.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_parts_move_to_the_top_level() {
        let same = [json!({"schema": {"a": 1}}), json!({"schema": {"a": 1}})];
        assert!(Part::Schema.is_common(&same) && Part::Columns.is_common(&same));
        let differ = [json!({"schema": {"a": 1}}), json!({})];
        assert!(!Part::Schema.is_common(&differ));
    }
}
