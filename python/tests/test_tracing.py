"""Spans of handlers in OpenTelemetry, if the operator uses it."""

from __future__ import annotations

import contextvars
import sys
import types
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native


class Span:
    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        self.name = name
        self.attributes = attributes
        self.exceptions: list[BaseException] = []
        self.status: Any = None
        self.has_ended = False

    def record_exception(self, exc: BaseException) -> None:
        self.exceptions.append(exc)

    def set_status(self, status: Any, description: str) -> None:
        self.status = (status, description)

    def end(self) -> None:
        self.has_ended = True


class Tracer:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(self, name: str, attributes: dict[str, Any]) -> Span:
        span = Span(name, attributes)
        self.spans.append(span)
        return span


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    """The used parts of the package `opentelemetry`, with a tracer that stores all spans."""
    tracer = Tracer()
    current: contextvars.ContextVar[Any] = contextvars.ContextVar("current")
    trace, context = types.ModuleType("trace"), types.ModuleType("context")
    trace.get_tracer = lambda name: tracer  # type: ignore[attr-defined]
    trace.set_span_in_context = lambda span: span  # type: ignore[attr-defined]
    trace.get_current_span = lambda: current.get(None)  # type: ignore[attr-defined]
    trace.StatusCode = types.SimpleNamespace(ERROR="error")  # type: ignore[attr-defined]
    context.attach = current.set  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    monkeypatch.setitem(sys.modules, "opentelemetry.context", context)
    return tracer


def current_span() -> Any:
    return sys.modules["opentelemetry.trace"].get_current_span()


def test_the_span_of_a_handler_is_current(stage: Stage, tracer: Tracer) -> None:
    seen: list[Any] = []

    @kopf.on.create("kopfexamples", id="async")
    async def in_the_loop(**_: Any) -> None:
        seen.append(current_span())

    @kopf.on.create("kopfexamples", id="sync")
    def in_a_thread(**_: Any) -> None:
        seen.append(current_span())

    with stage.operator():
        name = stage.create()
        until(lambda: len(seen) == 2, "both calls")
        until(lambda: all(span.has_ended for span in seen), "the ends of both")
    assert [span.name for span in seen] == ["async", "sync"]
    assert not any(span.exceptions for span in seen)
    assert seen[0].attributes["k8s.object.name"] == name
    assert current_span() is None


def test_the_span_of_a_failed_handler_has_the_error(stage: Stage, tracer: Tracer) -> None:
    @kopf.on.create("kopfexamples", id="fails")
    async def fails(**_: Any) -> None:
        raise kopf.PermanentError("never")

    def ended() -> list[Span]:
        # Activities have spans as well.
        return [span for span in tracer.spans if span.name == "fails" and span.has_ended]

    with stage.operator():
        stage.create()
        until(ended, "the end of the span")
    (failed,) = ended()
    assert failed.status == ("error", "never")
    assert isinstance(failed.exceptions[0], kopf.PermanentError)
