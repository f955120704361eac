//! The server's internal form of CRDs, which some of its error messages print as a whole.

use std::fmt::Write as _;

use serde_json::Value;

use super::folding::{Part, versions};
use crate::schema::Source;

/// The format of a schema field in the internal form.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    /// Unchanged, or null.
    Plain,
    Schema,
    Schemas,
    NamedSchemas,
    Items,
    SchemaOrFlag,
}

const FIELDS: [(&str, &str, Shape); 44] = [
    ("ID", "id", Shape::Text),
    ("Schema", "$schema", Shape::Text),
    ("Ref", "$ref", Shape::Plain),
    ("Description", "description", Shape::Text),
    ("Type", "type", Shape::Text),
    ("Nullable", "nullable", Shape::Flag),
    ("Format", "format", Shape::Text),
    ("Title", "title", Shape::Text),
    ("Default", "default", Shape::Plain),
    ("Maximum", "maximum", Shape::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Shape::Flag),
    ("Minimum", "minimum", Shape::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Shape::Flag),
    ("MaxLength", "maxLength", Shape::Plain),
    ("MinLength", "minLength", Shape::Plain),
    ("Pattern", "pattern", Shape::Text),
    ("MaxItems", "maxItems", Shape::Plain),
    ("MinItems", "minItems", Shape::Plain),
    ("UniqueItems", "uniqueItems", Shape::Flag),
    ("MultipleOf", "multipleOf", Shape::Plain),
    ("Enum", "enum", Shape::Plain),
    ("MaxProperties", "maxProperties", Shape::Plain),
    ("MinProperties", "minProperties", Shape::Plain),
    ("Required", "required", Shape::Plain),
    ("Items", "items", Shape::Items),
    ("AllOf", "allOf", Shape::Schemas),
    ("OneOf", "oneOf", Shape::Schemas),
    ("AnyOf", "anyOf", Shape::Schemas),
    ("Not", "not", Shape::Schema),
    ("Properties", "properties", Shape::NamedSchemas),
    (
        "AdditionalProperties",
        "additionalProperties",
        Shape::SchemaOrFlag,
    ),
    (
        "PatternProperties",
        "patternProperties",
        Shape::NamedSchemas,
    ),
    ("Dependencies", "dependencies", Shape::Plain),
    ("AdditionalItems", "additionalItems", Shape::SchemaOrFlag),
    ("Definitions", "definitions", Shape::NamedSchemas),
    ("ExternalDocs", "externalDocs", Shape::Plain),
    ("Example", "example", Shape::Plain),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        Shape::Plain,
    ),
    (
        "XEmbeddedResource",
        "x-kubernetes-embedded-resource",
        Shape::Flag,
    ),
    ("XIntOrString", "x-kubernetes-int-or-string", Shape::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Shape::Plain),
    ("XListType", "x-kubernetes-list-type", Shape::Plain),
    ("XMapType", "x-kubernetes-map-type", Shape::Plain),
    ("XValidations", "x-kubernetes-validations", Shape::Plain),
];

/// Formats a schema with all possible fields.
pub(super) fn schema_text(schema: Source<'_>) -> String {
    let fields: Vec<String> = FIELDS
        .iter()
        .map(|(name, key, shape)| format!("\"{name}\":{}", field_text(schema, key, *shape)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn field_text(schema: Source<'_>, key: &str, shape: Shape) -> String {
    let value = schema.value(key);
    match shape {
        Shape::Text => Value::from(schema.text(key)).to_string(),
        Shape::Flag => schema.flag(key).to_string(),
        Shape::Plain => value.unwrap_or(&Value::Null).to_string(),
        Shape::Schema => schema.schema(key).map_or_else(null, schema_text),
        Shape::Schemas if value.is_some() => {
            let texts: Vec<String> = schema.schemas(key).map(schema_text).collect();
            format!("[{}]", texts.join(","))
        }
        Shape::NamedSchemas if value.is_some() => {
            let texts: Vec<String> = schema
                .named_schemas(key)
                .map(|(name, schema)| format!("{}:{}", Value::from(name), schema_text(schema)))
                .collect();
            format!("{{{}}}", texts.join(","))
        }
        Shape::Schemas | Shape::NamedSchemas => null(),
        Shape::Items => match value {
            None => null(),
            Some(Value::Array(list)) => {
                let texts: Vec<String> = list
                    .iter()
                    .map(|schema| schema_text(Source::new(schema)))
                    .collect();
                format!("{{\"Schema\":null,\"JSONSchemas\":[{}]}}", texts.join(","))
            }
            Some(schema) => {
                let text = schema_text(Source::new(schema));
                format!("{{\"Schema\":{text},\"JSONSchemas\":null}}")
            }
        },
        Shape::SchemaOrFlag => match value {
            None => null(),
            Some(Value::Bool(flag)) => format!("{{\"Allows\":{flag},\"Schema\":null}}"),
            Some(schema) => {
                let text = schema_text(Source::new(schema));
                format!("{{\"Allows\":true,\"Schema\":{text}}}")
            }
        },
    }
}

fn null() -> String {
    "null".to_owned()
}

/// Formats all versions, without their common parts.
pub(super) fn versions_text(crd: &Value) -> String {
    let versions = versions(crd);
    let mut text = "[".to_owned();
    for (index, version) in versions.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let own = |part: Part| part.of(version).filter(|_| !part.is_common(versions));
        let flag = |key: &str| {
            version
                .get(key)
                .and_then(Value::as_bool)
                .unwrap_or_default()
        };
        let plain = |value: Option<&Value>| value.unwrap_or(&Value::Null).to_string();
        let schema = own(Part::Schema).map_or_else(null, |part| {
            let schema = super::folding::openapi(part);
            let text = schema.map_or_else(null, |schema| schema_text(Source::new(schema)));
            format!("{{\"OpenAPIV3Schema\":{text}}}")
        });
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\
             \"DeprecationWarning\":{},\"Schema\":{schema},\"Subresources\":{},\
             \"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            Value::from(
                version
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            ),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            plain(version.get("deprecationWarning")),
            plain(own(Part::Subresources)),
            plain(own(Part::Columns)),
            plain(own(Part::SelectableFields)),
        );
    }
    text.push(']');
    text
}
