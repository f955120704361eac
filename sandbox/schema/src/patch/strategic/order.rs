//! The order of merged lists: that of the patch for elements of the patch, that of the live object
//! for the others, interleaved where both agree.

use super::lists::{key_of, unexpected};
use super::{DIRECTIVE, PatchError, go_text, internal};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Sorts a merged list. `order` has precedence over `live`.
pub(super) fn sort(
    merged: Vec<Value>,
    order: &[Value],
    live: &[Value],
    merge_key: Option<&str>,
    is_maps: bool,
) -> Result<Vec<Value>, PatchError> {
    let named = places(order, merge_key)?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for item in merged {
        let found = named.contains_key(identity(&item, merge_key)?);
        if found {
            ours.push(item);
        } else {
            theirs.push(item);
        }
    }
    // Scalars are their own identity, even where the type declares a key.
    let merge_key = merge_key.filter(|_| is_maps);
    let known = places(live, merge_key)?;
    arrange(&mut ours, &named, merge_key);
    arrange(&mut theirs, &known, merge_key);
    Ok(interleave(theirs, ours, &known, merge_key))
}

/// Returns the identity of an element: the value of its merge key, or the element itself.
fn identity<'a>(item: &'a Value, merge_key: Option<&str>) -> Result<&'a Value, PatchError> {
    match (merge_key, item) {
        (None, item) => Ok(item),
        (Some(merge_key), Value::Object(map)) => key_of(map, merge_key),
        (Some(_), other) => Err(unexpected("map[string]interface {}", other)),
    }
}

/// Returns the first position of each element.
fn places<'a>(
    items: &'a [Value],
    merge_key: Option<&str>,
) -> Result<HashMap<&'a Value, usize>, PatchError> {
    let mut places = HashMap::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        if merge_key.is_some() && !item.is_object() {
            return Err(internal(format!("value for key {place} is not a map")));
        }
        places.entry(identity(item, merge_key)?).or_insert(place);
    }
    Ok(places)
}

fn place(item: &Value, places: &HashMap<&Value, usize>, merge_key: Option<&str>) -> Option<usize> {
    places.get(identity(item, merge_key).ok()?).copied()
}

fn arrange(items: &mut [Value], places: &HashMap<&Value, usize>, merge_key: Option<&str>) {
    // Elements without a position occur only with an empty order in the patch. They go first in
    // reverse order, because of the server's comparison function.
    let unplaced = items
        .iter()
        .filter(|item| place(item, places, merge_key).is_none())
        .count();
    if unplaced > 0 {
        items.reverse();
    }
    items.sort_by_key(|item| place(item, places, merge_key).map_or(0, |place| place + 1));
}

/// Inserts the elements of `left` into `right`, each before the first one that follows it in the
/// live object.
fn interleave(
    left: Vec<Value>,
    right: Vec<Value>,
    live: &HashMap<&Value, usize>,
    merge_key: Option<&str>,
) -> Vec<Value> {
    let mut all = Vec::with_capacity(left.len() + right.len());
    let mut left = left.into_iter().peekable();
    for item in right {
        let limit = place(&item, live, merge_key);
        while let (Some(next), Some(limit)) = (left.peek(), limit) {
            if place(next, live, merge_key).is_none_or(|place| place >= limit) {
                break;
            }
            all.extend(left.next());
        }
        all.push(item);
    }
    all.extend(left);
    all
}

/// Returns the live list after deletions: new elements fill the freed positions at its end.
///
/// This reproduces an accident of the real server, which deletes and adds in the same array and
/// then takes its content for the live order. Clients see the result.
pub(super) fn reuse_places(live: Vec<Value>, changes: &[Value], merge_key: &str) -> Vec<Value> {
    let key = |item: &Value| item.get(merge_key).cloned();
    let is_gone = |item: &&Value| item.get(DIRECTIVE).is_some_and(|of| of == "delete");
    let gone: HashSet<_> = changes.iter().filter(is_gone).map(key).collect();
    let places = live.len();
    let mut live: Vec<Value> = live
        .into_iter()
        .filter(|item| !gone.contains(&key(item)))
        .collect();
    let known: HashSet<_> = live.iter().map(key).collect();
    let added = changes.iter().filter(|item| item.get(DIRECTIVE).is_none());
    let added = added
        .filter(|item| !known.contains(&key(item)))
        .take(places - live.len());
    live.extend(added.cloned());
    live
}

/// Checks that the elements of a patch are in the order of its directive.
pub(super) fn check(
    patch: &[Value],
    order: &[Value],
    merge_key: Option<&str>,
) -> Result<(), PatchError> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for item in patch {
        let directive = item.get(DIRECTIVE).filter(|_| merge_key.is_some());
        let found = match directive {
            Some(directive) if directive == "delete" => true,
            // The server compares the replaced list only while elements are left.
            Some(_) => wanted.len() > 0,
            None => {
                let ours = identity(item, merge_key)?;
                let mut found = false;
                for candidate in wanted.by_ref() {
                    if identity(candidate, merge_key)? == ours {
                        found = true;
                        break;
                    }
                }
                found
            }
        };
        if !found {
            return Err(internal(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go_text::list(patch),
                go_text::list(order)
            )));
        }
    }
    Ok(())
}
