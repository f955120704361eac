"""The shutdown: requests in progress, blocked event loops, blocking functions, cancelled tasks."""

from __future__ import annotations

import asyncio
import pathlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import kopf
from behaviour import CRD, TIMEOUT, Stage, until
from kopf import testing
from test_behaviour_process import READY, Process, running

pytestmark = pytest.mark.native


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A cluster that responds to all requests for ConfigMaps with 503."""
    rules = [{"fault": "error", "code": 503, "kind": "configmaps"}]
    with testing.sandbox(CRD, faults=rules) as cluster:
        monkeypatch.setenv("KUBECONFIG", cluster.kubeconfig)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield Stage(cluster)


CHILD = "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'child'}}"

REQUESTS = {
    "async": f"""
    import kopf
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        print('busy', flush=True)
        try:
            await kopf.apply_child({CHILD})
        finally:
            print('over', flush=True)
    """,
    # The cancellation is ignored once.
    "stubborn": f"""
    import asyncio, kopf
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        print('busy', flush=True)
        try:
            await kopf.apply_child({CHILD})
        except asyncio.CancelledError:
            await kopf.apply_child({CHILD})
        finally:
            print('over', flush=True)
    """,
    "sync": f"""
    import kopf
    @kopf.on.create('kopfexamples')
    def fn(**_):
        print('busy', flush=True)
        try:
            kopf.apply_child({CHILD})
        finally:
            print('over', flush=True)
    """,
    "daemon": f"""
    import kopf
    @kopf.daemon('kopfexamples', cancellation_timeout=1)
    def fn(**_):
        print('busy', flush=True)
        try:
            kopf.apply_child({CHILD})
        finally:
            print('over', flush=True)
    """,
    "sub-handlers": f"""
    import kopf
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        @kopf.subhandler()
        async def sub(**_):
            print('busy', flush=True)
            try:
                await kopf.apply_child({CHILD})
            finally:
                print('over', flush=True)
        await kopf.execute()
    """,
    "background": f"""
    import asyncio, kopf
    tasks = []
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        async def work():
            print('busy', flush=True)
            try:
                await kopf.apply_child({CHILD})
            finally:
                print('over', flush=True)
        tasks.append(asyncio.create_task(work()))
    """,
}


@pytest.mark.parametrize("way", REQUESTS)
def test_requests_of_handlers_end_with_the_operator(
    failing: Stage, tmp_path: pathlib.Path, way: str,
) -> None:
    """They are being repeated at the time of the shutdown."""
    failing.create()
    with running(tmp_path, REQUESTS[way]) as process:
        process.sees("busy")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "over" in process.output
        assert "panicked" not in process.output
        assert "Exception ignored" not in process.output


def test_requests_of_ended_operators_fail(failing: Stage) -> None:
    """The loop of the application goes on."""
    errors: list[BaseException] = []
    started = threading.Event()

    async def main() -> None:
        stop = asyncio.Event()
        registry = kopf.OperatorRegistry()

        @kopf.on.create("kopfexamples", registry=registry)
        def fn(**_: Any) -> None:
            child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}}
            started.set()
            # The first ones are cancelled while the operator exits.
            while not any(isinstance(error, RuntimeError) for error in errors):
                try:
                    kopf.apply_child(child)
                except BaseException as exc:
                    errors.append(exc)

        @kopf.on.login(registry=registry)
        def login(**kwargs: Any) -> Any:
            return kopf.login_with_kubeconfig(**kwargs)

        settings = kopf.OperatorSettings()
        settings.queueing.exit_timeout = 0.1
        running = asyncio.create_task(kopf.operator(
            clusterwide=True, standalone=True, registry=registry, stop_flag=stop, settings=settings))
        await asyncio.to_thread(failing.create)
        await asyncio.to_thread(started.wait, TIMEOUT)
        stop.set()
        await running
        await asyncio.to_thread(
            until, lambda: errors and str(errors[-1]) == "the operator has ended", "the last error")

    asyncio.run(main())
    assert type(errors[0]).__name__ == "CancelledError"


BLOCKED = {
    "handler": """
    @kopf.on.create('kopfexamples', id='the-blocker')
    async def blocker(**_):
        print('busy', flush=True)
        time.sleep(1000)
    """,
    "startup": """
    @kopf.on.startup(id='the-blocker')
    async def blocker(**_):
        print('busy', flush=True)
        time.sleep(1000)
    """,
    "computation": """
    @kopf.on.event('kopfexamples', id='the-blocker')
    async def blocker(**_):
        print('busy', flush=True)
        while True:
            pass
    """,
    "cleanup": """
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        print('busy', flush=True)
    @kopf.on.cleanup(id='the-blocker')
    async def blocker(**_):
        time.sleep(1000)
    """,
}


@pytest.mark.parametrize("way", BLOCKED)
def test_one_signal_ends_operators_with_blocked_loops(
    stage: Stage, tmp_path: pathlib.Path, way: str,
) -> None:
    stage.create()
    code = "    import kopf, time" + BLOCKED[way]
    with running(tmp_path, code) as process:
        process.sees("busy")
        process.signal(signal.SIGTERM)
        assert process.wait() == 1
        assert "Handler 'the-blocker' blocks the event loop" in process.output \
            or "Activity 'the-blocker' blocks the event loop" in process.output
        assert "in blocker" in process.output
        assert "bridge.py" not in process.output


def test_one_signal_ends_embedded_operators_with_blocked_loops(
    stage: Stage, tmp_path: pathlib.Path,
) -> None:
    stage.create()
    code = "    import asyncio, kopf, time" + BLOCKED["handler"].rstrip(" ")
    code += "    asyncio.run(kopf.operator(clusterwide=True, standalone=True))\n"
    with running(tmp_path, code, alone=True) as process:
        process.sees("busy")
        process.signal(signal.SIGINT)
        assert process.wait() == 1


BLOCKING = {
    "handler": """
    import kopf, time
    @kopf.on.create('kopfexamples')
    def fn(**_):
        print('busy', flush=True)
        time.sleep(1000)
    """,
    "daemon": """
    import kopf, time
    @kopf.daemon('kopfexamples')
    def fn(**_):
        print('busy', flush=True)
        time.sleep(1000)
    """,
    "to_thread": """
    import asyncio, kopf, time
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        print('busy', flush=True)
        await asyncio.to_thread(time.sleep, 1000)
    """,
    "startup": """
    import kopf, time
    @kopf.on.startup()
    def fn(**_):
        print('busy', flush=True)
        time.sleep(1000)
    """,
}


@pytest.mark.parametrize("way", BLOCKING)
def test_blocking_functions_do_not_block_the_exit(
    stage: Stage, tmp_path: pathlib.Path, way: str,
) -> None:
    stage.create()
    with running(tmp_path, BLOCKING[way]) as process:
        process.sees("busy")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "Threads of functions are abandoned" in process.output


def test_threads_of_users_are_awaited(stage: Stage, tmp_path: pathlib.Path) -> None:
    code = """
        import kopf, threading, time
        @kopf.on.startup()
        def fn(**_):
            def work():
                stopping.wait()
                time.sleep(8)
                print('work is done', flush=True)
            stopping = threading.Event()
            threading.Thread(target=work).start()
            kopf.on.cleanup()(lambda **_: stopping.set())
        @kopf.on.create('kopfexamples')
        def handler(**_): time.sleep(1000)
    """
    with running(tmp_path, code) as process:
        process.sees(READY)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "work is done" in process.output


def test_threads_of_ended_daemons_are_released(stage: Stage) -> None:
    def count() -> int:
        return sum(thread.name.startswith("kopf-daemon") for thread in threading.enumerate())

    @kopf.daemon("kopfexamples")
    def daemon(stopped: Any, **_: Any) -> None:
        stopped.wait()

    with stage.operator():
        names = [stage.create() for _ in range(20)]
        until(lambda: count() == 20, "a thread for each daemon")
        for name in names:
            stage.delete(name)
        until(lambda: count() == 0, "the end of the threads")
        stage.create()
        until(lambda: count() == 1, "a new thread")


CANCELLING = """
    import asyncio, kopf
    @kopf.on.create('kopfexamples')
    async def fn(**_):
        for task in asyncio.all_tasks():
            task.cancel()
"""


def test_cancelled_tasks_end_the_operator_with_an_error(stage: Stage, tmp_path: pathlib.Path) -> None:
    stage.create()
    with running(tmp_path, CANCELLING) as process:
        assert process.wait() == 1
        assert "the task of the operator was cancelled by other code" in process.output
        assert "Traceback" not in process.output.split("Error: ")[-1]


def test_cancelled_operators_are_stopped_regularly(stage: Stage) -> None:
    ended: list[str] = []

    async def main() -> None:
        registry = kopf.OperatorRegistry()
        kopf.on.cleanup(registry=registry)(lambda **_: ended.append("cleanup"))
        ready = asyncio.Event()
        task = asyncio.create_task(kopf.operator(
            clusterwide=True, standalone=True, registry=registry, ready_flag=ready))
        await ready.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(main())
    assert ended == ["cleanup"]
