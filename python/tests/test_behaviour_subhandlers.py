"""Sub-handlers, memos, indices."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native


@pytest.fixture(params=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return request.param == "async"


def adapt(fn: Any, is_async: bool) -> Any:
    if not is_async:
        return fn

    @functools.wraps(fn)
    async def afn(**kwargs: Any) -> Any:
        return fn(**kwargs)
    return afn


def test_subhandlers_by_decorators_and_calls(stage: Stage, is_async: bool) -> None:
    order = []

    def parent(spec: Any, **_: Any) -> str:
        @kopf.subhandler(id="s")
        def sync_sub(param: Any, name: str, **_: Any) -> str:
            order.append("s")
            return f"s of {name}"

        @kopf.on.subhandler(id="a", param="p")
        async def async_sub(param: Any, **_: Any) -> Any:
            order.append("a")
            return param

        kopf.register(fn=functools.partial(sync_sub, ), id="r", backoff=0.1)
        kopf.on.register(adapt(lambda **_: "looped", is_async), id="loop")
        order.append("parent")
        return "parent's"

    kopf.on.create("kopfexamples", id="parent")(adapt(parent, is_async))
    with stage.operator():
        name = stage.create()
        obj = stage.handled(name)
    assert obj["status"] == {
        "parent": "parent's", "parent/s": f"s of {name}", "parent/a": "p", "parent/r": f"s of {name}",
        "parent/loop": "looped",
    }
    assert order[0] == "parent"


def test_subhandlers_can_be_executed_in_handlers(stage: Stage) -> None:
    order = []

    def sub(name: str, **_: Any) -> None:
        order.append("sub")

    async def asub(**_: Any) -> None:
        order.append("asub")

    @kopf.on.create("kopfexamples", id="list")
    async def with_list(**_: Any) -> None:
        await kopf.execute(fns=[sub, asub])
        order.append("after-list")

    @kopf.on.create("kopfexamples", id="dict")
    async def with_dict(**_: Any) -> str:
        await kopf.execute(fns={"x": sub, "y": lambda **_: order.append("lambda")})
        return "after-dict"

    @kopf.on.create("kopfexamples", id="registry")
    async def with_registry(**_: Any) -> None:
        from kopf._core.intents.registries import ChangingRegistry
        registry = ChangingRegistry()

        @kopf.subhandler(id="registered")
        def registered(**_: Any) -> str:
            return "registered"

        await kopf.execute()
        order.append("after-default")
        await kopf.execute(registry=registry)
        await kopf.execute(handlers=[])
        await kopf.execute(fns=[asub], lifecycle=kopf.lifecycles.one_by_one)

    with stage.operator():
        status = stage.handled(stage.create())["status"]
    assert status["registry/registered"] == "registered"
    assert status["dict"] == "after-dict"
    assert order.count("after-list") == 1 and "lambda" in order and "after-default" in order


def test_nested_subhandlers(stage: Stage, is_async: bool) -> None:
    def level0(**_: Any) -> None:
        kopf.register(adapt(level1, is_async), id="one")

    def level1(**_: Any) -> str:
        kopf.register(adapt(level2, not is_async), id="two")
        return "1"

    def level2(**_: Any) -> str:
        return "2"

    kopf.on.create("kopfexamples", id="zero")(adapt(level0, is_async))
    with stage.operator():
        status = stage.handled(stage.create())["status"]
    assert status == {"zero/one": "1", "zero/one/two": "2"}


def test_unfinished_subhandlers_retry_the_parent(stage: Stage, is_async: bool) -> None:
    calls: dict[str, int] = {"parent": 0, "flaky": 0, "stable": 0}

    def flaky(**_: Any) -> str:
        calls["flaky"] += 1
        if calls["flaky"] < 3:
            raise kopf.TemporaryError("not yet", delay=0.01)
        return "at last"

    def stable(**_: Any) -> None:
        calls["stable"] += 1

    def parent(**_: Any) -> None:
        calls["parent"] += 1
        kopf.register(adapt(flaky, is_async), id="flaky")
        kopf.register(adapt(stable, is_async), id="stable")

    kopf.on.create("kopfexamples", id="parent")(adapt(parent, is_async))
    with stage.operator():
        obj = stage.handled(stage.create())
    assert obj["status"] == {"parent/flaky": "at last"}
    assert calls["flaky"] == 3 and calls["stable"] == 1 and calls["parent"] >= 3


def test_unfinished_execution_is_retried(stage: Stage) -> None:
    calls = []

    async def flaky(**_: Any) -> str:
        calls.append(1)
        if len(calls) < 2:
            raise kopf.TemporaryError("not yet", delay=0.01)
        return "ok"

    @kopf.on.create("kopfexamples", id="parent")
    async def parent(**_: Any) -> str:
        await kopf.execute(fns={"flaky": flaky})
        return "done"

    with stage.operator():
        obj = stage.handled(stage.create())
    assert obj["status"] == {"parent": "done", "parent/flaky": "ok"}


def test_subhandlers_share_the_patch(stage: Stage, is_async: bool) -> None:
    def parent(patch: Any, **_: Any) -> None:
        patch.status["parent"] = 1

        @kopf.subhandler(id="sub")
        def sub(patch: Any, **_: Any) -> None:
            assert patch.status["parent"] == 1
            patch.status["sub"] = 2

    kopf.on.create("kopfexamples", id="h")(adapt(parent, is_async))
    with stage.operator():
        assert stage.handled(stage.create())["status"] == {"parent": 1, "sub": 2}


def test_subhandlers_outside_of_handlers_are_rejected(stage: Stage) -> None:
    with pytest.raises(LookupError):
        kopf.subhandler(id="x")(lambda **_: None)


def test_executions_in_other_handlers_are_rejected(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    errors = []

    @kopf.on.event("kopfexamples")
    async def event(**_: Any) -> None:
        try:
            await kopf.execute(fns=[lambda **_: None])
        except Exception as exc:
            errors.append(exc)

    with stage.operator():
        stage.create()
        until(lambda: errors, "the error")
    assert isinstance(errors[0], (RuntimeError, LookupError, TypeError))


def test_memos_are_shared_by_handlers_of_an_object(stage: Stage, is_async: bool) -> None:
    seen = []

    def create(memo: Any, **_: Any) -> None:
        memo.x = 1
        memo["y"] = [2]

    def update(memo: Any, name: str, **_: Any) -> None:
        seen.append((memo["x"], memo.y, memo.common))

    kopf.on.create("kopfexamples")(adapt(create, is_async))
    kopf.on.update("kopfexamples")(adapt(update, is_async))
    with stage.operator(memo=kopf.Memo(common="c")):
        name = stage.create()
        stage.handled(name)
        stage.patch(name, {"spec": {"field": "other"}})
        until(lambda: seen, "the update")
    assert seen == [(1, [2], "c")]


class OwnMemo:
    def __init__(self) -> None:
        self.copies = 0
        self.shared: list[Any] = []

    def __copy__(self) -> OwnMemo:
        self.copies += 1
        copied = OwnMemo()
        copied.shared = self.shared
        return copied


def test_memos_of_own_classes_are_copied(stage: Stage, is_async: bool) -> None:
    def create(memo: Any, name: str, **_: Any) -> None:
        memo.shared.append((name, memo))

    kopf.on.create("kopfexamples")(adapt(create, is_async))
    memo = OwnMemo()
    with stage.operator(memo=memo):
        names = [stage.create(), stage.create()]
        for name in names:
            stage.handled(name)
    assert memo.copies == 2
    assert sorted(name for name, _ in memo.shared) == sorted(names)
    assert len({id(own) for _, own in memo.shared} | {id(memo)}) == 3


def test_memos_that_cannot_be_copied_fail_handlers(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    class Uncopiable:
        def __copy__(self) -> Any:
            raise ValueError("no copies")

    @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT, id="fn")
    def fn(**_: Any) -> None:
        raise AssertionError("must not be called")

    with stage.operator(memo=Uncopiable()):
        stage.handled(stage.create())
    assert "Handler 'fn' failed" in records.text and "no copies" in records.text


def test_forms_of_index_results(stage: Stage, is_async: bool) -> None:
    results = {
        "d": lambda name, **_: {name: 1, "all": name},
        "v": lambda name, **_: name,
        "n": lambda **_: None,
        "e": lambda **_: {},
        "o": lambda **_: OwnMemo(),
        "t": lambda name, **_: (name, 2),
        "k": lambda name, **_: {("x", name): [1, 2], 5: None},
    }
    for id, fn in results.items():
        kopf.index("kopfexamples", id=id)(adapt(fn, is_async))
    seen: dict[str, Any] = {}

    def probe(d: Any, v: Any, n: Any, e: Any, o: Any, t: Any, k: Any, **_: Any) -> None:
        seen.update(d=d, v=v, n=n, e=e, o=o, t=t, k=k)

    kopf.on.create("kopfexamples")(adapt(probe, is_async))
    names = [stage.create(), stage.create()]
    with stage.operator():
        for name in names:
            stage.handled(name)
        d, v = seen["d"], seen["v"]
        assert set(d) == {*names, "all"} and sorted(d["all"]) == sorted(names)
        assert list(d[names[0]]) == [1] and len(d["all"]) == 2
        assert set(v) == {None} and sorted(v[None]) == sorted(names)
        assert len(seen["n"]) == 0 and len(seen["e"]) == 0
        assert all(isinstance(value, OwnMemo) for value in seen["o"][None])
        assert sorted(seen["t"][None]) == sorted((name, 2) for name in names)
        assert set(seen["k"]) == {("x", names[0]), ("x", names[1]), 5}
        assert list(seen["k"]["x", names[0]]) == [[1, 2]]
        stage.delete(names[0])
        until(lambda: set(d) == {names[1], "all"}, "the removal")
        until(lambda: list(v[None]) == [names[1]], "the removal from another index")
        with pytest.raises(TypeError):
            d["x"] = 1


def test_failing_index_functions_do_not_stop_handling(
    stage: Stage, is_async: bool, records: pytest.LogCaptureFixture,
) -> None:
    def permanent(**_: Any) -> None:
        raise kopf.PermanentError("not indexed")

    def arbitrary(**_: Any) -> None:
        raise ValueError("not indexed either")

    kopf.index("kopfexamples", id="i1")(adapt(permanent, is_async))
    kopf.index("kopfexamples", id="i2")(adapt(arbitrary, is_async))

    @kopf.on.create("kopfexamples", id="fn")
    def fn(i1: Any, i2: Any, **_: Any) -> int:
        return len(i1) + len(i2)

    with stage.operator():
        assert stage.handled(stage.create())["status"] == {"fn": 0}
    assert "not indexed" in records.text


def test_indices_follow_changes(stage: Stage) -> None:
    seen: dict[str, Any] = {}

    @kopf.index("kopfexamples", id="by_field")
    def by_field(spec: Any, name: str, **_: Any) -> Any:
        return {spec["field"]: name} if spec["field"] != "none" else {}

    @kopf.on.event("kopfexamples")
    def event(by_field: kopf.Index[str, str], **_: Any) -> None:
        seen["index"] = by_field

    with stage.operator():
        name = stage.create({"field": "a"})
        until(lambda: list(seen.get("index", ())) == ["a"], "the value")
        stage.patch(name, {"spec": {"field": "b"}})
        until(lambda: list(seen["index"]) == ["b"], "the other value")
        stage.patch(name, {"spec": {"field": "none"}})
        until(lambda: list(seen["index"]) == [], "the absence")
