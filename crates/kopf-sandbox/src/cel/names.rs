//! Names in expressions: free variables and nested loops.

use std::collections::BTreeSet;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr};

/// Calls a function for all direct parts of an expression.
fn each<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a IdedExpr)) {
    match expr {
        Expr::Call(call) => {
            if let Some(target) = &call.target {
                visit(target);
            }
            call.args.iter().for_each(visit);
        }
        Expr::Comprehension(all) => {
            for part in [
                &all.iter_range,
                &all.accu_init,
                &all.loop_cond,
                &all.loop_step,
                &all.result,
            ] {
                visit(part);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    visit(&entry.key);
                    visit(&entry.value);
                }
            }
        }
        Expr::Struct(made) => {
            for entry in &made.entries {
                if let EntryExpr::StructField(field) = &entry.expr {
                    visit(&field.value);
                }
            }
        }
        Expr::Select(select) => visit(&select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// Returns the names that the expression does not bind itself.
pub(super) fn free(whole: &IdedExpr) -> BTreeSet<String> {
    fn add(whole: &IdedExpr, bound: &mut Vec<String>, names: &mut BTreeSet<String>) {
        match &whole.expr {
            Expr::Ident(name) => {
                if !bound.contains(name) {
                    names.insert(name.clone());
                }
            }
            Expr::Comprehension(all) => {
                add(&all.iter_range, bound, names);
                add(&all.accu_init, bound, names);
                let before = bound.len();
                bound.push(all.iter_var.clone());
                bound.extend(all.iter_var2.clone());
                bound.push(all.accu_var.clone());
                for part in [&all.loop_cond, &all.loop_step, &all.result] {
                    add(part, bound, names);
                }
                bound.truncate(before);
            }
            other => each(other, &mut |part| add(part, bound, names)),
        }
    }
    let mut names = BTreeSet::new();
    add(whole, &mut Vec::new(), &mut names);
    names
}

/// Returns all conversions of constants, which fail regardless of variables: `int('x')`.
pub(super) fn constant_conversions(whole: &IdedExpr) -> Vec<&IdedExpr> {
    let mut found = Vec::new();
    if let Expr::Call(call) = &whole.expr
        && ["bool", "double", "int", "string", "uint"].contains(&call.func_name.as_str())
        && let [only] = call.args.as_slice()
        && matches!(only.expr, Expr::Literal(_))
    {
        found.push(whole);
    }
    each(&whole.expr, &mut |part| {
        found.extend(constant_conversions(part));
    });
    found
}

/// Returns the number of levels of an expression.
pub(super) fn depth(whole: &IdedExpr) -> usize {
    let mut deepest = 0;
    each(&whole.expr, &mut |part| deepest = deepest.max(depth(part)));
    deepest + 1
}

/// Returns all chains of nested loops over a variable and its fields: for each loop, the path of
/// fields. Loops over other values are omitted from the chains.
pub(super) fn loops_over(whole: &IdedExpr, variable: &str) -> Vec<Vec<Vec<String>>> {
    let mut chains = Vec::new();
    each(&whole.expr, &mut |part| {
        chains.extend(loops_over(part, variable));
    });
    if let Expr::Comprehension(all) = &whole.expr
        && let Some(path) = path_of(&all.iter_range, variable)
    {
        if chains.is_empty() {
            chains.push(Vec::new());
        }
        for chain in &mut chains {
            chain.insert(0, path.clone());
        }
    }
    chains
}

/// Returns the names of an expression such as `a.b.c`.
pub(super) fn path(whole: &IdedExpr) -> Option<Vec<&str>> {
    match &whole.expr {
        Expr::Ident(name) => Some(vec![name]),
        Expr::Select(select) if !select.test => {
            let mut names = path(&select.operand)?;
            names.push(&select.field);
            Some(names)
        }
        _ => None,
    }
}

/// Returns the fields of an expression such as `variable.a.b`.
fn path_of(whole: &IdedExpr, variable: &str) -> Option<Vec<String>> {
    match &whole.expr {
        Expr::Ident(name) if name == variable => Some(Vec::new()),
        Expr::Select(select) if !select.test => {
            let mut path = path_of(&select.operand, variable)?;
            path.push(select.field.clone());
            Some(path)
        }
        _ => None,
    }
}
