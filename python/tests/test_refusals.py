"""Whatever is refused says what to do instead."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any

import kopf
import pytest
from kopf import testing
from kopf._front.bridge import flags, loggers
from kopf._front.objects import dicts
from kopf._front.objects.references import Resource, Selector

FN: Any = lambda **_: None  # noqa: E731
THING = Resource("kopf.dev", "v1", "things", namespaced=True)
CLUSTERWIDE = Resource("kopf.dev", "v1", "things", namespaced=False)


def _set_workers(value: int, executor: Any = None) -> None:
    settings = kopf.OperatorSettings()
    if executor is not None:
        settings.execution.executor = executor
    settings.execution.max_workers = value


class _Executor(concurrent.futures.Executor):
    pass


class _Storage(kopf.DiffBaseStorage):
    def fetch(self, **kwargs: Any) -> Any:
        return super().fetch(**kwargs)  # type: ignore[safe-super]

    def store(self, **kwargs: Any) -> None: ...


#: Misuses, and what their messages recommend.
REFUSALS: list[tuple[str, Callable[[], Any], str]] = [
    ("patch", lambda: kopf.Patch({"spec": {}}).as_json_patch(), "patch.as_json_patch(body)"),
    ("owner", lambda: kopf.adopt({}), "pass owner="),
    ("name", lambda: kopf.harmonize_naming({}, name=None), "Pass name="),
    ("object", lambda: kopf.label([object()], {"a": "b"}), "pass a dict"),
    ("field", lambda: dicts.parse_field(5), "such as 'spec.field'"),  # type: ignore[arg-type]
    ("root", lambda: dicts.ensure({}, (), 1), "Provide the specific fields, such as 'spec.field'"),
    ("subresource", lambda: THING.get_url(subresource="status"), "pass name="),
    ("namespace", lambda: THING.get_url(name="x"), "pass namespace="),
    ("no namespace", lambda: CLUSTERWIDE.get_url(namespace="x"), "leave out namespace="),
    ("four names", lambda: Selector("a", "b", "c", "d"), "the group, the version and the name"),
    ("two names", lambda: Selector("a", kind="B"), "name the resource only once"),
    ("empty name", lambda: Selector(""), "use kopf.EVERYTHING"),
    ("no name", lambda: Selector(), "or use kopf.EVERYTHING"),
    ("function", lambda: Selector(lambda _: True, "v1"), "in the function"),
    ("outside", lambda: kopf.children(), "call it in a handler"),
    ("event", lambda: kopf.info({}, reason="r", message="m"), "call it in a handler"),
    ("not callable", lambda: kopf.on.create("a", id="x")(5), "decorate a function"),  # type: ignore[type-var]
    ("parentheses", lambda: kopf.on.create(FN), "add the resource, such as @kopf.on.create"),
    ("owns", lambda: kopf.on.create("a", owns="pods")(FN), "such as ['pods']"),
    ("operations", lambda: kopf.on.validate("a", operations=[])(FN), "leave it out for all operations"),
    ("value", lambda: kopf.on.create("a", value=1)(FN), "add field="),
    ("values", lambda: kopf.on.update("a", field="f", value=1, old=2)(FN), "old= and new= for one of them"),
    ("none", lambda: kopf.on.create("a", labels={"x": None})(FN), "use kopf.PRESENT"),  # type: ignore[dict-item]
    ("workers", lambda: _set_workers(0), "leave it out for the default"),
    ("executor", lambda: _set_workers(5, _Executor()), "limit the threads of the executor itself"),
    ("prefix", lambda: kopf.AnnotationsProgressStorage(prefix=""), "pass prefix=, such as"),
    ("storage", lambda: _Storage().fetch(body={}), "without super()"),
    (
        "credentials",
        lambda: kopf.ConnectionInfo(server="x", ca_path="a", ca_data=b"b"),
        "leave out either of them",
    ),
    ("format", lambda: loggers.make_formatter(5), "use kopf.LogFormat"),  # type: ignore[arg-type]
    ("flag", lambda: flags.raise_flag(5), "use an Event or a Future"),  # type: ignore[arg-type]
    (
        "scope",
        lambda: asyncio.run(kopf.operator(clusterwide=True, namespaces=["a"])),
        "leave out either clusterwide= or namespaces=",
    ),
    ("namespaces", lambda: asyncio.run(kopf.operator(namespace="a", namespaces=["b"])), "use namespaces="),
    ("kubeconfig", lambda: testing.ClusterClient().get("pods", "x"), "pass its path"),
    ("sandbox", lambda: testing.sandbox().url, "use it in a `with` statement"),
]


@pytest.mark.parametrize(("misuse", "advice"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refusals_recommend_something(
    misuse: Callable[[], Any], advice: str, registry: kopf.OperatorRegistry,
) -> None:
    with pytest.raises((TypeError, ValueError, LookupError, RuntimeError, NotImplementedError)) as error:
        misuse()
    assert advice in str(error.value)


def test_removed_names_have_successors() -> None:
    with pytest.raises(AttributeError, match="use kopf.apply_child, which works in all functions"):
        kopf.apply_child_sync  # type: ignore[attr-defined]  # noqa: B018
