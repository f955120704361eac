//! Evaluation of parsed expressions.
//!
//! The evaluator of the crate `cel` is used only for library functions: it does not absorb errors
//! in loops, loses optionals, and has neither typed lists nor a cost limit.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    operators,
};
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{IdedExpr, Value};

use super::opaque::{as_list, as_optional, failure, list, of, type_named};
use super::operators::NO_OVERLOAD;
use super::{OUT_OF_BUDGET, Variables, cost, functions, members, names};

/// The result of a part of an expression.
pub(super) type Outcome = Result<Value, String>;

/// One evaluation of an expression.
pub(super) struct Evaluation<'a> {
    /// Variables, the innermost last.
    scope: Vec<(&'a str, Outcome)>,
    cost: u64,
}

/// Evaluates an expression, and returns the result and the cost.
pub(super) fn evaluate(expression: &IdedExpr, variables: &Variables) -> (Outcome, u64) {
    let known = variables.values.iter();
    let mut evaluation = Evaluation {
        scope: known
            .map(|(name, value)| (*name, Ok(value.clone())))
            .collect(),
        cost: 0,
    };
    let outcome = evaluation.value(expression);
    if evaluation.cost > cost::MAX_COST {
        return (Err(OUT_OF_BUDGET.to_owned()), evaluation.cost);
    }
    (outcome, evaluation.cost)
}

impl<'a> Evaluation<'a> {
    /// Adds to the cost.
    ///
    /// # Errors
    ///
    /// The cost exceeds the limit.
    fn charge(&mut self, cost: u64) -> Result<(), String> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > cost::MAX_COST {
            return Err(OUT_OF_BUDGET.to_owned());
        }
        Ok(())
    }

    fn value(&mut self, whole: &'a IdedExpr) -> Outcome {
        match &whole.expr {
            Expr::Literal(literal) => Ok(constant(literal)),
            Expr::Ident(name) => {
                self.charge(1)?;
                self.variable(name)
            }
            Expr::Select(select) => self.select(select, whole),
            Expr::List(made) => self.list(made),
            Expr::Map(made) => self.map(made),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::Call(call) => self.call(call),
            Expr::Struct(made) => Err(format!("unknown type: {}", made.type_name)),
            Expr::Unspecified => Err(NO_OVERLOAD.to_owned()),
        }
    }

    fn variable(&self, name: &str) -> Outcome {
        let known = self.scope.iter().rev().find(|(known, _)| *known == name);
        match known {
            Some((_, outcome)) => outcome.clone(),
            None => type_named(name).ok_or_else(|| format!("no such attribute(s): {name}")),
        }
    }

    fn is_variable(&self, name: &str) -> bool {
        self.scope.iter().any(|(known, _)| *known == name)
    }

    fn select(&mut self, select: &'a SelectExpr, whole: &'a IdedExpr) -> Outcome {
        if let Some(path) = names::path(whole)
            && !path.first().is_some_and(|name| self.is_variable(name))
            && let Some(named) = type_named(&path.join("."))
        {
            return Ok(named);
        }
        let operand = self.value(&select.operand)?;
        self.charge(1)?;
        if select.test {
            return members::has_field(&operand, &select.field).map(Value::Bool);
        }
        members::field(&operand, &select.field)
    }

    fn list(&mut self, made: &'a ListExpr) -> Outcome {
        self.charge(cost::LIST_COST)?;
        let mut items = Vec::with_capacity(made.elements.len());
        for (index, element) in made.elements.iter().enumerate() {
            let value = self.value(element)?;
            if made.optional_indices.contains(&index) {
                items.extend(as_optional(&value).ok_or(NO_OVERLOAD)?.value().cloned());
            } else {
                items.push(value);
            }
        }
        Ok(list(items))
    }

    fn map(&mut self, made: &'a MapExpr) -> Outcome {
        self.charge(cost::MAP_COST)?;
        let mut entries = HashMap::with_capacity(made.entries.len());
        for entry in &made.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err(NO_OVERLOAD.to_owned());
            };
            let key = members::key(&self.value(&entry.key)?)?;
            let value = self.value(&entry.value)?;
            let value = if entry.optional {
                as_optional(&value).ok_or(NO_OVERLOAD)?.value().cloned()
            } else {
                Some(value)
            };
            if let Some(value) = value {
                entries.insert(key, value);
            }
        }
        Ok(Value::from(entries))
    }

    fn comprehension(&mut self, all: &'a ComprehensionExpr) -> Outcome {
        let range = self.value(&all.iter_range)?;
        let items = items(&range, all.iter_var2.is_some())?;
        let mut result = self.value(&all.accu_init);
        let depth = self.scope.len();
        for (first, second) in items {
            self.scope.push((&all.accu_var, result));
            self.scope.push((&all.iter_var, Ok(first)));
            if let (Some(name), Some(second)) = (&all.iter_var2, second) {
                self.scope.push((name, Ok(second)));
            }
            let goes_on = self.value(&all.loop_cond) != Ok(Value::Bool(false));
            result = if goes_on {
                self.step(&all.loop_step, &all.accu_var, depth)
            } else {
                self.take(depth)
            };
            self.scope.truncate(depth);
            self.charge(0)?;
            if !goes_on {
                break;
            }
        }
        self.scope.push((&all.accu_var, result));
        let result = self.value(&all.result);
        self.scope.truncate(depth);
        result
    }

    /// Evaluates the step of a loop. Appends to the accumulator in place, because copies would take
    /// quadratic time.
    fn step(&mut self, step: &'a IdedExpr, accumulator: &str, depth: usize) -> Outcome {
        let is_accumulator = |part: &IdedExpr| part.expr == Expr::Ident(accumulator.to_owned());
        match &step.expr {
            Expr::Ident(name) if name == accumulator => self.take(depth),
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::CONDITIONAL, [condition, yes, no]) => match self.value(condition)? {
                    Value::Bool(true) => self.step(yes, accumulator, depth),
                    Value::Bool(false) => self.step(no, accumulator, depth),
                    _ => Err(NO_OVERLOAD.to_owned()),
                },
                (operators::ADD, [left, right]) if is_accumulator(left) => {
                    let Value::List(added) = self.value(right)? else {
                        return self.value(step);
                    };
                    self.charge(2)?;
                    let Value::List(mut known) = self.take(depth)? else {
                        return Err(NO_OVERLOAD.to_owned());
                    };
                    Arc::make_mut(&mut known).extend(added.iter().cloned());
                    Ok(Value::List(known))
                }
                ("@insert", [map, key, value]) if is_accumulator(map) => {
                    let key = members::key(&self.value(key)?)?;
                    let value = self.value(value)?;
                    self.charge(2)?;
                    let Value::Map(mut known) = self.take(depth)? else {
                        return Err(NO_OVERLOAD.to_owned());
                    };
                    functions::insert(Arc::make_mut(&mut known.map), key, value)?;
                    Ok(Value::Map(known))
                }
                _ => self.value(step),
            },
            _ => self.value(step),
        }
    }

    /// Moves a value out of the scope.
    fn take(&mut self, depth: usize) -> Outcome {
        match self.scope.get_mut(depth) {
            Some((_, outcome)) => std::mem::replace(outcome, Ok(Value::Null)),
            None => Err(NO_OVERLOAD.to_owned()),
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Outcome {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => match self.value(condition)? {
                Value::Bool(true) => self.value(yes),
                Value::Bool(false) => self.value(no),
                _ => Err(NO_OVERLOAD.to_owned()),
            },
            (operators::LOGICAL_AND, [left, right]) => self.logical(left, right, false),
            (operators::LOGICAL_OR, [left, right]) => self.logical(left, right, true),
            (operators::NOT_STRICTLY_FALSE, [part]) => {
                Ok(Value::Bool(self.value(part) != Ok(Value::Bool(false))))
            }
            _ => self.function(call),
        }
    }

    /// Evaluates `&&` and `||`: a side with the absorbing value hides an error of the other side.
    fn logical(&mut self, left: &'a IdedExpr, right: &'a IdedExpr, absorbing: bool) -> Outcome {
        let left = self.value(left);
        if left == Ok(Value::Bool(absorbing)) {
            return left;
        }
        let right = self.value(right);
        if right == Ok(Value::Bool(absorbing)) {
            return right;
        }
        match (left?, right?) {
            (Value::Bool(_), Value::Bool(_)) => Ok(Value::Bool(!absorbing)),
            _ => Err(NO_OVERLOAD.to_owned()),
        }
    }

    fn function(&mut self, call: &'a CallExpr) -> Outcome {
        let mut name = call.func_name.clone();
        let mut target = None;
        if let Some(of) = &call.target {
            match names::path(of) {
                Some(path) if !path.first().is_some_and(|first| self.is_variable(first)) => {
                    name = format!("{}.{name}", path.join("."));
                }
                _ => target = Some(self.value(of)?),
            }
        }
        let content = target.as_ref().and_then(as_optional);
        if let Some(value) = content.and_then(OptionalValue::value) {
            match name.as_str() {
                "or" => return Ok(of(value.clone())),
                "orValue" => return Ok(value.clone()),
                _ => {}
            }
        }
        let mut args = Vec::with_capacity(call.args.len());
        for part in &call.args {
            args.push(self.value(part)?);
        }
        self.charge(cost::of_call(&name, target.as_ref(), &args))?;
        let result = functions::call(&name, target, args)?;
        if cost::MAKES_TEXT.contains(&name.as_str()) {
            self.charge(cost::length(&result) / 10)?;
        }
        Ok(result)
    }
}

fn constant(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Value::Bytes(Arc::new(value.inner().to_vec())),
        LiteralValue::Double(value) => Value::Float(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(value) => Value::String(Arc::new(value.inner().to_owned())),
        LiteralValue::UInt(value) => Value::UInt(*value.inner()),
    }
}

/// Returns the values of the variables of a loop: items or keys, or else indices with items or keys
/// with values. Keys are sorted, so that results are reproducible.
fn items(range: &Value, both: bool) -> Result<Vec<(Value, Option<Value>)>, String> {
    if let Some(list) = as_list(range) {
        let numbered = (0_i64..).zip(list.iter());
        return Ok(numbered
            .map(|(index, item)| {
                if both {
                    (Value::Int(index), Some(item.clone()))
                } else {
                    (item.clone(), None)
                }
            })
            .collect());
    }
    let Value::Map(map) = range else {
        return Err(NO_OVERLOAD.to_owned());
    };
    let mut entries: Vec<(&Key, &Value)> = map.map.iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    if let Some(error) = entries.iter().find_map(|(_, value)| failure(value)) {
        return Err(error.to_owned());
    }
    Ok(entries
        .into_iter()
        .map(|(key, value)| (Value::from(key), both.then(|| value.clone())))
        .collect())
}
