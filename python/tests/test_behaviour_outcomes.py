"""Outcomes of handlers: errors, retries, timeouts, results, patches."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import json
import math
import time
import types
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native


def both(fn: Any) -> list[Any]:
    """Returns the function as a sync and as an async one."""
    async def afn(**kwargs: Any) -> Any:
        return fn(**kwargs)

    def sfn(**kwargs: Any) -> Any:
        return fn(**kwargs)

    return [sfn, afn]


@pytest.fixture(params=[0, 1], ids=["sync", "async"])
def form(request: pytest.FixtureRequest) -> Any:
    return lambda fn: both(fn)[request.param]


def test_temporary_errors_are_retried(stage: Stage, form: Any) -> None:
    retries = []

    def fn(retry: int, **_: Any) -> str:
        retries.append(retry)
        if retry < 2:
            raise kopf.TemporaryError("not yet", delay=0.01)
        return "done"

    kopf.on.create("kopfexamples", id="fn")(form(fn))
    with stage.operator():
        assert stage.handled(stage.create())["status"] == {"fn": "done"}
    assert retries == [0, 1, 2]


def test_permanent_errors_are_not_retried(
    stage: Stage, form: Any, records: pytest.LogCaptureFixture,
) -> None:
    calls = []

    def fn(**_: Any) -> None:
        calls.append(1)
        raise kopf.PermanentError("never")

    kopf.on.create("kopfexamples", id="fn")(form(fn))
    with stage.operator():
        stage.handled(stage.create())
    assert calls == [1]
    assert "Handler 'fn' failed permanently: never" in records.text


@pytest.mark.parametrize("mode, calls", [
    (kopf.ErrorsMode.IGNORED, 1), (kopf.ErrorsMode.PERMANENT, 1), (kopf.ErrorsMode.TEMPORARY, 3),
])
def test_modes_of_errors(stage: Stage, form: Any, mode: Any, calls: int) -> None:
    made = []

    def fn(**_: Any) -> None:
        made.append(1)
        if len(made) < 3:
            raise ValueError("boo")

    kopf.on.create("kopfexamples", errors=mode, backoff=0.01)(form(fn))
    with stage.operator():
        stage.handled(stage.create())
    assert len(made) == calls


def test_retries_are_limited(
    stage: Stage, form: Any, records: pytest.LogCaptureFixture,
) -> None:
    made = []

    def fn(**_: Any) -> None:
        made.append(1)
        raise ValueError("boo")

    kopf.on.create("kopfexamples", retries=3, backoff=0.01, id="fn")(form(fn))
    with stage.operator():
        stage.handled(stage.create())
    assert len(made) == 3
    assert "Handler 'fn' failed" in records.text


def test_timeouts_end_retries(stage: Stage, form: Any, records: pytest.LogCaptureFixture) -> None:
    def fn(**_: Any) -> None:
        raise ValueError("boo")

    kopf.on.create("kopfexamples", timeout=0.3, backoff=0.05, id="fn")(form(fn))
    with stage.operator():
        stage.handled(stage.create())
    assert "will stop now (it would time out" in records.text or "has timed out after" in records.text


def test_timeouts_cancel_coroutines(stage: Stage) -> None:
    ended = []

    @kopf.on.create("kopfexamples", timeout=0.1)
    async def fn(**_: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            ended.append("finally")

    with stage.operator():
        stage.handled(stage.create())
    assert ended == ["cancelled", "finally"]


def test_uncaused_cancellations_are_errors(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT, id="fn")
    async def fn(**_: Any) -> None:
        raise asyncio.CancelledError("mine")

    with stage.operator():
        stage.handled(stage.create())
    assert "Handler 'fn' failed with an exception" in records.text


def test_tracebacks_have_only_frames_of_users(
    stage: Stage, form: Any, records: pytest.LogCaptureFixture,
) -> None:
    def fn(**_: Any) -> None:
        raise ValueError("boo")

    kopf.on.create("kopfexamples", id="fn", errors=kopf.ErrorsMode.PERMANENT)(form(fn))
    with stage.operator():
        stage.handled(stage.create())
    [record] = [record for record in records.records if record.exc_info]
    assert record.name == "kopf.objects" and record.levelname == "ERROR"
    kind, exc, traceback = record.exc_info or (None, None, None)
    assert kind is ValueError and str(exc) == "boo"
    files = []
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    assert set(files) == {__file__} and len(files) == 2


@pytest.mark.parametrize("exc", [
    kopf.TemporaryError("t", delay=None), kopf.TemporaryError("t", delay=datetime.timedelta(0)),
])
def test_delays_of_temporary_errors_can_be_anything(stage: Stage, exc: Any) -> None:
    made = []

    @kopf.on.create("kopfexamples")
    def fn(**_: Any) -> None:
        made.append(1)
        if len(made) < 2:
            raise exc

    with stage.operator():
        stage.handled(stage.create())
    assert len(made) == 2


class Colour(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


JSON = [
    (None, None), ("text", "text"), (1, 1), (1.5, 1.5), (True, True), ([1, "a"], [1, "a"]),
    ((1, 2), [1, 2]), ({"a": {"b": None}}, {"a": {}}), (Colour.RED, "red"), ("", ""), ({}, {}),
    (types.MappingProxyType({"x": 1}), {"x": 1}), (2**53, 2**53),
    ({1: 2, 1.5: 3, 1e100: 4}, {"1": 2, "1.5": 3, "1e+100": 4}),
    ({True: 1, None: 2, math.inf: 3}, {"true": 1, "null": 2, "Infinity": 3}),
    ({Number.ONE: 1, Colour.RED: 2}, {"1": 1, "red": 2}),
]

# The same as in the original, which uses `json.dumps`.
assert all(json.loads(json.dumps(r)) == s for r, s in JSON[-3:])


def test_json_results_are_stored(stage: Stage) -> None:
    for number, (result, _) in enumerate(JSON):
        for n, fn in enumerate(both(lambda result=result, **_: result)):
            import functools
            kopf.on.create("kopfexamples", id=f"h{number}-{n}")(functools.partial(fn, result=result))
    with stage.operator():
        status = stage.handled(stage.create())["status"]
    for number, (_, stored) in enumerate(JSON):
        for n in (0, 1):
            assert status.get(f"h{number}-{n}") == stored


def test_views_are_results(stage: Stage) -> None:
    @kopf.on.create("kopfexamples", id="fn")
    def fn(spec: Any, **_: Any) -> Any:
        return {"spec": spec, "list": [spec]}

    with stage.operator():
        status = stage.handled(stage.create())["status"]
    assert status == {"fn": {"spec": {"field": "value"}, "list": [{"field": "value"}]}}


@dataclasses.dataclass
class Thing:
    x: int = 1


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


class Broken(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise RuntimeError("broken mapping")


@pytest.mark.parametrize("result, message", [
    ({1, 2}, "set"), (datetime.datetime(2020, 1, 1), "datetime"), (b"x", "bytes"),
    (Thing(), "Thing"), (math.nan, "not finite"), (10**30, "64 bits"), (object(), "object"),
    ({(1, 2): 3}, "key of type tuple"), ({"\ud800": 1}, "surrogates"), (CIRCLE, "nested too deeply"), ("\ud800", "surrogates"),
    ({"a": [{"b": Thing()}]}, "a[0].b is of the type Thing"),
], ids=str)
def test_other_results_fail_the_handler(
    stage: Stage, records: pytest.LogCaptureFixture, result: Any, message: str,
) -> None:
    @kopf.on.create("kopfexamples", id="fn")
    def fn(**_: Any) -> Any:
        return result

    @kopf.on.create("kopfexamples", id="good")
    async def good(**_: Any) -> Any:
        return "good"

    with stage.operator():
        assert stage.handled(stage.create())["status"] == {"good": "good"}
    failures = [r.message for r in records.records if "Handler 'fn' failed permanently" in r.message]
    assert len(failures) == 1 and message in failures[0]


def test_patches_are_merged_and_deleted(stage: Stage, form: Any) -> None:
    def first(patch: Any, **_: Any) -> None:
        patch.spec["added"] = [1, {"x": (1, 2)}]
        patch.metadata.labels["l"] = "1"
        patch.metadata.annotations["a"] = "1"
        patch.status["nested"] = {"deep": {"value": 1}}
        patch["other"] = {"x": 1}
        patch.spec["field"] = None

    def second(patch: Any, **_: Any) -> None:
        assert patch["other"] == {"x": 1}
        del patch["other"]
        patch.setdefault("extra", {})["y"] = True

    kopf.on.create("kopfexamples", id="first")(form(first))
    kopf.on.create("kopfexamples", id="second")(form(second))
    with stage.operator(lifecycle=kopf.lifecycles.all_at_once):
        obj = stage.handled(stage.create())
    assert obj["spec"] == {"added": [1, {"x": [1, 2]}]}
    assert obj["metadata"]["labels"] == {"l": "1"}
    assert obj["metadata"]["annotations"]["a"] == "1"
    assert obj["status"] == {"nested": {"deep": {"value": 1}}}
    assert obj.get("extra") == {"y": True}
    if form(first).__name__ == "afn":
        assert "other" not in obj


def test_keys_of_patches_become_strings(stage: Stage, form: Any) -> None:
    def fn(patch: Any, **_: Any) -> None:
        patch.status[1] = {2: 3, None: {True: 4}}

    kopf.on.create("kopfexamples")(form(fn))
    with stage.operator():
        obj = stage.handled(stage.create())
    assert obj["status"] == {"1": {"2": 3, "null": {"true": 4}}}


def test_patches_of_failed_attempts_are_applied(stage: Stage, form: Any) -> None:
    def fn(patch: Any, retry: int, **_: Any) -> None:
        patch.status[f"attempt{retry}"] = True
        if retry == 0:
            raise kopf.TemporaryError("again", delay=0)

    kopf.on.create("kopfexamples")(form(fn))
    with stage.operator():
        obj = stage.handled(stage.create())
    assert obj["status"] == {"attempt0": True, "attempt1": True}


def test_functions_of_patches_see_the_fresh_body(stage: Stage, form: Any) -> None:
    bodies = []

    def transform(body: Any) -> None:
        bodies.append(body["spec"]["field"])
        body.setdefault("spec", {}).setdefault("items", []).append(body["spec"]["field"])

    def fn(patch: Any, **_: Any) -> None:
        patch.fns.append(transform)

    kopf.on.create("kopfexamples")(form(fn))
    with stage.operator():
        obj = stage.wait(stage.create(), lambda obj: "items" in obj["spec"])
    assert obj["spec"]["items"] == ["value"]
    assert bodies[0] == "value"


def test_failing_functions_of_patches_are_reported(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    made = []

    def transform(body: Any) -> None:
        made.append(1)
        if len(made) == 1:
            raise ValueError("cannot transform")
        body["spec"]["ok"] = True

    @kopf.on.create("kopfexamples")
    def fn(patch: Any, **_: Any) -> None:
        patch.fns.append(transform)

    with stage.operator() as operator:
        operator.settings.queueing.error_delays = [0.05]
        stage.wait(stage.create(), lambda obj: obj["spec"].get("ok"))
    assert "cannot transform" in records.text


@pytest.mark.parametrize("value", [object(), {1}, datetime.datetime(2020, 1, 1)], ids=str)
def test_patches_with_other_values_fail_the_handler(
    stage: Stage, form: Any, records: pytest.LogCaptureFixture, value: Any,
) -> None:
    def fn(patch: Any, **_: Any) -> None:
        patch.spec["bad"] = value

    def good(**_: Any) -> str:
        return "good"

    kopf.on.create("kopfexamples", id="fn")(form(fn))
    kopf.on.create("kopfexamples", id="good")(form(good))
    with stage.operator():
        name = stage.create()
        stage.wait(name, lambda obj: obj.get("status") == {"good": "good"})
        obj = stage.handled(name)
    assert "bad" not in obj["spec"]
    assert "Handler 'fn' failed permanently" in records.text and "spec.bad is of the type" in records.text


def test_invalid_patches_do_not_affect_other_handlers(
    stage: Stage, form: Any, records: pytest.LogCaptureFixture,
) -> None:
    def bad(patch: Any, **_: Any) -> None:
        patch.spec["bad"] = object()
        patch.spec["good"] = {"x": 1, "bad": {1}, 5: 6, (7, 8): 9, "big": 10**30, "odd": "\ud800"}
        patch.spec["circle"] = circle = {"x": 1}
        circle["circle"] = circle  # type: ignore[assignment]

    def good(patch: Any, **_: Any) -> str:
        patch.spec["other"] = 2
        return "good"

    kopf.on.create("kopfexamples", id="bad")(form(bad))
    kopf.on.create("kopfexamples", id="good")(form(good))
    with stage.operator(lifecycle=lambda handlers, **_: handlers):
        obj = stage.handled(stage.create())
    assert obj["status"] == {"good": "good"}
    assert obj["spec"] == {
        "field": "value", "other": 2, "good": {"x": 1, "5": 6}, "circle": {"x": 1},
    }
    assert "Handler 'bad' failed permanently" in records.text
    assert "Handler 'good' failed" not in records.text


def test_errors_without_text_and_with_invalid_text(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT, id="odd")
    def odd(**_: Any) -> None:
        raise Odd

    @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT, id="surrogates")
    async def surrogates(**_: Any) -> None:
        raise ValueError("bad \ud800 text")

    @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT, id="empty")
    async def empty(**_: Any) -> None:
        raise ValueError

    with stage.operator():
        stage.handled(stage.create())
    for id in ("odd", "surrogates", "empty"):
        assert f"Handler '{id}' failed" in records.text


def test_blocked_loops_only_delay_handling(stage: Stage) -> None:
    @kopf.on.create("kopfexamples", id="slow")
    async def slow(**_: Any) -> str:
        time.sleep(1.5)
        return "slow"

    @kopf.on.create("kopfexamples", id="quick")
    def quick(**_: Any) -> str:
        return "quick"

    with stage.operator():
        names = [stage.create() for _ in range(2)]
        for name in names:
            assert stage.handled(name)["status"] == {"slow": "slow", "quick": "quick"}


@pytest.mark.parametrize("exc", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_exits_in_handlers_stop_the_operator(stage: Stage, form: Any, exc: Any) -> None:
    def fn(**_: Any) -> None:
        raise exc

    kopf.on.create("kopfexamples")(form(fn))
    with stage.operator(fails=True) as operator:
        stage.create()
        operator.join()
    assert operator.exception is exc


def test_base_exceptions_stop_the_operator(stage: Stage, form: Any) -> None:
    class Fatal(BaseException):
        pass

    def fn(**_: Any) -> None:
        raise Fatal("bye")

    kopf.on.create("kopfexamples")(form(fn))
    with stage.operator(fails=True) as operator:
        stage.create()
        operator.join()
    assert isinstance(operator.exception, Fatal)


def test_sync_functions_that_return_coroutines_fail_with_an_explanation(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    async def inner() -> None:
        pass

    @kopf.on.create("kopfexamples", id="fn")
    def fn(**_: Any) -> Any:
        return inner()

    with stage.operator():
        stage.handled(stage.create())
    assert "returned a coroutine: declare it as async" in records.text




def test_ids_can_be_any_strings(stage: Stage) -> None:
    @kopf.on.create("kopfexamples", id="_private")
    def private(retry: int, **_: Any) -> str:
        if retry == 0:
            raise kopf.TemporaryError("again", delay=0)
        return "ok"

    kopf.on.create("kopfexamples")(lambda **_: None)
    kopf.on.create("kopfexamples", id="ümläut and spaces")(lambda **_: "ü")
    with stage.operator():
        obj = stage.handled(stage.create())
    assert obj["status"] == {"_private": "ok", "ümläut and spaces": "ü"}
