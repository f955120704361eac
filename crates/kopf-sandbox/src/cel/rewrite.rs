//! Transformations of parsed expressions.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue,
    MapEntryExpr, MapExpr, StructExpr,
};

/// Applies a function to all direct parts of an expression.
pub(super) fn parts<F>(expr: Expr, change: &mut F) -> Result<Expr, String>
where
    F: FnMut(IdedExpr) -> Result<IdedExpr, String>,
{
    Ok(match expr {
        Expr::Call(call) => Expr::Call(CallExpr {
            func_name: call.func_name,
            target: call
                .target
                .map(|target| change(*target).map(Box::new))
                .transpose()?,
            args: call
                .args
                .into_iter()
                .map(change)
                .collect::<Result<_, _>>()?,
        }),
        Expr::Comprehension(all) => {
            let all = *all;
            Expr::Comprehension(Box::new(ComprehensionExpr {
                iter_range: change(all.iter_range)?,
                iter_var: all.iter_var,
                iter_var2: all.iter_var2,
                accu_var: all.accu_var,
                accu_init: change(all.accu_init)?,
                loop_cond: change(all.loop_cond)?,
                loop_step: change(all.loop_step)?,
                result: change(all.result)?,
            }))
        }
        Expr::List(list) => Expr::List(ListExpr {
            elements: list
                .elements
                .into_iter()
                .map(change)
                .collect::<Result<_, _>>()?,
            optional_indices: list.optional_indices,
        }),
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = change(std::mem::take(&mut entry.key))?;
                    entry.value = change(std::mem::take(&mut entry.value))?;
                }
            }
            Expr::Map(MapExpr { ..map })
        }
        Expr::Struct(mut made) => {
            for entry in &mut made.entries {
                if let EntryExpr::StructField(field) = &mut entry.expr {
                    field.value = change(std::mem::take(&mut field.value))?;
                }
            }
            Expr::Struct(StructExpr { ..made })
        }
        Expr::Select(mut select) => {
            *select.operand = change(std::mem::take(&mut *select.operand))?;
            Expr::Select(select)
        }
        other @ (Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified) => other,
    })
}

/// Rewrites objects such as `Object{spec: …}` and `JSONPatch{op: …}` as maps. Types are not
/// checked.
pub(super) fn objects(whole: IdedExpr) -> IdedExpr {
    let IdedExpr { id, expr } = whole;
    let replaced = parts(expr, &mut |part| Ok(objects(part)));
    let expr = match replaced.unwrap_or_default() {
        Expr::Struct(made) => Expr::Map(MapExpr {
            entries: made.entries.into_iter().map(as_map_entry).collect(),
        }),
        other => other,
    };
    IdedExpr { id, expr }
}

fn as_map_entry(entry: IdedEntryExpr) -> IdedEntryExpr {
    let IdedEntryExpr { id, expr } = entry;
    let expr = match expr {
        EntryExpr::StructField(field) => EntryExpr::MapEntry(MapEntryExpr {
            key: IdedExpr {
                id,
                expr: Expr::Literal(LiteralValue::String(field.field.into())),
            },
            value: field.value,
            optional: field.optional,
        }),
        entry @ EntryExpr::MapEntry(_) => entry,
    };
    IdedEntryExpr { id, expr }
}
