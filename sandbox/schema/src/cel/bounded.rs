//! Functions with bounded results. The evaluator has no memory limit, and a failed allocation
//! aborts the process.

use std::sync::Arc;

use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use super::OUT_OF_BUDGET;

/// Maximum size of a string, in bytes. Objects have at most 3 MiB.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// Maximum number of items of a generated list.
const MAX_ITEMS: i64 = 1_000_000;

/// Replaces the unbounded functions of the library.
pub(super) fn register(base: &mut Context<'_>) {
    base.add_function("replace", replace);
    base.add_function("join", join);
    base.add_function("lists.range", range);
}

/// `<string>.replace(<string>, <string>[, <int>])`. A negative limit replaces all occurrences.
fn replace(This(text): This<Arc<String>>, Arguments(args): Arguments) -> ResolveResult {
    let (Some(Value::String(from)), Some(Value::String(to))) = (args.first(), args.get(1)) else {
        let why = "expected string argument";
        return Err(ExecutionError::function_error("replace", why));
    };
    let limit = match args.get(2) {
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let count = text.matches(from.as_str()).take(limit).count();
    let size = count.saturating_mul(to.len()).saturating_add(text.len());
    check("replace", size <= MAX_BYTES)?;
    let replaced = text.replacen(from.as_str(), to, limit);
    Ok(Value::String(Arc::new(replaced)))
}

/// `<list<string>>.join([<string>])`
fn join(This(list): This<Arc<Vec<Value>>>, Arguments(args): Arguments) -> ResolveResult {
    let separator = match args.first() {
        Some(Value::String(separator)) => separator.as_str(),
        _ => "",
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        let Value::String(item) = item else {
            let why = "expected a list of strings";
            return Err(ExecutionError::function_error("join", why));
        };
        joined.push_str(item);
        check("join", joined.len() <= MAX_BYTES)?;
    }
    Ok(Value::String(Arc::new(joined)))
}

/// `lists.range(<int>)`. Empty for negative numbers.
fn range(end: i64) -> ResolveResult {
    check("lists.range", end <= MAX_ITEMS)?;
    Ok(Value::List(Arc::new((0..end).map(Value::Int).collect())))
}

fn check(function: &str, fits: bool) -> Result<(), ExecutionError> {
    if fits {
        return Ok(());
    }
    Err(ExecutionError::function_error(function, OUT_OF_BUDGET))
}
