"""Objects that other clients change while they are handled: each handler succeeds once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import kopf
from behaviour import Stage
from kopf._front.tools.clients import ClusterError

pytestmark = pytest.mark.native


@contextlib.contextmanager
def writer(stage: Stage, name: str, interval: float) -> Iterator[None]:
    """Writes the status of the object all the time."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(interval):
            number += 1
            with contextlib.suppress(ClusterError):
                stage.patch(name, {"status": {"beat": number}})

    thread = threading.Thread(target=write, name="writer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def check(records: pytest.LogCaptureFixture) -> None:
    texts = [record.getMessage() for record in records.records]
    assert not [text for text in texts if "makes no progress" in text]


def test_delete_handler_that_writes_its_own_object_is_called_once(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    calls: list[int] = []

    @kopf.on.delete("kopfexamples")
    def unmake(name: str, retry: int, **_: Any) -> None:
        calls.append(retry)
        stage.patch(name, {"status": {"phase": f"deleting {len(calls)}"}})

    with stage.operator():
        name = stage.create()
        stage.handled(name)
        stage.delete(name)
        stage.gone(name)
    assert calls == [0]
    check(records)


def test_retried_delete_handler_that_writes_its_own_object_succeeds_once(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    calls: list[int] = []

    @kopf.on.delete("kopfexamples")
    async def unmake(name: str, retry: int, **_: Any) -> None:
        calls.append(retry)
        await asyncio.to_thread(stage.patch, name, {"status": {"phase": f"deleting {retry}"}})
        if retry < 2:
            raise kopf.TemporaryError("not yet", delay=0.1)

    with stage.operator():
        name = stage.create()
        stage.handled(name)
        stage.delete(name)
        stage.gone(name)
    assert calls == [0, 1, 2]
    check(records)


@pytest.mark.parametrize("interval", [0.05, 0.3])
def test_slow_delete_handlers_are_called_once_amid_writes(
    stage: Stage, records: pytest.LogCaptureFixture, interval: float,
) -> None:
    calls: list[str] = []

    @kopf.on.delete("kopfexamples")
    async def one(**_: Any) -> None:
        calls.append("one")
        await asyncio.sleep(0.5)

    @kopf.on.delete("kopfexamples")
    async def two(**_: Any) -> None:
        calls.append("two")
        await asyncio.sleep(0.5)

    @kopf.timer("kopfexamples", interval=0.1)
    def ticking(patch: kopf.Patch, retry: int, **_: Any) -> None:
        patch.status["ticks"] = retry

    with stage.operator():
        name = stage.create()
        stage.handled(name)
        with writer(stage, name, interval):
            stage.delete(name)
            stage.gone(name)
    assert sorted(calls) == ["one", "two"]
    check(records)


def test_changes_are_handled_once_amid_writes(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []

    @kopf.on.create("kopfexamples")
    async def make(name: str, patch: kopf.Patch, **_: Any) -> None:
        calls.append("make")
        patch.fns.append(lambda body: body.setdefault("status", {}).update(made=True))
        await asyncio.sleep(0.4)

    @kopf.on.update("kopfexamples")
    async def update(**_: Any) -> None:
        calls.append("update")
        await asyncio.sleep(0.4)

    @kopf.on.delete("kopfexamples")
    def unmake(**_: Any) -> None:
        calls.append("unmake")

    with stage.operator():
        name = stage.create()
        with writer(stage, name, 0.05):
            stage.wait(name, lambda obj: obj.get("status", {}).get("made"))
            stage.patch(name, {"spec": {"field": "other"}})
            key = "kopf.zalando.org/last-handled-configuration"
            stage.wait(name, lambda obj: "other" in obj["metadata"]["annotations"].get(key, ""))
            stage.delete(name)
            stage.gone(name)
    assert calls == ["make", "update", "unmake"]
    check(records)
