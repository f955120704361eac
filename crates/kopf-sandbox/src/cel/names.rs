//! Names in expressions: free variables, nested loops, unknown fields.

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

/// Returns the names of all called functions, without operators.
pub(super) fn functions(whole: &IdedExpr) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Expr::Call(call) = &whole.expr
        && call
            .func_name
            .starts_with(|c: char| c.is_ascii_alphabetic())
    {
        names.insert(call.func_name.clone());
    }
    each(&whole.expr, &mut |part| names.extend(functions(part)));
    names
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

/// The type of a value, with its known fields.
pub(crate) trait Fields: Copy {
    /// Returns the type of a field, or `None` if the field does not exist.
    fn field(self, name: &str) -> Option<Unknown<Self>>;
    /// Returns the type of the items of a list or map, if it is one.
    fn item(self) -> Unknown<Self>;
    /// Returns `true` if a loop iterates over the items, and `false` if over the keys.
    fn loops_over_items(self) -> bool;
}

/// A type that may be unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown<T> {
    Known(T),
    Unknown,
}

/// Returns the type of the expression. The error is the first field that does not exist.
pub(crate) fn inferred<T: Fields>(
    whole: &IdedExpr,
    variables: &[(&str, T)],
) -> Result<Unknown<T>, String> {
    let mut scope: Vec<(String, Unknown<T>)> = variables
        .iter()
        .map(|(name, of)| ((*name).to_owned(), Unknown::Known(*of)))
        .collect();
    let mut missing = None;
    let of = infer(whole, &mut scope, &mut missing);
    missing.map_or(Ok(of), Err)
}

fn infer<T: Fields>(
    whole: &IdedExpr,
    scope: &mut Vec<(String, Unknown<T>)>,
    missing: &mut Option<String>,
) -> Unknown<T> {
    match &whole.expr {
        Expr::Ident(name) => scope
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map_or(Unknown::Unknown, |(_, of)| *of),
        Expr::Select(select) => match infer(&select.operand, scope, missing) {
            Unknown::Known(of) if select.test => {
                if of.field(&select.field).is_none() {
                    missing.get_or_insert_with(|| select.field.clone());
                }
                Unknown::Unknown
            }
            Unknown::Known(of) => of.field(&select.field).unwrap_or_else(|| {
                missing.get_or_insert_with(|| select.field.clone());
                Unknown::Unknown
            }),
            Unknown::Unknown => Unknown::Unknown,
        },
        Expr::Comprehension(all) => {
            let range = infer(&all.iter_range, scope, missing);
            infer(&all.accu_init, scope, missing);
            let before = scope.len();
            let item = match range {
                Unknown::Known(of) if of.loops_over_items() => of.item(),
                _ => Unknown::Unknown,
            };
            match &all.iter_var2 {
                None => scope.push((all.iter_var.clone(), item)),
                Some(second) => {
                    let item = match range {
                        Unknown::Known(of) => of.item(),
                        Unknown::Unknown => Unknown::Unknown,
                    };
                    scope.push((all.iter_var.clone(), Unknown::Unknown));
                    scope.push((second.clone(), item));
                }
            }
            scope.push((all.accu_var.clone(), Unknown::Unknown));
            for part in [&all.loop_cond, &all.loop_step, &all.result] {
                infer(part, scope, missing);
            }
            scope.truncate(before);
            Unknown::Unknown
        }
        Expr::Call(call) => {
            let first = call.args.first().map(|part| infer(part, scope, missing));
            for part in call.args.iter().skip(1) {
                infer(part, scope, missing);
            }
            if let Some(target) = &call.target {
                infer(target, scope, missing);
            }
            match (call.func_name.as_str(), first) {
                ("_[_]", Some(Unknown::Known(of))) => of.item(),
                _ => Unknown::Unknown,
            }
        }
        other => {
            let mut inner: Vec<&IdedExpr> = Vec::new();
            each(other, &mut |part| inner.push(part));
            for part in inner {
                infer(part, scope, missing);
            }
            Unknown::Unknown
        }
    }
}
