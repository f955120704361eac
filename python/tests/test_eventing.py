"""K8s-events that handlers post."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import kopf
from kopf._front.objects import current

BODY = kopf.Body({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "uid": "u"}})
REF = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}


@pytest.fixture()
def settings() -> kopf.OperatorSettings:
    return kopf.OperatorSettings()


@pytest.fixture()
def posted(monkeypatch: pytest.MonkeyPatch, settings: kopf.OperatorSettings) -> list[Any]:
    """Replaces the engine. Returns the list of posted events."""
    posted: list[Any] = []
    monkeypatch.setattr(current, "call", lambda: types.SimpleNamespace(settings=settings))
    monkeypatch.setattr(
        current, "post_event", lambda ref, **kwargs: posted.append((ref, kwargs))
    )
    return posted


def test_event_has_all_fields(posted: list[Any]) -> None:
    kopf.event(BODY, type="Any", reason="R", message="M", backoffs=[1, 2])
    assert posted == [(REF, {"type": "Any", "reason": "R", "message": "M", "backoffs": [1, 2]})]


def test_events_of_nested_objects(posted: list[Any]) -> None:
    kopf.event([BODY, [dict(BODY)]], type="Any", reason="R")
    assert [ref for ref, _ in posted] == [REF, REF]


@pytest.mark.parametrize("level, expected", [
    (10, ["Normal", "Warning", "Error"]),
    (20, ["Normal", "Warning", "Error"]),
    (30, ["Warning", "Error"]),
    (40, ["Error"]),
    (50, []),
])
def test_level_limits_events(
    posted: list[Any], settings: kopf.OperatorSettings, level: int, expected: list[str],
) -> None:
    settings.posting.level = level
    kopf.info(BODY, reason="R")
    kopf.warn(BODY, reason="R")
    kopf.exception(BODY, reason="R")
    assert [kwargs["type"] for _, kwargs in posted] == expected


def test_disabled_posting_posts_nothing(
    posted: list[Any], settings: kopf.OperatorSettings,
) -> None:
    settings.posting.enabled = False
    kopf.event(BODY, type="Any", reason="R")
    kopf.info(BODY, reason="R")
    kopf.warn(BODY, reason="R")
    kopf.exception(BODY, reason="R")
    assert posted == []


def test_current_exception_is_the_default(posted: list[Any]) -> None:
    try:
        raise ValueError("boo")
    except ValueError:
        kopf.exception(BODY)
    kopf.exception(BODY, reason="R", message="M", exc=TypeError("foo"))
    details = [(kwargs["reason"], kwargs["message"]) for _, kwargs in posted]
    assert details == [("ValueError", "boo"), ("R", "M foo")]


def test_events_outside_of_handlers_are_rejected() -> None:
    if "kopf._front.objects.current" not in sys.modules:
        pytest.importorskip("kopf._front.objects.current")
    with pytest.raises(LookupError):
        kopf.info(BODY, reason="R")
