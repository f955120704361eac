"""Operators embedded in applications: tasks, threads, loops, flags."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import threading
from typing import Any

import pytest

import kopf
from behaviour import Stage, TIMEOUT, Operator, until
from kopf._front.declare.registries import SmartOperatorRegistry

pytestmark = pytest.mark.native


@pytest.fixture
def settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    return settings


def declare(**kwargs: Any) -> list[str]:
    calls: list[str] = []

    @kopf.on.create("kopfexamples", id="fn", **kwargs)
    async def fn(name: str, **_: Any) -> str:
        calls.append(name)
        return "done"

    return calls


async def eventually(condition: Any) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.02)


async def test_operators_in_tasks_can_be_cancelled(
    stage: Stage, settings: kopf.OperatorSettings,
) -> None:
    calls = declare()
    before = asyncio.all_tasks()
    task = asyncio.create_task(kopf.operator(clusterwide=True, settings=settings))
    name = await asyncio.to_thread(stage.create)
    await eventually(lambda: calls == [name])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before


async def test_cancelled_operators_wait_for_their_daemons(
    stage: Stage, settings: kopf.OperatorSettings,
) -> None:
    states = []

    @kopf.daemon("kopfexamples", cancellation_timeout=5)
    async def daemon(**_: Any) -> None:
        states.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            states.append("ended")

    task = asyncio.create_task(kopf.operator(clusterwide=True, settings=settings))
    await asyncio.to_thread(stage.create)
    await eventually(lambda: states)
    task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert states == ["started", "ended"]


async def test_cancellation_right_after_the_start(
    stage: Stage, settings: kopf.OperatorSettings,
) -> None:
    declare()
    for pauses in range(5):
        task = asyncio.create_task(kopf.operator(clusterwide=True, settings=settings))
        for _ in range(pauses):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_operators_with_timeouts(stage: Stage, settings: kopf.OperatorSettings) -> None:
    declare()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await kopf.operator(clusterwide=True, settings=settings)


async def test_spawned_tasks(stage: Stage, settings: kopf.OperatorSettings) -> None:
    calls = declare()
    tasks = await kopf.spawn_tasks(clusterwide=True, settings=settings)
    stop = asyncio.Event()
    extra = asyncio.create_task(stop.wait())
    running = asyncio.create_task(kopf.run_tasks([*tasks, extra]))
    name = await asyncio.to_thread(stage.create)
    await eventually(lambda: calls == [name])
    stop.set()
    await running
    assert all(task.done() for task in tasks)


def test_running_in_a_loop(stage: Stage, settings: kopf.OperatorSettings) -> None:
    calls = declare()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def act() -> None:
        name = await asyncio.to_thread(stage.create)
        await eventually(lambda: calls == [name])
        stop.set()

    task = loop.create_task(act())
    kopf.run(loop=loop, clusterwide=True, settings=settings, stop_flag=stop)
    loop.run_until_complete(task)
    loop.close()
    assert calls


def test_running_without_a_loop(stage: Stage, settings: kopf.OperatorSettings) -> None:
    calls = declare()
    stop = threading.Event()

    def act() -> None:
        name = stage.create()
        until(lambda: calls == [name])
        stop.set()

    thread = threading.Thread(target=act)
    thread.start()
    kopf.run(clusterwide=True, settings=settings, stop_flag=stop)
    thread.join()
    assert calls


@pytest.mark.parametrize("loop", ["same", "others"])
def test_two_operators_in_one_process(stage: Stage, loop: str) -> None:
    registries = [SmartOperatorRegistry(), SmartOperatorRegistry()]
    for number, registry in enumerate(registries):
        settings_prefix = f"op{number}.dev"

        @kopf.on.startup(registry=registry)
        def startup(settings: Any, prefix: str = settings_prefix, **_: Any) -> None:
            settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=prefix)
            settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=prefix)

        @kopf.on.create("kopfexamples", id=f"fn{number}", registry=registry)
        def fn(number: int = number, **_: Any) -> int:
            return number

    def is_done(obj: Any) -> bool:
        return bool(obj.get("status") == {"fn0": 0, "fn1": 1})

    if loop == "others":
        with Operator(registry=registries[0]), Operator(registry=registries[1]):
            stage.wait(stage.create(), is_done)
        return

    async def main() -> None:
        stop = asyncio.Event()

        def settings() -> kopf.OperatorSettings:
            settings = kopf.OperatorSettings()
            settings.peering.standalone = True
            return settings

        running = asyncio.gather(*(
            kopf.operator(clusterwide=True, registry=r, stop_flag=stop, settings=settings())
            for r in registries
        ))
        await asyncio.to_thread(lambda: stage.wait(stage.create(), is_done))
        stop.set()
        await running

    asyncio.run(main())


@pytest.mark.parametrize("policy", ["asyncio", "uvloop"])
def test_loops(stage: Stage, policy: str) -> None:
    factory = pytest.importorskip("uvloop").new_event_loop if policy == "uvloop" else None
    calls = declare()
    kopf.on.create("kopfexamples", id="sync")(lambda **_: "done")
    kopf.on.create("kopfexamples", id="when", when=lambda **_: True)(lambda **_: "done")
    with stage.operator(loop_factory=factory):
        name = stage.create()
        assert stage.handled(name)["status"] == {"fn": "done", "sync": "done", "when": "done"}
    assert calls == [name]


FLAGS = [
    (asyncio.Event, "set"), (asyncio.Future, "set_result"),
    (threading.Event, "set"), (concurrent.futures.Future, "set_result"),
]


@pytest.mark.parametrize("kind, method", FLAGS, ids=["aio-event", "aio-future", "event", "future"])
async def test_flags(
    stage: Stage, settings: kopf.OperatorSettings, kind: Any, method: str,
) -> None:
    declare()
    stop, ready = kind(), kind()
    task = asyncio.create_task(
        kopf.operator(clusterwide=True, settings=settings, stop_flag=stop, ready_flag=ready))
    await eventually(getattr(ready, "is_set", None) or ready.done)
    getattr(stop, method)(*([None] if method == "set_result" else []))
    async with asyncio.timeout(TIMEOUT):
        await task


@pytest.mark.parametrize("kind, method", FLAGS, ids=["aio-event", "aio-future", "event", "future"])
async def test_flags_set_in_advance(
    stage: Stage, settings: kopf.OperatorSettings, kind: Any, method: str,
) -> None:
    declare()
    stop = kind()
    getattr(stop, method)(*([None] if method == "set_result" else []))
    async with asyncio.timeout(TIMEOUT):
        await kopf.operator(clusterwide=True, settings=settings, stop_flag=stop)


async def test_invalid_flags_are_rejected(stage: Stage, settings: kopf.OperatorSettings) -> None:
    with pytest.raises(TypeError, match="flag"):
        await kopf.operator(clusterwide=True, settings=settings, stop_flag="x")  # type: ignore[arg-type]


async def test_web_applications(stage: Stage, settings: kopf.OperatorSettings) -> None:
    web = pytest.importorskip("aiohttp.web")
    import urllib.request

    calls = declare()

    async def operator(app: Any) -> Any:
        task = asyncio.create_task(kopf.operator(clusterwide=True, settings=settings))
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def get(request: Any) -> Any:
        return web.json_response(calls)

    app = web.Application()
    app.cleanup_ctx.append(operator)
    app.router.add_get("/", get)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 18767)
    await site.start()
    name = await asyncio.to_thread(stage.create)
    await eventually(lambda: calls)

    def fetch() -> bytes:
        with urllib.request.urlopen("http://127.0.0.1:18767/") as response:
            return bytes(response.read())

    assert await asyncio.to_thread(fetch) == f'["{name}"]'.encode()
    await runner.cleanup()


def lifespan_with_operator(settings: kopf.OperatorSettings) -> Any:
    """Returns the lifespan of an application, like in the guide (docs/operate/embedding.md)."""
    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> Any:
        ready = asyncio.Event()
        operator = asyncio.create_task(
            kopf.operator(clusterwide=True, settings=settings, ready_flag=ready))
        started = asyncio.create_task(ready.wait())
        await asyncio.wait([operator, started], return_when=asyncio.FIRST_COMPLETED)
        if operator.done():
            started.cancel()
            operator.result()
        yield
        operator.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await operator

    return lifespan


def test_fastapi_applications(stage: Stage, settings: kopf.OperatorSettings) -> None:
    fastapi = pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    calls = declare()
    ended = []
    kopf.on.cleanup()(lambda **_: ended.append("cleanup"))
    app = fastapi.FastAPI(lifespan=lifespan_with_operator(settings))
    app.get("/")(lambda: calls)
    with TestClient(app) as client:
        name = stage.create()
        until(lambda: client.get("/").json() == [name], "the name in the response")
    assert ended == ["cleanup"]
    # The application can be started again, in another loop.
    with TestClient(app) as client:
        other = stage.create()
        until(lambda: client.get("/").json() == [name, other], "both names in the response")


def test_failing_startups_stop_fastapi_applications(
    stage: Stage, settings: kopf.OperatorSettings,
) -> None:
    fastapi = pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    @kopf.on.startup()
    def startup(**_: Any) -> None:
        raise kopf.PermanentError("no start")

    app = fastapi.FastAPI(lifespan=lifespan_with_operator(settings))
    with pytest.raises(Exception, match="no start"), TestClient(app):
        pass


def test_operators_run_again_in_the_same_process(stage: Stage) -> None:
    calls = declare()
    for _ in range(5):
        with stage.operator():
            name = stage.create()
            stage.handled(name)
        assert calls[-1] == name


def test_threads_are_released(stage: Stage) -> None:
    declare()
    kopf.on.create("kopfexamples", id="s")(lambda **_: None)
    kopf.daemon("kopfexamples", id="d")(lambda stopped, **_: bool(stopped.wait()))
    with stage.operator():
        stage.handled(stage.create())
    before = threading.active_count()
    for _ in range(4):
        with stage.operator():
            stage.handled(stage.create())

    def is_released() -> bool:
        gc.collect()
        return threading.active_count() <= before + 2  # the last one is released later

    until(is_released, "the end of threads")


def test_executors_of_users(stage: Stage, settings: kopf.OperatorSettings) -> None:
    threads = []

    @kopf.on.create("kopfexamples", id="fn")
    def fn(**_: Any) -> None:
        threads.append(threading.current_thread().name)

    settings.execution.executor = concurrent.futures.ThreadPoolExecutor(
        max_workers=1, thread_name_prefix="own")
    with stage.operator(settings=settings):
        stage.handled(stage.create())
    assert threads[0].startswith("own")
    settings.execution.executor.shutdown()


def test_thread_locals_survive_between_calls(
    stage: Stage, settings: kopf.OperatorSettings,
) -> None:
    local = threading.local()
    values = []

    @kopf.on.create("kopfexamples", id="fn")
    def fn(**_: Any) -> None:
        local.n = getattr(local, "n", 0) + 1
        values.append(local.n)

    settings.execution.max_workers = 1
    with stage.operator(settings=settings):
        for _ in range(3):
            stage.handled(stage.create())
    assert values == [1, 2, 3]


def test_calls_share_wakeups(stage: Stage) -> None:
    """Calls that wait for a blocked loop are started together."""
    from kopf._front.bridge import running

    count = 40
    calls: list[str] = []
    is_blocked, may_go_on = threading.Event(), threading.Event()

    @kopf.on.event("kopfexamples", id="block", labels={"block": "yes"})
    async def block(**_: Any) -> None:
        is_blocked.set()
        may_go_on.wait(TIMEOUT)

    @kopf.on.event("kopfexamples", id="fn", labels={"block": kopf.ABSENT})
    async def fn(name: str, **_: Any) -> None:
        calls.append(name)

    with stage.operator():
        [engine] = [operator.engine for operator in running._running]
        stage.create(labels={"block": "yes"})
        until(is_blocked.is_set, "the blocked loop")
        before = engine.wakeups
        for _ in range(count):
            stage.create()
        may_go_on.set()
        until(lambda: len(calls) >= count, "all calls")
        assert engine.wakeups - before < count / 2


def test_calls_are_released(stage: Stage) -> None:
    """The garbage collector cannot see references between the extension and Python."""
    from kopf._front.objects.current import CurrentCall
    from kopf._front.bridge.invocation import Cycle

    @kopf.on.create("kopfexamples", id="s")
    def sync(spec: Any, patch: Any, retry: int, diff: Any, **_: Any) -> None:
        patch.fns.append(lambda body: spec and diff and None)
        if retry == 0:
            raise kopf.TemporaryError("again", delay=0)

        @kopf.subhandler(id="sub")
        async def sub(body: Any, **_: Any) -> str:
            return "sub"

    @kopf.on.create("kopfexamples", id="a", when=lambda **_: True)
    async def eager(memo: Any, body: Any, spec: Any, **_: Any) -> str:
        memo.unread = body, spec
        return "done"

    @kopf.on.create("kopfexamples", id="b")
    async def lazy(logger: Any, **_: Any) -> str:
        await asyncio.sleep(0)
        return "done"

    kopf.on.event("kopfexamples", id="e")(lambda event, **_: None)
    kopf.index("kopfexamples", id="i")(lambda name, **_: {name: name})

    @kopf.daemon("kopfexamples", id="d")
    async def daemon(stopped: Any, memo: Any, body: Any, **_: Any) -> None:
        memo.live = body
        await stopped.wait()

    @kopf.timer("kopfexamples", id="t", interval=0.05)
    async def timer(patch: Any, **_: Any) -> None:
        patch.status["t"] = "t"

    def count() -> int:
        gc.collect()
        return sum(isinstance(obj, (CurrentCall, Cycle, kopf.Body)) for obj in gc.get_objects())

    before = count()
    with stage.operator():
        names = [stage.create() for _ in range(5)]
        for name in names:
            stage.handled(name)
            stage.delete(name)
            stage.gone(name)

        until(lambda: count() < before + 5, "the release of calls")
