//! `x-kubernetes-validations`: expressions that validate values of a schema.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::format::Format;
use super::node::{Additional, ListType, Node, Type};
use super::path::Path;
use super::source::Source;
use super::validate::OldItems;
use crate::cel::{
    self, Budget, CelValue, Expression, OUT_OF_BUDGET, OUT_OF_TOTAL_BUDGET, Variables, dynamic,
    escaped,
};
use crate::field_error::{FieldError, FieldErrorKind};

/// Maximum cost of all rules of an object.
const MAX_COST: u64 = 10_000_000;
/// Maximum length of a message from an expression, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// One rule.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// The rule in errors: its message, or the expression.
    shown: String,
    message: String,
    expression: Expression,
    message_expression: Option<Expression>,
    reason: Option<FieldErrorKind>,
    field_path: String,
    /// `oldSelf` is an optional.
    optional_old: bool,
}

impl Rule {
    fn uses_old(&self) -> bool {
        self.expression.uses("oldSelf")
    }
}

/// Parses the rules of a schema. Malformed rules are skipped: their CRD was rejected.
pub(super) fn rules(source: Source<'_>) -> Vec<Rule> {
    let parse = |text: &str| Expression::parse(text).ok();
    source
        .schemas("x-kubernetes-validations")
        .filter_map(|rule| {
            let message = rule.text("message").trim().to_owned();
            let text = rule.text("rule").trim();
            let expression = parse(rule.text("rule"))?;
            Some(Rule {
                shown: if message.is_empty() {
                    text.to_owned()
                } else {
                    message.clone()
                },
                message,
                expression,
                message_expression: Some(rule.text("messageExpression"))
                    .filter(|text| !text.is_empty())
                    .and_then(parse),
                reason: reason(rule.text("reason")),
                field_path: rule.text("fieldPath").to_owned(),
                optional_old: rule.flag("optionalOldSelf"),
            })
        })
        .collect()
}

fn reason(name: &str) -> Option<FieldErrorKind> {
    match name {
        "FieldValueForbidden" => Some(FieldErrorKind::Forbidden),
        "FieldValueRequired" => Some(FieldErrorKind::Required),
        "FieldValueDuplicate" => Some(FieldErrorKind::Duplicate),
        _ => None,
    }
}

/// The results of the rules.
#[derive(Debug)]
pub(super) struct RuleResults {
    pub(super) errors: Vec<FieldError>,
    /// Errors of unchanged values, which are tolerated.
    pub(super) forgiven: Vec<FieldError>,
    exhausted: bool,
    budget: Budget,
}

impl Default for RuleResults {
    fn default() -> Self {
        Self {
            errors: Vec::new(),
            forgiven: Vec::new(),
            exhausted: false,
            budget: Budget::of(MAX_COST),
        }
    }
}

/// Evaluates the rules of a schema for a value and all its parts.
pub(super) fn evaluate(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    results: &mut RuleResults,
) {
    if value.is_null() || results.exhausted || !node.has_expressions {
        return;
    }
    own_rules(node, value, old, path, results);
    match value {
        Value::Array(items) => {
            let Some(of) = node.items.as_deref() else {
                return;
            };
            let before = OldItems::of(node, old);
            for (index, item) in items.iter().enumerate() {
                let old = before.get(item);
                evaluate(of, item, old, &path.index(index), results);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let old = old.and_then(|old| old.get(key));
                match (node.properties.get(key), &node.additional) {
                    (Some(of), _) => evaluate(of, member, old, &path.field(key), results),
                    (None, Additional::Schema(of)) => {
                        evaluate(of, member, old, &path.key(key), results);
                    }
                    (None, _) => {}
                }
            }
        }
        _ => {}
    }
}

fn own_rules(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    results: &mut RuleResults,
) {
    if node.expressions.is_empty() {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    let root = path.is_root();
    let mut variables = Variables::default();
    variables.add("self", converted(node, value, root));
    let old_value = old.map(|old| converted(node, old, root));
    let unchanged = old == Some(value);
    for rule in &node.expressions {
        if rule.uses_old() && old.is_none() && !rule.optional_old {
            continue;
        }
        let old_self = match &old_value {
            value if rule.optional_old => Some(cel::optional(value.clone())),
            value => value.clone(),
        };
        if let Some(old_self) = old_self {
            variables.add("oldSelf", old_self);
        }
        let outcome = rule
            .expression
            .boolean_within(&variables, &mut results.budget);
        let error = match outcome {
            Ok(true) => continue,
            Ok(false) => failed(rule, node, value, path, &variables),
            Err(why) => {
                results.errors.push(unevaluated(rule, node, path, &why));
                results.exhausted = why == OUT_OF_BUDGET || results.budget.is_exhausted();
                if results.exhausted {
                    return;
                }
                continue;
            }
        };
        if unchanged && !rule.uses_old() {
            results.forgiven.push(error);
        } else {
            results.errors.push(error);
        }
    }
}

fn field(path: &Path<'_>, rule: Option<&Rule>) -> String {
    let at = path.bracketed();
    let below = rule
        .map(|rule| normalised(&rule.field_path))
        .unwrap_or_default();
    let joined = match (at.is_empty(), below.is_empty()) {
        (_, true) => at,
        (true, false) => below,
        (false, false) if below.starts_with('[') => format!("{at}{below}"),
        (false, false) => format!("{at}.{below}"),
    };
    if joined.is_empty() {
        "<nil>".to_owned()
    } else {
        joined
    }
}

/// Converts a JSON path such as `.a['b c'].d` to the form of error messages: `a[b c].d`.
fn normalised(path: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    path.replace("['", "[").replace("']", "]")
}

/// Returns the error of a rule that is false.
fn failed(
    rule: &Rule,
    node: &Node,
    value: &Value,
    path: &Path<'_>,
    variables: &Variables,
) -> FieldError {
    let detail = rule
        .message_expression
        .as_ref()
        .and_then(|expression| expression.string(variables).ok())
        .map(|text| text.trim().to_owned())
        .filter(|text| {
            !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains(['\n', '\r'])
        })
        .unwrap_or_else(|| {
            if rule.message.is_empty() {
                format!("failed rule: {}", rule.shown)
            } else {
                rule.message.clone()
            }
        });
    let at = field(path, Some(rule));
    let whole = matches!(node.type_name, Some(Type::Object | Type::Array));
    match rule.reason {
        Some(FieldErrorKind::Forbidden) => FieldError::forbidden(at, &detail),
        Some(FieldErrorKind::Required) => FieldError::required(at, &detail),
        Some(FieldErrorKind::Duplicate) if whole => {
            FieldError::new(FieldErrorKind::Duplicate, at, "Duplicate value")
        }
        Some(FieldErrorKind::Duplicate) => FieldError::duplicate(at, value),
        _ if whole => FieldError::new(
            FieldErrorKind::Invalid,
            at,
            format!("Invalid value: {detail}"),
        ),
        _ => FieldError::invalid(at, value, &detail),
    }
}

/// Returns the error of a rule that cannot be evaluated.
fn unevaluated(rule: &Rule, node: &Node, path: &Path<'_>, why: &str) -> FieldError {
    let shown = &rule.shown;
    if why == OUT_OF_TOTAL_BUDGET {
        let of = node.type_name.map(Type::name).unwrap_or_default();
        return FieldError::invalid(field(path, None), &of.into(), why);
    }
    let detail = if why.starts_with("no such overload") {
        format!(
            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
        )
    } else if why == OUT_OF_BUDGET {
        format!(
            "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
        )
    } else {
        format!("{why} evaluating rule: {shown}")
    };
    let of = node.type_name.map(Type::name).unwrap_or_default();
    FieldError::invalid(field(path, None), &of.into(), &detail)
}

/// Converts a part of an object to a typed value.
fn converted(node: &Node, value: &Value, root: bool) -> CelValue {
    let declared =
        |(key, value): &(&String, &Value)| !(value.is_null() && node.properties.contains_key(*key));
    match value {
        Value::String(text) => match node.format {
            Some(Format::DateTime | Format::PlainDateTime) => cel::timestamp(text),
            Some(Format::Date) => cel::timestamp(&format!("{text}T00:00:00Z")),
            Some(Format::Duration) => cel::duration(text),
            Some(Format::Byte) => STANDARD
                .decode(text)
                .map_or_else(|_| dynamic(value), |bytes| CelValue::Bytes(Arc::new(bytes))),
            _ => dynamic(value),
        },
        Value::Number(number) if node.type_name == Some(Type::Number) => {
            number.as_f64().map_or(CelValue::Null, CelValue::Float)
        }
        Value::Array(items) => match node.items.as_deref() {
            Some(of) => {
                let items = items.iter().map(|item| converted(of, item, false));
                match list_kind(node) {
                    Some(kind) => cel::typed_list(kind, items.collect()),
                    None => CelValue::List(Arc::new(items.collect())),
                }
            }
            None => dynamic(value),
        },
        // A field that is null counts as absent.
        Value::Object(members) => cel::map(members.iter().filter(declared).map(|(key, member)| {
            if (root || node.embedded) && key == "metadata" {
                return (key.clone(), metadata(member));
            }
            match (node.properties.get(key), &node.additional) {
                (Some(of), _) => (escaped(key), converted(of, member, false)),
                (None, Additional::Schema(of)) => (key.clone(), converted(of, member, false)),
                (None, _) => (escaped(key), dynamic(member)),
            }
        })),
        other => dynamic(other),
    }
}

/// Returns the kind of a list whose order is not significant.
fn list_kind(node: &Node) -> Option<cel::ListKind> {
    match &node.list_type {
        ListType::Atomic => None,
        ListType::Set => Some(cel::ListKind::Set),
        ListType::Map(keys) => {
            let keys = keys.iter().map(|key| escaped(key));
            Some(cel::ListKind::Map(keys.collect()))
        }
    }
}

/// Returns the metadata that are visible to rules.
fn metadata(metadata: &Value) -> CelValue {
    let seen = ["name", "generateName"].into_iter();
    cel::map(seen.filter_map(|name| Some((name.to_owned(), dynamic(metadata.get(name)?)))))
}

/// Returns the type of the values of a schema.
fn type_of(schema: Source<'_>, path: &str, root: bool) -> Option<cel::Type> {
    use cel::Type;
    if schema.is_int_or_string() {
        return Some(Type::Dyn);
    }
    Some(match schema.text("type") {
        "boolean" => Type::plain("bool"),
        "integer" => Type::plain("int"),
        "number" => Type::plain("double"),
        "string" => Type::plain(match schema.text("format") {
            "byte" => "bytes",
            "date" | "date-time" => "timestamp",
            "duration" => "duration",
            _ => "string",
        }),
        "array" => match schema.items() {
            super::Items::One(items) => Type::list(type_of(items, &format!("{path}.@idx"), false)?),
            _ => return None,
        },
        "object" => match schema.additional() {
            super::Additional::Schema(values) => {
                Type::map(type_of(values, &format!("{path}.@elem"), false)?)
            }
            _ => object_type(schema, path, root),
        },
        _ => return None,
    })
}

fn object_type(schema: Source<'_>, path: &str, root: bool) -> cel::Type {
    use cel::Type;
    let declared = schema.properties().filter_map(|(name, property)| {
        let name = escaped(name);
        let of = type_of(property, &format!("{path}.{name}"), false)?;
        Some((name, of))
    });
    let mut fields: Vec<(String, Type)> = declared.collect();
    if root || schema.is_embedded() {
        let string = || Type::plain("string");
        let visible = ["name", "generateName"].map(|name| (name.to_owned(), string()));
        let metadata = Type::object(&format!("{path}.metadata"), visible);
        fields.push(("apiVersion".to_owned(), string()));
        fields.push(("kind".to_owned(), string()));
        fields.push(("metadata".to_owned(), metadata));
    }
    Type::object(path, fields)
}

/// The purpose of an expression of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Rule,
    Message,
}

/// Returns the error of an expression of a rule of this schema, if it has one.
pub fn expression_problem(
    schema: Source<'_>,
    root: bool,
    rule: Source<'_>,
    purpose: Purpose,
) -> Option<String> {
    let (key, kind) = match purpose {
        Purpose::Rule => ("rule", ""),
        Purpose::Message => ("messageExpression", "messageExpression "),
    };
    let text = rule.text(key);
    if text.trim().is_empty() {
        return None;
    }
    let failed = |problem: String| Some(format!("{kind}compilation failed: {problem}"));
    let expression = match Expression::parse(text) {
        Ok(expression) => expression,
        Err(error) => return failed(error),
    };
    let of = type_of(schema, "selfType", root).unwrap_or(cel::Type::Dyn);
    let old = if rule.flag("optionalOldSelf") {
        cel::Type::Optional(Box::new(of.clone()))
    } else {
        of.clone()
    };
    let checked = expression.checked(&[("self", of), ("oldSelf", old)]);
    if let (Ok(_), Some(error)) = (&checked, expression.constant_error()) {
        return Some(format!("{kind}program instantiation failed: {error}"));
    }
    match checked {
        Err(problem) => failed(problem),
        Ok(of) => match purpose {
            Purpose::Rule if of != cel::Type::plain("bool") => {
                Some("cel expression must evaluate to a bool".to_owned())
            }
            Purpose::Message if of != cel::Type::plain("string") => {
                Some("messageExpression must evaluate to a string".to_owned())
            }
            _ => None,
        },
    }
}

/// Returns `true` if a `fieldPath` such as `.a['b c'].d` refers to a field of this schema.
pub fn leads_somewhere(schema: Source<'_>, path: &str) -> bool {
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            match quoted.split_once("']") {
                Some(split) => split,
                None => return false,
            }
        } else if let Some(plain) = rest.strip_prefix('.') {
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            plain.split_at(end)
        } else {
            return false;
        };
        schema = match (schema.property(name), schema.additional()) {
            (Some(found), _) | (None, super::Additional::Schema(found)) => found,
            _ => return false,
        };
        rest = after;
    }
    true
}
