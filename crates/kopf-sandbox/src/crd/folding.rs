//! Where errors about versions are reported.
//!
//! The server checks definitions in an internal form, in which whatever is the same in all
//! versions is said once for the whole definition. So its errors point to `spec.validation` and
//! the like, which nobody has written, unless versions differ.

use serde_json::Value;

/// A part of a version that may be said once for all.
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

    /// The path of the part when it is the same in all versions.
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

    /// Whether the part is the same in all versions, be it absent from all.
    pub(super) fn is_common(self, versions: &[Value]) -> bool {
        let first = versions.first().and_then(|version| self.of(version));
        versions.iter().all(|version| self.of(version) == first)
    }
}

/// The versions of a definition, in its own order.
pub(super) fn versions(crd: &Value) -> &[Value] {
    crd.pointer("/spec/versions")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn schema(version: &Value) -> Option<&Value> {
    openapi(Part::Schema.of(version)?)
}

/// The schema in a `schema` part.
pub(super) fn openapi(part: &Value) -> Option<&Value> {
    part.get("openAPIV3Schema")
        .filter(|schema| !schema.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_parts_are_common() {
        let same = [json!({"schema": {"a": 1}}), json!({"schema": {"a": 1}})];
        assert!(Part::Schema.is_common(&same) && Part::Columns.is_common(&same));
        let differ = [json!({"schema": {"a": 1}}), json!({})];
        assert!(!Part::Schema.is_common(&differ));
    }
}
