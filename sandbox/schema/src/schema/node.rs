//! The compiled form of a schema.

use std::collections::BTreeMap;

use serde_json::Value;

use super::expressions::{self, Rule};
use super::format::Format;
use super::pattern::Pattern;
use super::source::{Additional as SourceAdditional, Items, Source};
use crate::field_error::FieldError;

/// Maximum depth of schemas: validation recurses.
const MAX_DEPTH: usize = 200;

/// The `type` of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Type {
    const ALL: [Self; 6] = [
        Self::Array,
        Self::Boolean,
        Self::Integer,
        Self::Number,
        Self::Object,
        Self::String,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// Names of all types, in the order of error messages.
pub const TYPE_NAMES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    /// A list of objects that are identified by these fields.
    Map(Vec<String>),
}

/// The allowed keys of a map besides declared properties.
#[derive(Debug, Clone, Default)]
pub(super) enum Additional {
    /// Not specified: other keys are unknown.
    #[default]
    Unspecified,
    /// All keys, or none.
    Flag(bool),
    Schema(Box<Node>),
}

/// A schema with its subschemas.
#[allow(
    clippy::struct_excessive_bools,
    reason = "these are independent keywords"
)]
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) type_name: Option<Type>,
    pub(super) int_or_string: bool,
    pub(super) nullable: bool,
    pub(super) format: Option<Format>,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Self>>,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) list_type: ListType,
    pub(super) rules: Rules,
    /// `x-kubernetes-validations`.
    pub(super) expressions: Vec<Rule>,
    /// This schema or a subschema has expressions.
    pub(super) has_expressions: bool,
}

/// Constraints on values.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) required: Vec<String>,
    pub(super) allowed: Vec<Value>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

impl Node {
    /// Returns the schema of a key, or `None` if the key is unknown.
    pub(super) fn of_key(&self, key: &str) -> Option<&Self> {
        if let Some(node) = self.properties.get(key) {
            return Some(node);
        }
        match &self.additional {
            Additional::Schema(node) => Some(node),
            Additional::Unspecified | Additional::Flag(_) => None,
        }
    }

    pub(super) fn allows_type(&self, asked: Type) -> bool {
        if self.int_or_string {
            matches!(asked, Type::Integer | Type::String)
        } else {
            self.type_name == Some(asked)
        }
    }

    /// Returns the type as in messages; `None` if all types are allowed.
    pub(super) fn type_label(&self) -> Option<&'static str> {
        if self.int_or_string {
            Some("integer,string")
        } else {
            self.type_name.map(Type::name)
        }
    }
}

/// Compiles a schema. The errors are those of all parts that cannot be compiled.
pub(super) fn compile(schema: &Value) -> Result<Node, Vec<FieldError>> {
    let mut errors = Vec::new();
    let node = node(Source::new(schema), String::new(), 0, &mut errors);
    if errors.is_empty() {
        Ok(node)
    } else {
        Err(errors)
    }
}

fn node(source: Source<'_>, path: String, depth: usize, errors: &mut Vec<FieldError>) -> Node {
    if depth > MAX_DEPTH {
        errors.push(FieldError::forbidden(
            path,
            "schemas must not be nested that deeply",
        ));
        return Node::default();
    }
    let at = |name: &str| within(&path, name);
    let below = depth.saturating_add(1);
    let type_name = type_name(source, &path, errors);
    let int_or_string = source.is_int_or_string();

    let mut properties = BTreeMap::new();
    for (name, schema) in source.properties() {
        let at = format!("{}[{name}]", at("properties"));
        properties.insert(name.to_owned(), node(schema, at, below, errors));
    }
    let additional = match source.additional() {
        SourceAdditional::None => Additional::Unspecified,
        SourceAdditional::Flag(flag) => Additional::Flag(flag),
        SourceAdditional::Schema(schema) => {
            let at = at("additionalProperties");
            Additional::Schema(Box::new(node(schema, at, below, errors)))
        }
    };
    let items = match source.items() {
        Items::None => None,
        Items::One(schema) => Some(Box::new(node(schema, at("items"), below, errors))),
        Items::Many(_) => {
            let detail = "items must be a schema object and not an array";
            errors.push(FieldError::forbidden(at("items"), detail));
            None
        }
    };

    let expressions = expressions::rules(source);
    let inner = properties.values().any(|node: &Node| node.has_expressions)
        || items.as_ref().is_some_and(|node| node.has_expressions)
        || matches!(&additional, Additional::Schema(node) if node.has_expressions);
    Node {
        has_expressions: inner || !expressions.is_empty(),
        expressions,
        type_name,
        int_or_string,
        nullable: source.flag("nullable"),
        format: Format::of_schema(type_name, int_or_string, source.text("format")),
        default: source.value("default").cloned(),
        properties,
        additional,
        items,
        preserve_unknown: source.preserves_unknown(),
        embedded: source.is_embedded(),
        list_type: list_type(source),
        rules: rules(source, &path, below, errors),
    }
}

/// Returns the path of a keyword.
fn within(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Returns the type of a schema. Unknown types and references to other schemas are errors.
fn type_name(source: Source<'_>, path: &str, errors: &mut Vec<FieldError>) -> Option<Type> {
    let text = source.text("type");
    let known = Type::parse(text);
    if known.is_none() && !text.is_empty() {
        let at = within(path, "type");
        errors.push(FieldError::not_supported(at, &text.into(), &TYPE_NAMES));
    }
    for key in ["$ref", "id", "$schema"] {
        if !source.text(key).is_empty() {
            let why = format!("{key} is not supported");
            errors.push(FieldError::forbidden(within(path, key), &why));
        }
    }
    known
}

fn list_type(source: Source<'_>) -> ListType {
    match source.text("x-kubernetes-list-type") {
        "set" => ListType::Set,
        "map" => ListType::Map(
            source
                .texts("x-kubernetes-list-map-keys")
                .map(str::to_owned)
                .collect(),
        ),
        _ => ListType::Atomic,
    }
}

fn rules(source: Source<'_>, path: &str, below: usize, errors: &mut Vec<FieldError>) -> Rules {
    let at = |name: &str| within(path, name);
    let mut number = |key: &str| {
        let value = source.value(key)?;
        if !value.is_number() {
            errors.push(FieldError::invalid(at(key), value, "must be a number"));
        }
        value.as_f64()
    };
    let [minimum, maximum, multiple_of] = ["minimum", "maximum", "multipleOf"].map(&mut number);
    let mut count = |key: &str| {
        let value = source.value(key)?;
        if !value.is_i64() {
            errors.push(FieldError::invalid(at(key), value, "must be an integer"));
        }
        value.as_i64()
    };
    let [min_length, max_length] = ["minLength", "maxLength"].map(&mut count);
    let [min_items, max_items] = ["minItems", "maxItems"].map(&mut count);
    let [min_properties, max_properties] = ["minProperties", "maxProperties"].map(&mut count);

    let pattern = Some(source.text("pattern")).filter(|text| !text.is_empty());
    let pattern = pattern.and_then(|text| {
        let compiled = Pattern::compile(text);
        compiled
            .map_err(|reason| errors.push(invalid_pattern(at("pattern"), text, &reason)))
            .ok()
    });

    let mut nodes = |key: &str| -> Vec<Node> {
        let schemas = source.schemas(key).enumerate();
        schemas
            .map(|(index, schema)| node(schema, format!("{}[{index}]", at(key)), below, errors))
            .collect()
    };
    let all_of = nodes("allOf");
    let any_of = nodes("anyOf");
    let one_of = nodes("oneOf");
    let not = source
        .schema("not")
        .map(|schema| Box::new(node(schema, at("not"), below, errors)));

    Rules {
        minimum,
        exclusive_minimum: source.flag("exclusiveMinimum"),
        maximum,
        exclusive_maximum: source.flag("exclusiveMaximum"),
        multiple_of,
        min_length,
        max_length,
        pattern,
        min_items,
        max_items,
        unique_items: source.flag("uniqueItems"),
        min_properties,
        max_properties,
        required: source.texts("required").map(str::to_owned).collect(),
        allowed: source.list("enum").to_vec(),
        all_of,
        any_of,
        one_of,
        not,
    }
}

/// Returns the error of a `pattern` that is not a regular expression.
pub(super) fn invalid_pattern(path: String, text: &str, reason: &str) -> FieldError {
    let detail = format!("must be a valid regular expression, but isn't: {reason}");
    FieldError::invalid(path, &text.into(), &detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_unsupported_keywords_are_reported_with_paths() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "text"},
                "b": {"type": "string", "pattern": "("},
                "c": {"type": "integer", "minimum": "x", "maxLength": 1.5},
                "d": {"type": "array", "items": [{"type": "string"}]},
            },
            "allOf": [{"$ref": "#/x"}],
        });
        let fields: Vec<String> = compile(&schema)
            .unwrap_err()
            .into_iter()
            .map(|error| error.field)
            .collect();
        assert_eq!(
            fields,
            [
                "properties[a].type",
                "properties[b].pattern",
                "properties[c].minimum",
                "properties[c].maxLength",
                "properties[d].items",
                "allOf[0].$ref",
            ]
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let mut schema = json!({"type": "string"});
        for _ in 0..300 {
            schema = json!({"type": "array", "items": schema});
        }
        assert!(compile(&schema).is_err());
    }
}
