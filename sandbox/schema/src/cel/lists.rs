//! Functions of lists that differ from those of the crates.

use std::cmp::Ordering;

use kube_cel::cel::Value;

use super::arithmetic::add;
use super::evaluate::Outcome;
use super::opaque::{as_list, list, none, of};
use super::operators::{compare, equal};

/// Calls a function of lists. Returns `None` for other functions.
pub(super) fn call(name: &str, all: &[&Value]) -> Option<Outcome> {
    let [first, rest @ ..] = all else {
        return None;
    };
    let items = as_list(first)?;
    let has = |items: &[Value], item: &Value| items.iter().any(|other| equal(item, other));
    let contains = |items: &[Value], part: &[Value]| part.iter().all(|item| has(items, item));
    Some(match (name, rest) {
        ("sum", []) => items
            .split_first()
            .map_or(Ok(Value::Int(0)), |(first, rest)| {
                rest.iter()
                    .try_fold(first.clone(), |sum, item| add(&sum, item))
            }),
        ("min", []) => extreme("min", items, Ordering::Less),
        ("max", []) => extreme("max", items, Ordering::Greater),
        ("isSorted", []) => sorted_already(items).map(Value::Bool),
        ("first", []) => Ok(items.first().cloned().map_or_else(none, of)),
        ("last", []) => Ok(items.last().cloned().map_or_else(none, of)),
        ("indexOf", [item]) => Ok(position(items.iter().position(|it| equal(it, item)))),
        ("lastIndexOf", [item]) => Ok(position(items.iter().rposition(|it| equal(it, item)))),
        ("sets.contains", [part]) => Ok(Value::Bool(contains(items, as_list(part)?))),
        ("sets.equivalent", [other]) => {
            let other = as_list(other)?;
            Ok(Value::Bool(
                contains(items, other) && contains(other, items),
            ))
        }
        ("sets.intersects", [other]) => {
            let other = as_list(other)?;
            Ok(Value::Bool(items.iter().any(|item| has(other, item))))
        }
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(items, *from, *to),
        ("@sortByAssociatedKeys", [keys]) => sorted_by(items, as_list(keys)?),
        _ => return None,
    })
}

fn position(found: Option<usize>) -> Value {
    Value::Int(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn extreme(name: &str, items: &[Value], wanted: Ordering) -> Outcome {
    let Some((first, rest)) = items.split_first() else {
        return Err(format!("{name} called on empty list"));
    };
    let mut found = first;
    for item in rest {
        if compare(item, found)? == Some(wanted) {
            found = item;
        }
    }
    Ok(found.clone())
}

fn sorted_already(items: &[Value]) -> Result<bool, String> {
    for pair in items.windows(2) {
        if let [left, right] = pair
            && compare(left, right)? == Some(Ordering::Greater)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn slice(items: &[Value], from: i64, to: i64) -> Outcome {
    let (start, end) = (usize::try_from(from), usize::try_from(to));
    let part = match (start, end) {
        _ if from > to => {
            return Err(format!(
                "cannot slice({from}, {to}), start index must be less than or equal to end index"
            ));
        }
        (Ok(start), Ok(end)) => items.get(start..end),
        _ => {
            return Err(format!(
                "cannot slice({from}, {to}), negative indexes not supported"
            ));
        }
    };
    let length = items.len();
    let outside = || format!("cannot slice({from}, {to}), list is length {length}");
    part.map(|part| list(part.to_vec())).ok_or_else(outside)
}

fn sorted_by(items: &[Value], keys: &[Value]) -> Outcome {
    let mut failed = None;
    let mut pairs: Vec<(&Value, &Value)> = keys.iter().zip(items).collect();
    pairs.sort_by(|(left, _), (right, _)| match compare(left, right) {
        Ok(order) => order.unwrap_or(Ordering::Equal),
        Err(error) => {
            failed = Some(error);
            Ordering::Equal
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(list(
            pairs.into_iter().map(|(_, item)| item.clone()).collect(),
        )),
    }
}
