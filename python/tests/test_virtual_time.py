"""Virtual time: timers, retries, daemons and sleeps of an operator that follow `cluster.advance()`."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import threading
import time
from collections.abc import Iterator
from typing import Any

import kopf
import pytest
from behaviour import CRD, PLURAL, Operator, until
from kopf import testing
from kopf._front.bridge import running

pytestmark = pytest.mark.native

DAY = 24 * 3600


@pytest.fixture
def cluster(registry: kopf.OperatorRegistry) -> Iterator[testing.sandbox]:
    with testing.sandbox(CRD, time="virtual") as cluster:
        yield cluster


@contextlib.contextmanager
def operating(cluster: testing.sandbox, **kwargs: Any) -> Iterator[Operator]:
    with Operator(loop_factory=cluster.new_event_loop, **kwargs) as operator:
        operator.settings.execution.default_backoff = 60
        yield operator


def create(cluster: testing.sandbox, name: str = "one", **spec: Any) -> None:
    cluster.create({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}, "spec": spec,
    })


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_day_of_retries_takes_seconds(cluster: testing.sandbox, form: str) -> None:
    attempts: list[int] = []

    def fail(retry: int, **_: Any) -> None:
        attempts.append(retry)
        raise kopf.TemporaryError("not yet", delay=600)

    async def fail_later(retry: int, **_: Any) -> None:
        fail(retry)

    kopf.on.create("kopfexamples", id="fn")(fail if form == "sync" else fail_later)
    with operating(cluster):
        create(cluster)
        until(lambda: attempts, "the first attempt")
        began = time.monotonic()
        cluster.advance(DAY)
        assert time.monotonic() - began < 60, "a bound for hanging tests, not a measurement"
    assert attempts == list(range(len(attempts)))
    assert len(attempts) in (144, 145)


def test_timers_are_called_in_order(cluster: testing.sandbox) -> None:
    calls: list[str] = []

    @kopf.timer("kopfexamples", interval=10)
    def tick(**_: Any) -> None:
        calls.append("tick")

    @kopf.timer("kopfexamples", interval=35, initial_delay=5)
    async def tock(**_: Any) -> None:
        calls.append("tock")

    with operating(cluster):
        create(cluster)
        until(lambda: "tick" in calls, "the first call")
        cluster.advance(3)
        assert calls == ["tick"]
        cluster.advance(30)
        assert calls == ["tick", "tock", "tick", "tick", "tick"]
        cluster.advance(10)
        assert calls == ["tick", "tock", "tick", "tick", "tick", "tick", "tock"] or calls == [
            "tick", "tock", "tick", "tick", "tick", "tock", "tick"]


@pytest.mark.parametrize("form", ["sync", "async"])
def test_waits_of_daemons_follow(cluster: testing.sandbox, form: str) -> None:
    rounds: list[int] = []
    ended = threading.Event()

    @kopf.daemon("kopfexamples", id="async_daemon", when=lambda **_: form == "async")
    async def waiting(stopped: Any, **_: Any) -> None:
        while not await stopped.wait(60):
            rounds.append(len(rounds))
        ended.set()

    @kopf.daemon("kopfexamples", id="sync_daemon", when=lambda **_: form == "sync")
    def blocking(stopped: Any, **_: Any) -> None:
        while not stopped.wait(60):
            rounds.append(len(rounds))
        ended.set()

    with operating(cluster):
        create(cluster)
        cluster.wait(PLURAL, "one", lambda obj: obj["metadata"].get("finalizers"))
        until(lambda: running._running and cluster._started().activity() == (0, True), "the daemon")
        cluster.advance(600.5)
        assert len(rounds) in (9, 10)
        cluster.delete(PLURAL, "one")
        assert ended.wait(20)


def test_sleeps_and_timeouts_of_handlers_follow(cluster: testing.sandbox) -> None:
    results: list[Any] = []

    @kopf.on.create("kopfexamples")
    async def fn(**_: Any) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        results.append("begun")
        await asyncio.sleep(3600)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1800)
        results.append(loop.time() - began)

    with operating(cluster):
        create(cluster)
        until(lambda: results, "the beginning")
        cluster.advance(5000)
        assert results == ["begun"]
        cluster.advance(500)
        assert results[1] == pytest.approx(5400, abs=5)


def test_handler_timeouts_follow(cluster: testing.sandbox) -> None:
    cancelled = threading.Event()
    begun = threading.Event()

    @kopf.on.create("kopfexamples", timeout=100)
    async def fn(**_: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with operating(cluster):
        create(cluster)
        assert begun.wait(20)
        cluster.advance(90)
        assert not cancelled.is_set()
        cluster.advance(20)
        assert cancelled.wait(20)


def test_timestamps_follow(cluster: testing.sandbox) -> None:
    create(cluster, "first")
    cluster.advance(DAY)
    create(cluster, "second")
    first, second = (
        datetime.datetime.fromisoformat(cluster.get(PLURAL, name)["metadata"]["creationTimestamp"])
        for name in ("first", "second")
    )
    assert datetime.timedelta(0) <= second - first - datetime.timedelta(days=1) < datetime.timedelta(seconds=60)


def test_operators_continue_after_restarts(cluster: testing.sandbox) -> None:
    attempts: list[int] = []

    @kopf.on.create("kopfexamples")
    def fn(retry: int, **_: Any) -> None:
        attempts.append(retry)
        raise kopf.TemporaryError("not yet", delay=3600)

    with operating(cluster):
        create(cluster)
        until(lambda: attempts, "the first attempt")
        cluster.wait(PLURAL, "one", lambda obj: obj["metadata"].get("annotations"))
    cluster.advance(1800)
    with operating(cluster):
        cluster.advance(1700)
        assert attempts == [0]
        cluster.advance(200)
        assert attempts == [0, 1]


def test_children_are_applied_by_threads_during_an_advance(cluster: testing.sandbox) -> None:
    effects: list[str] = []

    @kopf.timer("kopfexamples", interval=60, initial_delay=60)
    def fn(name: str, **_: Any) -> None:
        child = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"n": str(len(effects) // 2)}}
        effects.append(kopf.apply_child(child).effect)

    with operating(cluster):
        create(cluster)
        cluster.wait(PLURAL, "one", lambda obj: obj["metadata"].get("finalizers"))
        cluster.advance(250)
    assert effects[:3] == ["created", "unchanged", "changed"] and len(effects) in (3, 4)


def test_clients_of_threads_are_served_during_an_advance(cluster: testing.sandbox) -> None:
    import kubernetes.client
    from kopf._front.declare import registries

    kopf.set_default_registry(registries.SmartOperatorRegistry())
    made: list[str] = []

    @kopf.timer("kopfexamples", interval=600, initial_delay=600)
    def fn(name: str, **_: Any) -> None:
        child = {"metadata": {"name": f"{name}-{len(made)}"}}
        kubernetes.client.CoreV1Api().create_namespaced_config_map("default", child)
        made.append(child["metadata"]["name"])

    with operating(cluster):
        create(cluster)
        cluster.wait(PLURAL, "one", lambda obj: obj["metadata"].get("finalizers"))
        cluster.advance(3600 + 60)
    names = [child["metadata"]["name"] for child in cluster.all("configmaps")]
    assert len(made) == 6 and set(made) <= set(names)


def test_connections_of_the_loop_are_served_during_an_advance(cluster: testing.sandbox) -> None:
    import ssl

    import aiohttp

    versions: list[str] = []
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    @kopf.timer("kopfexamples", interval=600, initial_delay=600)
    async def fn(**_: Any) -> None:
        # Shorter than the interval: it would pass if the time went on during the request.
        timeout = aiohttp.ClientTimeout(total=60)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{cluster.url}/version", ssl=context) as response,
        ):
            versions.append(str(response.status))

    with operating(cluster):
        create(cluster)
        cluster.wait(PLURAL, "one", lambda obj: obj["metadata"].get("finalizers"))
        cluster.advance(3600 + 60)
    assert len(versions) == 6 and set(versions) <= {"200", "401"}


def test_sleeping_threads_are_named(cluster: testing.sandbox) -> None:
    leave = threading.Event()
    begun = threading.Event()

    @kopf.on.create("kopfexamples", id="sleeper")
    def sleeper(**_: Any) -> None:
        begun.set()
        leave.wait(30)

    with operating(cluster):
        create(cluster)
        assert begun.wait(20)
        with pytest.raises(testing.VirtualTimeError) as error:
            cluster.advance(60, patience=0.2)
        leave.set()
        cluster.advance(60)
    text = str(error.value)
    where = f"({__file__}:{sleeper.__code__.co_firstlineno + 3})"
    assert text.startswith(f"virtual time does not pass: handler 'sleeper' runs in a thread {where}")
    assert "wait by stopped.wait(), or by asyncio.sleep() in async functions" in text


def test_blocked_loops_are_named(cluster: testing.sandbox) -> None:
    leave = threading.Event()
    begun = threading.Event()

    @kopf.on.create("kopfexamples")
    async def blocker(**_: Any) -> None:
        begun.set()
        leave.wait(30)

    with operating(cluster):
        create(cluster)
        assert begun.wait(20)
        with pytest.raises(testing.VirtualTimeError, match=r"the event loop is blocked \(.*/test_virtual_time.py:\d+\)"):
            cluster.advance(60, patience=0.2)
        leave.set()


def test_runners_follow(cluster: testing.sandbox, tmp_path: Any) -> None:
    file = tmp_path / "handlers.py"
    file.write_text(
        "import kopf\n"
        "@kopf.timer('kopfexamples', interval=3600)\n"
        "def fn(logger, **_):\n"
        "    logger.info('the clock strikes')\n"
    )
    with testing.KopfRunner(["run", "-A", "--standalone", str(file)], timeout=60) as runner:
        create(cluster)
        until(lambda: runner.output.count("the clock strikes") == 1, "the first call")
        cluster.advance(DAY)
        assert runner.output.count("the clock strikes") in (24, 25)


async def test_misuse_is_rejected(cluster: testing.sandbox) -> None:
    with pytest.raises(running.OperatorError, match=r"run the operator by kopf.testing.KopfRunner, or"):
        await kopf.operator(clusterwide=True)
    with pytest.raises(RuntimeError, match="another sandbox has virtual time already"):
        testing.sandbox(time="virtual").start()
    with pytest.raises(ValueError, match="cannot advance the time by -1: must be a positive number"):
        cluster.advance(-1)
    with pytest.raises(ValueError, match="invalid time 'none': must be 'real' or 'virtual'"):
        testing.sandbox(time="none")  # type: ignore[arg-type]


def test_real_time_cannot_be_advanced() -> None:
    with testing.sandbox() as cluster:
        with pytest.raises(RuntimeError, match=r'the time of the sandbox is real: use sandbox\(time='):
            cluster.advance(60)
        loop = cluster.new_event_loop()
        assert not hasattr(loop, "virtual")
        loop.close()


def test_the_loop_of_the_operator_cannot_wait_for_an_advance(cluster: testing.sandbox) -> None:
    async def misuse() -> None:
        with pytest.raises(RuntimeError, match=r"use `await asyncio.to_thread\(cluster.advance, sec"):
            cluster.advance(60)
        await asyncio.to_thread(cluster.advance, 60)

    with asyncio.Runner(loop_factory=cluster.new_event_loop) as runner:
        runner.run(misuse())


def test_sandboxes_can_stop_before_their_operators(registry: kopf.OperatorRegistry) -> None:
    with contextlib.ExitStack() as stack:
        with testing.sandbox(CRD, time="virtual") as cluster:
            operator = Operator(loop_factory=cluster.new_event_loop)
            operator.__enter__()
            stack.callback(operator.end)
        assert operator.thread.is_alive()
    assert operator.exception is None
