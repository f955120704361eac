//! Names in expressions: free variables and nested loops.

use std::collections::BTreeSet;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr};

use super::macros::TARGET;

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
    chains(whole, variable, None)
}

/// As [`loops_over`]. `target` is the path of the value to which the enclosing macro is applied.
fn chains(whole: &IdedExpr, variable: &str, target: Option<&[String]>) -> Vec<Vec<Vec<String>>> {
    if let Expr::Comprehension(all) = &whole.expr
        && all.accu_var == TARGET
    {
        let mut found = chains(&all.accu_init, variable, target);
        let target = path_of(&all.accu_init, variable);
        found.extend(chains(&all.result, variable, target.as_deref()));
        return found;
    }
    let mut found = Vec::new();
    each(&whole.expr, &mut |part| {
        found.extend(chains(part, variable, target));
    });
    let Expr::Comprehension(all) = &whole.expr else {
        return found;
    };
    let path = match &all.iter_range.expr {
        Expr::Ident(name) if name == TARGET => target.map(<[String]>::to_vec),
        _ => path_of(&all.iter_range, variable),
    };
    if let Some(path) = path {
        if found.is_empty() {
            found.push(Vec::new());
        }
        for chain in &mut found {
            chain.insert(0, path.clone());
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use super::super::parser;
    use super::*;

    #[test]
    fn loops_of_macros_are_found() {
        for (text, depth) in [
            ("self.a.all(x, self.b.all(y, x == y))", 2),
            ("self.a.sortBy(x, x.n).size() > 0", 1),
            (
                "self.a.sortBy(x, self.b.filter(y, y > x).size()).size() > 0",
                2,
            ),
            ("self.?a.optMap(x, self.b.all(y, y > 0)).orValue(true)", 1),
            ("self.a == 1", 0),
        ] {
            let found = loops_over(&parser::parse(text).unwrap(), "self");
            let deepest = found.iter().map(Vec::len).max().unwrap_or(0);
            assert_eq!(deepest, depth, "{text}");
        }
    }
}
