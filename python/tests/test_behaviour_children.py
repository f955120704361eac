"""Conditions, children, and handlers that depend on them."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


def condition(obj: Any, type: str = "Ready") -> dict[str, Any]:
    found: dict[str, Any] = next(
        (c for c in obj.get("status", {}).get("conditions", []) if c["type"] == type), {})
    return found


def make_child(stage: Stage, owner: Any, name: str, **data: str) -> None:
    meta = owner["metadata"]
    reference = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": meta["name"],
                 "uid": meta["uid"]}
    stage.cluster.create({
        **CONFIG_MAP, "metadata": {"name": name, "ownerReferences": [reference]}, "data": data,
    })


def test_children_are_read_from_memory(stage: Stage) -> None:
    @kopf.on.create("kopfexamples", id="sync_fn", owns=["configmaps"])
    def sync_fn(**_: Any) -> list[str]:
        names = sorted(child.meta["name"] for child in kopf.children("ConfigMap"))
        if len(names) < 2:
            raise kopf.TemporaryError("wait", delay=600)
        assert len(kopf.children()) == 2 and kopf.children("Pod") == []
        assert isinstance(kopf.children()[0], kopf.Body)
        return names

    with stage.operator():
        name = stage.create({})
        owner = stage.wait(name, lambda obj: obj)
        make_child(stage, owner, "first")
        make_child(stage, owner, "second")
        obj = stage.wait(name, lambda obj: obj.get("status", {}).get("sync_fn"))
        assert obj["status"]["sync_fn"] == ["first", "second"]


def test_woken_handlers_see_the_patches_of_child_handlers(stage: Stage) -> None:
    @kopf.on.child("configmaps", parent="kopfexamples")
    def seen(child: Any, patch: kopf.Patch, **_: Any) -> None:
        patch.status["ready"] = child["data"]["ready"]

    @kopf.on.create("kopfexamples", id="create_fn", owns=["configmaps"])
    async def create_fn(status: Any, **_: Any) -> str:
        if status.get("ready") != "yes":
            raise kopf.TemporaryError("not ready", delay=600)
        return "done"

    with stage.operator():
        name = stage.create({})
        owner = stage.wait(name, lambda obj: obj)
        make_child(stage, owner, "child", ready="yes")
        stage.wait(name, lambda obj: obj.get("status", {}).get("create_fn"))


def test_children_need_a_handler() -> None:
    with pytest.raises(LookupError):
        kopf.children()


def test_conditions_are_set(stage: Stage) -> None:
    @kopf.on.create("kopfexamples")
    @kopf.on.update("kopfexamples")
    def fn(spec: Any, patch: kopf.Patch, **_: Any) -> None:
        patch.conditions.set("Other", None, reason="Unknown")
        patch.conditions.set("Ready", spec["ready"], reason="Tested", message="text")

    with stage.operator():
        name = stage.create({"ready": True})
        obj = stage.wait(name, condition)
        first = condition(obj)
        assert first["status"] == "True" and first["observedGeneration"] == 1
        assert condition(obj, "Other")["status"] == "Unknown"
        stage.patch(name, {"spec": {"other": 1}})
        # The resource has no status subresource: writes of the status increment the generation.
        second = condition(stage.wait(
            name, lambda obj: condition(obj)["observedGeneration"] > 1))
        assert second["lastTransitionTime"] == first["lastTransitionTime"]
        stage.patch(name, {"spec": {"ready": False}})
        stage.wait(name, lambda obj: condition(obj)["status"] == "False")


def test_equal_conditions_change_nothing() -> None:
    now = "2026-01-02T03:04:05Z"
    before = {"type": "Ready", "status": "True", "reason": "R", "message": "",
              "observedGeneration": 3, "lastTransitionTime": now}
    body = {"metadata": {"generation": 3}, "status": {"conditions": [before]}}
    patch = kopf.Patch(body=body)  # type: ignore[arg-type]
    assert patch.conditions.is_true("Ready") and patch.conditions.get("Other") is None
    patch.conditions.set("Ready", True, reason="R")
    assert patch.as_json_patch() == []
    patch.conditions.set("Ready", False, reason="R")
    assert [op["path"] for op in patch.as_json_patch()] != []
    patch.conditions.remove("Ready")
    assert patch.as_json_patch() == [{"op": "remove", "path": "/status/conditions/0"}]
    patch.clear()
    assert not patch and patch.as_json_patch() == []


@pytest.mark.parametrize("kwargs, message", [
    ({"type": "", "status": True, "reason": "R"}, "invalid type of a condition"),
    ({"type": "X", "status": "yes", "reason": "R"}, "must be True, False or Unknown"),
    ({"type": "X", "status": True, "reason": "two words"}, "invalid reason of a condition"),
])
def test_invalid_conditions_are_rejected(kwargs: Any, message: str) -> None:
    conditions = kopf.Conditions(kopf.Patch(), {})
    with pytest.raises(ValueError, match=message):
        conditions.set(**kwargs)


def test_conditions_need_an_object() -> None:
    with pytest.raises(LookupError, match=r"kopf\.Conditions\(patch, body\)"):
        kopf.Patch().conditions.set("X", True, reason="R")


@pytest.mark.parametrize("form", ["sync", "async"])
def test_children_are_applied(stage: Stage, form: str) -> None:
    versions: list[str] = []
    effects: list[str] = []

    def manifest(spec: Any) -> Any:
        return {**CONFIG_MAP, "metadata": {"name": f"applied-{form}"}, "data": {"a": spec["a"]}}

    async def afn(spec: Any, **_: Any) -> None:
        child = await kopf.apply_child(manifest(spec))
        effects.append(child.effect)
        versions.append(child.object["metadata"]["resourceVersion"])

    def sfn(spec: Any, **_: Any) -> None:
        child = kopf.apply_child(manifest(spec))
        effects.append(child.effect)
        versions.append(child.object["metadata"]["resourceVersion"])

    fn: Any = afn if form == "async" else sfn
    kopf.on.update("kopfexamples", id="fn")(kopf.on.create("kopfexamples", id="fn")(fn))
    with stage.operator():
        name = stage.create({"a": "1"})
        until(lambda: len(versions) == 1, "the first call")
        child = stage.cluster.get("configmaps", f"applied-{form}")
        assert child["data"] == {"a": "1"}
        assert child["metadata"]["ownerReferences"][0]["name"] == name
        assert child["metadata"]["managedFields"][0]["manager"] == "kopf"
        stage.patch(name, {"spec": {"other": 1}})
        until(lambda: len(versions) == 2, "the second call")
        assert versions[0] == versions[1], "an unchanged child is not written"
        stage.patch(name, {"spec": {"a": "2"}})
        until(lambda: len(versions) == 3, "the third call")
        assert stage.cluster.get("configmaps", f"applied-{form}")["data"] == {"a": "2"}
    assert effects == ["created", "unchanged", "changed"]


@pytest.mark.parametrize("form", ["sync", "async"])
def test_errors_of_children_have_attributes(stage: Stage, form: str) -> None:
    errors: list[kopf.ApplyError] = []
    unknown = {"apiVersion": "nowhere.example/v1", "kind": "Nothing"}
    nameless = {**CONFIG_MAP, "metadata": {"generateName": "x-"}}
    invalid = {**CONFIG_MAP, "metadata": {"name": "invalid"}, "data": {"not valid": "x"}}
    taken = {**CONFIG_MAP, "metadata": {"name": f"taken-{form}"}, "data": {"a": "ours"}}
    stage.cluster.create({**taken, "data": {"a": "theirs"}})

    async def afn(**_: Any) -> None:
        for child in (unknown, nameless, invalid, taken):
            with pytest.raises(kopf.ApplyError) as error:
                await kopf.apply_child(child)
            errors.append(error.value)

    def sfn(**_: Any) -> None:
        for child in (unknown, nameless, invalid, taken):
            with pytest.raises(kopf.ApplyError) as error:
                kopf.apply_child(child)
            errors.append(error.value)

    kopf.on.create("kopfexamples", id="fn")(afn if form == "async" else sfn)
    with stage.operator():
        stage.create()
        until(lambda: len(errors) == 4, "the errors")
        stage.cluster.delete("configmaps", f"taken-{form}")
    assert [(error.code, error.reason) for error in errors] == [
        (None, "UnknownKind"), (None, "InvalidManifest"), (422, "Invalid"), (409, "Conflict"),
    ]
    assert str(errors[0]).startswith(
        "child Nothing is not applied: the server does not serve Nothing.v1.nowhere.example")
    conflict, = errors[3].conflicts
    assert conflict.field == ".data.a" and "kopf" not in conflict.manager
    assert conflict.manager in str(errors[3]) and "apply with force" in str(errors[3])
    assert [error.conflicts for error in errors[:3]] == [(), (), ()]


def test_children_of_client_libraries_are_applied(stage: Stage) -> None:
    import kubernetes.client
    import kubernetes_asyncio.client
    import lightkube.models.meta_v1
    import lightkube.resources.core_v1
    import pykube

    @dataclasses.dataclass
    class Child:
        data: dict[str, str]
        metadata: dict[str, Any]
        immutable: bool | None = None
        version: str = dataclasses.field(default="v1", metadata={"alias": "apiVersion"})
        kind: str = "ConfigMap"

    def models(owner: str) -> Iterator[Any]:
        for package in (kubernetes, kubernetes_asyncio):
            meta = package.client.V1ObjectMeta(name=f"{owner}-{package.__name__.replace('_', '-')}")
            yield package.client.V1ConfigMap(
                api_version="v1", kind="ConfigMap", metadata=meta, data={"a": "1"})
        meta = {"name": f"{owner}-pykube"}
        yield pykube.ConfigMap(None, {"metadata": meta, "data": {"a": "1"}})
        yield lightkube.resources.core_v1.ConfigMap(
            metadata=lightkube.models.meta_v1.ObjectMeta(name=f"{owner}-lightkube"), data={"a": "1"})
        yield Child(metadata={"name": f"{owner}-dataclass"}, data={"a": "1"})

    applied: list[Any] = []

    @kopf.on.create("kopfexamples")
    def fn(name: str, **_: Any) -> None:
        for model in models(name):
            applied.append(kopf.apply_child(model))

    with stage.operator():
        name = stage.create()
        stage.handled(name)
    assert [child.object["metadata"]["name"].removeprefix(f"{name}-") for child in applied] == [
        "kubernetes", "kubernetes-asyncio", "pykube", "lightkube", "dataclass",
    ]
    assert all(child.object["data"] == {"a": "1"} for child in applied)
    assert repr(applied[0]) == f"<kopf.AppliedChild ConfigMap/{name}-kubernetes, created>"


def test_unsuitable_children_are_rejected(stage: Stage) -> None:
    calls: list[str] = []

    @kopf.on.create("kopfexamples")
    async def fn(**_: Any) -> None:
        for unsuitable in ("text", None, 5, CONFIG_MAP.items(), dict):
            with pytest.raises(TypeError, match="must be a dict with apiVersion and kind, a model decl"):
                await kopf.apply_child(unsuitable)
        calls.append("done")

    with stage.operator():
        stage.handled(stage.create())
    assert calls == ["done"]


def test_children_are_applied_from_loops_of_threads(stage: Stage) -> None:
    applied: list[kopf.AppliedChild] = []

    @kopf.on.create("kopfexamples")
    def fn(**_: Any) -> None:
        async def work() -> None:
            applied.append(await kopf.apply_child(CONFIG_MAP))

        asyncio.run(work())

    with stage.operator():
        name = stage.create()
        stage.handled(name)
        stage.cluster.delete("configmaps", name)
    assert applied[0].effect == "created"


def test_owners_receive_their_children(stage: Stage) -> None:
    seen: list[Any] = []

    @kopf.on.create("kopfexamples")
    def fn(**_: Any) -> None:
        pass

    @kopf.on.child("configmaps", parent="kopfexamples")
    async def observe(name: str, child: Any, type: Any, patch: Any, **_: Any) -> str:
        seen.append((name, child["metadata"]["name"], type))
        patch.status["seen"] = dict(child["data"])
        return "is not stored"

    with stage.operator():
        name = stage.create()
        owner = stage.handled(name)
        make_child(stage, owner, "observed", a="1")
        obj = stage.wait(name, lambda obj: obj.get("status", {}).get("seen") == {"a": "1"})
        assert "observe" not in obj["status"]
        stage.cluster.delete("configmaps", "observed")
        until(lambda: (name, "observed", "DELETED") in seen, "the deletion")
    assert seen[0] == (name, "observed", "ADDED")


def test_new_children_end_retry_delays(stage: Stage) -> None:
    called = threading.Event()
    calls: list[int] = []

    @kopf.on.create("kopfexamples", owns=["configmaps"])
    def fn(retry: int, **_: Any) -> None:
        calls.append(retry)
        called.set()
        if retry == 0:
            raise kopf.TemporaryError("not yet", delay=3600)

    with stage.operator():
        name = stage.create()
        assert called.wait(20)
        owner = stage.wait(name, lambda obj: obj["metadata"].get("annotations"))
        make_child(stage, owner, "awaited")
        stage.handled(name)
    assert calls == [0, 1]


@pytest.mark.parametrize("options, message", [
    ({"owns": "pods"}, "must be a list of resources"),
    ({"owns": [5]}, "invalid owns 5"),
])
def test_invalid_owns_options_are_rejected(stage: Stage, options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        kopf.on.create("kopfexamples", **options)(lambda **_: None)


@pytest.mark.filterwarnings("ignore:kopf.apply_child:RuntimeWarning")
def test_unawaited_children_fail_their_handlers(stage: Stage) -> None:
    calls: list[str] = []
    kept: list[Any] = []

    @kopf.on.create("kopfexamples")
    async def forgotten(**_: Any) -> None:
        calls.append("forgotten")
        kopf.apply_child(CONFIG_MAP)

    @kopf.on.create("kopfexamples")
    async def stored(**_: Any) -> None:
        kept.append(kopf.apply_child(CONFIG_MAP))
        with pytest.raises(RuntimeError, match=r"not applied yet: use `await kopf.apply_child"):
            kept[0].object  # noqa: B018
        assert repr(kept[0]) == "<kopf.AppliedChild, not applied>"
        calls.append("stored")

    @kopf.on.create("kopfexamples")
    async def detached(**_: Any) -> None:
        kept.append(asyncio.ensure_future(kopf.apply_child(CONFIG_MAP)))
        calls.append("detached")

    @kopf.on.create("kopfexamples")
    async def gathered(name: str, **_: Any) -> None:
        task: asyncio.Task[Any] = asyncio.create_task(kopf.apply_child(  # type: ignore[arg-type]
            {**CONFIG_MAP, "metadata": {"name": f"{name}-task"}}))
        await asyncio.gather(task, kopf.apply_child(
            {**CONFIG_MAP, "metadata": {"name": f"{name}-gathered"}}))
        kopf.apply_child(CONFIG_MAP).close()
        child = await kopf.apply_child({**CONFIG_MAP, "metadata": {"name": f"{name}-twice"}})
        assert await child is child and child.effect == "created"
        calls.append("gathered")

    with stage.operator(posting=True):
        name = stage.create()
        stage.handled(name)
        events = until(lambda: [
            event for event in stage.events(name) if event["type"] == "Error"
        ][2:] and stage.events(name))
    assert sorted(calls) == ["detached", "forgotten", "gathered", "stored"]
    messages = [event["message"] for event in events if event["type"] == "Error"]
    expected = "kopf.apply_child() was not awaited and has done nothing: add `await`"
    assert len(messages) == 3 and all(expected in message for message in messages), messages
    assert isinstance(kept[1].exception(), RuntimeError)
    assert "because its handler has ended" in str(kept[1].exception())
    names = {child["metadata"]["name"] for child in stage.cluster.all("configmaps")}
    assert {f"{name}-task", f"{name}-gathered"} <= names and name not in names


def test_children_need_an_operator() -> None:
    with pytest.raises(LookupError, match="only inside of handlers"):
        kopf.apply_child(CONFIG_MAP)
