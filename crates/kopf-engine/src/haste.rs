//! Handlers that would be called again and again without a pause, if they fail.

use kopf_core::handler::{ErrorsMode, HandlerKind};
use kopf_core::settings::Settings;

use crate::invocation::{Handler, Registry};

/// Warns of handlers that are tried again at once and without a limit.
pub(crate) fn warn(registry: &Registry, settings: &Settings) {
    for handler in registry.handlers() {
        if is_hasty(handler, settings) {
            tracing::warn!(
                "Handler '{}' is called again at once whenever it fails, without a limit: let it wait \
                 by `backoff`, or limit it by `retries` or `timeout`.",
                handler.id
            );
        }
    }
}

fn is_hasty(handler: &Handler, settings: &Settings) -> bool {
    let retrying = &handler.retrying;
    let errors = retrying.errors.unwrap_or(handler.kind.default_errors());
    let backoff = retrying
        .backoff
        .unwrap_or(settings.execution.default_backoff);
    let is_limited = retrying.retries.is_some() || retrying.timeout.is_some();
    // Indexers are tried again with the next change of their objects.
    let is_repeated = handler.kind != HandlerKind::Index && errors == ErrorsMode::Temporary;
    is_repeated && backoff.is_zero() && !is_limited
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use kopf_core::handler::{Cancellation, FunctionId, HandlerSpec, Retrying};
    use kopf_core::selector::Selector;
    use tracing::Level;

    use super::*;
    use crate::captured::capture;
    use crate::invocation::Nothing;

    /// How often it is warned of a daemon like this.
    fn warnings(retrying: Retrying, settings: &Settings) -> usize {
        let captured = capture(Level::WARN);
        let kind = HandlerKind::Daemon(Cancellation::NONE);
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), kind);
        spec.selector = Some(Selector::everything());
        spec.retrying = retrying;
        let mut registry = Registry::default();
        registry.add(spec.build(Arc::new(Nothing) as _).unwrap());
        warn(&registry, settings);
        captured.messages(Level::WARN).len()
    }

    #[test]
    fn only_endless_loops_without_pauses_are_warned_of() {
        let settings = Settings::default();
        let hasty = Retrying {
            backoff: Some(Duration::ZERO),
            ..Retrying::default()
        };
        assert_eq!(warnings(hasty, &settings), 1);
        assert_eq!(warnings(Retrying::default(), &settings), 0);
        let limited = Retrying {
            retries: Some(5),
            ..hasty
        };
        assert_eq!(warnings(limited, &settings), 0);
        let ignored = Retrying {
            errors: Some(ErrorsMode::Ignored),
            ..hasty
        };
        assert_eq!(warnings(ignored, &settings), 0);
        let mut hasty = Settings::default();
        hasty.execution.default_backoff = Duration::ZERO;
        assert_eq!(warnings(Retrying::default(), &hasty), 1);
    }
}
