//! Expressions of the Common Expression Language, based on the crates `cel` and `kube-cel`.
//!
//! The crates parse expressions and have the library of functions. This module evaluates: it has
//! optionals, types as values, lists without order, loops with two variables, absorption of errors,
//! and the cost limit of a real server. Panics of the crates become errors.

mod arithmetic;
mod authorization;
mod bounded;
mod checker;
mod conversions;
mod evaluate;
mod formatting;
mod functions;
mod library;
mod lists;
mod literals;
mod macros;
mod names;
mod opaque;
mod operators;
mod parser;
mod rewrite;
mod signatures;
mod strings;
mod times;
mod tokens;
mod types;
mod urls;
mod values;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::{IdedExpr, Value};

pub(crate) use self::authorization::{Requester, Resource, authorizer};
pub(crate) use self::opaque::{ListKind, failed, typed_list};
pub(crate) use self::types::Type;
pub(crate) use self::values::{duration, dynamic, escaped, map, timestamp, to_json};

/// A value of an expression.
pub(crate) type CelValue = Value;

/// Maximum depth of expressions that are evaluated on the current stack. The evaluator needs tens
/// of kilobytes per level in debug builds, so deeper ones get their own stack.
const MAX_INLINE_DEPTH: usize = 16;

/// A parsed expression.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    text: Arc<str>,
    parsed: Arc<IdedExpr>,
    /// Depth of the parsed form.
    depth: usize,
    names: Arc<BTreeSet<String>>,
}

/// Variables of an evaluation.
#[derive(Debug, Default, Clone)]
pub(crate) struct Variables {
    values: Vec<(&'static str, Value)>,
}

impl Variables {
    /// Adds or replaces a variable.
    pub(crate) fn add(&mut self, name: &'static str, value: Value) {
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
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
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
    pub(crate) fn parse_with_objects(text: &str) -> Result<Self, String> {
        let expression = Self::parse(text)?;
        let parsed = rewrite::objects((*expression.parsed).clone());
        Ok(Self {
            parsed: Arc::new(parsed),
            ..expression
        })
    }

    /// Returns `true` if the expression refers to a variable.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns the type of the expression.
    ///
    /// # Errors
    ///
    /// The expression has undeclared names, unknown fields or arguments of wrong types.
    pub(crate) fn checked(&self, variables: &[(&str, Type)]) -> Result<Type, String> {
        checker::checked(&self.text, &self.parsed, variables, false)
    }

    /// Returns the type of an expression that can construct objects: `Object{…}`, `JSONPatch{…}`.
    ///
    /// # Errors
    ///
    /// As for [`checked`](Self::checked).
    pub(crate) fn checked_with_objects(&self, variables: &[(&str, Type)]) -> Result<Type, String> {
        checker::checked(&self.text, &self.parsed, variables, true)
    }

    /// Returns the error of a conversion of a constant, such as `int('x')`.
    pub(crate) fn constant_error(&self) -> Option<String> {
        let conversions = names::constant_conversions(&self.parsed);
        let mut errors = conversions
            .into_iter()
            .filter_map(|part| evaluate::evaluate(part, &Variables::default()).err());
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
    pub(crate) fn evaluate(&self, variables: &Variables) -> Result<Value, String> {
        if self.depth > MAX_INLINE_DEPTH {
            crate::stack::on_large_stack(|| self.resolve(variables))
        } else {
            self.resolve(variables)
        }
    }

    fn resolve(&self, variables: &Variables) -> Result<Value, String> {
        let run = || evaluate::evaluate(&self.parsed, variables);
        catch_unwind(AssertUnwindSafe(run))
            .map_err(|_| format!("internal error evaluating {:?}", self.text))?
    }

    /// Evaluates an expression of type bool.
    ///
    /// # Errors
    ///
    /// The evaluation fails or returns another type.
    pub(crate) fn boolean(&self, variables: &Variables) -> Result<bool, String> {
        match self.evaluate(variables)? {
            Value::Bool(value) => Ok(value),
            _ => Err("expression must evaluate to bool".to_owned()),
        }
    }

    /// Evaluates an expression of type string.
    ///
    /// # Errors
    ///
    /// The evaluation fails or returns another type.
    pub(crate) fn string(&self, variables: &Variables) -> Result<String, String> {
        match self.evaluate(variables)? {
            Value::String(text) => Ok(text.to_string()),
            _ => Err("expression must evaluate to string".to_owned()),
        }
    }
}

/// The error of an expression that exceeds its budget.
pub(crate) const OUT_OF_BUDGET: &str = "operation cancelled: actual cost limit exceeded";

/// Returns an optional.
pub(crate) fn optional(content: Option<Value>) -> Value {
    content.map_or_else(opaque::none, opaque::of)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluated(text: &str) -> Result<bool, String> {
        let object = json!({"x": [1], "name": "abc", "map": {"a": 1}, "empty": {}});
        let mut variables = Variables::default();
        variables.add("self", dynamic(&object));
        Expression::parse(text)?.boolean(&variables)
    }

    #[test]
    fn expressions_of_kubernetes_are_evaluated() {
        for text in [
            "self.x.all(i, i > 0) && self.name.matches('a.c')",
            "self.?y.orValue(3) == 3 && self.?name.orValue('') == 'abc'",
            "self.?map.?b.hasValue() == false",
            "self.map[?'a'].orValue(5) == 1",
            "type(self.x[0]) == int && type(self.name) == string",
            "dyn(self.x)[0] == 1",
            "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
            "ip('1.2.3.4').family() == 4",
            "duration('90s') < duration('2m')",
            "timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020",
            "!has(self.z) || self.z.q == 1",
            "'%s-%d'.format(['a', 1]) == 'a-1'",
            "sets.contains([1, 2], self.x)",
            "has(self.map.a) && !has(self.map.b)",
        ] {
            assert_eq!(evaluated(text), Ok(true), "{text}");
        }
    }

    #[test]
    fn evaluation_failures_are_errors() {
        for (text, part) in [
            ("1 +", "Syntax error"),
            ("self.y", "no such key: y"),
            ("1 / 0 == 1", "division by zero"),
            ("self.x", "must evaluate to bool"),
            ("'a' + 1 == 'b'", "no such overload"),
        ] {
            let error = evaluated(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn nested_loops_over_large_lists_are_rejected() {
        let list = json!((0..5_000).collect::<Vec<_>>());
        let mut variables = Variables::default();
        variables.add("self", dynamic(&list));
        let expression = Expression::parse("self.all(a, self.all(b, a != b || a == b))").unwrap();
        assert_eq!(
            expression.boolean(&variables),
            Err(OUT_OF_BUDGET.to_owned())
        );
    }

    #[test]
    fn results_are_bounded() {
        let text = json!("a".repeat(1_000));
        let mut variables = Variables::default();
        variables.add("self", dynamic(&text));
        let sum = format!("x{}", " + x".repeat(40));
        for text in [
            "self.replace('a', self).replace('a', self).size() > 0".to_owned(),
            "self.split('').join(self.replace('a', self.substring(980))) != ''".to_owned(),
            "lists.range(9223372036854775807).size() > 0".to_owned(),
            format!("[self]{} != []", format!(".map(x, {sum})").repeat(4)),
        ] {
            let expression = Expression::parse(&text).unwrap();
            let evaluated = expression.boolean(&variables);
            assert_eq!(evaluated, Err(OUT_OF_BUDGET.to_owned()), "{text}");
        }
        for text in [
            "self.replace('a', 'bc', 1).startsWith('bca')",
            "'aa'.replace('a', 'b', -1) == 'bb' && 'aa'.replace('a', 'b', 0) == 'aa'",
            "['a', 'b'].join('-') == 'a-b' && ['a'].join() == 'a'",
            "lists.range(3) == [0, 1, 2]",
            "[self].map(x, x + x).map(x, x + x)[0].size() == 4000",
        ] {
            let expression = Expression::parse(text).unwrap();
            assert_eq!(expression.boolean(&variables), Ok(true), "{text}");
        }
    }

    #[test]
    fn deepest_expressions_fit_on_a_stack() {
        for text in [
            format!("{}1{} == 1", "[".repeat(90), "]".repeat(90)),
            format!("1{} > 0", "+1".repeat(90)),
            format!("self{} == 1", ".a".repeat(90)),
            format!("{}true{}", "!(".repeat(40), ")".repeat(40)),
            format!("{}true", "true ? ".repeat(20) + &"true : ".repeat(0)),
            format!("{}[1]{}", "[1].map(x, ".repeat(15), ")".repeat(15)),
        ] {
            if let Ok(expression) = Expression::parse(&text) {
                let mut variables = Variables::default();
                variables.add("self", dynamic(&json!({})));
                let _ = expression.evaluate(&variables);
            }
        }
    }

    #[test]
    fn undeclared_names_are_reported() {
        let expression = Expression::parse("self.a.all(x, x > limit && x != int(1))").unwrap();
        assert!(expression.uses("self") && !expression.uses("x") && !expression.uses("a"));
        let known = [("self", Type::Dyn)];
        let error = expression.checked(&known).unwrap_err();
        assert!(error.contains("undeclared reference to 'limit'"), "{error}");
    }

    #[test]
    fn optional_variables_have_a_value_or_none() {
        let expression = Expression::parse("old.hasValue() ? old.value() == 1 : false").unwrap();
        for (content, expected) in [(Some(Value::Int(1)), true), (None, false)] {
            let mut variables = Variables::default();
            variables.add("old", optional(content));
            assert_eq!(expression.boolean(&variables), Ok(expected));
        }
    }
}
