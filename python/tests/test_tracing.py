"""Spans of cycles, handlers and requests in OpenTelemetry, if the operator uses it."""

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
    def __init__(
        self, name: str, parent: Span | None, kind: str, attributes: dict[str, Any], started: int,
    ) -> None:
        self.name = name
        self.parent = parent
        self.kind = kind
        self.attributes = attributes
        self.times = [started]
        self.exceptions: list[BaseException] = []
        self.status: Any = None
        self.has_ended = False

    def record_exception(self, exc: BaseException) -> None:
        self.exceptions.append(exc)

    def set_status(self, status: Any, description: str) -> None:
        self.status = (status, description)

    def set_attributes(self, attributes: dict[str, Any]) -> None:
        self.attributes.update(attributes)

    def end(self, end_time: int) -> None:
        assert not self.has_ended
        self.has_ended = True
        self.times.append(end_time)


class Tracer:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(
        self, name: str, context: Any, kind: str, attributes: dict[str, Any], start_time: int,
    ) -> Span:
        span = Span(name, context.get("span"), kind, attributes, start_time)
        self.spans.append(span)
        return span


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    """The used parts of the package `opentelemetry`, with a tracer that stores all spans."""
    tracer = Tracer()
    current: contextvars.ContextVar[Any] = contextvars.ContextVar("current")
    trace, context = types.ModuleType("trace"), types.ModuleType("context")
    trace.get_tracer = lambda name: tracer  # type: ignore[attr-defined]
    trace.set_span_in_context = (  # type: ignore[attr-defined]
        lambda span, context=None: {**(context or {}), "span": span})
    trace.get_current_span = lambda: current.get({}).get("span")  # type: ignore[attr-defined]
    trace.SpanKind = types.SimpleNamespace(  # type: ignore[attr-defined]
        INTERNAL="internal", CLIENT="client")
    context.Context = dict  # type: ignore[attr-defined]
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


def test_spans_form_one_trace_per_cycle(stage: Stage, tracer: Tracer) -> None:
    @kopf.on.create("kopfexamples", id="first")
    async def first(**_: Any) -> None:
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "traced"}}
        await kopf.apply_child({**child, "metadata": {"name": "traced"}})

    @kopf.on.create("kopfexamples", id="second")
    def second(**_: Any) -> None:
        @kopf.subhandler(id="sub")
        async def sub(**_: Any) -> None:
            pass

    def ended(name: str) -> list[Span]:
        return [span for span in tracer.spans if span.name == name and span.has_ended]

    with stage.operator():
        name = stage.create()
        stage.handled(name)
        until(lambda: ended("second/sub") and all(span.has_ended for span in tracer.spans), "the end")
    (one,), (two,), (sub,) = ended("first"), ended("second"), ended("second/sub")
    cycle = one.parent
    assert cycle is not None and cycle.name == "cycle" and cycle.parent is None
    assert cycle.attributes["k8s.object.name"] == name
    assert cycle.attributes["kopf.reason"] == "create"
    assert two.parent is not None and two.parent.name == "cycle"
    assert sub.parent is two
    assert one.attributes["kopf.outcome"] == "Succeeded"
    assert cycle.times[0] <= one.times[0] <= one.times[1] <= cycle.times[1]
    requests = [span for span in ended("request") if span.parent is one]
    assert any(span.attributes["url.path"].endswith("/configmaps/traced") for span in requests)
    assert all(span.kind == "client" for span in requests)
    writes = [span.attributes["http.request.method"] for span in ended("request")
              if span.parent is cycle]
    assert "PATCH" in writes, "the write of the cycle is its child"
