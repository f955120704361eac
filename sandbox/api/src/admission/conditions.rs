//! `matchConditions`: expressions that decide if a webhook or policy applies to a request.

use kopf_sandbox_schema::cel::{
    self, Budget, CelValue, Expression, OUT_OF_TOTAL_BUDGET, Requester, Resource, Type, Variables,
    dynamic,
};
use kopf_sandbox_schema::field_error::{FieldError, FieldErrorKind};
use kopf_sandbox_schema::object::label_rules::label_key_errors;
use serde_json::{Value, json};

use super::matching::Attributes;
use super::review_request;

/// Maximum number of conditions of one webhook or policy.
const MAX_CONDITIONS: usize = 64;
/// Maximum cost of all conditions of one webhook or policy.
const MAX_COST: u64 = 2_500_000;

/// The conditions of one webhook or policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions(Vec<Condition>);

#[derive(Debug, Clone)]
struct Condition {
    text: String,
    /// The parsed expression, or the error of the parser.
    expression: Result<Expression, String>,
}

/// The outcome of all conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    No,
    /// No condition is false, but at least one could not be evaluated.
    Failed(String),
}

impl Conditions {
    pub(super) fn read(conditions: Option<&Value>) -> Self {
        let conditions = conditions.and_then(Value::as_array);
        let read = |condition: &Value| {
            let text = condition.get("expression").and_then(Value::as_str);
            let text = text.unwrap_or_default();
            Condition {
                text: text.to_owned(),
                expression: Expression::parse(text),
            }
        };
        Self(conditions.into_iter().flatten().map(read).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn evaluate(&self, variables: &Variables) -> Match {
        let mut errors: Vec<String> = Vec::new();
        let mut budget = Budget::of(MAX_COST);
        for condition in &self.0 {
            let outcome = match &condition.expression {
                Ok(expression) => expression.boolean_within(variables, &mut budget),
                Err(error) => Err(error.clone()),
            };
            if budget.is_exhausted() {
                return Match::Failed(OUT_OF_TOTAL_BUDGET.to_owned());
            }
            match outcome {
                Ok(true) => {}
                Ok(false) => return Match::No,
                Err(error) => {
                    let text = &condition.text;
                    let error = format!("expression '{text}' resulted in error: {error}");
                    if !errors.contains(&error) {
                        errors.push(error);
                    }
                }
            }
        }
        match errors.as_slice() {
            [] => Match::Yes,
            [only] => Match::Failed(only.clone()),
            many => Match::Failed(format!("[{}]", many.join(", "))),
        }
    }
}

/// Returns the variables of expressions for a request. The objects are in the given version.
pub(super) fn variables(
    attributes: &Attributes<'_>,
    version: &str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Variables {
    let mut variables = Variables::default();
    let value = |object: Option<&Value>| object.map_or(CelValue::Null, dynamic);
    variables.add("object", value(object));
    variables.add("oldObject", value(old));
    variables.add("namespaceObject", CelValue::Null);
    let request = review_request::facts(attributes, version);
    variables.add("request", dynamic(&request));
    variables.add("authorizer", authorizer(attributes));
    variables
}

/// Returns the variable `authorizer`, which checks rights of the user by default.
fn authorizer(attributes: &Attributes<'_>) -> CelValue {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let requester = Requester {
        authorizer: attributes.authorizer.clone(),
        user: attributes.user.clone(),
    };
    let request = Resource {
        group: attributes.kind.group.to_string(),
        plural: attributes.kind.plural.to_string(),
        subresource: text(attributes.subresource),
        namespace: text(attributes.effective_namespace()),
        name: attributes.name.to_owned(),
    };
    cel::authorizer(requester, request)
}

/// Returns the errors of the conditions of a webhook or policy.
pub(super) fn problems(
    conditions: Option<&Value>,
    path: &str,
    declared: &[(&str, Type)],
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let conditions = conditions.and_then(Value::as_array);
    let conditions = conditions.map_or(&[][..], Vec::as_slice);
    if conditions.len() > MAX_CONDITIONS {
        let message = format!(
            "Too many: {}: must have at most {MAX_CONDITIONS} items",
            conditions.len()
        );
        errors.push(FieldError::new(FieldErrorKind::TooMany, path, message));
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = |key: &str| format!("{path}[{index}].{key}");
        let text = |key: &str| {
            condition
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (name, expression) = (text("name"), text("expression").trim());
        let problem = expression_problem(expression, &at("expression"), declared, Wanted::Bool);
        errors.extend(problem);
        if name.is_empty() {
            errors.push(FieldError::required(at("name"), ""));
        } else {
            for problem in label_key_errors(name) {
                errors.push(FieldError::invalid(at("name"), &json!(name), &problem));
            }
            if names.contains(&name) {
                errors.push(FieldError::duplicate(at("name"), &json!(name)));
            }
            names.push(name);
        }
    }
    errors
}

/// The expected type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    Bool,
    Text,
    TextOrNull,
    Object,
    Patches,
}

impl Wanted {
    /// Returns the names of the accepted types, or no names if all types are accepted.
    fn accepted(self) -> &'static [&'static str] {
        match self {
            Self::Any => &[],
            Self::Bool => &["bool"],
            Self::Text => &["string"],
            Self::TextOrNull => &["string", "null"],
            Self::Object => &["Object"],
            Self::Patches => &["list(JSONPatch)"],
        }
    }

    /// Returns the error of a type that is not accepted.
    fn problem(self, of: &Type) -> Option<String> {
        let name = of.to_string();
        let accepted = self.accepted();
        if accepted.is_empty() || accepted.contains(&name.as_str()) {
            return None;
        }
        let name = if name == "null" { "null_type" } else { &name };
        let wanted = match self {
            Self::TextOrNull => "one of [string null_type]",
            _ => accepted.first().copied().unwrap_or_default(),
        };
        Some(format!("must evaluate to {wanted} but got {name}"))
    }
}

/// Returns the error of a required expression, if it has one.
pub(super) fn expression_problem(
    text: &str,
    path: &str,
    declared: &[(&str, Type)],
    wanted: Wanted,
) -> Option<FieldError> {
    let constructs = matches!(wanted, Wanted::Object | Wanted::Patches);
    if text.trim().is_empty() {
        let detail = if constructs || path.contains("matchConditions") {
            ""
        } else {
            "expression is not specified"
        };
        return Some(FieldError::required(path, detail));
    }
    let checked = Expression::parse(text).and_then(|expression| {
        if constructs {
            expression.checked_with_objects(declared)
        } else {
            expression.checked(declared)
        }
    });
    let detail = match checked {
        Ok(of) => wanted.problem(&of)?,
        Err(problem) => format!("compilation failed: {problem}"),
    };
    Some(FieldError::invalid(path, &json!(text), &detail))
}
