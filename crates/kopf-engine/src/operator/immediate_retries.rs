//! Warnings about handlers that are called in a loop without a delay.

use std::time::Duration;

use kopf_core::handler::{ErrorsMode, HandlerKind};
use kopf_core::settings::Settings;

use crate::invocation::{Handler, Registry};

/// Timer resolution: shorter intervals are rounded up to it.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Warns about handlers that are retried immediately and without a limit, and about timers without
/// an interval.
pub(crate) fn warn(registry: &Registry, settings: &Settings) {
    for handler in registry.handlers() {
        if let HandlerKind::Timer(timing) = handler.kind
            && timing
                .interval
                .is_some_and(|interval| interval < RESOLUTION)
        {
            tracing::warn!(
                "Timer '{}' has an interval below 0.001 seconds: it is called up to 1000 times per \
                 second for every object.",
                handler.id
            );
        }
        if retries_immediately(handler, settings) {
            tracing::warn!(
                "Handler '{}' is retried immediately and without a limit when it fails. Set `backoff`, \
                 `retries` or `timeout`.",
                handler.id
            );
        }
    }
}

fn retries_immediately(handler: &Handler, settings: &Settings) -> bool {
    let retrying = &handler.retrying;
    let errors = retrying.errors.unwrap_or(handler.kind.default_errors());
    let backoff = retrying
        .backoff
        .unwrap_or(settings.execution.default_backoff);
    let is_limited = retrying.retries.is_some() || retrying.timeout.is_some();
    // Index handlers are retried on the next change of their objects.
    let is_repeated = handler.kind != HandlerKind::Index && errors == ErrorsMode::Temporary;
    is_repeated && backoff.is_zero() && !is_limited
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kopf_core::handler::{Cancellation, FunctionId, HandlerSpec, Retrying, Timing};
    use kopf_core::selector::Selector;
    use tracing::Level;

    use super::*;
    use crate::captured::capture;
    use crate::invocation::Noop;

    /// Returns the number of warnings about a daemon with these limits.
    fn warnings(retrying: Retrying, settings: &Settings) -> usize {
        warnings_of(HandlerKind::Daemon(Cancellation::NONE), retrying, settings)
    }

    fn warnings_of(kind: HandlerKind, retrying: Retrying, settings: &Settings) -> usize {
        let captured = capture(Level::WARN);
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), kind);
        spec.selector = Some(Selector::everything());
        spec.retrying = retrying;
        let mut registry = Registry::default();
        registry.add(spec.build(Arc::new(Noop) as _).unwrap());
        warn(&registry, settings);
        captured.messages(Level::WARN).len()
    }

    #[test]
    fn timers_without_pauses_cause_warnings() {
        for (seconds, expected) in [(0.0, 1), (0.0009, 1), (0.001, 0), (10.0, 0)] {
            let timing = Timing {
                interval: Some(Duration::from_secs_f64(seconds)),
                ..Timing::ONCE
            };
            let kind = HandlerKind::Timer(timing);
            let count = warnings_of(kind, Retrying::default(), &Settings::default());
            assert_eq!(count, expected, "{seconds}");
        }
    }

    #[test]
    fn endless_retries_without_pauses_cause_warnings() {
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
