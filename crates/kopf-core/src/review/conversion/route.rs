//! The way from one version to another: handlers convert between two versions each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::handler::Handler;

/// Returns the handlers to call one after another, as few as possible; `None` if there is no way. Of
/// several handlers for the same two versions, the first one counts.
pub fn steps<F>(
    handlers: &[Arc<Handler<F>>],
    source: &str,
    target: &str,
) -> Option<Vec<Arc<Handler<F>>>> {
    let mut found: BTreeMap<&str, Option<&Arc<Handler<F>>>> = BTreeMap::from([(source, None)]);
    let mut queue = VecDeque::from([source]);
    while let Some(version) = queue.pop_front() {
        if version == target {
            return Some(track(&found, target));
        }
        for handler in handlers {
            if let Some(conversion) = &handler.conversion
                && conversion.source == version
                && !found.contains_key(conversion.target.as_str())
            {
                found.insert(&conversion.target, Some(handler));
                queue.push_back(&conversion.target);
            }
        }
    }
    None
}

/// Follows the handlers back to the beginning.
fn track<F>(
    found: &BTreeMap<&str, Option<&Arc<Handler<F>>>>,
    target: &str,
) -> Vec<Arc<Handler<F>>> {
    let mut steps = Vec::new();
    let mut version = target;
    while let Some(Some(handler)) = found.get(version)
        && let Some(conversion) = &handler.conversion
    {
        steps.push(Arc::clone(handler));
        version = &conversion.source;
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::{Conversion, FunctionId, HandlerKind, HandlerSpec};
    use crate::selector::Selector;

    fn handler(source: &str, target: &str) -> Arc<Handler<()>> {
        let id = format!("{source}-{target}");
        let mut spec = HandlerSpec::new(id, FunctionId::Number(1), HandlerKind::Convert);
        spec.selector = Some(Selector::everything());
        spec.conversion = Some(Conversion {
            source: source.to_owned(),
            target: target.to_owned(),
        });
        Arc::new(spec.build(()).unwrap())
    }

    #[test]
    fn shortest_conversion_path_is_used() {
        let handlers = [
            handler("v1", "v2"),
            handler("v2", "v1"),
            handler("v2", "v3"),
            handler("v3", "v4"),
            handler("v2", "v4"),
        ];
        let ids = |source: &str, target: &str| -> Option<Vec<String>> {
            let steps = steps(&handlers, source, target)?;
            Some(steps.iter().map(|step| step.id.to_string()).collect())
        };
        assert_eq!(ids("v1", "v4").unwrap(), ["v1-v2", "v2-v4"]);
        assert_eq!(ids("v2", "v1").unwrap(), ["v2-v1"]);
        assert_eq!(ids("v1", "v1").unwrap(), [""; 0]);
        assert_eq!(ids("v4", "v1"), None);
        assert_eq!(ids("v0", "v1"), None);
    }
}
