"""Filters, selectors, lifecycles and delays: decisions by functions of users."""

from __future__ import annotations

from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native


def handled_by(stage: Stage, name: str) -> set[str]:
    """Returns the ids of handlers with stored results."""
    return set(stage.handled(name).get("status", {}))


def declare(id: str, **filters: Any) -> None:
    kopf.on.create("kopfexamples", id=id, **filters)(lambda **_: "yes")


def test_conditions(stage: Stage) -> None:
    arguments: dict[str, Any] = {}

    def when(spec: Any, **kwargs: Any) -> Any:
        arguments.update(kwargs)
        return spec.get("field") == "value"

    declare("always")
    declare("when", when=when)
    declare("not", when=kopf.not_(when))
    declare("all", when=kopf.all_([when, lambda name, **_: bool(name)]))
    declare("any", when=kopf.any_([kopf.not_(when), lambda **_: 0]))
    declare("none", when=kopf.none_([kopf.not_(when)]))
    declare("truthy", when=lambda **_: "text")
    with stage.operator():
        assert handled_by(stage, stage.create()) == {"always", "when", "all", "none", "truthy"}
    assert {"body", "meta", "status", "name", "labels", "logger", "memo", "diff", "old", "new",
            "reason", "param", "patch", "resource"} <= set(arguments)


def test_labels_and_annotations(stage: Stage) -> None:
    for kind in ("labels", "annotations"):
        declare(f"{kind}-literal", **{kind: {"k": "v"}})
        declare(f"{kind}-other", **{kind: {"k": "w"}})
        declare(f"{kind}-present", **{kind: {"k": kopf.PRESENT}})
        declare(f"{kind}-absent", **{kind: {"z": kopf.ABSENT}})
        declare(f"{kind}-missing", **{kind: {"z": kopf.PRESENT}})
        declare(f"{kind}-called", **{kind: {"k": lambda value, **_: value == "v"}})
        declare(f"{kind}-called-none", **{kind: {"z": lambda value, **_: value is None}})
        declare(f"{kind}-number", **{kind: {"k": 5}})
        declare(f"{kind}-refused", **{kind: {"k": lambda value, **_: None}})
    with stage.operator():
        got = handled_by(stage, stage.create(labels={"k": "v"}, annotations={"k": "v"}))
    assert got == {
        f"{kind}-{name}" for kind in ("labels", "annotations")
        for name in ("literal", "present", "absent", "called", "called-none")
    }


def test_values_of_fields(stage: Stage) -> None:
    declare("literal", field="spec.field", value="value")
    declare("other", field="spec.field", value="x")
    declare("present", field=("spec", "field"), value=kopf.PRESENT)
    declare("absent", field=["spec", "z"], value=kopf.ABSENT)
    declare("called", field="spec.field", value=lambda value, **_: value == "value")
    declare("dict", field="spec", value={"field": "value", "n": 1})
    declare("number", field="spec.n", value=1)
    with stage.operator():
        got = handled_by(stage, stage.create({"field": "value", "n": 1}))
    assert got == {"literal/spec.field", "present/spec.field", "absent/spec.z", "called/spec.field",
                   "dict/spec", "number/spec.n"}


def test_old_and_new_values(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    calls = []

    def update(id: str, **filters: Any) -> None:
        kopf.on.update("kopfexamples", id=id, field="spec.field", **filters)(
            lambda **_: calls.append(id))

    kopf.on.create("kopfexamples")(lambda **_: None)
    update("old", old="a")
    update("new", new="b")
    update("both", old="a", new="b")
    update("wrong", old="b", new="a")
    update("called", old=lambda value, **_: value == "a", new=lambda value, **_: value == "b")
    update("present", old=kopf.PRESENT, new=kopf.PRESENT)
    update("absent", new=kopf.ABSENT)
    with stage.operator():
        name = stage.create({"field": "a"})
        stage.handled(name)
        stage.patch(name, {"spec": {"field": "b"}})
        until(lambda: len(calls) >= 5, "the update")
        assert set(calls) == {"old", "new", "both", "called", "present"}
        stage.patch(name, {"spec": {"field": None}})
        until(lambda: "absent" in calls, "the removal")


def test_failing_filters_are_reported_and_retried(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    broken = [True]

    def when(**_: Any) -> bool:
        if broken[0]:
            raise ValueError("broken filter")
        return True

    declare("fn", when=when)
    settings = kopf.OperatorSettings()
    settings.queueing.error_delays = [0.05]
    with stage.operator(settings=settings):
        name = stage.create()
        until(lambda: "broken filter" in records.text, "the report")
        broken[0] = False
        assert handled_by(stage, name) == {"fn"}


def test_async_filters_are_rejected(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    async def when(**_: Any) -> bool:
        return True

    declare("fn", when=when)
    with stage.operator():
        stage.create()
        until(lambda: "coroutine function" in records.text, "the report")


@pytest.mark.parametrize("args, kwargs", [
    (("kopfexamples",), {}), (("KopfExample",), {}), (("kopfexample",), {}), (("kex",), {}),
    (("kopfexamples.kopf.dev",), {}), (("kopfexamples.v1.kopf.dev",), {}),
    (("kopf.dev", "kopfexamples"), {}), (("kopf.dev/v1", "kopfexamples"), {}),
    (("kopf.dev", "v1", "kopfexamples"), {}), ((), {"kind": "KopfExample"}),
    ((), {"category": "examples"}), ((), {"group": "kopf.dev", "plural": "kopfexamples"}),
    ((lambda resource: resource.plural == "kopfexamples",), {}),
    (("kopf.dev", kopf.EVERYTHING), {}), ((kopf.EVERYTHING,), {"group": "kopf.dev"}),
], ids=str)
def test_selectors(stage: Stage, args: Any, kwargs: Any) -> None:
    kopf.on.create(*args, **kwargs, id="fn")(lambda **_: "yes")
    with stage.operator():
        assert handled_by(stage, stage.create()) == {"fn"}


def test_failing_selectors_are_reported(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    def selector(resource: kopf.Resource) -> bool:
        raise ValueError("broken selector")

    kopf.on.event(selector)(lambda **_: None)
    declare("fn")
    with stage.operator():
        assert handled_by(stage, stage.create()) == {"fn"}
    assert "broken selector" in records.text


@pytest.mark.parametrize("name", [
    "all_at_once", "one_by_one", "randomized", "shuffled", "asap",
])
def test_provided_lifecycles(stage: Stage, name: str) -> None:
    for id in "abc":
        declare(id)
    with stage.operator(lifecycle=getattr(kopf.lifecycles, name)):
        assert handled_by(stage, stage.create()) == {"a", "b", "c"}


def test_own_lifecycles(stage: Stage) -> None:
    order = []
    arguments: dict[str, Any] = {}

    def lifecycle(handlers: Any, **kwargs: Any) -> Any:
        arguments.update(kwargs)
        return sorted(handlers, key=lambda handler: handler.id, reverse=True)[:1]

    for id in "abc":
        kopf.on.create("kopfexamples", id=id)(lambda id=id, **_: order.append(id))

    @kopf.on.create("kopfexamples", id="d")
    def parent(**_: Any) -> None:
        for id in "xyz":
            kopf.register(lambda id=id, **_: order.append(id), id=id)

    with stage.operator(lifecycle=lifecycle):
        stage.handled(stage.create())
    assert order == ["z", "y", "x", "c", "b", "a"]
    assert {"state", "body", "name", "logger", "reason"} <= set(arguments)


def test_failing_lifecycles_are_reported(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    def lifecycle(handlers: Any, **_: Any) -> Any:
        raise ValueError("broken lifecycle")

    declare("fn")
    with stage.operator(lifecycle=lifecycle):
        stage.create()
        until(lambda: "broken lifecycle" in records.text, "the report")


def test_default_lifecycles_can_be_set(stage: Stage) -> None:
    used = []

    def lifecycle(handlers: Any, **_: Any) -> Any:
        used.append(1)
        return handlers

    former = kopf.get_default_lifecycle()
    kopf.set_default_lifecycle(lifecycle)
    try:
        declare("fn")
        with stage.operator():
            assert handled_by(stage, stage.create()) == {"fn"}
    finally:
        kopf.set_default_lifecycle(former)
    assert used


@pytest.mark.parametrize("kind", ["daemon", "timer"])
@pytest.mark.parametrize("delay", [0, 0.01, lambda **_: 0.01, lambda body, **_: None], ids=repr)
def test_initial_delays(stage: Stage, kind: str, delay: Any) -> None:
    calls = []
    declare_it = kopf.daemon if kind == "daemon" else kopf.timer
    kwargs = {} if kind == "daemon" else {"interval": 100}
    declare_it("kopfexamples", initial_delay=delay, **kwargs)(lambda **_: calls.append(1))
    with stage.operator():
        stage.create()
        until(lambda: calls, "the call")


def test_failing_delays_are_reported(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    def delay(**_: Any) -> float:
        raise ValueError("broken delay")

    kopf.daemon("kopfexamples", initial_delay=delay)(lambda **_: None)
    with stage.operator():
        stage.create()
        until(lambda: "broken delay" in records.text, "the report")


def test_daemons_follow_filters(stage: Stage) -> None:
    states = []

    @kopf.daemon("kopfexamples", field="spec.field", value="on")
    def daemon(stopped: Any, **_: Any) -> None:
        states.append("started")
        stopped.wait()
        states.append("stopped")

    with stage.operator():
        name = stage.create({"field": "on"})
        until(lambda: states == ["started"], "the start")
        stage.patch(name, {"spec": {"field": "off"}})
        until(lambda: states == ["started", "stopped"], "the stop")
        stage.patch(name, {"spec": {"field": "on"}})
        until(lambda: states[2:] == ["started"], "the restart")
    assert states[3:] == ["stopped"]
