//! Structural schemas of custom resources.
//!
//! A schema is compiled once and used by every write, in this order: [`Structural::prune`] drops
//! unknown fields, [`Structural::default`] sets defaults, [`Structural::validate`] returns errors.
//! The module is pure and never panics.

mod default;
mod defaults;
mod embedded;
mod expressions;
mod format;
mod list_type;
mod node;
mod path;
mod pattern;
mod prune;
mod source;
mod structural;
mod validate;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use self::default::Nulls;
pub use self::defaults::defaults;
use self::expressions::RuleResults;
pub use self::expressions::{Purpose, expression_problem, leads_somewhere};
use self::node::Node;
pub use self::node::TYPE_NAMES;
use self::path::Path;
use self::pattern::Pattern;
pub use self::source::{Additional, Items, Source};
pub use self::structural::structural;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::fields;
use crate::pattern_weight::{MAX_TOTAL, MAX_WEIGHT};

/// The error of an object whose expressions were not evaluated.
const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// The outcome of a validation.
#[derive(Debug)]
pub struct Verdict {
    pub errors: Vec<FieldError>,
    /// Errors of unchanged parts, which are tolerated.
    pub warnings: Vec<String>,
}

/// A compiled `openAPIV3Schema`.
#[derive(Debug, Clone)]
pub struct Structural {
    root: Node,
    raw: Value,
    /// Types for server-side apply; computed on first use.
    fields: OnceLock<Arc<fields::Schema>>,
}

impl Structural {
    /// Compiles a schema. The errors have paths relative to it.
    pub fn compile(schema: &Value) -> Result<Self, Vec<FieldError>> {
        let root = node::compile(schema)?;
        Ok(Self {
            root,
            raw: schema.clone(),
            fields: OnceLock::new(),
        })
    }

    /// Returns the types for server-side apply. Their root is that of the kind with the empty name.
    pub fn fields(&self) -> &fields::Schema {
        self.fields
            .get_or_init(|| Arc::new(fields::custom("", Some(&self.raw))))
    }

    /// Returns the schema as in the CRD.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Drops unknown fields. Returns their paths.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Sets defaults, and drops nulls that the schema does not allow.
    pub fn default(&self, object: &mut Value) {
        default::default(&self.root, object, Nulls::Drop);
    }

    /// Sets defaults, and keeps nulls that the schema does not allow.
    pub fn default_keeping_nulls(&self, object: &mut Value) {
        default::default(&self.root, object, Nulls::Keep);
    }

    /// Returns the errors of an object. With `old`, the object before the change, errors of
    /// unchanged parts are tolerated.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Verdict {
        let mut errors = validate::validate(&self.root, object, old, "");
        embedded::validate(&self.root, object, &Path::Root, &mut errors);
        self.lists(object, old, &mut errors);
        self.with_expressions(object, old, errors)
    }

    /// Validates a write to the `status` subresource: only the status, except by expressions.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Verdict {
        let mut errors = match (object.get("status"), self.root.properties.get("status")) {
            (Some(status), Some(node)) => {
                validate::validate(node, status, old.get("status"), "status")
            }
            _ => Vec::new(),
        };
        self.lists(object, Some(old), &mut errors);
        self.with_expressions(object, Some(old), errors)
    }

    /// Evaluates expressions, unless earlier errors prevent it.
    fn with_expressions(
        &self,
        object: &Value,
        old: Option<&Value>,
        mut errors: Vec<FieldError>,
    ) -> Verdict {
        let mut results = RuleResults::default();
        if !self.root.has_expressions {
            return Verdict {
                errors,
                warnings: Vec::new(),
            };
        }
        let blocks = |error: &FieldError| {
            use FieldErrorKind::{Required, TooLong, TooMany, TypeInvalid};
            matches!(error.kind, Required | TooLong | TooMany | TypeInvalid)
        };
        if errors.iter().any(blocks) {
            errors.push(FieldError::invalid("<nil>", &Value::Null, UNCHECKED));
        } else {
            expressions::evaluate(&self.root, object, old, &Path::Root, &mut results);
            errors.extend(results.errors);
        }
        let warning = |error: FieldError| format!("{}: {}", error.field, error.message);
        Verdict {
            errors,
            warnings: results.forgiven.into_iter().map(warning).collect(),
        }
    }

    /// Validates duplicates in lists. They are tolerated for the whole object: one that had
    /// duplicates may keep or add some.
    fn lists(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let had_duplicates = old.is_some_and(|old| {
            let mut errors = Vec::new();
            list_type::validate(&self.root, old, &Path::Root, &mut errors);
            !errors.is_empty()
        });
        if !had_duplicates {
            list_type::validate(&self.root, object, &Path::Root, errors);
        }
    }
}

/// Returns `true` if the server supports a format for schemas of this type.
pub(crate) fn knows_format(type_name: &str, format: &str) -> bool {
    let known = node::Type::parse(type_name);
    (known.is_some() || type_name.is_empty())
        && format::Format::of_schema(known, false, format).is_some()
}

#[cfg(test)]
mod tests;

/// Returns `true` if the patterns of schemas are too large together to be compiled in time.
pub(crate) fn has_heavy_patterns<'a>(schemas: impl IntoIterator<Item = &'a Value>) -> bool {
    let mut total: u64 = 0;
    schemas.into_iter().any(|schema| {
        Source::new(schema).any(&mut |part: Source<'_>| {
            let pattern = part.text("pattern");
            if !pattern.is_empty() {
                // One that is too large alone has an error of its own.
                let weight = Pattern::weight_of(pattern);
                total = total.saturating_add(weight.min(MAX_WEIGHT));
            }
            for rule in part.list("x-kubernetes-validations") {
                let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
                total = total.saturating_add(text.matches("\\p").count() as u64 * 650);
            }
            total > MAX_TOTAL
        })
    })
}
