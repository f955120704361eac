//! Spans of cycles and handlers, for traces.
//!
//! The spans have the target `kopf_trace` and the level TRACE. Without a subscriber for them, a
//! span costs one comparison of levels.

use kopf_core::body::Body;
use kopf_core::handler::Handler;
use kopf_core::outcome::Outcome;
use kopf_core::resource::Resource;
use tracing::field::Empty;
use tracing::{Level, Span, enabled, trace_span};

/// Returns the root span of a cycle. The object is [added](describe) when it is parsed.
pub(crate) fn cycle(resource: &Resource) -> Span {
    trace_span!(
        target: "kopf_trace",
        parent: None,
        "cycle",
        k8s.resource = %resource,
        k8s.namespace.name = Empty,
        k8s.object.name = Empty,
        k8s.object.uid = Empty,
        kopf.reason = Empty,
    )
}

/// Adds the object and the reason to the current span of a cycle.
pub(crate) fn describe(body: &Body, reason: Option<kopf_core::cause::Reason>) {
    if !enabled!(target: "kopf_trace", Level::TRACE) {
        return;
    }
    let span = Span::current();
    let fields = [
        ("k8s.namespace.name", body.namespace()),
        ("k8s.object.name", body.name()),
        ("k8s.object.uid", body.uid()),
        ("kopf.reason", reason.map(kopf_core::cause::Reason::as_str)),
    ];
    for (field, value) in fields {
        if let Some(value) = value {
            span.record(field, value);
        }
    }
}

/// Returns the span of one attempt of a handler: a child of the current cycle, or a root span for
/// daemons, timers, activities and reviews.
pub(crate) fn handler<F>(handler: &Handler<F>, retry: u32) -> Span {
    trace_span!(
        target: "kopf_trace",
        "handler",
        otel.name = &*handler.id,
        kopf.handler = &*handler.id,
        kopf.retry = retry,
        kopf.outcome = Empty,
        otel.status_code = Empty,
        otel.status_message = Empty,
    )
}

/// Adds the outcome to the span of an attempt.
pub(crate) fn finish(span: &Span, outcome: &Outcome) {
    if span.is_disabled() {
        return;
    }
    let verdict = format!("{:?}", outcome.verdict);
    let verdict = verdict.split('(').next().unwrap_or_default();
    span.record("kopf.outcome", verdict);
    if let Some(error) = &outcome.error {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_message", error.as_str());
    }
}
