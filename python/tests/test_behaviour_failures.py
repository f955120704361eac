"""Reports of failures: exceptions of callbacks and activities, invalid settings and options."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import signal
import socket
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import kopf
from behaviour import Stage, until
from kopf._core.engines.activities import ActivityError
from kopf._front.declare import lifecycles
from kopf._front.bridge.running import OperatorError
from test_behaviour_process import READY, running

pytestmark = pytest.mark.native


class Broken(Exception):
    """An exception of a callback."""


def broken(*_: Any, **__: Any) -> Any:
    raise Broken("by the user")


class BrokenStorage(kopf.AnnotationsProgressStorage):
    """A storage that cannot store."""

    store = broken


@pytest.fixture(autouse=True)
def default_lifecycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycles, "_default_lifecycle", lifecycles.asap)


def failures(records: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [r for r in records.records if r.exc_info and r.exc_info[0] is Broken]


def use_filter() -> None:
    @kopf.on.create("kopfexamples", when=broken)
    def fn(**_: Any) -> None: ...


def use_label() -> None:
    @kopf.on.event("kopfexamples", labels={"x": broken})
    def fn(**_: Any) -> None: ...


def use_patch() -> None:
    @kopf.on.create("kopfexamples")
    def fn(patch: kopf.Patch, **_: Any) -> None:
        patch.fns.append(broken)


def use_delay() -> None:
    @kopf.timer("kopfexamples", interval=1, initial_delay=broken)
    def fn(**_: Any) -> None: ...


def use_storage() -> None:
    @kopf.on.startup()
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.progress_storage = BrokenStorage()

    for name in ("a", "b"):
        kopf.on.create("kopfexamples", id=name)(lambda **_: None)


def use_lifecycle() -> None:
    kopf.set_default_lifecycle(broken)
    kopf.on.create("kopfexamples", id="fn")(lambda **_: None)


def use_lifecycle_of_subs() -> None:
    @kopf.on.create("kopfexamples")
    async def fn(**_: Any) -> None:
        await kopf.execute(fns={"sub": lambda **_: None}, lifecycle=broken)


@pytest.mark.parametrize("use", [
    use_filter, use_label, use_patch, use_delay, use_storage, use_lifecycle, use_lifecycle_of_subs,
])
def test_exceptions_of_callbacks_are_in_records(
    stage: Stage, records: pytest.LogCaptureFixture, use: Callable[[], None],
) -> None:
    use()
    with stage.operator():
        name = stage.create(labels={"x": "y"})
        first = until(lambda: failures(records), "the record")[0]
    assert first.name == "kopf.objects"
    assert first.k8s_ref["name"] == name
    assert first.exc_info
    frames = traceback.extract_tb(first.exc_info[2])
    assert frames[-1].name == "broken"
    assert "a function of the patch" not in first.getMessage()


@pytest.mark.parametrize("lifecycle", [broken, lambda handlers, **_: None])
def test_failed_lifecycles_are_errors_of_objects(
    stage: Stage, records: pytest.LogCaptureFixture, lifecycle: Any,
) -> None:
    kopf.set_default_lifecycle(lifecycle)
    kopf.on.create("kopfexamples", id="fn")(lambda **_: None)
    with stage.operator():
        stage.create()
        until(lambda: "Throttling for 1 seconds" in records.text, "the record")
    problems = [
        r for r in records.records
        if r.levelno >= logging.WARNING and (r.name == "kopf.objects" or r.pathname == "kopf")
    ]
    assert problems
    assert all("Throttling for 1 seconds" in r.getMessage() and r.exc_info for r in problems)
    assert "makes no progress" not in records.text


def test_exceptions_of_webhook_servers_are_in_records(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    async def server(_: Any) -> Any:
        yield {"url": "https://localhost:1/"}
        await asyncio.sleep(0.1)
        broken()

    kopf.on.validate("kopfexamples", id="fn")(lambda **_: None)
    settings = kopf.OperatorSettings()
    settings.admission.server = server
    with stage.operator(settings=settings, fails=True) as operator:
        operator.join()
    assert failures(records)
    assert isinstance(operator.exception, OperatorError)
    assert isinstance(operator.exception.__cause__, Broken)


def test_activity_errors_have_causes_and_outcomes(stage: Stage) -> None:
    @kopf.on.startup(id="good")
    def good(**_: Any) -> None: ...

    @kopf.on.startup(id="bad", retries=1)
    def bad(**_: Any) -> None:
        broken()

    with stage.operator(fails=True) as operator:
        operator.join()
    error = operator.exception
    assert isinstance(error, ActivityError)
    assert isinstance(error.__cause__, Broken)
    assert traceback.extract_tb(error.__cause__.__traceback__)[0].name == "bad"
    assert error.outcomes["good"].exception is None
    assert error.outcomes["bad"].exception is error.__cause__
    assert error.outcomes["bad"].final


@pytest.mark.parametrize(("attribute", "value", "message"), [
    ("persistence", None, "settings.persistence: None"),
    ("persistence.progress_storage", "x", "settings.persistence.progress_storage: 'x'"),
    ("persistence.diffbase_storage", "x", "settings.persistence.diffbase_storage: 'x'"),
    ("posting.enabled", "maybe", "settings.posting.enabled: 'maybe'"),
])
def test_invalid_settings_are_named(
    stage: Stage, attribute: str, value: Any, message: str,
) -> None:
    @kopf.on.startup()
    def configure(settings: Any, **_: Any) -> None:
        *groups, name = attribute.split(".")
        setattr(getattr(settings, groups[0]) if groups else settings, name, value)

    with stage.operator(fails=True) as operator:
        operator.join()
    assert isinstance(operator.exception, ActivityError)
    assert f"invalid value of {message}" in str(operator.exception)


def test_settings_changed_before_an_ignored_error_are_used(stage: Stage) -> None:
    @kopf.on.startup(errors=kopf.ErrorsMode.IGNORED)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = "own.dev/finalizer"
        broken()

    kopf.on.delete("kopfexamples", id="fn")(lambda **_: None)
    with stage.operator():
        name = stage.create()
        found = stage.wait(name, lambda obj: obj["metadata"].get("finalizers"))
    assert found["metadata"]["finalizers"] == ["own.dev/finalizer"]


def test_handlers_that_block_the_loop_finish_after_signals(
    stage: Stage, tmp_path: pathlib.Path,
) -> None:
    code = """
        import kopf, time
        @kopf.on.startup()
        def configure(settings, **_):
            settings.queueing.exit_timeout = 0.2
        @kopf.on.create('kopfexamples')
        async def fn(**_):
            print('blocking', flush=True)
            time.sleep(2)
            return 'done'
    """
    name = stage.create()
    with running(tmp_path, code) as process:
        process.sees("blocking")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "succeeded" in process.output
    assert stage.get(name)["status"]["fn"] == "done"


def test_second_signals_exit_immediately_from_blocked_loops(
    stage: Stage, tmp_path: pathlib.Path,
) -> None:
    code = """
        import kopf, time
        @kopf.on.create('kopfexamples')
        async def fn(**_):
            print('blocking', flush=True)
            time.sleep(100)
    """
    stage.create()
    with running(tmp_path, code) as process:
        process.sees("blocking")
        process.signal(signal.SIGTERM)
        process.sees("Signal SIGTERM is received")
        process.signal(signal.SIGTERM)
        assert process.wait() == 1


def test_exits_in_handlers_are_announced(stage: Stage, tmp_path: pathlib.Path) -> None:
    code = """
        import kopf, sys
        @kopf.on.startup()
        def fn(**_): sys.exit(7)
    """
    with running(tmp_path, code) as process:
        assert process.wait() == 7
        assert "Activity 'fn' failed temporarily: SystemExit(7). The operator exits." in process.output
        assert "in fn\n" in process.output
        assert "will try again" not in process.output


def test_failed_startups_end_with_one_line(stage: Stage, tmp_path: pathlib.Path) -> None:
    code = """
        import kopf
        @kopf.on.startup()
        def fn(**_): raise kopf.PermanentError('no')
    """
    with running(tmp_path, code) as process:
        assert process.wait() == 1
        assert process.output.splitlines()[-1] == "Error: the startup has failed: Activity 'fn': no"
        assert "_front" not in process.output.replace("kopf._front.objects.errors.PermanentError", "")
        assert "raise kopf.PermanentError('no')" in process.output


def test_invalid_settings_end_with_one_line(stage: Stage, tmp_path: pathlib.Path) -> None:
    code = """
        import kopf
        @kopf.on.startup()
        def fn(settings, **_): settings.queueing.worker_limit = 0
    """
    with running(tmp_path, code) as process:
        assert process.wait() == 1
        assert "settings.queueing.worker_limit must be" in process.output.splitlines()[-1]
        assert "Traceback" not in process.output


def test_ports_in_use_end_with_one_line(stage: Stage, tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with running(tmp_path, "", "-L", url) as process:
            assert process.wait() == 1
            assert process.output.splitlines()[-1].startswith(f"Error: cannot serve probes at {url}")
            assert "Traceback" not in process.output


def test_rejected_credentials_end_with_one_line(stage: Stage, tmp_path: pathlib.Path) -> None:
    code = """
        import kopf
        @kopf.on.login(errors=kopf.ErrorsMode.PERMANENT)
        def login(**kwargs):
            info = kopf.login_with_kubeconfig(**kwargs)
            return kopf.ConnectionInfo(server=info.server, insecure=True, token='wrong')
        @kopf.on.event('kopfexamples')
        def fn(**_): pass
    """
    with running(tmp_path, code) as process:
        assert process.wait() == 1
        assert process.output.splitlines()[-1].startswith("Error: ")
        assert "Traceback" not in process.output


def test_startup_handlers_can_name_replicas(stage: Stage, tmp_path: pathlib.Path) -> None:
    code = """
        import kopf
        @kopf.on.startup()
        def fn(settings, **_): settings.leading.name = 'named-at-startup'
        @kopf.on.event('kopfexamples')
        def event(**_): pass
    """
    with running(tmp_path, code, "--leader-elect") as process:
        process.sees("holds the Lease default/named-at-startup")
        process.sees(READY)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
