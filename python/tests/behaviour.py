"""Fixtures of behaviour tests: one sandbox for all of them, and operators in threads."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kopf
from kopf import testing
from kopf._front.tools.clients import ClusterError

TIMEOUT = 20.0
"""Upper bound in seconds for an expected condition."""

PLURAL = "kopfexamples.kopf.dev"

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": PLURAL},
    "spec": {
        "group": "kopf.dev",
        "scope": "Namespaced",
        "names": {
            "plural": "kopfexamples", "singular": "kopfexample", "kind": "KopfExample",
            "shortNames": ["kex"], "categories": ["examples"],
        },
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True,
            }},
        }],
    },
}

_numbers = itertools.count(1)


def until(condition: Callable[[], Any], what: str = "the condition", timeout: float = TIMEOUT) -> Any:
    """Waits until the function returns a true value, and returns it."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} is not true after {timeout} s")
        time.sleep(0.02)


class Operator:
    """An operator in a thread with its own loop."""

    def __init__(self, **kwargs: Any) -> None:
        self.settings = kwargs.setdefault("settings", kopf.OperatorSettings())
        self.settings.posting.enabled = kwargs.pop("posting", False)
        self.settings.peering.standalone = True
        self.settings.execution.default_backoff = 0.1
        self.settings.networking.error_backoffs = [0.1]
        self.fails = kwargs.pop("fails", False)
        self.loop_factory = kwargs.pop("loop_factory", None)
        self.kwargs = {"clusterwide": True, **kwargs}
        self.stop = threading.Event()
        self.ready = threading.Event()
        self.exception: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="operator", daemon=True)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self.loop_factory) as runner:
                runner.run(kopf.operator(stop_flag=self.stop, ready_flag=self.ready, **self.kwargs))
        except BaseException as exc:
            self.exception = exc

    def __enter__(self) -> Operator:
        self.thread.start()
        until(lambda: self.ready.is_set() or not self.thread.is_alive(), "the readiness")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.end()
        if self.exception is not None and kind is None and not self.fails:
            raise self.exception

    def end(self) -> None:
        """Stops the operator and waits for it."""
        self.stop.set()
        self.join()

    def join(self) -> None:
        """Waits until the operator ends."""
        self.thread.join(TIMEOUT)
        assert not self.thread.is_alive(), "the operator has not stopped"


class Stage:
    """The cluster with the objects of one test."""

    def __init__(self, cluster: testing.sandbox) -> None:
        self.cluster = cluster

    def operator(self, **kwargs: Any) -> Operator:
        """Returns an operator, to be used as a context manager."""
        return Operator(**kwargs)

    def create(self, spec: Any = None, *, name: str | None = None, **metadata: Any) -> str:
        """Creates an object and returns its name."""
        name = name or f"ex{next(_numbers)}"
        self.cluster.create({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
            "metadata": {"name": name, **metadata},
            "spec": {"field": "value"} if spec is None else spec,
        })
        return name

    def get(self, name: str) -> Any:
        return self.cluster.get(PLURAL, name)

    def patch(self, name: str, patch: Any) -> None:
        self.cluster.patch(PLURAL, name, patch)

    def delete(self, name: str) -> None:
        self.cluster.delete(PLURAL, name)

    def wait(self, name: str, condition: Callable[[Any], Any]) -> Any:
        return self.cluster.wait(PLURAL, name, condition, timeout=TIMEOUT)

    def delete_blocked(self, name: str) -> None:
        """Deletes an object after it has the finalizer, which daemons do not wait for."""
        self.wait(name, lambda obj: obj["metadata"].get("finalizers"))
        self.delete(name)

    def gone(self, name: str) -> None:
        self.cluster.wait(PLURAL, name, timeout=TIMEOUT)

    def handled(self, name: str) -> Any:
        """Waits until all handlers of the object have finished."""
        key = "kopf.zalando.org/last-handled-configuration"
        return self.wait(name, lambda obj: key in obj["metadata"].get("annotations", {}))

    def events(self, name: str) -> list[Any]:
        """Returns the k8s-events of an object."""
        events = self.cluster.all("events", namespace=None)
        return [event for event in events if event["involvedObject"]["name"] == name]

    def clean(self) -> None:
        """Deletes all objects, including those with finalizers."""
        for obj in self.cluster.all(PLURAL):
            name = obj["metadata"]["name"]
            with contextlib.suppress(ClusterError):
                if obj["metadata"].get("finalizers"):
                    self.patch(name, {"metadata": {"finalizers": None}})
                self.delete(name)


def progress_of(obj: Any) -> dict[str, Any]:
    """Returns the progress records of an object by the ids in their keys."""
    prefix = "kopf.zalando.org/"
    return {
        key.removeprefix(prefix): json.loads(value)
        for key, value in obj["metadata"].get("annotations", {}).items()
        if key.startswith(prefix) and value.startswith('{"started"')
    }


@pytest.fixture(scope="session")
def behaviour_cluster() -> Iterator[testing.sandbox]:
    """The sandbox of all behaviour tests."""
    with testing.sandbox(CRD, environ=True) as cluster:
        yield cluster


@pytest.fixture
def stage(
    behaviour_cluster: testing.sandbox, monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stage]:
    """The cluster and an empty default registry; objects are deleted after the test."""
    from kopf._front.declare import registries

    monkeypatch.setenv("KUBECONFIG", behaviour_cluster.kubeconfig)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    former = registries._default_registry
    kopf.set_default_registry(registries.SmartOperatorRegistry())
    stage = Stage(behaviour_cluster)
    try:
        yield stage
    finally:
        registries._default_registry = former
        stage.clean()


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log records, including debug messages."""
    caplog.set_level(logging.DEBUG)
    return caplog
