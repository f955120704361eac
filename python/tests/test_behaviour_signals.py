"""Signals of embedded operators, and several operators in one process."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import threading
from typing import Any

import pytest

import kopf
from behaviour import Stage, until
from kopf._front.declare.registries import SmartOperatorRegistry
from test_behaviour_process import READY, running

pytestmark = pytest.mark.native

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Running:
    """An operator as a task of the current loop."""

    def __init__(self, **kwargs: Any) -> None:
        self.registry = SmartOperatorRegistry()
        self.calls: list[str] = []
        kopf.on.create("kopfexamples", id="fn", registry=self.registry)(self._create)
        settings = kopf.OperatorSettings()
        settings.peering.standalone = True
        settings.posting.enabled = False
        # Several operators handle the same objects.
        prefix = f"op{id(self)}.example.com"
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=prefix)
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=prefix)
        self.stop, self.ready = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(kopf.operator(
            clusterwide=True, registry=self.registry, settings=settings,
            stop_flag=self.stop, ready_flag=self.ready, **kwargs))

    async def _create(self, name: str, **_: Any) -> None:
        self.calls.append(name)

    async def end(self) -> None:
        self.stop.set()
        await self.task


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in NUMBERS]


@pytest.mark.parametrize("way", ["flag", "cancel"])
@pytest.mark.parametrize("first", [0, 1])
async def test_operators_end_independently(stage: Stage, first: int, way: str) -> None:
    operators = [Running(), Running()]
    for operator in operators:
        await operator.ready.wait()
    ended, other = operators[first], operators[1 - first]
    if way == "flag":
        await ended.end()
    else:
        ended.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ended.task
    name = await asyncio.to_thread(stage.create)
    await asyncio.to_thread(until, lambda: other.calls == [name], "the call")
    assert not other.task.done()
    await other.end()
    assert ended.calls == []


async def test_failed_operators_do_not_end_others(stage: Stage) -> None:
    operator = Running()
    await operator.ready.wait()
    failing = SmartOperatorRegistry()

    @kopf.on.startup(registry=failing)
    def startup(**_: Any) -> None:
        raise kopf.PermanentError("no start")

    with pytest.raises(Exception, match="no start"):
        await kopf.operator(clusterwide=True, standalone=True, registry=failing)
    name = await asyncio.to_thread(stage.create)
    await asyncio.to_thread(until, lambda: operator.calls == [name], "the call")
    await operator.end()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
async def test_former_signal_handlers_are_restored(stage: Stage, order: list[int]) -> None:
    before = handlers()
    operators = [Running() for _ in order]
    for operator in operators:
        await operator.ready.wait()
    installed = handlers()
    assert all(one is not other for one, other in zip(installed, before, strict=True))
    for number in order[:-1]:
        await operators[number].end()
        assert handlers() == installed
    await operators[order[-1]].end()
    assert handlers() == before


@pytest.mark.parametrize("number", NUMBERS)
async def test_signals_stop_all_operators(stage: Stage, number: int) -> None:
    operators = [Running(), Running()]
    for operator in operators:
        await operator.ready.wait()
    os.kill(os.getpid(), number)
    for operator in operators:
        await operator.task
    assert signal.getsignal(number) is not None


@pytest.mark.parametrize("way", ["signal", "loop"])
async def test_applications_keep_their_handlers(stage: Stage, way: str) -> None:
    received = asyncio.Event()
    loop = asyncio.get_running_loop()
    former = signal.getsignal(signal.SIGTERM)
    if way == "signal":
        signal.signal(signal.SIGTERM, lambda *_: received.set())
    else:
        loop.add_signal_handler(signal.SIGTERM, received.set)
    try:
        own = signal.getsignal(signal.SIGTERM)
        operator = Running()
        await operator.ready.wait()
        assert signal.getsignal(signal.SIGTERM) is own
        os.kill(os.getpid(), signal.SIGTERM)
        await received.wait()
        assert not operator.task.done()
        await operator.end()
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, former)


async def test_handlers_of_applications_are_replaced_on_request(stage: Stage) -> None:
    received: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        own = signal.getsignal(signal.SIGTERM)
        operator = Running(handle_signals=True)
        await operator.ready.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await operator.task
        assert received == []
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, former)


async def test_signals_are_ignored_on_request(stage: Stage) -> None:
    before = handlers()
    operator = Running(handle_signals=False)
    await operator.ready.wait()
    assert handlers() == before
    await operator.end()


async def test_handlers_installed_meanwhile_are_kept(stage: Stage) -> None:
    former = signal.getsignal(signal.SIGTERM)
    operator = Running()
    await operator.ready.wait()

    def later(*_: Any) -> None:
        pass

    signal.signal(signal.SIGTERM, later)
    try:
        await operator.end()
        assert signal.getsignal(signal.SIGTERM) is later
    finally:
        signal.signal(signal.SIGTERM, former)


EMBEDDED = """
    import asyncio, kopf
    @kopf.on.cleanup()
    def cleanup(**_): print('cleaned', flush=True)
    @kopf.on.startup()
    def startup(logger, **_): print('started', flush=True)
    asyncio.run(kopf.operator(clusterwide=True, standalone=True))
    print('returned', flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_embedded_operators(stage: Stage, tmp_path: pathlib.Path, number: int) -> None:
    with running(tmp_path, EMBEDDED, alone=True) as process:
        process.sees("started")
        process.signal(number)
        assert process.wait() == 0
        assert process.output.split() == ["started", "cleaned", "returned"]


def documented_application() -> str:
    """Returns the application in the guide."""
    guide = pathlib.Path(__file__).parents[2] / "docs" / "operate" / "embedding.md"
    code = guide.read_text().split("# web.py, run by: uvicorn web:app\n")[1].split("```")[0]
    return code


def test_documented_web_applications_stop_on_signals(stage: Stage, tmp_path: pathlib.Path) -> None:
    code = (
        "import kopf\n" + documented_application()
        + "\n\n@kopf.on.cleanup()\ndef cleanup(**_): print('cleaned', flush=True)\n"
        + "import uvicorn\nuvicorn.run(app, port=0)\n"
    )
    with running(tmp_path, code, alone=True) as process:
        process.sees("Application startup complete")
        process.signal(signal.SIGTERM)
        code_ = process.wait()
        assert "cleaned" in process.output and "Application shutdown complete" in process.output
        # Uvicorn ends by the signal itself.
        assert code_ in (0, -signal.SIGTERM)


def test_signals_are_not_handled_in_other_threads(stage: Stage) -> None:
    before = handlers()
    with stage.operator():
        assert handlers() == before
    assert threading.current_thread() is threading.main_thread()


def test_commands_replace_all_handlers(stage: Stage, tmp_path: pathlib.Path) -> None:
    """The process belongs to the operator, as in the original."""
    code = """
        import kopf, signal
        signal.signal(signal.SIGTERM, lambda *_: print('not called', flush=True))
        @kopf.on.create('kopfexamples')
        def fn(**_): pass
    """
    with running(tmp_path, code) as process:
        process.sees(READY)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "not called" not in process.output


OWN_HANDLERS = """
    import asyncio, kopf, signal, threading
    @kopf.on.startup()
    async def startup(settings, **_):
        settings.admission.server = kopf.WebhookServer(
            port=0, addr='127.0.0.1', certfile='{certificate}', pkeyfile='{key}', host='localhost')
        await asyncio.to_thread(threading.Event().wait, 0.01)
        # As libraries do that wait for the end in their own threads.
        signal.signal(signal.SIGINT, lambda *_: print('own handler', flush=True))
    @kopf.on.startup()
    async def providers(retry, **_):
        await asyncio.to_thread(print, 'waiting', flush=True)
        raise kopf.TemporaryError('not ready', delay=1000)
    @kopf.on.validate('kopfexamples')
    def validate(**_): pass
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_handlers_set_by_the_operator_do_not_hide_signals(
    stage: Stage, tmp_path: pathlib.Path, loop: str,
) -> None:
    """The code of the operator replaces the handler; both are called, as in the original."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    texts = kopf.WebhookServer.build_certificate(["localhost"])
    certificate.write_bytes(texts[0])
    key.write_bytes(texts[1])
    code = OWN_HANDLERS.format(certificate=certificate, key=key)
    env = {}
    if loop == "asyncio":
        (tmp_path / "without").mkdir()
        (tmp_path / "without" / "uvloop.py").write_text("raise ImportError('hidden')")
        paths = [str(tmp_path / "without"), os.environ.get("PYTHONPATH", "")]
        env["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        pytest.importorskip("uvloop")
    with running(tmp_path, code, env=env) as process:
        process.sees("waiting")
        process.signal(signal.SIGINT)
        assert process.wait() == 0
        assert "own handler" in process.output
        assert "Signal SIGINT is received. Operator is stopping." in process.output
