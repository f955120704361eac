"""All kinds of handlers, sync and async, with their keyword arguments."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import logging
import threading
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native

COMMON = {
    "param", "retry", "started", "runtime", "logger", "memo", "resource", "patch", "body", "spec",
    "meta", "status", "uid", "name", "namespace", "labels", "annotations",
}
CHANGE = COMMON | {"reason", "diff", "old", "new"}
ACTIVITY = {"activity", "param", "retry", "started", "runtime", "logger", "memo", "settings"}


class Calls:
    """Stores the arguments of calls by name."""

    def __init__(self, is_async: bool) -> None:
        self.is_async = is_async
        self.all: dict[str, list[dict[str, Any]]] = {}
        self.threads: dict[str, threading.Thread] = {}

    def fn(self, name: str, result: Any = None) -> Any:
        def remember(kwargs: dict[str, Any]) -> Any:
            self.threads[name] = threading.current_thread()
            self.all.setdefault(name, []).append(kwargs)
            return result(**kwargs) if callable(result) else result

        if self.is_async:
            async def afn(**kwargs: Any) -> Any:
                return remember(kwargs)
            afn.__qualname__ = name
            return afn

        def sfn(**kwargs: Any) -> Any:
            return remember(kwargs)
        sfn.__qualname__ = name
        return sfn

    def wait(self, name: str, count: int = 1) -> dict[str, Any]:
        until(lambda: len(self.all.get(name, ())) >= count, f"call {count} of {name}")
        return self.all[name][count - 1]


@pytest.fixture(params=["sync", "async"])
def calls(request: pytest.FixtureRequest) -> Calls:
    return Calls(request.param == "async")


def test_changes_of_an_object(stage: Stage, calls: Calls) -> None:
    kopf.on.create("kopfexamples", param="p")(calls.fn("create", {"a": 1}))
    kopf.on.update("kopfexamples")(calls.fn("update"))
    kopf.on.delete("kopfexamples")(calls.fn("delete"))
    kopf.on.field("kopfexamples", field="spec.field")(calls.fn("field"))
    with stage.operator() as operator:
        name = stage.create(labels={"l": "1"}, annotations={"a": "1"})
        obj = stage.handled(name)
        assert obj["status"] == {"create": {"a": 1}}
        stage.patch(name, {"spec": {"field": "other"}})
        calls.wait("update")
        calls.wait("field", 2)
        stage.delete(name)
        stage.gone(name)
        loop_thread = operator.thread

    create = calls.wait("create")
    assert set(create) == CHANGE
    assert create["param"] == "p"
    assert create["retry"] == 0
    assert create["started"].tzinfo is not None
    assert isinstance(create["runtime"], datetime.timedelta)
    assert isinstance(create["logger"], logging.LoggerAdapter)
    assert isinstance(create["memo"], kopf.Memo)
    assert create["resource"].plural == "kopfexamples"
    assert isinstance(create["patch"], kopf.Patch)
    assert isinstance(create["body"], kopf.Body)
    assert create["spec"] == {"field": "value"} and create["status"] == {}
    assert (create["name"], create["namespace"]) == (name, "default")
    assert create["uid"] == create["meta"]["uid"] == create["body"].metadata.uid
    assert create["labels"] == {"l": "1"} and create["annotations"]["a"] == "1"
    assert create["reason"] is kopf.Reason.CREATE
    assert create["old"] is None and create["new"]["spec"] == {"field": "value"}
    assert [item[0] for item in create["diff"]] == ["add"]
    assert "managedFields" in create["meta"]

    update = calls.wait("update")
    assert set(update) == CHANGE
    assert update["reason"] == "update"
    assert update["diff"] == (("change", ("spec", "field"), "value", "other"),)
    assert update["old"]["spec"]["field"] == "value" and update["new"]["spec"]["field"] == "other"
    assert update["memo"] is create["memo"]

    field = calls.wait("field", 2)
    assert set(field) == CHANGE
    assert (field["old"], field["new"]) == ("value", "other")
    assert field["diff"] == (("change", (), "value", "other"),)
    delete = calls.wait("delete")
    assert set(delete) == CHANGE
    assert delete["reason"] == kopf.Reason.DELETE
    assert (calls.threads["create"] is loop_thread) == calls.is_async


def test_resuming(stage: Stage, calls: Calls) -> None:
    kopf.on.create("kopfexamples")(calls.fn("create"))
    with stage.operator():
        name = stage.create()
        stage.handled(name)
    kopf.on.resume("kopfexamples")(calls.fn("resume"))
    with stage.operator():
        resume = calls.wait("resume")
    assert set(resume) == CHANGE
    assert resume["reason"] == "resume"
    assert resume["name"] == name
    assert not resume["diff"]
    assert len(calls.all["create"]) == 1


def test_events(stage: Stage, calls: Calls) -> None:
    kopf.on.event("kopfexamples")(calls.fn("event", lambda patch, **_: patch.status.update(x=1)))
    name = stage.create()
    with stage.operator():
        stage.wait(name, lambda obj: obj.get("status") == {"x": 1})
        stage.delete(name)
        until(lambda: calls.all["event"][-1]["type"] == "DELETED", "the event of the deletion")
    event = calls.all["event"][0]
    assert set(event) == COMMON | {"type", "event"}
    assert event["type"] is None
    assert event["event"]["type"] is None
    assert event["event"]["object"]["spec"] == {"field": "value"}


def test_daemons(stage: Stage, calls: Calls) -> None:
    def sync_daemon(stopped: Any, spec: Any, patch: Any, **kwargs: Any) -> None:
        calls.all["daemon"] = [{**kwargs, "stopped": stopped, "spec": spec, "patch": patch}]
        while not stopped.wait(0.01):
            patch.status["seen"] = field = spec["field"]  # it can change at any moment
            if field == "last":
                break
        stopped.wait()

    async def async_daemon(stopped: Any, spec: Any, patch: Any, **kwargs: Any) -> None:
        calls.all["daemon"] = [{**kwargs, "stopped": stopped, "spec": spec, "patch": patch}]
        while not await stopped.wait(0.01):
            patch.status["seen"] = field = spec["field"]  # it can change at any moment
            if field == "last":
                break
        await stopped.wait()

    kopf.daemon("kopfexamples")(async_daemon if calls.is_async else sync_daemon)
    with stage.operator():
        name = stage.create()
        daemon = calls.wait("daemon")
        stage.patch(name, {"spec": {"field": "last"}})
        until(lambda: daemon["patch"].get("status", {}).get("seen") == "last", "the live view")
        assert not daemon["stopped"]
        stage.delete_blocked(name)
        stage.gone(name)
    assert set(daemon) == COMMON | {"stopped"}
    assert daemon["stopped"]
    assert kopf.DaemonStoppingReason.RESOURCE_DELETED in daemon["stopped"].reason


def test_daemons_end_with_the_operator(stage: Stage, calls: Calls) -> None:
    ended = []
    if calls.is_async:
        @kopf.daemon("kopfexamples", cancellation_timeout=5)
        async def forever(**_: Any) -> None:
            import asyncio
            calls.all["daemon"] = [{}]
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.05)
                ended.append(1)
    else:
        @kopf.daemon("kopfexamples")
        def until_stopped(stopped: Any, **_: Any) -> None:
            calls.all["daemon"] = [{}]
            stopped.wait()
            ended.append(1)
    with stage.operator():
        stage.create()
        calls.wait("daemon")
    assert ended == [1]


def test_timers(stage: Stage, calls: Calls) -> None:
    kopf.timer("kopfexamples", interval=0.05)(
        calls.fn("timer", lambda memo, **_: {"n": memo.setdefault("n", 0)}))
    with stage.operator():
        name = stage.create()
        timer = calls.wait("timer", 3)
        stage.wait(name, lambda obj: "timer" in obj.get("status", {}))
        stage.delete_blocked(name)
        stage.gone(name)
    assert set(timer) == COMMON | {"stopped"}
    assert timer["retry"] == 0


def test_indices(stage: Stage, calls: Calls) -> None:
    kopf.index("kopfexamples")(calls.fn("by_name", lambda name, spec, **_: {name: spec["field"]}))
    kopf.on.create("kopfexamples")(calls.fn("create"))
    with stage.operator():
        name = stage.create()
        create = calls.wait("create")
        assert {key: list(values) for key, values in create["by_name"].items()} == {name: ["value"]}
        assert set(create) == CHANGE | {"by_name"}
        assert set(calls.all["by_name"][0]) == COMMON | {"by_name"}
        stage.delete(name)
        until(lambda: not create["by_name"], "the removal from the index")


def test_activities(stage: Stage, calls: Calls) -> None:
    kopf.on.startup(param=1)(calls.fn("startup"))
    kopf.on.cleanup()(calls.fn("cleanup"))
    memo = kopf.Memo(x=1)
    with stage.operator(memo=memo):
        pass
    startup, cleanup = calls.wait("startup"), calls.wait("cleanup")
    assert set(startup) == ACTIVITY
    assert set(cleanup) == ACTIVITY
    assert startup["param"] == 1 and startup["retry"] == 0
    assert startup["memo"] is memo
    assert isinstance(startup["settings"], kopf.OperatorSettings)


def test_login_and_probes(stage: Stage, calls: Calls) -> None:
    import urllib.request

    kopf.on.login()(calls.fn("login", lambda **kwargs: kopf.login_with_kubeconfig(**kwargs)))
    kopf.on.probe(id="now")(calls.fn("probe", "result"))
    with stage.operator(liveness_endpoint="http://127.0.0.1:18765/healthz"):
        calls.wait("login")

        def answer() -> bytes | None:
            try:
                with urllib.request.urlopen("http://127.0.0.1:18765/healthz") as response:
                    return response.read()
            except OSError:
                return None
        assert b'"now"' in until(answer, "the health")
    assert set(calls.wait("login")) == ACTIVITY
    assert set(calls.wait("probe")) == ACTIVITY


def test_metrics(stage: Stage, calls: Calls) -> None:
    import urllib.request

    kopf.on.create("kopfexamples", id="make")(calls.fn("make"))
    with stage.operator(metrics_endpoint="http://127.0.0.1:18767"):
        stage.create()
        calls.wait("make")
        expected = b'kopf_handler_calls_total{handler="make",kind="create",outcome="succeeded"} 1'

        def scraped() -> bool:
            try:
                with urllib.request.urlopen("http://127.0.0.1:18767/metrics") as response:
                    return expected in response.read()
            except OSError:
                return False
        assert until(scraped, "the metrics")


class Operator:
    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def method(self, name: str, **_: Any) -> None:
        self.calls.append("method")

    async def amethod(self, name: str, **_: Any) -> None:
        self.calls.append("amethod")

    @classmethod
    def klass(cls, **_: Any) -> str:
        return "klass"

    @staticmethod
    async def static(**_: Any) -> str:
        return "static"

    def __call__(self, **_: Any) -> None:
        self.calls.append("callable")


class AsyncCallable:
    async def __call__(self, **_: Any) -> str:
        return "async-callable"


def decorated(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)
    return wrapper


def test_forms_of_functions(stage: Stage) -> None:
    calls: list[Any] = []
    op = Operator(calls)
    kopf.on.create("kopfexamples")(op.method)
    kopf.on.create("kopfexamples")(op.amethod)
    kopf.on.create("kopfexamples", id="klass")(Operator.klass)
    kopf.on.create("kopfexamples", id="static")(Operator.static)
    kopf.on.create("kopfexamples", id="callable")(op)
    kopf.on.create("kopfexamples", id="acallable")(AsyncCallable())

    def base(extra: Any, **_: Any) -> Any:
        return extra

    async def abase(extra: Any, **_: Any) -> Any:
        return extra

    kopf.on.create("kopfexamples", id="partial")(functools.partial(base, extra="e"))
    kopf.on.create("kopfexamples", id="apartial")(
        functools.partial(functools.partial(abase, 1), ))
    kopf.on.create("kopfexamples", id="lambda")(lambda **_: "lambda")

    @kopf.on.create("kopfexamples", id="wrapped")
    @decorated
    def wrapped(**_: Any) -> str:
        return "wrapped"

    @kopf.on.create("kopfexamples", id="awrapped")
    @decorated
    async def awrapped(**_: Any) -> str:
        return "awrapped"

    @kopf.on.create("kopfexamples", id="first", param=1)
    @kopf.on.create("kopfexamples", id="second", param=2)
    def stacked(param: Any, **_: Any) -> Any:
        return param

    with stage.operator():
        status = stage.handled(stage.create())["status"]
    assert sorted(calls) == ["amethod", "callable", "method"]
    assert status == {
        "klass": "klass", "static": "static", "acallable": "async-callable", "partial": "e",
        "apartial": 1, "lambda": "lambda", "wrapped": "wrapped", "awrapped": "awrapped",
        "first": 1, "second": 2,
    }


def test_functions_without_varkwargs_fail_with_an_explanation(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT)
    def narrow(spec: Any) -> None:
        raise AssertionError("must not be called")

    with stage.operator():
        stage.handled(stage.create())
    assert "narrow() got an unexpected keyword argument" in records.text


def test_create_and_resume_by_one_function_are_one_call(stage: Stage) -> None:
    calls = []

    @kopf.on.resume("kopfexamples")
    @kopf.on.create("kopfexamples")
    @kopf.on.field("kopfexamples", field="spec", id="fn")
    def fn(reason: Any, **_: Any) -> None:
        calls.append(str(reason))

    name = stage.create()
    with stage.operator():
        stage.handled(name)
    assert len(calls) <= 2


@dataclasses.dataclass
class ExampleSpec:
    field: str


@dataclasses.dataclass
class Example:
    spec: ExampleSpec


def test_typed_states_are_the_tracked_part_or_the_field(stage: Stage) -> None:
    seen: dict[str, Any] = {}

    @kopf.on.create("kopfexamples")
    def create(**_: Any) -> None:
        pass

    @kopf.on.update("kopfexamples")
    def whole(old: Example, new: Example, **_: Any) -> None:
        seen["whole"] = (old, new)

    @kopf.on.update("kopfexamples", field="spec")
    def part(old: ExampleSpec, new: ExampleSpec, **_: Any) -> None:
        seen["part"] = (old, new)

    with stage.operator():
        name = stage.create({"field": "a"}, labels={"some": "label"})
        stage.handled(name)
        stage.patch(name, {"spec": {"field": "b"}})
        until(lambda: len(seen) == 2)
    assert seen["part"] == (ExampleSpec("a"), ExampleSpec("b"))
    assert seen["whole"] == (Example(ExampleSpec("a")), Example(ExampleSpec("b")))
