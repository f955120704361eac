"""Reconcile handlers: triggers, requests, retries, deletions, and their misuse."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import kopf
from behaviour import Stage, until
from test_behaviour_children import make_child

pytestmark = pytest.mark.native

#: The reasons of the first call: the object is created before or after the operator lists objects.
NEW = [("created",), ("resumed",)]


def own_annotations(obj: Any) -> list[str]:
    annotations = obj["metadata"].get("annotations") or {}
    return [key for key in annotations if key.startswith("kopf.zalando.org/")]


def test_changes_of_objects_and_children_are_triggers(stage: Stage) -> None:
    calls: list[tuple[str, ...]] = []

    @kopf.on.reconcile("kopfexamples", owns=["configmaps"])
    async def sync(triggers: kopf.Triggers, **_: Any) -> None:
        assert isinstance(triggers, frozenset)
        calls.append(tuple(sorted(triggers)))

    with stage.operator():
        name = stage.create({"field": 1})
        until(lambda: len(calls) == 1)
        stage.patch(name, {"spec": {"field": 2}})
        until(lambda: len(calls) == 2)
        owner = stage.get(name)
        make_child(stage, owner, "first")
        until(lambda: len(calls) == 3)
        obj = stage.get(name)
    assert calls[0] in NEW and calls[1:] == [("updated",), ("child",)]
    assert own_annotations(obj) == []
    assert not obj["metadata"].get("finalizers")


def test_handlers_request_their_next_call(stage: Stage) -> None:
    calls: list[kopf.Triggers] = []

    @kopf.on.reconcile("kopfexamples")
    def sync(triggers: kopf.Triggers, **_: Any) -> kopf.Requeue | None:
        calls.append(triggers)
        return kopf.Requeue(after=0.2) if len(calls) < 3 else None

    with stage.operator():
        stage.create({})
        until(lambda: len(calls) == 3)
    assert tuple(calls[0]) in NEW
    assert calls[1:] == [{"requeued"}, {kopf.Trigger.REQUEUED}]


def test_periods_and_retries(stage: Stage) -> None:
    calls: list[tuple[int, str]] = []

    @kopf.on.reconcile("kopfexamples", every=datetime.timedelta(seconds=0.2))
    def sync(triggers: kopf.Triggers, retry: int, **_: Any) -> None:
        calls.append((retry, " ".join(sorted(triggers))))
        if len(calls) == 1:
            raise kopf.TemporaryError("not yet", delay=0.2)

    with stage.operator():
        name = stage.create({})
        until(lambda: len(calls) >= 3)
        obj = stage.wait(name, lambda obj: not own_annotations(obj))
    assert [retry for retry, _ in calls[:3]] == [0, 1, 0]
    first = calls[0][1]
    assert (first,) in NEW and set(calls[1][1].split()) == {first, "retried"}
    assert calls[2][1] == "period"
    assert own_annotations(obj) == []


def test_deletions_wait_for_handlers_with_a_finalizer(stage: Stage) -> None:
    calls: list[str] = []

    @kopf.on.reconcile("kopfexamples", finalizer=True)
    def sync(triggers: kopf.Triggers, body: kopf.Body, **_: Any) -> None:
        calls.append(" ".join(sorted(triggers)))
        assert (kopf.Trigger.DELETED in triggers) == ("deletionTimestamp" in body.meta)

    with stage.operator():
        name = stage.create({})
        until(lambda: len(calls) == 1)
        stage.delete(name)
        stage.gone(name)
    assert (calls[0],) in NEW and calls[1:] == ["deleted"]


def test_results_other_than_requests_are_refused(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    @kopf.on.reconcile("kopfexamples")
    def sync(**_: Any) -> Any:
        return {"a": "result"}

    with stage.operator():
        stage.create({})
        text = "a reconcile handler has returned dict: it must return None or kopf.Requeue"
        until(lambda: any(text in message for message in list(records.messages)))


def test_misuse_is_an_error_of_the_declaration() -> None:
    def decorate(**options: Any) -> Any:
        return kopf.on.reconcile("kopfexamples", **options)

    with pytest.raises(ValueError, match=r"invalid every 0: must be greater than 0; omit it"):
        decorate(every=0)
    with pytest.raises(TypeError, match=r"invalid every '5m': must be a number of seconds"):
        decorate(every="5m")
    with pytest.raises(TypeError, match=r"invalid finalizer 'yes': must be True or False"):
        decorate(finalizer="yes")
    text = r"unexpected keyword argument 'field': .* whole objects; filter .* or use @kopf.on.field"
    with pytest.raises(TypeError, match=text):
        decorate(field="spec.field")
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'evry': .* has no such option"):
        decorate(evry=60)
    with pytest.raises(TypeError, match=r"invalid owns 'pods': must be a list of resources"):
        decorate(owns="pods")(lambda **_: None)
    with pytest.raises(TypeError):
        kopf.on.reconcile()(lambda **_: None)


def test_requests_have_a_time() -> None:
    assert kopf.Requeue(after=5) == kopf.Requeue(after=5)
    assert kopf.Requeue(after=datetime.timedelta(minutes=1)).seconds == 60
    with pytest.raises(ValueError, match=r"invalid after -1: must not be negative"):
        kopf.Requeue(after=-1)
    with pytest.raises(TypeError, match=r"invalid after '5': must be a number of seconds"):
        kopf.Requeue(after="5")  # type: ignore[arg-type]
