//! Transformations of parsed expressions.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    EntryExpr, Expr, IdedEntryExpr, LiteralValue, MapEntryExpr, MapExpr, StructExpr,
};

/// Applies a function to all direct parts of an expression.
pub(super) fn parts(mut expr: Expr, change: &mut dyn FnMut(IdedExpr) -> IdedExpr) -> Expr {
    let mut replace = |part: &mut IdedExpr| *part = change(std::mem::take(part));
    match &mut expr {
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                replace(target);
            }
            call.args.iter_mut().for_each(replace);
        }
        Expr::Comprehension(all) => {
            let all = &mut **all;
            replace(&mut all.iter_range);
            replace(&mut all.accu_init);
            replace(&mut all.loop_cond);
            replace(&mut all.loop_step);
            replace(&mut all.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(replace),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    replace(&mut entry.key);
                    replace(&mut entry.value);
                }
            }
        }
        Expr::Struct(made) => {
            for entry in &mut made.entries {
                if let EntryExpr::StructField(field) = &mut entry.expr {
                    replace(&mut field.value);
                }
            }
        }
        Expr::Select(select) => replace(&mut select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
    expr
}

/// Rewrites objects such as `Object{spec: …}` and `JSONPatch{op: …}` as maps.
///
/// # Errors
///
/// A nested object has the type of another field.
pub(super) fn objects(whole: IdedExpr) -> Result<IdedExpr, String> {
    let mut problem = None;
    let IdedExpr { id, expr } = whole;
    if let Expr::Struct(made) = &expr {
        problem = misplaced(made);
    }
    let expr = parts(expr, &mut |part| match objects(part) {
        Ok(part) => part,
        Err(error) => {
            problem = Some(error);
            IdedExpr::default()
        }
    });
    let expr = match expr {
        Expr::Struct(made) => Expr::Map(MapExpr {
            entries: made.entries.into_iter().map(as_map_entry).collect(),
        }),
        other => other,
    };
    problem.map_or(Ok(IdedExpr { id, expr }), Err)
}

/// Returns the error of a field whose object has the type of another field.
fn misplaced(made: &StructExpr) -> Option<String> {
    made.entries.iter().find_map(|entry| {
        let EntryExpr::StructField(field) = &entry.expr else {
            return None;
        };
        let Expr::Struct(inner) = &field.value.expr else {
            return None;
        };
        let (name, wanted) = (
            &inner.type_name,
            format!("{}.{}", made.type_name, field.field),
        );
        let is_object = made.type_name.starts_with("Object") && *name != wanted;
        is_object.then(|| {
            format!(
                "unexpected type name {name:?}, expected {wanted:?}, which matches field name path from root Object type"
            )
        })
    })
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
