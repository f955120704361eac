"""Admission handlers and webhook servers."""

from __future__ import annotations

import asyncio
import json
import traceback
from typing import Any

import pytest

import kopf
from behaviour import Stage, until
from kopf._front.tools.clients import ClusterError

pytestmark = pytest.mark.native

COMMON = {
    "param", "retry", "started", "runtime", "logger", "memo", "resource", "patch", "body", "spec",
    "meta", "status", "uid", "name", "namespace", "labels", "annotations",
    "dryrun", "headers", "sslpeer", "userinfo", "warnings", "operation", "subresource", "old", "new",
    "diff", "reason", "webhook",
}


def serve(stage: Stage, server: Any) -> Any:
    """Returns an operator with the server and managed webhooks."""
    settings = kopf.OperatorSettings()
    settings.admission.server = server
    settings.admission.managed = "test.kopf.dev"
    return stage.operator(settings=settings)


def configured(stage: Stage, kind: str = "validating") -> None:
    """Waits until the webhooks can be called."""
    def has_hooks() -> bool:
        found = stage.cluster.all(f"{kind}webhookconfigurations.admissionregistration.k8s.io")
        return any(
            webhook["clientConfig"].get("url") or webhook["clientConfig"].get("service")
            for item in found if item["metadata"]["name"] == "test.kopf.dev"
            for webhook in item.get("webhooks") or []
        )
    until(has_hooks, "the webhooks")


@pytest.fixture(autouse=True)
def _forget(stage: Stage) -> Any:
    yield
    for kind in ("validating", "mutating"):
        plural = f"{kind}webhookconfigurations.admissionregistration.k8s.io"
        for item in stage.cluster.all(plural):
            stage.cluster.delete(plural, item["metadata"]["name"])


@pytest.fixture(params=["sync", "async"])
def adapt(request: pytest.FixtureRequest) -> Any:
    def make(fn: Any) -> Any:
        if request.param == "sync":
            return fn

        async def afn(**kwargs: Any) -> Any:
            return fn(**kwargs)
        return afn
    return make


def test_validation(stage: Stage, adapt: Any) -> None:
    calls: list[dict[str, Any]] = []

    def validate(spec: Any, warnings: list[str], **kwargs: Any) -> None:
        calls.append({**kwargs, "spec": spec, "warnings": warnings})
        warnings.append("be careful")
        if spec.get("field") == "denied":
            raise kopf.AdmissionError("I do not like it", code=499)
        if spec.get("field") == "permanent":
            raise kopf.PermanentError("neither this")
        if spec.get("field") == "arbitrary":
            raise ValueError("nor that")

    kopf.on.validate("kopfexamples", id="v")(adapt(validate))
    with serve(stage, kopf.WebhookServer(addr="127.0.0.1", host="127.0.0.1")):
        configured(stage)
        name = stage.create()
        assert calls[0]["name"] == name and calls[0]["operation"] == "CREATE"
        stage.patch(name, {"spec": {"field": "other"}})
        assert calls[-1]["operation"] == "UPDATE"
        assert calls[-1]["old"]["spec"]["field"] == "value"
        assert calls[-1]["new"]["spec"]["field"] == "other"
        assert ("change", ("spec", "field"), "value", "other") in calls[-1]["diff"]
        with pytest.raises(ClusterError, match="I do not like it") as error:
            stage.create({"field": "denied"})
        assert error.value.status == 499
        for field, text in (("permanent", "neither this"), ("arbitrary", "nor that")):
            with pytest.raises(ClusterError, match=text):
                stage.create({"field": field})
    assert set(calls[0]) <= COMMON
    assert set(calls[0]) >= COMMON - {"webhook", "reason"}
    assert calls[0]["userinfo"] and isinstance(calls[0]["headers"], dict) and not calls[0]["dryrun"]


def test_mutation(stage: Stage, adapt: Any) -> None:
    def mutate(patch: Any, spec: Any, **_: Any) -> None:
        patch.spec["added"] = [1, {"x": None}]
        patch.metadata.labels["mutated"] = "yes"
        patch.spec["field"] = None

    def second(patch: Any, **_: Any) -> None:
        patch.fns.append(lambda body: body["spec"].update(by_function=True))

    kopf.on.mutate("kopfexamples", id="m", operations=["CREATE"])(adapt(mutate))
    kopf.on.mutate("kopfexamples", id="n", operations=["CREATE"])(adapt(second))
    with serve(stage, kopf.WebhookServer(addr="127.0.0.1", host="127.0.0.1")):
        configured(stage, "mutating")
        obj = stage.get(stage.create())
    assert obj["metadata"]["labels"] == {"mutated": "yes"}
    assert obj["spec"]["added"][0] == 1 and "field" not in obj["spec"]
    assert obj["spec"].get("by_function") is True


def test_filters_of_admission(stage: Stage) -> None:
    calls = []
    kopf.on.validate("kopfexamples", id="lit", labels={"a": "b"})(lambda **_: calls.append("lit"))
    kopf.on.validate("kopfexamples", id="call", when=lambda name, **_: name.startswith("x"))(
        lambda **_: calls.append("call"))
    with serve(stage, kopf.WebhookServer(addr="127.0.0.1", host="127.0.0.1")):
        configured(stage)
        stage.create()
        assert calls == []
        stage.create(name="xyz", labels={"a": "b"})
        assert sorted(calls) == ["call", "lit"]


def test_servers_as_generators(stage: Stage) -> None:
    """A custom server: an async generator that wraps the provided one and changes its config."""
    configs = []
    seen = []

    async def server(fn: Any) -> Any:
        async def wrapped(review: Any, **kwargs: Any) -> Any:
            response = await fn(review, **kwargs)
            seen.append((review["request"]["name"], response["response"]["allowed"]))
            return response

        async for config in kopf.WebhookServer(addr="127.0.0.1", host="127.0.0.1")(wrapped):
            configs.append(config)
            yield config
        await asyncio.Event().wait()

    kopf.on.validate("kopfexamples", id="v")(lambda **_: None)
    with serve(stage, server):
        configured(stage)
        name = stage.create()
    assert configs[0]["url"].startswith("https://")
    assert seen == [(name, True)]


def test_servers_as_subclasses(stage: Stage) -> None:
    class Server(kopf.WebhookServer):
        entered = 0

        async def __call__(self, fn: Any) -> Any:
            Server.entered += 1
            async for config in super().__call__(fn):
                yield config

    kopf.on.validate("kopfexamples", id="v")(lambda **_: None)
    with serve(stage, Server(addr="127.0.0.1", host="127.0.0.1")):
        configured(stage)
        stage.create()
    assert Server.entered == 1


def test_servers_are_made_by_contexts(stage: Stage) -> None:
    class Factory:
        steps: list[str] = []

        async def __aenter__(self) -> Any:
            self.steps.append("entered")
            return kopf.WebhookServer(addr="127.0.0.1", host="127.0.0.1")

        async def __aexit__(self, *_: object) -> None:
            self.steps.append("exited")

        async def __call__(self, fn: Any) -> Any:
            raise RuntimeError("the factory is not the server")
            yield

    kopf.on.validate("kopfexamples", id="v")(lambda **_: None)
    with serve(stage, Factory()):
        configured(stage)
        stage.create()
    assert Factory.steps == ["entered", "exited"]


def test_failing_servers_are_reported(stage: Stage, records: pytest.LogCaptureFixture) -> None:
    async def server(fn: Any) -> Any:
        raise ValueError("no server")
        yield

    kopf.on.validate("kopfexamples", id="v")(lambda **_: None)
    settings = kopf.OperatorSettings()
    settings.admission.server = server  # type: ignore[assignment]
    settings.admission.managed = "test.kopf.dev"
    with stage.operator(settings=settings, fails=True) as operator:
        until(lambda: "no server" in records.text or "no server" in str(operator.exception), "the report")


def test_missing_servers_are_reported(stage: Stage) -> None:
    kopf.on.validate("kopfexamples", id="v")(lambda **_: None)
    with stage.operator(fails=True) as operator:
        operator.join()
    assert "admission" in str(operator.exception).lower()


def free_port() -> int:
    return kopf.WebhookServer._allocate_free_port()


def behind_service(stage: Stage) -> dict[str, Any]:
    """Creates a Service that leads to this machine. Returns it as an option of servers."""
    port = free_port()
    stage.cluster.create({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": f"hooks-{port}", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    })
    return {"namespace": "default", "name": f"hooks-{port}", "port": port}


class WrappingServer(kopf.WebhookServer):
    """A server of a user: it is iterated in the event loop, and requests are served natively."""

    async def __call__(self, fn: Any) -> Any:
        async for config in super().__call__(fn):
            yield config


class AiohttpServer(kopf.WebhookServer):
    """A server of a user: requests are served by aiohttp."""

    @staticmethod
    async def _serve(fn: Any, request: Any) -> Any:
        return await kopf.WebhookServer._serve(fn, request)


@pytest.mark.parametrize("source", ["option", "variable"])
@pytest.mark.parametrize("cls", [kopf.WebhookServer, kopf.WebhookK3dServer, WrappingServer, AiohttpServer])
def test_services_are_announced_and_called(
    stage: Stage, cls: Any, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @kopf.on.validate("kopfexamples", id="check_it")
    def check(spec: Any, **_: Any) -> None:
        if spec.get("field") == "denied":
            raise kopf.AdmissionError("denied behind a service")

    service = behind_service(stage)
    port = service["port"]
    options: dict[str, Any] = {"addr": "127.0.0.1", "port": port}
    if source == "option":
        options["service"] = service
    else:
        monkeypatch.setenv("KOPF_WEBHOOK_SERVICE", f"default/hooks-{port}:{port}")
    with serve(stage, cls(**options)):
        configured(stage)
        plural = "validatingwebhookconfigurations.admissionregistration.k8s.io"
        (webhook,) = stage.cluster.get(plural, "test.kopf.dev")["webhooks"]
        announced = webhook["clientConfig"]
        path = announced["service"].pop("path")
        assert path.startswith("/check-it-")
        assert "url" not in announced
        assert announced["service"] == service

        def is_denied() -> bool:
            try:
                stage.create({"field": "denied"})
            except ClusterError as error:
                return "denied behind a service" in str(error)
            return False
        until(is_denied, "a denial")
        stage.create({"field": "good"})


def test_malformed_variables_fail_the_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    kopf.on.validate("kopfexamples", id="v")(lambda **_: None)
    monkeypatch.setenv("KOPF_WEBHOOK_SERVICE", "hooks.default.svc:443")
    operator = serve(stage, kopf.WebhookAutoServer())
    operator.fails = True
    with operator:
        operator.join()
    assert operator.exception is not None
    text = "".join(traceback.format_exception(operator.exception))
    assert "'hooks.default.svc:443'" in text or '"hooks.default.svc:443"' in text
    assert "must be NAMESPACE/NAME:PORT" in text


def test_reviews_have_the_order_of_the_request(stage: Stage) -> None:
    def reverse(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reverse(value[key]) for key in sorted(value, reverse=True)}
        return [reverse(item) for item in value] if isinstance(value, list) else value

    async def server(fn: Any) -> Any:
        async def wrapped(review: Any, **kwargs: Any) -> Any:
            return await fn(reverse(review), **kwargs)

        async for config in kopf.WebhookServer(host="127.0.0.1")(wrapped):
            yield config

    seen: list[str] = []

    @kopf.on.validate("kopfexamples")
    def validate(body: Any, new: Any, diff: Any, **_: Any) -> None:
        seen.extend(json.dumps(value, default=dict) for value in (body, new, diff[0].new))

    with serve(stage, server):
        configured(stage)
        stage.create({"a": {"x": 1, "y": [{"p": 1, "q": 2}]}, "b": 2})
    body, new, diff = seen
    assert body == json.dumps(reverse(json.loads(body)))
    assert new == diff == body
