"""Context variables of handlers, and the names of their tasks, as in the original."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native


def test_context_variables_reach_handlers(stage: Stage) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    values = []
    kopf.on.create("kopfexamples", id="s")(lambda **_: values.append(variable.get()))

    @kopf.on.create("kopfexamples", id="a")
    async def fn(**_: Any) -> None:
        values.append(variable.get())
        variable.set("changed")

    async def main(stop: threading.Event, **kwargs: Any) -> None:
        variable.set("outer")
        await kopf.operator(stop_flag=stop, clusterwide=True, standalone=True)

    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(main(stop)))
    thread.start()
    for _ in range(2):
        stage.handled(stage.create())
    stop.set()
    thread.join()
    assert values == ["outer"] * 4


def test_context_variables_are_passed_on(stage: Stage) -> None:
    """Async handlers of an object see the variables of the handlers before them; others do not."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="-")
    seen: dict[str, list[str]] = {}

    def see(what: str) -> None:
        seen.setdefault(what, []).append(variable.get())

    @kopf.on.startup()
    async def startup(**_: Any) -> None:
        variable.set("startup")

    @kopf.on.startup(id="sync")
    def sync_startup(**_: Any) -> None:
        see("startup")
        variable.set("lost in the thread")

    @kopf.on.cleanup()
    async def cleanup(**_: Any) -> None:
        see("cleanup")

    @kopf.on.event("kopfexamples")
    async def event(name: str, **_: Any) -> None:
        see("event")
        variable.set(f"event of {name}")

    @kopf.on.create("kopfexamples", id="a")
    async def create(name: str, **_: Any) -> None:
        see("create")
        variable.set("create")

        @kopf.subhandler(id="sub")
        def sub(**_: Any) -> None:
            see("sub")

    @kopf.timer("kopfexamples", interval=0.1, id="timer")
    async def timer(memo: Any, **_: Any) -> None:
        memo.calls = memo.get("calls", 0) + 1
        see("timer")
        variable.set(f"timer {memo.calls}")

    with stage.operator():
        name = stage.create()
        stage.handled(name)
        until(lambda: len(seen.get("timer", [])) >= 3, "the timer")
    assert seen["startup"] == ["startup"]
    assert seen["cleanup"] == ["startup"]
    assert seen["event"][0] == "-"
    assert set(seen["create"]) == {f"event of {name}"}
    assert set(seen["sub"]) == {"create"}
    assert seen["timer"][1:3] == ["timer 1", "timer 2"]


def test_names_of_tasks(stage: Stage) -> None:
    names: dict[str, str] = {}

    def note(what: str) -> None:
        task = asyncio.current_task()
        names[what] = task.get_name() if task is not None else ""

    @kopf.on.startup()
    async def startup(**_: Any) -> None:
        note("startup")

    @kopf.on.cleanup()
    async def cleanup(**_: Any) -> None:
        note("cleanup")

    @kopf.on.create("kopfexamples")
    async def create(**_: Any) -> None:
        note("create")

    @kopf.daemon("kopfexamples", id="the-daemon")
    async def daemon(stopped: Any, **_: Any) -> None:
        note("daemon")
        await stopped.wait()

    with stage.operator():
        name = stage.create()
        uid = stage.handled(name)["metadata"]["uid"]
        until(lambda: "daemon" in names, "the daemon")
    assert names == {
        "startup": "startup/cleanup activities",
        "cleanup": "startup/cleanup activities",
        "create": f"worker for (kopfexamples.v1.kopf.dev, '{uid}')",
        "daemon": "runner of the-daemon",
    }
