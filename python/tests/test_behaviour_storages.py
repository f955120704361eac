"""Custom storages, settings, activities, logins."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import kopf
from behaviour import Stage, until

pytestmark = pytest.mark.native


class WithPrefix(kopf.AnnotationsProgressStorage):
    def __init__(self) -> None:
        super().__init__(prefix="own.dev")


class Counting(kopf.StatusProgressStorage):
    """Overridden methods that call the inherited ones."""

    def __init__(self) -> None:
        super().__init__(name="own")
        self.calls: set[str] = set()

    def fetch(self, **kwargs: Any) -> Any:
        self.calls.add("fetch")
        return super().fetch(**kwargs)

    def store(self, **kwargs: Any) -> None:
        self.calls.add("store")
        assert isinstance(kwargs["body"], kopf.Body) and isinstance(kwargs["patch"], kopf.Patch)
        super().store(**kwargs)

    def purge(self, **kwargs: Any) -> None:
        self.calls.add("purge")
        super().purge(**kwargs)


class InMemory(kopf.ProgressStorage):
    """A custom storage that writes nothing to objects."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[Any, Any] = {}
        self.stored = 0

    def fetch(self, *, key: Any, body: kopf.Body) -> Any:
        return self.records.get((body.metadata.uid, key))

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        assert set(record) >= {"started", "retries", "success", "failure"}
        self.stored += 1
        self.records[body.metadata.uid, key] = record

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        self.records.pop((body.metadata.uid, key), None)

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: Any) -> None:
        if value is not None:
            patch.metadata.annotations["own/touch"] = value

    def clear(self, *, essence: Any) -> Any:
        return essence


@pytest.mark.parametrize("make", [
    kopf.AnnotationsProgressStorage, kopf.StatusProgressStorage, kopf.SmartProgressStorage,
    lambda: kopf.MultiProgressStorage([kopf.StatusProgressStorage(), WithPrefix()]),
    WithPrefix, Counting, InMemory,
    lambda: kopf.MultiProgressStorage([Counting(), kopf.AnnotationsProgressStorage()]),
], ids=["annotations", "status", "smart", "multi", "prefix", "counting", "memory", "multi-own"])
def test_progress_storages(stage: Stage, make: Any) -> None:
    storage = make()
    seen: list[Any] = []

    @kopf.on.startup()
    def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.progress_storage = storage

    @kopf.on.create("kopfexamples", id="fn")
    def fn(retry: int, body: Any, **_: Any) -> str:
        seen.append((retry, json.dumps(dict(body))))
        if retry < 2:
            raise kopf.TemporaryError("again", delay=0.01)
        return "done"

    with stage.operator():
        name = stage.create()
        obj = stage.handled(name)
        stage.wait(name, lambda obj: '"fn": {' not in json.dumps(obj["status"]))
    assert obj["status"]["fn"] == "done"
    assert [retry for retry, _ in seen] == [0, 1, 2]
    if isinstance(storage, WithPrefix):
        assert "own.dev/fn" in seen[1][1]
        assert "own.dev/kopf-managed" in obj["metadata"]["annotations"]
    if isinstance(storage, Counting):
        assert storage.calls == {"fetch", "store", "purge"}
    if isinstance(storage, InMemory):
        assert storage.stored >= 2 and not storage.records
        assert "kopf.zalando.org/fn" not in seen[1][1]


def test_failing_progress_storages_are_reported(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    class Broken(InMemory):
        def fetch(self, **_: Any) -> Any:
            if broken:
                raise ValueError("broken storage")

    broken = [1]
    settings = kopf.OperatorSettings()
    settings.persistence.progress_storage = Broken()
    settings.queueing.error_delays = [0.05]
    kopf.on.create("kopfexamples", id="fn")(lambda **_: "done")
    with stage.operator(settings=settings):
        name = stage.create()
        until(lambda: "broken storage" in records.text, "the report")
        assert "status" not in stage.get(name)
        broken.clear()
        assert stage.handled(name)["status"] == {"fn": "done"}


class OwnDiffBase(kopf.DiffBaseStorage):
    def __init__(self) -> None:
        super().__init__()
        self.essences: dict[str, Any] = {}

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> Any:
        assert isinstance(extra_fields, set)  # as in the original
        essence = super().build(body=body, extra_fields=extra_fields)
        essence["spec"].pop("ignored", None)  # type: ignore[index]
        return essence

    def fetch(self, *, body: kopf.Body) -> Any:
        return self.essences.get(str(body.metadata.uid))

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: Any) -> None:
        self.essences[str(body.metadata.uid)] = essence


class WithKey(kopf.AnnotationsDiffBaseStorage):
    def __init__(self) -> None:
        super().__init__(prefix="own.dev", key="last")


class Overridden(kopf.AnnotationsDiffBaseStorage):
    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> Any:
        essence = super().build(body=body, extra_fields=extra_fields)
        essence.get("spec", {}).pop("ignored", None)  # type: ignore[attr-defined]
        return essence


@pytest.mark.parametrize("make", [
    kopf.AnnotationsDiffBaseStorage, kopf.StatusDiffBaseStorage, WithKey, OwnDiffBase, Overridden,
    lambda: kopf.MultiDiffBaseStorage([kopf.AnnotationsDiffBaseStorage(), OwnDiffBase()]),
], ids=["annotations", "status", "key", "own", "overridden", "multi"])
def test_diffbase_storages(stage: Stage, make: Any) -> None:
    storage = make()
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = storage
    diffs: list[Any] = []
    kopf.on.create("kopfexamples", id="c")(lambda **_: diffs.append("create"))
    kopf.on.update("kopfexamples", id="u")(lambda diff, **_: diffs.append(tuple(diff)))
    with stage.operator(settings=settings):
        name = stage.create({"field": "a", "ignored": 1})
        until(lambda: diffs, "the creation")
        if isinstance(storage, (OwnDiffBase, Overridden)):
            stage.patch(name, {"spec": {"ignored": 2}})
        stage.patch(name, {"spec": {"field": "b"}})
        until(lambda: len(diffs) > 1, "the update")
        if isinstance(storage, WithKey):
            assert "own.dev/last" in stage.get(name)["metadata"]["annotations"]
    assert diffs == ["create", (("change", ("spec", "field"), "a", "b"),)]


def test_failing_diffbase_storages_are_reported(
    stage: Stage, records: pytest.LogCaptureFixture,
) -> None:
    class Broken(OwnDiffBase):
        def fetch(self, **_: Any) -> Any:
            raise ValueError("broken storage")

    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = Broken()
    kopf.on.create("kopfexamples", id="fn")(lambda **_: "done")
    with stage.operator(settings=settings):
        stage.create()
        until(lambda: "broken storage" in records.text, "the report")


@pytest.mark.parametrize("is_async", [False, True])
def test_startup_handlers_change_settings_and_register_handlers(
    stage: Stage, is_async: bool,
) -> None:
    def startup(settings: kopf.OperatorSettings, memo: Any, **_: Any) -> None:
        settings.persistence.finalizer = "own.dev/finalizer"
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="own.dev")
        memo.from_startup = "m"
        kopf.on.create("kopfexamples", id="late")(lambda memo, **_: memo.from_startup)
        kopf.on.delete("kopfexamples", id="gone")(lambda **_: None)
        kopf.index("kopfexamples", id="late_index")(lambda name, **_: {name: 1})
        kopf.on.create("kopfexamples", id="indexed")(lambda late_index, name, **_: name in late_index)

    async def astartup(**kwargs: Any) -> None:
        startup(**kwargs)

    kopf.on.startup()(astartup if is_async else startup)
    with stage.operator():
        obj = stage.handled(stage.create())
    assert obj["status"] == {"late": "m", "indexed": True}
    assert obj["metadata"]["finalizers"] == ["own.dev/finalizer"]


def test_failing_startup_stops_the_operator(stage: Stage) -> None:
    @kopf.on.startup()
    def startup(**_: Any) -> None:
        raise kopf.PermanentError("cannot start")

    with stage.operator(fails=True) as operator:
        operator.join()
    assert operator.exception is not None
    assert not operator.ready.is_set()


def test_invalid_settings_stop_the_operator(stage: Stage) -> None:
    @kopf.on.startup()
    def startup(settings: Any, **_: Any) -> None:
        settings.queueing.idle_timeout = "soon"

    with stage.operator(fails=True) as operator:
        operator.join()
    assert "idle_timeout" in str(operator.exception)


def test_failing_cleanup_is_reported(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    @kopf.on.cleanup()
    def cleanup(**_: Any) -> None:
        raise kopf.PermanentError("cannot clean")

    with stage.operator(fails=True):
        pass
    assert "cannot clean" in records.text


def test_logins_by_connection_info(stage: Stage) -> None:
    info = kopf.login_with_kubeconfig(settings=kopf.OperatorSettings())
    assert isinstance(info, kopf.ConnectionInfo)

    @kopf.on.login()
    def nothing(**_: Any) -> None:
        return None

    @kopf.on.login(errors=kopf.ErrorsMode.IGNORED)
    def failing(**_: Any) -> None:
        raise ValueError("cannot log in")

    @kopf.on.login()
    async def login(**_: Any) -> Any:
        return info

    kopf.on.create("kopfexamples", id="fn")(lambda **_: "done")
    with stage.operator():
        stage.handled(stage.create())


SESSION = kopf.AiohttpSession(server="https://localhost", aiohttp_session=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("result, message", [
    (None, "no credentials were retrieved"),
    ("a text", "login handler 'connect' returned str: return kopf.ConnectionInfo"),
    (SESSION, "login handler 'connect' returned kopf.AiohttpSession, which is not supported"),
], ids=["none", "text", "session"])
def test_logins_without_credentials_stop_the_operator(
    stage: Stage, records: pytest.LogCaptureFixture, result: Any, message: str,
) -> None:
    kopf.on.login(id="connect")(lambda **_: result)
    kopf.on.create("kopfexamples", id="fn")(lambda **_: "done")
    with stage.operator(fails=True) as operator:
        operator.join()
    assert isinstance(operator.exception, kopf.LoginError)
    assert message in records.text


def test_failing_logins_stop_the_operator(stage: Stage) -> None:
    @kopf.on.login()
    def login(**_: Any) -> None:
        raise kopf.PermanentError("cannot log in")

    with stage.operator(fails=True) as operator:
        operator.join()
    assert operator.exception is not None


@pytest.mark.parametrize("is_failing", [False, True])
def test_probes_and_health(stage: Stage, is_failing: bool) -> None:
    import urllib.error
    import urllib.request

    @kopf.on.probe(id="ok")
    def ok(**_: Any) -> Any:
        return {"n": 1}

    @kopf.on.probe(id="bad")
    async def bad(**_: Any) -> Any:
        if is_failing:
            raise ValueError("no answer")

    def health() -> Any:
        try:
            with urllib.request.urlopen("http://127.0.0.1:18766/x") as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as exc:
            return exc.code
        except OSError:
            return None

    with stage.operator(liveness_endpoint="http://127.0.0.1:18766/x"):
        assert until(health, "the health") == (500 if is_failing else {"ok": {"n": 1}})


@pytest.mark.parametrize("storage", [lambda: kopf.StatusProgressStorage(name="own"), Counting])
def test_storages_in_the_status_leave_annotations_alone(stage: Stage, storage: Any) -> None:
    """The state of missed changes is stored beside the progress as well."""
    settings = kopf.OperatorSettings()
    settings.persistence.progress_storage = storage()
    settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(name="own")
    calls: list[str] = []
    may_succeed = threading.Event()

    @kopf.on.create("kopfexamples", id="first")
    @kopf.on.update("kopfexamples", id="first")
    def first(spec: Any, **_: Any) -> None:
        calls.append(spec["field"])

    @kopf.on.create("kopfexamples", id="second")
    @kopf.on.update("kopfexamples", id="second")
    def second(**_: Any) -> None:
        if not may_succeed.is_set():
            raise kopf.TemporaryError("wait", delay=0.1)

    def is_tracked(obj: Any) -> bool:
        assert not obj["metadata"].get("annotations")
        return "attempted-essences" in obj.get("status", {}).get("own", {})

    with stage.operator(settings=settings):
        name = stage.create()
        stage.wait(name, is_tracked)
        stage.patch(name, {"spec": {"field": "changed"}})
        until(lambda: stage.get(name)["spec"]["field"] == "changed", "the change")
        may_succeed.set()
        until(lambda: calls == ["value", "changed"], "the missed change")
        obj = stage.wait(name, lambda obj: not is_tracked(obj))
    assert not obj["metadata"].get("annotations")
