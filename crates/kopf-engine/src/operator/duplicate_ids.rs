//! Warnings about duplicate handler ids. Progress is stored by id, so the second handler may never
//! run.

use std::collections::{HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use kopf_core::handler::{Activity, FunctionId, HandlerId, HandlerKind};

use crate::invocation::{Handler, Registry};

/// Warns about functions with the same id for the same objects.
pub(crate) fn warn(registry: &Registry) {
    let is_affected = |kind: HandlerKind| {
        let is_probe = kind == HandlerKind::Activity(Activity::Probe);
        kind.is_change() || kind.is_background() || is_probe
    };
    let mut warned = HashSet::new();
    let mut seen: HashMap<(&HandlerId, Discriminant<HandlerKind>, String), &FunctionId> =
        HashMap::new();
    for handler in registry.handlers() {
        if !is_affected(handler.kind) {
            continue;
        }
        let (id, selector) = (&handler.id, format!("{:?}", handler.selector));
        let key = (id, discriminant(&handler.kind), selector);
        let first = seen.entry(key).or_insert(&handler.function);
        if **first != handler.function && warned.insert(id) {
            tracing::warn!(
                "Duplicate handler id '{id}': only the first function is called for the same \
                 objects. Give the functions different ids."
            );
        }
    }
}

/// Returns the id that a reconcile handler shares with another change handler of the same objects. If their
/// selectors differ, they may still select the same resource, which is checked when it is discovered.
pub(crate) fn shared_with_reconciliation(registry: &Registry) -> Option<HandlerId> {
    let changing = registry.handlers().iter();
    let mut changing = changing.filter(|handler| handler.kind.is_change());
    let shared = changing.find(|handler| {
        let is_same = |other: &Handler| {
            other.id == handler.id
                && other.kind.reconciliation().is_none()
                && other.kind.is_change()
                && format!("{:?}", other.selector) == format!("{:?}", handler.selector)
        };
        let mut others = registry.handlers().iter();
        handler.kind.reconciliation().is_some() && others.any(|other| is_same(other))
    });
    shared.map(|handler| HandlerId::clone(&handler.id))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kopf_core::handler::{Cancellation, HandlerSpec};
    use kopf_core::selector::Selector;
    use tracing::Level;

    use super::*;
    use crate::captured::capture;
    use crate::invocation::Noop;

    /// Returns the number of warnings about these handlers: kind, id, function, resource.
    fn warnings(handlers: &[(HandlerKind, &str, u64, &str)]) -> usize {
        let captured = capture(Level::WARN);
        let handlers = handlers.iter().map(|(kind, id, function, resource)| {
            let mut spec = HandlerSpec::new(*id, FunctionId::Number(*function), *kind);
            if kind.is_for_objects() {
                spec.selector = Some(Selector::parse(&[resource]).unwrap());
            }
            spec.build(Arc::new(Noop) as _).unwrap()
        });
        warn(&handlers.collect());
        captured.messages(Level::WARN).len()
    }

    #[test]
    fn only_conflicting_handlers_cause_warnings() {
        use HandlerKind::{Create, Event, Update};
        let daemon = HandlerKind::Daemon(Cancellation::default());
        let probe = HandlerKind::Activity(Activity::Probe);
        let startup = HandlerKind::Activity(Activity::Startup);
        for (first, second, expected) in [
            ((Create, "fn", 1, "pods"), (Create, "fn", 2, "pods"), 1),
            ((daemon, "fn", 1, "pods"), (daemon, "fn", 2, "pods"), 1),
            ((probe, "fn", 1, ""), (probe, "fn", 2, ""), 1),
            ((Create, "fn", 1, "pods"), (Create, "fn", 1, "pods"), 0),
            ((Create, "fn", 1, "pods"), (Create, "fn", 2, "jobs"), 0),
            ((Create, "fn", 1, "pods"), (Create, "other", 2, "pods"), 0),
            ((Create, "fn", 1, "pods"), (Update, "fn", 2, "pods"), 0),
            ((Event, "fn", 1, "pods"), (Event, "fn", 2, "pods"), 0),
            ((startup, "fn", 1, ""), (startup, "fn", 2, ""), 0),
        ] {
            assert_eq!(warnings(&[first, second]), expected, "{first:?} {second:?}");
        }
    }
}
