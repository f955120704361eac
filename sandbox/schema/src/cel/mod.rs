//! Expressions of the Common Expression Language, based on the crates `cel` and `kube-cel`.
//!
//! The crates parse expressions, and have the functions that `functions` does not replace. This
//! module checks and evaluates: it has optionals, types as values, lists without order, loops with
//! two variables, absorption of errors, and the cost limit of a real server. Panics of the crates
//! become errors.

mod arithmetic;
mod authorization;
mod bounded;
mod checker;
mod conversions;
mod cost;
mod evaluate;
mod formatting;
mod functions;
mod library;
mod lists;
mod literals;
mod macros;
mod members;
mod names;
mod opaque;
mod operators;
mod parser;
mod patterns;
mod rewrite;
mod signatures;
mod strings;
#[cfg(test)]
mod tests;
mod times;
mod tokens;
mod types;
mod urls;
mod values;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::{IdedExpr, Value};

pub use self::authorization::{Requester, Resource, authorizer};
pub use self::opaque::{ListKind, failed, typed_list};
pub use self::types::Type;
pub use self::values::{duration, dynamic, escaped, map, timestamp, to_json};

/// A value of an expression.
pub type CelValue = Value;

/// Maximum depth of expressions that are evaluated on the current stack. The evaluator needs tens
/// of kilobytes per level in debug builds, so deeper ones get their own stack.
const MAX_INLINE_DEPTH: usize = 16;

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expression {
    text: Arc<str>,
    parsed: Arc<IdedExpr>,
    /// Depth of the parsed form.
    depth: usize,
    names: Arc<BTreeSet<String>>,
}

/// Variables of an evaluation.
#[derive(Debug, Default, Clone)]
pub struct Variables {
    values: Vec<(&'static str, Value)>,
}

impl Variables {
    /// Adds or replaces a variable.
    pub fn add(&mut self, name: &'static str, value: Value) {
        self.values.retain(|(known, _)| *known != name);
        self.values.push((name, value));
    }
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// The expression is malformed or too long.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = parser::parse(text)?;
        Ok(Self {
            text: text.into(),
            depth: names::depth(&parsed),
            names: Arc::new(names::free(&parsed)),
            parsed: Arc::new(parsed),
        })
    }

    /// Parses an expression that can construct objects: `Object{…}`, `JSONPatch{…}`.
    ///
    /// # Errors
    ///
    /// The expression is malformed or too long.
    pub fn parse_with_objects(text: &str) -> Result<Self, String> {
        let expression = Self::parse(text)?;
        let parsed = rewrite::objects((*expression.parsed).clone())?;
        Ok(Self {
            parsed: Arc::new(parsed),
            ..expression
        })
    }

    /// Returns `true` if the expression refers to a variable.
    pub fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns the type of the expression.
    ///
    /// # Errors
    ///
    /// The expression has undeclared names, unknown fields or arguments of wrong types.
    pub fn checked(&self, variables: &[(&str, Type)]) -> Result<Type, String> {
        checker::checked(&self.text, &self.parsed, variables, false)
    }

    /// Returns the type of an expression that can construct objects: `Object{…}`, `JSONPatch{…}`.
    ///
    /// # Errors
    ///
    /// As for [`checked`](Self::checked).
    pub fn checked_with_objects(&self, variables: &[(&str, Type)]) -> Result<Type, String> {
        checker::checked(&self.text, &self.parsed, variables, true)
    }

    /// Returns the error of a conversion of a constant, such as `int('x')`.
    pub(crate) fn constant_error(&self) -> Option<String> {
        let conversions = names::constant_conversions(&self.parsed);
        let mut errors = conversions
            .into_iter()
            .filter_map(|part| evaluate::evaluate(part, &Variables::default()).0.err());
        errors.next()
    }

    /// Returns all chains of nested loops over a variable and its fields: for each loop, the path of fields.
    pub(crate) fn loops_over(&self, name: &str) -> Vec<Vec<Vec<String>>> {
        names::loops_over(&self.parsed, name)
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    ///
    /// The evaluation fails, or exceeds the cost limit.
    pub fn evaluate(&self, variables: &Variables) -> Result<Value, String> {
        self.evaluate_with_cost(variables).0
    }

    fn evaluate_with_cost(&self, variables: &Variables) -> (Result<Value, String>, u64) {
        let evaluated = if self.depth > MAX_INLINE_DEPTH {
            crate::stack::on_large_stack(|| self.resolve(variables))
        } else {
            self.resolve(variables)
        };
        evaluated.unwrap_or_else(|error| (Err(error), 0))
    }

    fn resolve(&self, variables: &Variables) -> Result<(evaluate::Outcome, u64), String> {
        let run = || evaluate::evaluate(&self.parsed, variables);
        catch_unwind(AssertUnwindSafe(run))
            .map_err(|_| format!("internal error evaluating {:?}", self.text))
    }

    /// Evaluates an expression of type bool, at the expense of a budget.
    ///
    /// # Errors
    ///
    /// The evaluation fails, returns another type, or exhausts the budget.
    pub fn boolean_within(
        &self,
        variables: &Variables,
        budget: &mut Budget,
    ) -> Result<bool, String> {
        let (outcome, cost) = self.evaluate_with_cost(variables);
        budget.spend(cost);
        if budget.is_exhausted() {
            return Err(OUT_OF_TOTAL_BUDGET.to_owned());
        }
        match outcome? {
            Value::Bool(value) => Ok(value),
            _ => Err("expression must evaluate to bool".to_owned()),
        }
    }

    /// Evaluates an expression of type string.
    ///
    /// # Errors
    ///
    /// The evaluation fails or returns another type.
    pub fn string(&self, variables: &Variables) -> Result<String, String> {
        match self.evaluate(variables)? {
            Value::String(text) => Ok(text.to_string()),
            _ => Err("expression must evaluate to string".to_owned()),
        }
    }
}

/// The cost that several expressions may have together.
#[derive(Debug)]
pub struct Budget(Option<u64>);

impl Budget {
    /// Returns a budget of `units` units of cost.
    pub fn of(units: u64) -> Self {
        Self(Some(units))
    }

    fn spend(&mut self, cost: u64) {
        self.0 = self.0.and_then(|left| left.checked_sub(cost));
    }

    /// Returns `true` if more was spent than available.
    pub fn is_exhausted(&self) -> bool {
        self.0.is_none()
    }
}

/// The error of expressions that together exceed their budget.
pub const OUT_OF_TOTAL_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The error of an expression that exceeds its budget.
pub(crate) const OUT_OF_BUDGET: &str = "operation cancelled: actual cost limit exceeded";

/// Returns an optional.
pub fn optional(content: Option<Value>) -> Value {
    content.map_or_else(opaque::none, opaque::of)
}
