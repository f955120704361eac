//! The cost of the parts of an expression.

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;

use super::authorization;
use super::opaque::as_list;
use super::patterns;

/// Maximum cost of one evaluation, as on a real server.
pub(super) const MAX_COST: u64 = 1_000_000;
/// Cost of the creation of a list.
pub(super) const LIST_COST: u64 = 10;
/// Cost of the creation of a map.
pub(super) const MAP_COST: u64 = 30;

/// Functions whose results can be larger than their arguments.
pub(super) const MAKES_TEXT: [&str; 3] = ["format", "join", "replace"];

/// Returns the length of a string or list.
pub(super) fn length(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        other => as_list(other).map_or(0, |items| items.len() as u64),
    }
}

/// Returns the cost of a call: one, and a tenth per byte or item of its arguments. Searches in lists
/// compare all items.
pub(super) fn of_call(name: &str, target: Option<&Value>, args: &[Value]) -> u64 {
    if name == "check" && target.is_some_and(authorization::is_check) {
        return authorization::CHECK_COST;
    }
    let lengths = target.into_iter().chain(args).map(length);
    let searched = match (name, target, args) {
        ("matches" | "find" | "findAll", Some(text), [Value::String(pattern), ..])
        | ("matches", None, [text, Value::String(pattern)]) => {
            patterns::cost(pattern, length(text))
        }
        _ => 0,
    };
    let size = match (name, args) {
        ("size" | operators::INDEX | operators::OPT_INDEX, _) => 0,
        (operators::EQUALS | operators::NOT_EQUALS, _) => lengths.min().unwrap_or(0),
        (operators::IN, _) => 10 * lengths.max().unwrap_or(0),
        ("join", _) => 10 * lengths.sum::<u64>(),
        ("lists.range", [Value::Int(count)]) => {
            u64::try_from(*count).unwrap_or(0).saturating_mul(10)
        }
        ("distinct", _) => lengths.map(|length| 10 * length * length).sum(),
        (name, _) if name.starts_with("sets.") => 10 * lengths.product::<u64>(),
        _ => lengths.sum(),
    };
    1 + size / 10 + searched
}
