"""Cancellation of daemons and handlers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native


def test_async_daemons_are_stopped_then_cancelled(stage: Stage) -> None:
    states: list[str] = []

    @kopf.daemon("kopfexamples", cancellation_backoff=0.2, cancellation_timeout=5)
    async def daemon(stopped: Any, **_: Any) -> None:
        states.append("started")
        await stopped.wait()
        states.append("stopped")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            states.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0.1)
            states.append("finally")

    with stage.operator():
        name = stage.create()
        until(lambda: states, "the start")
        stage.delete_blocked(name)
        stage.gone(name)
        assert states == ["started", "stopped", "cancelled", "finally"]


def test_async_daemons_that_exit_on_the_flag_are_not_cancelled(stage: Stage) -> None:
    states: list[str] = []

    @kopf.daemon("kopfexamples", cancellation_backoff=10, cancellation_timeout=10)
    async def daemon(stopped: Any, **_: Any) -> None:
        states.append("started")
        try:
            await stopped.wait()
            await asyncio.sleep(0.1)
            states.append("ended")
        except asyncio.CancelledError:
            states.append("cancelled")

    with stage.operator():
        name = stage.create()
        until(lambda: states, "the start")
        stage.delete_blocked(name)
        stage.gone(name)
    assert states == ["started", "ended"]


def test_daemons_that_ignore_cancellation_are_abandoned(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    release = threading.Event()
    started = threading.Event()

    @kopf.daemon("kopfexamples", id="stubborn", cancellation_timeout=0.2)
    async def stubborn(**_: Any) -> None:
        started.set()
        while not release.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                pass

    try:
        with stage.operator():
            name = stage.create()
            until(started.is_set, "the start")
            stage.delete_blocked(name)
            stage.gone(name)
            assert "Daemon 'stubborn'" in records.text
            release.set()
    finally:
        release.set()


def test_sync_daemons_that_ignore_the_flag_are_abandoned(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    release = threading.Event()
    started = threading.Event()

    @kopf.daemon("kopfexamples", id="stubborn", cancellation_timeout=0.2)
    def stubborn(**_: Any) -> None:
        started.set()
        release.wait()

    try:
        with stage.operator():
            name = stage.create()
            until(started.is_set, "the start")
            stage.delete_blocked(name)
            stage.gone(name)
            release.set()
    finally:
        release.set()


def test_daemons_can_be_restarted_by_errors(stage: Stage) -> None:
    runs: list[int] = []

    @kopf.daemon("kopfexamples", backoff=0.05)
    async def daemon(retry: int, stopped: Any, **_: Any) -> None:
        runs.append(retry)
        if retry < 2:
            raise ValueError("again")
        await stopped.wait()

    with stage.operator():
        stage.create()
        until(lambda: len(runs) == 3, "the retries")
    assert runs == [0, 1, 2]


def test_cancelled_coroutines_do_not_cancel_their_threads(stage: Stage) -> None:
    """A coroutine that waits for a thread is cancelled; the thread is not."""
    states: list[str] = []
    release = threading.Event()

    def work() -> None:
        release.wait(10)
        states.append("thread")

    @kopf.daemon("kopfexamples", cancellation_timeout=5)
    async def daemon(**_: Any) -> None:
        states.append("started")
        try:
            await asyncio.to_thread(work)
        except asyncio.CancelledError:
            states.append("cancelled")
            release.set()
            raise

    with stage.operator():
        name = stage.create()
        until(lambda: states, "the start")
        stage.delete_blocked(name)
        stage.gone(name)
        until(lambda: "thread" in states, "the thread")
    assert states == ["started", "cancelled", "thread"]


@pytest.mark.parametrize("is_async", [False, True])
def test_handlers_finish_when_the_operator_stops(stage: Stage, is_async: bool) -> None:
    states: list[str] = []
    go_on = threading.Event()

    if is_async:
        @kopf.on.create("kopfexamples", id="fn")
        async def afn(**_: Any) -> str:
            states.append("started")
            try:
                while not go_on.is_set():
                    await asyncio.sleep(0.01)
            finally:
                states.append("ended")
            return "done"
    else:
        @kopf.on.create("kopfexamples", id="fn")
        def fn(**_: Any) -> str:
            states.append("started")
            go_on.wait()
            states.append("ended")
            return "done"

    with stage.operator() as operator:
        stage.create()
        until(lambda: states, "the start")
        operator.stop.set()
        threading.Timer(0.3, go_on.set).start()
    assert states == ["started", "ended"]


def test_timers_that_delete_their_objects_do_not_wait_for_themselves(stage: Stage) -> None:
    @kopf.timer("kopfexamples", interval=0.05)
    def timer(name: str, **_: Any) -> None:
        stage.delete(name)

    with stage.operator():
        stage.gone(stage.create())


def test_tasks_of_users_outlive_their_handlers(stage: Stage) -> None:
    """Tasks started by handlers belong to the application, not to the operator."""
    states: list[str] = []
    tasks: list[Any] = []

    async def background() -> None:
        await asyncio.sleep(0.2)
        states.append("done")

    @kopf.on.create("kopfexamples", id="fn")
    async def fn(**_: Any) -> None:
        tasks.append(asyncio.create_task(background()))

    with stage.operator():
        stage.handled(stage.create())
        until(lambda: states, "the task")
