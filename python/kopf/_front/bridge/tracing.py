"""Spans of the engine and of handlers for OpenTelemetry, if the operator uses it."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._front.objects.current import CurrentCall

#: The name of the tracer, as instrumentation libraries have it.
TRACER = "kopf"

#: Fields of the engine's spans that are not attributes.
_SPECIAL = ("otel.name", "otel.kind", "otel.status_code", "otel.status_message")


def is_used() -> bool:
    """Returns ``True`` if the operator has imported ``opentelemetry``."""
    return "opentelemetry.trace" in sys.modules and "opentelemetry.context" in sys.modules


def start(name: str, fields: Mapping[str, Any], started: int, parent: Any) -> Any:
    """Starts a span of the engine. Without a configured tracer provider, it records nothing."""
    if not is_used():
        return None
    trace, context = sys.modules["opentelemetry.trace"], sys.modules["opentelemetry.context"]
    kind = trace.SpanKind.CLIENT if fields.get("otel.kind") == "client" else trace.SpanKind.INTERNAL
    root = context.Context()
    return trace.get_tracer(TRACER).start_span(
        fields.get("otel.name", name),
        context=root if parent is None else trace.set_span_in_context(parent, root),
        kind=kind,
        attributes=_attributes(fields),
        start_time=started,
    )


def finish(span: Any, fields: Mapping[str, Any], ended: int) -> None:
    """Ends a span of the engine, with the attributes and the status that it has got meanwhile."""
    if span is None:
        return
    span.set_attributes(_attributes(fields))
    if fields.get("otel.status_code") == "ERROR":
        status = sys.modules["opentelemetry.trace"].StatusCode.ERROR
        span.set_status(status, fields.get("otel.status_message"))
    span.end(end_time=ended)


def _attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in _SPECIAL}


def begin(call: CurrentCall, context: contextvars.Context) -> Any:
    """Makes the span of a call the current one in the context of the call.

    Returns ``None`` if the operator does not use OpenTelemetry.
    """
    span = call.native.span()
    if span is None:
        return None
    trace, current = sys.modules["opentelemetry.trace"], sys.modules["opentelemetry.context"]
    body = getattr(call.cause, "body", None) or {}
    meta = body.get("metadata", {})
    attributes = {
        "k8s.object.kind": body.get("kind"),
        "k8s.namespace.name": meta.get("namespace"),
        "k8s.object.name": meta.get("name"),
        "k8s.object.uid": meta.get("uid"),
    }
    span.set_attributes({key: value for key, value in attributes.items() if value is not None})
    context.run(lambda: current.attach(trace.set_span_in_context(span)))
    return span


def end(call: CurrentCall, exc: BaseException | None = None) -> None:
    """Adds the exception to the span of a call. The engine ends the span."""
    span = call.span
    call.span = None
    if span is not None and exc is not None:
        span.record_exception(exc)
