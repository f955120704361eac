"""Spans of handlers for OpenTelemetry, if the operator uses it."""

from __future__ import annotations

import contextvars
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._front.current import CurrentCall

#: The name of the tracer, as instrumentation libraries have it.
TRACER = "kopf"


def begin(call: CurrentCall, context: contextvars.Context) -> Any:
    """Starts the span of a call, and makes it the current one in the context of the call.

    Returns ``None`` if the operator has not imported ``opentelemetry``. Without a configured tracer
    provider, the span records nothing.
    """
    trace = sys.modules.get("opentelemetry.trace")
    current = sys.modules.get("opentelemetry.context")
    if trace is None or current is None:
        return None
    body = getattr(call.cause, "body", None) or {}
    meta = body.get("metadata", {})
    attributes = {
        "kopf.handler": str(call.handler.id),
        "kopf.retry": call.native.retry,
        "k8s.object.kind": body.get("kind"),
        "k8s.namespace.name": meta.get("namespace"),
        "k8s.object.name": meta.get("name"),
        "k8s.object.uid": meta.get("uid"),
    }
    span = trace.get_tracer(TRACER).start_span(
        str(call.handler.id),
        attributes={key: value for key, value in attributes.items() if value is not None},
    )
    context.run(current.attach, trace.set_span_in_context(span))
    return span


def end(call: CurrentCall, exc: BaseException | None = None) -> None:
    """Ends the span of a call, with its exception."""
    span = call.span
    if span is None:
        return
    call.span = None
    if exc is not None:
        status = sys.modules["opentelemetry.trace"]
        span.record_exception(exc)
        span.set_status(status.StatusCode.ERROR, str(exc))
    span.end()
