//! Macros that the parser does not expand: loops with two variables, `optMap`, `optFlatMap` and
//! `sortBy`.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue, MapExpr, operators,
};

use super::rewrite::parts;

/// The name of the accumulator, which cannot be written in an expression.
const RESULT: &str = "@result";
/// The name of the value to which a macro is applied.
pub(super) const TARGET: &str = "@target";
/// The variable of a loop without iterations.
pub(super) const UNUSED: &str = "@unused";

/// Expands all macros of an expression.
pub(super) fn expanded(whole: IdedExpr) -> IdedExpr {
    let IdedExpr { id, expr } = whole;
    let expr = match parts(expr, &mut expanded) {
        Expr::Call(call) => expanded_call(call),
        other => other,
    };
    IdedExpr { id, expr }
}

fn expanded_call(call: CallExpr) -> Expr {
    let Some(target) = &call.target else {
        return Expr::Call(call);
    };
    let of = (**target).clone();
    let expansion = match (call.func_name.as_str(), call.args.as_slice()) {
        ("all", [first, second, test]) => looped(of, first, second, Step::All(test)),
        ("exists", [first, second, test]) => looped(of, first, second, Step::Exists(test)),
        ("existsOne" | "exists_one", [first, second, test]) => {
            looped(of, first, second, Step::ExistsOne(test))
        }
        ("transformList", [first, second, rest @ .., item]) if rest.len() <= 1 => {
            looped(of, first, second, Step::List(rest.first(), item))
        }
        ("transformMap", [first, second, rest @ .., value]) if rest.len() <= 1 => {
            let inserted = vec![first.clone(), value.clone()];
            looped(of, first, second, Step::Map(rest.first(), inserted))
        }
        ("transformMapEntry", [first, second, rest @ .., entry]) if rest.len() <= 1 => {
            let inserted = vec![entry.clone()];
            looped(of, first, second, Step::Map(rest.first(), inserted))
        }
        ("optMap", [variable, result]) => mapped(of, variable, result, true),
        ("optFlatMap", [variable, result]) => mapped(of, variable, result, false),
        ("sortBy", [variable, key]) => sorted(of, variable, key),
        _ => None,
    };
    expansion.unwrap_or(Expr::Call(call))
}

/// The body of a loop with two variables.
enum Step<'a> {
    All(&'a IdedExpr),
    Exists(&'a IdedExpr),
    ExistsOne(&'a IdedExpr),
    /// The filter and the item.
    List(Option<&'a IdedExpr>, &'a IdedExpr),
    /// The filter and the inserted entry.
    Map(Option<&'a IdedExpr>, Vec<IdedExpr>),
}

fn looped(range: IdedExpr, first: &IdedExpr, second: &IdedExpr, step: Step<'_>) -> Option<Expr> {
    let yes = || literal(LiteralValue::Boolean(true.into()));
    let result = || ident(RESULT);
    let number = |number: i64| literal(LiteralValue::Int(number.into()));
    let goes_on = |part| call(operators::NOT_STRICTLY_FALSE, vec![part]);
    let filtered = |filter: Option<&IdedExpr>, step: IdedExpr| match filter {
        Some(filter) => call(operators::CONDITIONAL, vec![filter.clone(), step, result()]),
        None => step,
    };
    let (init, condition, step, end) = match step {
        Step::All(test) => {
            let step = call(operators::LOGICAL_AND, vec![result(), test.clone()]);
            (yes(), goes_on(result()), step, result())
        }
        Step::Exists(test) => {
            let no = literal(LiteralValue::Boolean(false.into()));
            let condition = goes_on(call(operators::LOGICAL_NOT, vec![result()]));
            let step = call(operators::LOGICAL_OR, vec![result(), test.clone()]);
            (no, condition, step, result())
        }
        Step::ExistsOne(test) => {
            let more = call(operators::ADD, vec![result(), number(1)]);
            let end = call(operators::EQUALS, vec![result(), number(1)]);
            (number(0), yes(), filtered(Some(test), more), end)
        }
        Step::List(filter, item) => {
            let item = plain(Expr::List(ListExpr::new(vec![item.clone()])));
            let step = call(operators::ADD, vec![result(), item]);
            let empty = plain(Expr::List(ListExpr::new(Vec::new())));
            (empty, yes(), filtered(filter, step), result())
        }
        Step::Map(filter, mut entry) => {
            entry.insert(0, result());
            let step = call("@insert", entry);
            let empty = plain(Expr::Map(MapExpr::default()));
            (empty, yes(), filtered(filter, step), result())
        }
    };
    Some(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: name(first)?,
        iter_var2: Some(name(second)?),
        accu_var: RESULT.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result: end,
    })))
}

/// Expands to `target.hasValue() ? optional.of(result) : optional.none()`, with the content of the
/// target as a variable.
fn mapped(target: IdedExpr, variable: &IdedExpr, result: &IdedExpr, wraps: bool) -> Option<Expr> {
    let content = method(ident(TARGET), "value", Vec::new());
    let result = bound(&name(variable)?, content, result.clone());
    let optional = || ident("optional");
    let result = if wraps {
        method(optional(), "of", vec![result])
    } else {
        result
    };
    let parts = vec![
        method(ident(TARGET), "hasValue", Vec::new()),
        result,
        method(optional(), "none", Vec::new()),
    ];
    let mapped = call(operators::CONDITIONAL, parts);
    Some(bound(TARGET, target, mapped).expr)
}

/// Expands to a call with the list and the list of the keys.
fn sorted(target: IdedExpr, variable: &IdedExpr, key: &IdedExpr) -> Option<Expr> {
    let result = || ident(RESULT);
    let item = plain(Expr::List(ListExpr::new(vec![key.clone()])));
    let keys = Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: ident(TARGET),
        iter_var: name(variable)?,
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: plain(Expr::List(ListExpr::new(Vec::new()))),
        loop_cond: literal(LiteralValue::Boolean(true.into())),
        loop_step: call(operators::ADD, vec![result(), item]),
        result: result(),
    }));
    let sorted = call("@sortByAssociatedKeys", vec![ident(TARGET), plain(keys)]);
    Some(bound(TARGET, target, sorted).expr)
}

/// Returns an expression with a variable: a loop without iterations, whose accumulator it is.
fn bound(name: &str, value: IdedExpr, result: IdedExpr) -> IdedExpr {
    plain(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: plain(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: UNUSED.to_owned(),
        iter_var2: None,
        accu_var: name.to_owned(),
        accu_init: value,
        loop_cond: literal(LiteralValue::Boolean(false.into())),
        loop_step: ident(name),
        result,
    })))
}

fn ident(name: &str) -> IdedExpr {
    plain(Expr::Ident(name.to_owned()))
}

fn name(part: &IdedExpr) -> Option<String> {
    match &part.expr {
        Expr::Ident(name) => Some(name.clone()),
        _ => None,
    }
}

fn plain(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn literal(value: LiteralValue) -> IdedExpr {
    plain(Expr::Literal(value))
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    plain(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}

fn method(target: IdedExpr, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    plain(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: Some(Box::new(target)),
        args,
    }))
}
